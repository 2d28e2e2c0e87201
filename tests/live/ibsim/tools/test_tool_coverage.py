"""That no option is forgotten: what a program's own help names stands in a test of this folder, and the options that all tools share
are taken by each of them."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from softib.iba.constants import PortState
from tests.live.ibsim.tools.tool_answers import CA, ROUTER, SWITCH, groups, has, lacks, lists, named, routes, spelled
from tests.live.ibsim.tools.tool_lab import STOCK_FIRST, Lab, fields, in_turn, told_by_help
from tests.live.ibsim.tools.tool_rows import ROWS, Row
from tests.live.serving import wait_for

pytestmark = pytest.mark.stock

SHARED = {
    "-C": "{ca}",
    "-P": "1",
    "-t": "900",
    "-e": "",
    "-z": "conf",
    "-y": "0",
    "-s": "1",
    "-v": "",
    "-d": "",
}
"""Options with one meaning everywhere (-s where it is --sm_port), and a value. -d and -v make tools talk on stderr."""
CA_NAME = {"own": "mlx5_0", "stock": "ibsim0"}
AT_REST = {"-h", "-V"}
"""These ask the program about itself."""
LOUD_MEANS_MORE = ("iblinkinfo",)
"""Its -d shows links that are down."""
OTHER_S = ("ibnetdiscover", "sminfo", "smpdump", "ibqueryerrors", "saquery")
"""Here -s means something else."""
PROGRAMS = (
    "ibnetdiscover", "iblinkinfo", "ibqueryerrors", "perfquery", "smpquery", "ibroute", "ibtracert", "ibportstate", "sminfo",
    "saquery", "vendstat", "ibping", "ibsysstat", "ibccquery", "ibccconfig", "ibaddr", "ibstat", "ibcacheedit", "dump_fts",
    "smpdump",
)  # fmt: skip # a packed list of short values


MORE = (
    Row("perfquery {leaf} 3", has(r"^PortSelect:\.+3$")),
    Row("ibqueryerrors -S {leafguid}", has(r"^## Summary: 1 nodes checked, 0 bad nodes found")),
    Row("ibportstate {leaf} 3 query", has(r"^LinkState:\.+Active$")),
    Row("ibportstate -L {leaf} 3 query", has(r"^LinkState:\.+Active$")),
    Row("saquery NR {leaf}", has(r"NodeDescription\.+leaf-2$")),
    Row("vendstat -N {leaf}", has("fw_psid:     'SOFTIB'")),
    Row("vendstat -L -N {leaf}", has("fw_psid:     'SOFTIB'")),
    Row("ibccquery CongestionInfo {host}", has(r"^ControlTableCap:\.+2$")),
    Row("ibccquery -L CongestionInfo {host}", has(r"^ControlTableCap:\.+2$")),
    Row("ibccquery -G -c 0 CongestionInfo {hostguid}", has(r"^ControlTableCap:\.+2$")),
    Row("ibccconfig CongestionKeyInfo {host} 0 0 0 0", lacks("rror")),
    Row("ibccconfig -c 0 -L CongestionKeyInfo {host} 0 0 0 0", lacks("rror")),
    Row("ibccconfig -c 0 -G CongestionKeyInfo {hostguid} 0 0 0 0", lacks("rror")),
    Row("ibstat -v -d -z conf", has(r"Base lid: 1$")),
    Row("iblinkinfo -v -S {leafguid}", has(r"Active/ +LinkUp")),
    Row("ibcacheedit -z conf cache edited --caguid {firstnode}:0x1234", lacks("rror")),
    Row("ibping -c 1 {served}", has(", 0% packet loss")),
    Row("ibsysstat {served} ping", has("sysstat ping succeeded")),
    Row("ibsysstat -o 0x1405 {served} ping", has("sysstat ping succeeded")),  # the OUI that it has by itself
    Row("ibsysstat -L {served} ping", has("sysstat ping succeeded")),
    Row("ibsysstat -G {servedguid} ping", has("sysstat ping succeeded")),
)
"""Of the programs whose other options are in the files beside this one."""


def tokens(program: str) -> set[str]:
    """Options that tests give to ``program``: those of its rows, and in the functions of this folder's files that name it, with the
    tables that these use."""
    rows = [r.words.split() for r in (*ROWS, *MORE) if r.words.split()[0] == program]
    found = {w for words in rows for w in words if w.startswith("-")}
    for name in ("counters", "writes", "saquery", "traps"):
        text = (Path(__file__).parent / f"test_tool_{name}.py").read_text()
        module = ast.parse(text)
        part = lambda node, text=text: "\n".join(text.splitlines()[first_line(node) - 1 : node.end_lineno])
        tables = {
            x.id: n for n in module.body if isinstance(n, ast.Assign) for x in n.targets if isinstance(x, ast.Name)
        }
        for node in module.body:
            if isinstance(node, ast.FunctionDef) and program in part(node):
                used = [part(n) for n in with_tables(node, tables)]
                found |= set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", "\n".join(used)))
    return found


def with_tables(node: ast.AST, tables: dict[str, ast.Assign]) -> list[ast.AST]:
    """``node``, and the tables that it and they use."""
    found, left = [node], [node]
    while left:
        names = {x.id for x in ast.walk(left.pop()) if isinstance(x, ast.Name)}
        new = [n for name, n in tables.items() if name in names and n not in found]
        found, left = found + new, left + new
    return found


def first_line(node: ast.AST) -> int:
    return min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_option_of_the_help_text_is_in_a_test(program):
    told = told_by_help(program)
    assert told, "its help names options"
    missing = told - tokens(program) - set(SHARED) - AT_REST
    assert not missing, f"no test gives {program} {' '.join(sorted(missing))}"


@pytest.fixture(scope="module")
def served(lab: Lab):
    """Place words of a host on which a server of ibping and one of ibsysstat run."""
    host, running = "host-0007", []
    (lab.folder / "conf").write_text("")
    port = named(lab.f, host)
    for program in ("ibping", "ibsysstat"):
        path = shutil.which(program, path="/usr/sbin:/usr/bin") or pytest.skip(f"{program} is not installed")
        running.append(
            subprocess.Popen(
                [path, "-S"],
                env=lab.environment("own", host),
                cwd=lab.folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )
    answers = lambda *words: lab.tool("own", *words, str(lab.lid(port)))[0] == 0
    assert wait_for(lambda: answers("ibping", "-c", "1") and answers("ibsysstat"))
    yield {"served": str(lab.lid(port)), "servedguid": f"{int(lab.f.port_guid[port]):#x}"}
    for one in running:
        one.kill()
        one.wait()


def in_full(lab: Lab, served: dict[str, str], words: str) -> list[str]:
    for name, what in served.items():
        words = words.replace("{" + name + "}", what)
    return spelled(lab, words).split()


@pytest.mark.parametrize(("row", "library"), in_turn(MORE))
def test_addresses_and_keys_of_the_others(row, library, lab: Lab, served):
    code, said = lab.tool(library, *in_full(lab, served, row.words))
    assert code == row.code, said[-2000:]
    row.check(lab, said)


FIRST: dict[str, Row] = {}
for _row in (*ROWS, *MORE):
    FIRST.setdefault(_row.words.split()[0], _row)
TAKES = [p for p in PROGRAMS if p in FIRST and p not in ("ibcacheedit", "ibstat")]


@pytest.mark.parametrize(("program", "library"), in_turn(TAKES))
def test_the_shared_options_are_taken(program, library, lab: Lab, served):
    row, known = FIRST[program], told_by_help(program)
    (lab.folder / "conf").write_text("")
    words = []
    for option, value in SHARED.items():
        if option in known and option not in ("-d", "-v") and not (option == "-s" and program in OTHER_S):
            words += [option, value.replace("{ca}", CA_NAME[library])] if value else [option]
    assert {"-C", "-P"} <= set(words)
    _, *rest = in_full(lab, served, row.words)
    code, said = lab.tool(library, program, *words, *rest)
    assert code == row.code, said[-2000:]
    row.check(lab, said)
    for loud in ("-v", "-d"):  # they talk on stderr, and say the same
        if loud in known and program not in LOUD_MEANS_MORE:
            code, said = lab.tool(library, program, loud, *rest)
            assert code == row.code, said[-2000:]
            row.check(lab, said)


SCRIPTS = {
    "ibhosts": ("-C {ca} -P 1 -t 900 -y 0", lists(CA)),
    "ibswitches": ("-C {ca} -P 1 -t 900 -y 0", lists(SWITCH)),
    "ibrouters": ("-C {ca} -P 1 -t 900 -y 0", lists(ROUTER)),
    "ibnodes": ("-C {ca} -P 1 -t 900 -y 0", lists(CA, SWITCH)),
    "ibidsverify": ("-R -C {ca} -P 1", lacks(r"\w")),
    "dump_lfts": ("-C {ca} -P 1 -t 900", routes()),
    "dump_mfts": ("-C {ca} -P 1 -t 900", groups),
}
"""The options of what are shell and Perl scripts, which no help text lists by name."""


@pytest.mark.parametrize(("program", "library"), in_turn(list(SCRIPTS)))
def test_the_scripts_options_are_taken(program, library, lab: Lab):
    words, check = SCRIPTS[program]
    code, said = lab.tool(library, program, *words.replace("{ca}", CA_NAME[library]).split())
    assert code == 0, said[-2000:]
    check(lab, said)


@pytest.mark.parametrize("program", ["ibhosts", "ibswitches", "ibnodes"])
def test_the_lists_are_read_from_a_topology_too(program, lab: Lab):
    (lab.folder / "topology").write_text(lab.tool("own", "ibnetdiscover")[1])
    code, said = lab.tool("own", program, str(lab.folder / "topology"))
    assert code == 0 and said == lab.tool("own", program)[1]


@pytest.mark.parametrize("library", STOCK_FIRST)
def test_ibfindnodesusing_names_who_is_routed_through_a_port(library, lab: Lab):
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
            # A host whose cable is away keeps its routes (docs/sm-sweeps.md), and cannot be asked for its name.
            at = {int(lid): p for p, lid in enumerate(f.lid.tolist()) if lid and f.port_state[p] == PortState.ACTIVE}
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


def test_a_wrong_device_or_port_is_refused(lab: Lab):
    for words in (("-C", "mlx5_9"), ("-C", "mlx5_0", "-P", "7")):
        code, said = lab.tool("own", "ibaddr", *words)
        assert code != 0 and fields(said) is not None, said
    has("GID fe80::")(lab, lab.tool("own", "ibaddr", "-C", "mlx5_0", "-P", "1")[1])
