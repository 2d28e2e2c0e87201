"""That no option is forgotten: what a program's own help names stands in a test of this folder, and the options that all tools share
are taken by each of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.live.test_tool_options import ROWS, Row, lab  # noqa: F401  (lab: the module's fabric)
from tests.live.tool_answers import has, spelled
from tests.live.tool_lab import Lab, fields, in_turn, told_by_help

pytestmark = pytest.mark.stock

SHARED = {
    "-C": "{ca}", "-P": "1", "-t": "900", "-e": "", "-z": "conf", "-y": "0", "-s": "1", "-v": "", "-d": "",
}  # fmt: skip
"""Options with one meaning everywhere (-s where it is --sm_port), and a value. -d and -v make tools talk on stderr."""
AT_REST = {"-h", "-V"}
"""These ask the program about itself."""
OTHER_S = ("ibnetdiscover", "sminfo", "smpdump", "ibqueryerrors", "saquery")
"""Here -s means something else."""
PROGRAMS = (
    "ibnetdiscover", "iblinkinfo", "ibqueryerrors", "perfquery", "smpquery", "ibroute", "ibtracert", "ibportstate", "sminfo",
    "saquery", "vendstat", "ibping", "ibsysstat", "ibccquery", "ibccconfig", "ibaddr", "ibstat", "ibcacheedit", "dump_fts",
    "smpdump",
)  # fmt: skip


def tokens(program: str) -> set[str]:
    """Options that tests give to ``program``."""
    rows = [r.words.split() for r in ROWS if r.words.split()[0] == program]
    found = {w for words in rows for w in words if w.startswith("-")}
    folder = Path(__file__).parent
    for name in ("counters", "writes", "saquery", "traps"):
        text = (folder / f"test_tool_{name}.py").read_text()
        if program in text:
            found |= set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_option_of_the_help_text_is_in_a_test(program):
    told = told_by_help(program)
    assert told, "its help names options"
    missing = told - tokens(program) - set(SHARED) - AT_REST
    assert not missing, f"no test gives {program} {' '.join(sorted(missing))}"


FIRST: dict[str, Row] = {}
for _row in ROWS:
    FIRST.setdefault(_row.words.split()[0], _row)
TAKES = [p for p in PROGRAMS if p in FIRST and p not in ("ibcacheedit", "ibstat")]


@pytest.mark.parametrize(("program", "library"), in_turn(TAKES))
def test_the_shared_options_are_taken(program, library, lab: Lab):  # noqa: F811
    row, known = FIRST[program], told_by_help(program)
    (lab.folder / "conf").write_text("")
    ca = "mlx5_0" if library == "own" else "ibsim0"
    words = []
    for option, value in SHARED.items():
        if option in known and option not in ("-d", "-v") and not (option == "-s" and program in OTHER_S):
            words += [option, value.replace("{ca}", ca)] if value else [option]
    assert {"-C", "-P"} <= set(words)
    _, *rest = spelled(lab, row.words).split()
    code, said = lab.tool(library, program, *words, *rest)
    assert code == row.code, said[-2000:]
    row.check(lab, said)


def test_a_wrong_device_or_port_is_refused(lab: Lab):  # noqa: F811
    for words in (("-C", "mlx5_9"), ("-C", "mlx5_0", "-P", "7")):
        code, said = lab.tool("own", "ibaddr", *words)
        assert code != 0 and fields(said) is not None, said
    has("GID fe80::")(lab, lab.tool("own", "ibaddr", "-C", "mlx5_0", "-P", "1")[1])
