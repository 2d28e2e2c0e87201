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
    assert SYNONYMS[said].startswith("--") or softib(*SYNONYMS[said].split(), "--help").code == 0
    assert one_line(softib(said)) == f"softib: no command {said!r}; did you mean {SYNONYMS[said]}?"


@pytest.mark.parametrize(
    ("said", "says"),
    (
        ("sweep", "did you mean sm sweep?"),
        ("ledger", "did you mean exporter ledger, isolate ledger?"),
        ("design", "did you mean plan design?"),
        ("hlep", "did you mean help?"),
        ("ibhosts", "use 'softib run -- ibhosts' to run it"),
        ("ib_write_bw", "use 'softib run -- ib_write_bw' to run it"),
        ("perfquery", "use 'softib run -- perfquery' to run it"),
    ),
)
def test_a_command_of_a_verb_and_a_stock_program_are_named_with_it(said, says):
    assert says in one_line(softib(said))


@pytest.mark.parametrize(
    ("args", "says"),
    (
        (("run", "--nod", "x", "--", "true"), "no option --nod; did you mean --node"),
        (("ci", "--soure", "x", "--", "true"), "no option --soure; did you mean --source?"),
        (("generate", "--lit"), "no option --lit; did you mean --list?"),
        (("exporter", "forgt", "x"), "did you mean forget?"),
        (("isolate", "relrase", "x"), "did you mean release?"),
        (("convert", "a", "b.ibnetdiscove"), "did you mean .ibnetdiscover?"),
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


@pytest.mark.parametrize(
    "args",
    (
        ("simulate", "SOURCE", "al-to-all:1MB"),
        ("simulate", "SOURCE", "permutation:1QB"),
        ("simulate", "SOURCE", "permutation:1MB", "--network", "rocee"),
        ("simulate", "SOURCE", "permutation:1MB", "--what-if", "engin=updn"),
        ("simulate", "SOURCE", "permutation:1MB", "--fault", "1us link-dwn leaf-1[3]", "--layer", "packet"),
        ("simulate", "SOURCE", "permutation:1MB", "--sample", "often"),
        ("simulate", "SOURCE", "permutation:1MB", "--hosts", "pcie=gen99"),
        ("simulate", "SOURCE", "permutation:1MB", "--packets", "events.parquet"),
        ("simulate", "SOURCE", "trace.goal", "--layer", "loggops", "--seed", "3"),
        ("compare", "SOURCE", "al-to-all:1MB"),
        ("compare", "SOURCE", "permutation:1MB", "--network", "NDX"),
        ("check", "SOURCE", "--ignore", "missing-cabel"),
        ("route", "SOURCE", "--engine", "mnhop"),
        ("convert", "SOURCE", "x.tpo"),
        ("plan", "cost", "SOURCE", "--floor", "SOURCE", "--gpus", "0"),
    ),
    ids=lambda args: " ".join(args),
)
def test_options_are_checked_before_the_source_is_read(args, tmp_path, monkeypatch):
    """The source is unreadable, and the error is that of the option."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "source.yaml").write_text("topology: {kind: no-such-kind}\n")
    line = one_line(softib(*("source.yaml" if word == "SOURCE" else word for word in args)))
    assert "source.yaml" not in line and "no-such-kind" not in line


def test_names_of_nodes_are_checked_before_the_bring_up(tmp_path, monkeypatch):
    from softib.cli.shared.output import Steps

    (tmp_path / "tree.yaml").write_text("topology: {kind: fat-tree, radix: 4, levels: 2}\n")
    steps = []
    call = Steps.__call__
    monkeypatch.setattr(Steps, "__call__", lambda self, what: steps.append(what) or call(self, what))
    for ends in (("host-0001", "host-9"), ("leaf-1[99]", "host-0001")):
        one_line(softib("path", tmp_path / "tree.yaml", *ends))
    assert set(steps) == {"reading"}
    assert softib("path", tmp_path / "tree.yaml", "host-0001", "host-0002").code == 0 and "bring-up" in steps


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
