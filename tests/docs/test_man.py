"""Manual pages are made of the help. Oracles: man and groff with every warning, and mandoc where it is installed."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from softib.cli.main import VERBS, cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("make_man", ROOT / "docs" / "make_man.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.pages()


def test_every_verb_has_a_page_with_every_option(pages):
    assert set(pages) == {"softib.1", *(f"softib-{verb}.1" for verb in VERBS)}
    for verb in VERBS:
        page = pages[f"softib-{verb}.1"]
        for parameter in cli.get_command(None, verb).params:  # type: ignore[arg-type, union-attr]
            for option in parameter.opts if parameter.param_type_name == "option" else []:
                assert option.replace("-", "\\-") in page, (verb, option)
        assert "softib\\-" + verb.replace("-", "\\-") in pages["softib.1"]


LINTERS = {
    "man": ["man", "--warnings=w", "-E", "UTF-8", "-l", "-Tutf8", "-Z"],
    "groff": ["groff", "-man", "-ww", "-z", "-Tutf8"],
    "mandoc": ["mandoc", "-T", "lint", "-W", "warning"],
}


@pytest.mark.parametrize("linter", LINTERS)
def test_no_page_has_a_warning(pages, linter, tmp_path):
    if shutil.which(linter) is None:
        pytest.skip(f"{linter} is not installed")
    paths = []
    for name, text in pages.items():
        (tmp_path / name).write_text(text)
        paths.append(str(tmp_path / name))
    done = subprocess.run([*LINTERS[linter], *paths], capture_output=True, text=True)
    said = done.stderr + (done.stdout if linter == "mandoc" else "")
    assert not said, said[:2000]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_a_page_reads_like_its_help(pages, tmp_path):
    (tmp_path / "p.1").write_text(pages["softib-fault.1"])
    shown = subprocess.run(
        ["groff", "-man", "-Tascii", "-P-cbou", str(tmp_path / "p.1")], capture_output=True, text=True
    ).stdout
    assert "ber NODE[PORT] RATE" in shown and "--period S" in shown and "softib fault flap 'leaf-3[40]'" in shown
