"""The command line's first words: help in groups, verbs of other tools, usage errors, closed streams. Oracle: DESIGN's promise of one plain line."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from softib.cli.main import GROUPS, SYNONYMS, VERBS, cli
from tests.cli.run import one_line, softib

CLICKS_OWN = re.compile(
    r"Invalid value|No such|is not one of|not in the range|Missing|Got unexpected|Did you mean|Error:"
)


def test_help_shows_every_verb_once_in_its_group():
    text = softib("--help").out
    for group, verbs in GROUPS.items():
        section = text.split(f"\n{group}:\n")[1].split("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines() if re.match(r"  \S", line)] == list(verbs)
    assert all(cli.get_command(None, verb) is not None for verb in VERBS)


def test_help_of_a_verb():
    assert softib("help", "check").out == softib("check", "--help").out
    assert softib("help", "sm", "run").out == softib("sm", "run", "--help").out
    assert softib("help").out == softib("--help").out and softib("help").code == 0


@pytest.mark.parametrize("said", SYNONYMS)
def test_words_of_other_tools_name_the_verb(said):
    assert SYNONYMS[said] in VERBS or SYNONYMS[said].startswith("--")
    assert one_line(softib(said)) == f"softib: no command {said!r}; did you mean {SYNONYMS[said]}?"


@pytest.mark.parametrize(
    ("args", "says"),
    (
        (("chec",), "no command 'chec'; did you mean check"),
        (("qqqqq",), "run 'softib --help'"),
        (("check",), "SOURCE is missing; run 'softib check --help'"),
        (("check", "a", "b"), "unexpected extra argument (b)"),
        (("check", "a", "--severty", "info"), "no option --severty; did you mean --severity?"),
        (("check", "a", "--plan"), "needs a value"),
        (("check", "a", "--severity", "warn"), "no choice 'warn'; did you mean warning?"),
        (("check", "a", "--severity", "7"), "use one of info, warning, error"),
        (("simulate", "a", "b", "--seed", "-4"), "--seed: -4 is out of range; use 0 or more"),
        (("simulate", "a", "b", "--seed", "x"), "--seed: 'x' is not a whole number"),
        (("up", "a", "--lmc", "9"), "--lmc: 9 is out of range; use 0 to 7"),
        (("fault", "link-dwn", "x"), "did you mean link-down"),
        (("sm", "explan"), "no command 'explan' of softib sm; did you mean explain"),
    ),
)
def test_usage_errors_are_softibs_words(args, says):
    line = one_line(softib(*args))
    assert says in line and not CLICKS_OWN.search(line)


@pytest.mark.parametrize("closed", ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"))
def test_closed_streams_do_no_harm(closed, tmp_path):
    """The exit code is the answer: 1 for a fabric with a fault, and with all of them closed 0 for a clean one, 2 for a file that is not there."""
    clean, faulty = tmp_path / "clean.yaml", tmp_path / "faulty.yaml"
    clean.write_text("topology: {kind: fat-tree, radix: 4, levels: 2}\n")
    faulty.write_text(clean.read_text() + "faults: [{kind: remove-cable, cable: 'leaf-1[3]'}]\n")
    sources = [(clean, 0), (tmp_path / "absent", 2)] if closed == "<&- >&- 2>&-" else []
    for source, code in [(faulty, 1), *sources]:
        ran = subprocess.run(
            f"{sys.executable} -m softib check {source} {closed}",
            shell=True,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == code and "Traceback" not in ran.stderr + ran.stdout and "bug" not in ran.stderr
