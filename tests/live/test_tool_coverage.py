"""That no option is forgotten: what a program's own help names stands in a test of this folder, and the options that all tools share
are taken by each of them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.live.test_tool_options import ROWS, Row, lab  # noqa: F401  (lab: the module's fabric)
from tests.live.tool_answers import CA, ROUTER, SWITCH, groups, has, lacks, lists, routes, spelled
from tests.live.tool_lab import STOCK_FIRST, Lab, fields, in_turn, told_by_help

pytestmark = pytest.mark.stock

SHARED = {
    "-C": "{ca}", "-P": "1", "-t": "900", "-e": "", "-z": "conf", "-y": "0", "-s": "1", "-v": "", "-d": "",
}  # fmt: skip
"""Options with one meaning everywhere (-s where it is --sm_port), and a value. -d and -v make tools talk on stderr."""
CA_NAME = {"own": "mlx5_0", "stock": "ibsim0"}
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
    words = []
    for option, value in SHARED.items():
        if option in known and option not in ("-d", "-v") and not (option == "-s" and program in OTHER_S):
            words += [option, value.replace("{ca}", CA_NAME[library])] if value else [option]
    assert {"-C", "-P"} <= set(words)
    _, *rest = spelled(lab, row.words).split()
    code, said = lab.tool(library, program, *words, *rest)
    assert code == row.code, said[-2000:]
    row.check(lab, said)


SCRIPTS = {
    "ibhosts": ("-C {ca} -P 1 -t 900 -y 0", lists(CA)), "ibswitches": ("-C {ca} -P 1 -t 900 -y 0", lists(SWITCH)),
    "ibrouters": ("-C {ca} -P 1 -t 900 -y 0", lists(ROUTER)), "ibnodes": ("-C {ca} -P 1 -t 900 -y 0", lists(CA, SWITCH)),
    "ibidsverify": ("-R -C {ca} -P 1", lacks(r"\w")), "dump_lfts": ("-C {ca} -P 1 -t 900", routes()),
    "dump_mfts": ("-C {ca} -P 1 -t 900", groups),
}  # fmt: skip
"""The options of what are shell and Perl scripts, which no help text lists by name."""


@pytest.mark.parametrize(("program", "library"), in_turn(list(SCRIPTS)))
def test_the_scripts_options_are_taken(program, library, lab: Lab):  # noqa: F811
    words, check = SCRIPTS[program]
    code, said = lab.tool(library, program, *words.replace("{ca}", CA_NAME[library]).split())
    assert code == 0, said[-2000:]
    check(lab, said)


@pytest.mark.parametrize("program", ["ibhosts", "ibswitches", "ibnodes"])
def test_the_lists_are_read_from_a_topology_too(program, lab: Lab):  # noqa: F811
    (lab.folder / "topology").write_text(lab.tool("own", "ibnetdiscover")[1])
    code, said = lab.tool("own", program, str(lab.folder / "topology"))
    assert code == 0 and said == lab.tool("own", program)[1]


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_ibfindnodesusing_names_who_is_routed_through_a_port(library, lab: Lab):  # noqa: F811
    """By its GUID (a name it pads like a GUID). It keeps what ibnetdiscover said in a system directory."""
    cache = Path("/var/cache/infiniband-diags")
    if not os.access(cache if cache.exists() else cache.parent, os.W_OK):
        pytest.skip(f"{cache} cannot be written")
    f = lab.f
    leaf = f.node_names().index("leaf-2")
    for number in (2, 3):
        port = int(f.node_base[leaf]) + number
        peer = int(f.port_peer[port])
        ends = [(leaf, port)] if not f.is_switch[f.port_node[peer]] else [(leaf, port), (int(f.port_node[peer]), peer)]
        words = ("-R", "-C", CA_NAME[library], "-P", "1", lab.guid(port), str(number))
        code, said = lab.tool(library, "ibfindnodesusing", *words)
        assert code == 0, said
        shown = re.findall(r"^.*(?:==>>|<<==).*\n(.*)$", said, re.M)
        for (node, out), line in zip(ends, shown[: len(ends)], strict=True):
            lids = np.flatnonzero(f.lft[f.switch_of_node[node]] == f.port_num[out])
            at = {int(lid): p for p, lid in enumerate(f.lid.tolist()) if lid}
            hosts = {f.node_name(int(f.port_node[at[lid]])) for lid in lids.tolist() if lid in at}
            want = {h for h in hosts if f.node_type[f.node_names().index(h)] == CA}
            assert set(unfolded(line)) == want != set(), said


def unfolded(hosts: str) -> list[str]:
    """``host-0001-0003 host-0007`` in full."""
    found = []
    for word in hosts.split():
        one = re.fullmatch(r"(.*?)(\d+)(?:-(\d+))?", word)
        assert one, hosts
        last = one[3] or one[2]
        found += [f"{one[1]}{n:0{len(one[2])}d}" for n in range(int(one[2]), int(last) + 1)]
    return found


def test_a_wrong_device_or_port_is_refused(lab: Lab):  # noqa: F811
    for words in (("-C", "mlx5_9"), ("-C", "mlx5_0", "-P", "7")):
        code, said = lab.tool("own", "ibaddr", *words)
        assert code != 0 and fields(said) is not None, said
    has("GID fe80::")(lab, lab.tool("own", "ibaddr", "-C", "mlx5_0", "-P", "1")[1])
