"""Logs of hosts in other languages. Oracles: the catalogues and locales of this machine's glibc."""

from __future__ import annotations

import gettext
import re
from datetime import datetime
from pathlib import Path

import pytest

from softib.job_logs.clock import time_of
from softib.job_logs.read import read_logs

CATALOGUES = Path("/usr/share/locale")
LOCALES = Path("/usr/share/i18n/locales")
SIGNALS = ("Killed", "Segmentation fault", "Aborted", "Bus error")


def translated(language: str, text: str) -> str:
    path = CATALOGUES / language / "LC_MESSAGES" / "libc.mo"
    if not path.exists():
        pytest.skip(f"no catalogue of glibc for {language}")
    with path.open("rb") as file:
        return gettext.GNUTranslations(file).gettext(text)


@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("language", ["de", "fr", "es", "it", "pt_BR", "zh_CN", "zh_TW", "ja", "ko", "ru", "pl", "nl"])
def test_a_signal_is_recognised_in_each_language(tmp_path, language, signal):
    name = translated(language, signal)
    for line in (
        f"bash: Zeile 1:  4711 {name} (x) ./train",
        f"srun: error: host-3: task 3: {name}",
        name,
        f"{name} (x)",
    ):
        (tmp_path / "job.log").write_text(f"step 1\n{line}\n", encoding="utf-8")
        assert [e.symptom for e in read_logs([tmp_path / "job.log"]).events] == ["process-died"], line


@pytest.mark.parametrize(
    "line", ["Killed 3 stale jobs", "Aborted by the user in step 12", "job 7 was Killed", "12:30 Abandon ship"]
)
def test_sentences_with_such_words_are_no_signals(tmp_path, line):
    (tmp_path / "job.log").write_text(line + "\n")
    assert not read_logs([tmp_path / "job.log"]).events


@pytest.mark.parametrize(
    "locale",
    ["de_DE", "de_AT", "fr_FR", "es_ES", "it_IT", "pt_BR", "zh_CN", "ja_JP", "ko_KR", "ru_RU", "pl_PL", "nl_NL"],
)
def test_dmesg_names_days_and_months_in_the_language_of_its_host(locale):
    path = LOCALES / locale
    if not path.exists():
        pytest.skip(f"no locale {locale}")
    text = path.read_text(encoding="utf-8", errors="replace")
    text = re.sub("<U([0-9A-F]{4})>", lambda m: chr(int(m[1], 16)), text)
    days, months = (re.search(rf"^{key}\s(.*?)\n(?!\s)", text, re.M | re.S) for key in ("abday", "abmon"))
    if not days or not months:
        pytest.skip(f"{locale} copies another locale's names")
    day, names = re.findall('"(.*?)"', days[1])[5], re.findall('"(.*?)"', months[1])
    assert len(names) == 12
    for number, month in enumerate(names, 1):
        line = f"[{day} {month.strip()}  5 13:00:01 2026] mlx5_core 0000:3b:00.0 mlx5_0: Port: 1 Link DOWN"
        assert time_of(line, 2020) == datetime(2026, number, 5, 13, 0, 1).timestamp(), line


@pytest.mark.parametrize(
    "last", ["bash: line 1: 4711 Segmentation fault (core dumped) ib_write_bw", "Aborted", "Killed"]
)
def test_a_signal_after_an_error_of_communication_is_its_effect(tmp_path, last):
    error = " Failed status 12: wr_id 0 syndrom 0x81"
    for lines, first in (((error, last), "retry-exceeded"), ((last, error), "process-died")):
        (tmp_path / "job.log").write_text("\n".join(lines) + "\n")
        assert read_logs([tmp_path / "job.log"]).events[0].symptom == first
