"""Every option of the tools that look: topology, ports, tables, addresses. One row per option, under either preload library; what a
tool prints is compared with the fabric's arrays. Counters are in test_tool_counters.py, what writes in test_tool_writes.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo, SwitchInfo
from tests.live.tool_lab import LIBRARIES, Lab, fields, in_turn

pytestmark = pytest.mark.stock


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """16 end nodes of which one is a router, 20 switches, HDR, one link down; our manager brought it up."""
    f = generate("fat-tree", radix=4, levels=3, generation="HDR")
    f.node_type[f.cas[-1]] = NodeType.ROUTER
    one = Lab(f, tmp_path_factory.mktemp("tools"))
    one.fault("link-down", "leaf-8[1]")
    one.settle()
    f = one.f
    for row in range(f.sizes.switches):  # a group whose tree is the way to host-0001
        ports = {int(f.lft[row, f.lid[named(f, "host-0001")]]), 1}
        f.mft[row, 3] = 0
        f.mft[row, 3, 0] = sum(1 << p for p in ports)
    (one.folder / "map").write_text(f'{one.guid(named(f, "leaf-2"))} "The Second Leaf"\n')
    code, said = one.tool("own", "ibnetdiscover", "--cache", "cache")
    assert code == 0, said
    (one.folder / "lft").write_text(one.tool("own", "dump_fts")[1])
    (one.folder / "pairs").write_text(f"{one.lid(named(f, 'host-0001'))} {one.lid(named(f, 'host-0009'))}\n")
    yield one
    one.stop()


def named(f, name: str) -> int:
    """First port row of a node: port 0 of a switch, port 1 of others."""
    node = f.node_names().index(name)
    return int(f.node_base[node]) + (0 if f.is_switch[node] else 1)


# -- what must be in an answer --


def names(lab: Lab, *types: NodeType) -> set[str]:
    """Of the nodes that a tool can reach."""
    f = lab.f
    cut = {
        int(f.port_node[p]) for p in np.flatnonzero(f.linked & (f.port_state == 1)) if not f.is_switch[f.port_node[p]]
    }
    return {f.node_name(n) for n in range(f.sizes.nodes) if f.node_type[n] in types and n not in cut}


CA, SWITCH, ROUTER = NodeType.CA, NodeType.SWITCH, NodeType.ROUTER


def lists(*types: NodeType) -> Callable[[Lab, str], None]:
    """One line per node of ``types``, with its name; of no other."""

    def check(lab: Lab, said: str) -> None:
        shown = re.findall(r'^(?:Ca|Switch|Rt|Router)\s*: (0x\w{16}) ports (\d+).*?"([^"]*)"', said, re.M)
        assert {x[2].replace("The Second Leaf", "leaf-2") for x in shown} == names(lab, *types)
        f = lab.f
        node = {f.node_name(n): n for n in range(f.sizes.nodes)}
        for guid, ports, name in shown:
            n = node[name.replace("The Second Leaf", "leaf-2")]
            assert int(guid, 16) == int(f.node_guid[n]) and int(ports) == int(f.node_nports[n])

    return check


def up_links(lab: Lab) -> int:
    """Ends of links that are up."""
    return int((lab.f.linked & (lab.f.port_state > 1)).sum())


def topology(lab: Lab, said: str) -> None:
    """Each end of each link, and all nodes, of the listing of ibnetdiscover."""
    assert set(re.findall(r'^(?:Switch|Ca|Rt)\t.*# "([^"]+)"', said, re.M)) == names(lab, CA, SWITCH, ROUTER)
    f = lab.f
    ends, node = set(), -1
    by_guid = {int(g): n for n, g in enumerate(f.node_guid.tolist())}
    for line in said.splitlines():
        head = re.match(r'(?:Switch|Ca|Rt)\t\d+ "[SHR]-(\w{16})"', line)
        if head:
            node = by_guid[int(head[1], 16)]
        link = re.match(r'\[(\d+)\](?:\(\w+\))? \t?\s*"[SHR]-(\w{16})"\[(\d+)\]', line.replace("\t", " "))
        if link:
            ends.add((node, int(link[1]), by_guid[int(link[2], 16)], int(link[3])))
    want = {
        (int(f.port_node[p]), int(f.port_num[p]), int(f.port_node[f.port_peer[p]]), int(f.port_num[f.port_peer[p]]))
        for p in np.flatnonzero(f.linked & (f.port_state > 1)).tolist()
    }
    assert ends == want


def report(lab: Lab, said: str) -> None:
    """ibnetdiscover -p: one line per end, LID, port, GUID, width and speed."""
    links = re.findall(
        r"^(?:CA|SW|RT)\s+(\d+)\s+(\d+) (0x\w+) 4x HDR - (?:CA|SW|RT)\s+(\d+)\s+(\d+) (0x\w+) \(", said, re.M
    )
    assert len(links) == up_links(lab)
    f = lab.f
    told = {(int(a), int(b)): (int(c), int(d)) for a, b, _, c, d, _ in links}
    for p in np.flatnonzero(f.linked & (f.port_state > 1)).tolist():
        q = int(f.port_peer[p])
        assert told[lab.lid(p), int(f.port_num[p])] == (lab.lid(q), int(f.port_num[q]))


def links_shown(count: Callable[[Lab], int], pattern: str = r"Active/\s*LinkUp") -> Callable[[Lab, str], None]:
    def check(lab: Lab, said: str) -> None:
        shown = [x for x in said.splitlines() if re.search(spelled(lab, pattern), x)]
        assert len(shown) == count(lab), said[-1500:]

    return check


def of_types(*types: NodeType) -> Callable[[Lab], int]:
    return lambda lab: int(
        (lab.f.linked & (lab.f.port_state > 1) & np.isin(lab.f.node_type[lab.f.port_node], types)).sum()
    )


def has(*patterns: str) -> Callable[[Lab, str], None]:
    def check(lab: Lab, said: str) -> None:
        for pattern in patterns:
            assert re.search(spelled(lab, pattern), said, re.M), (spelled(lab, pattern), said[-2000:])

    return check


def lacks(*patterns: str) -> Callable[[Lab, str], None]:
    def check(lab: Lab, said: str) -> None:
        for pattern in patterns:
            assert not re.search(pattern, said, re.M), (pattern, said[-2000:])

    return check


def both(*checks: Callable[[Lab, str], None]) -> Callable[[Lab, str], None]:
    def check(lab: Lab, said: str) -> None:
        for one in checks:
            one(lab, said)

    return check


def value(what: str, truth: Callable[[Lab], object]) -> Callable[[Lab, str], None]:
    """The line ``what:....`` says ``truth`` (numbers in any base)."""

    def check(lab: Lab, said: str) -> None:
        shown, want = fields(said)[what], truth(lab)
        assert (int(shown, 0) if isinstance(want, int) else shown) == want, (what, shown, want)

    return check


def info(lab: Lab, name: str, field: str, ahead: int = 0) -> int:
    return int(getattr(PortInfo, field).get(lab.f.port_info[named(lab.f, name) + ahead]))


def routes(first: int = 1, last: int = 0, named_too: bool = True, one: str = "") -> Callable[[Lab, str], None]:
    """Of dump_fts and ibroute: each switch's table from LID ``first`` to ``last`` (0: all), of ``one`` or of all."""

    def check(lab: Lab, said: str) -> None:
        f = lab.f
        top = last or int(f.lid.max())
        seen = {}
        for part in re.split(r"(?=^Unicast lids)", said, flags=re.M)[1:]:
            guid = int(re.search(r"guid (0x\w+)", part)[1], 16)
            seen[guid] = {int(a, 16): int(b) for a, b in re.findall(r"^0x(\w{4}) (\d{3})", part, re.M)}
            assert bool(re.search(r"^0x\w{4} \d{3} : \(", part, re.M)) == named_too
        rows = [int(f.switch_of_node[f.node_names().index(one)])] if one else range(f.sizes.switches)
        for row in rows:
            want = {x: int(f.lft[row, x]) for x in range(first, top + 1) if f.lft[row, x] != 255}
            assert want and seen[int(f.node_guid[f.switch_node[row]])] == want
        assert len(seen) == len(rows)

    return check


def groups(lab: Lab, said: str) -> None:
    """The group 0xc003 of all switches that are shown, port by port."""
    parts = re.split(r"(?=^Multicast mlids)", said, flags=re.M)[1:]
    for part in parts:
        heads, marks = re.search(r"^ +Ports:.*$", part, re.M)[0], re.search(r"^0xc003.*$", part, re.M)[0]
        crossed = {i for i, letter in enumerate(marks) if letter == "x" and i > 6}
        assert members(lab, part) == sum(
            1 << int(m[0]) for m in re.finditer(r"\d+", heads) if m.end() - 1 in crossed
        ), part
    assert parts


def group_masks(lab: Lab, said: str) -> None:
    """The same, as ``-n`` shows it."""
    parts = re.split(r"(?=^Multicast mlids)", said, flags=re.M)[1:]
    for part in parts:
        assert members(lab, part) == int(re.search(r"^0xc003\s+(\w+)", part, re.M)[1], 16), part
    assert parts


def members(lab: Lab, part: str) -> int:
    """Port mask of 0xc003 at the switch whose GUID ``part`` names."""
    guid = int(re.search(r"guid (0x\w+)", part)[1], 16)
    return int(lab.f.mft[int(lab.f.switch_of_node[lab.f.node_guid.tolist().index(guid)]), 3, 0])


def trace(first: str, last: str) -> Callable[[Lab, str], None]:
    """The nodes from host ``first`` to host ``last`` over the switches that the tables name."""

    def check(lab: Lab, said: str) -> None:
        f = lab.f
        goal, port, way = named(f, last), int(f.port_peer[named(f, first)]), [first]
        while f.is_switch[f.port_node[port]]:
            node = f.port_node[port]
            way.append(f.node_name(int(node)))
            port = int(f.port_peer[f.node_base[node] + f.lft[f.switch_of_node[node], f.lid[goal]]])
        shown = re.findall(r'^(?:From|\[\d+\] ->) .*"(.*)"$', said, re.M)
        assert shown == [*way, last] and len(shown) == 7, said

    return check


@dataclass(frozen=True)
class Row:
    """``words`` of a command line (with places of :func:`places`), what must be in the answer, and the exit code."""

    words: str
    check: Callable[[Lab, str], None]
    code: int = 0
    libraries: tuple[str, ...] = LIBRARIES


def places(lab: Lab) -> dict[str, object]:
    f = lab.f
    leaf, host, spine = named(f, "leaf-2"), named(f, "host-0009"), named(f, "spine-1")
    return {
        "leaf": lab.lid(leaf), "leafguid": lab.guid(leaf), "host": lab.lid(host), "hostguid": f"{int(f.port_guid[host]):#x}",
        "first": lab.lid(named(f, "host-0001")), "firstguid": f"{int(f.port_guid[named(f, 'host-0001')]):#x}",
        "hosthex": f"{lab.lid(host):#x}", "hostguid16": f"0x{int(f.port_guid[host]):016x}",
        "firstnode": lab.guid(named(f, "host-0001")), "firstguid16": f"0x{int(f.port_guid[named(f, 'host-0001')]):016x}",
        "hoq": info(lab, "leaf-2", "hoq_life", 1), "stall": info(lab, "leaf-2", "vl_stall_count", 1),
        "spine": lab.lid(spine), "cutleaf": lab.guid(named(f, "leaf-8")),
    }  # fmt: skip


LEAF_LINK = r'^0x\w+ +"\s*leaf-2"'
ROWS = (
    Row("ibnetdiscover", topology),
    Row("ibnetdiscover -f", both(topology, links_shown(up_links, r"4xHDR s=\d+ w=2 v=4"))),
    Row("ibnetdiscover -s", both(topology, has(r"^DR path .* new Switch \{", r"^DR path .* known Switch \{"))),
    Row("ibnetdiscover -l", lists(CA, SWITCH, ROUTER)),
    Row("ibnetdiscover -g", has(r"^Non-Chassis Nodes")),
    Row("ibnetdiscover -H", lists(CA)),
    Row("ibnetdiscover -S", lists(SWITCH)),
    Row("ibnetdiscover -R", lists(ROUTER)),
    Row("ibnetdiscover -S --node-name-map map", both(lists(SWITCH), has('"The Second Leaf"'))),
    Row("ibnetdiscover --cache other", topology),
    Row("ibnetdiscover --load-cache cache", topology),
    Row("ibnetdiscover --diff cache", lacks("^[<>]")),
    Row("ibnetdiscover --diff cache --diffcheck sw,ca,router,port,lid,nodedesc", lacks("^[<>]")),
    Row("ibnetdiscover -p", report),
    Row("ibnetdiscover -m", both(topology, has(r"max hops discovered: 6", r"Total MADs used: \d+"))),
    Row("ibnetdiscover -o 8", topology),
    Row("iblinkinfo", both(links_shown(up_links), links_shown(lambda _: 1, "Down/ *Polling"))),
    Row("iblinkinfo -l", links_shown(up_links, r'^0x\w{16} +".*4X +53\.125 Gbps Active/ +LinkUp\)==> +0x')),
    Row("iblinkinfo -l --node-name-map map", links_shown(lambda _: 4, r'^0x\w+ +"\s*The Second Leaf".*LinkUp')),
    Row("iblinkinfo -l -p", links_shown(lambda lab: 2, LEAF_LINK + r" +\d+ +[12]\[.*\(HOQ:{hoq} VL_Stall:{stall}\)")),
    Row("iblinkinfo -S {leafguid}", links_shown(lambda _: 4)),
    Row("iblinkinfo -G {leafguid}", links_shown(lambda _: 4)),
    Row("iblinkinfo -D 0,1", links_shown(lambda _: 4)),
    Row("iblinkinfo -D 0,1 -n 1 -a", has(r"^Switch: .* leaf-1:", r"^Switch: .* spine-1:")),
    Row("iblinkinfo -d", both(lacks("Active"), links_shown(lambda _: 1, "Down/ *Polling"))),
    Row("iblinkinfo --load-cache cache", links_shown(up_links)),
    Row("iblinkinfo --diff cache", lacks("^[<>]")),
    Row("iblinkinfo --diff cache --diffcheck port,state,lid,nodedesc", lacks("^[<>]")),
    Row("iblinkinfo -d --filterdownports cache", lacks("Down")),
    Row("iblinkinfo -o 8", links_shown(up_links)),
    Row("iblinkinfo --switches-only", links_shown(of_types(SWITCH))),
    Row("iblinkinfo --cas-only", links_shown(of_types(CA))),
    Row("ibhosts", lists(CA)),
    Row("ibswitches", lists(SWITCH)),
    Row("ibrouters", lists(ROUTER)),
    Row("ibnodes", lists(CA, SWITCH)),
    Row("ibidsverify", lacks(r"\w")),
    Row("dump_lfts", routes()),
    Row("dump_mfts", groups),
    Row("dump_fts", routes()),
    Row("dump_fts -n", routes(named_too=False)),
    Row("dump_fts 4 10", routes(4, 10)),
    Row("dump_fts -a 4", links_shown(lambda lab: lab.f.sizes.switches * (int(lab.f.lid.max()) - 3), r"^0x\w{4} \d{3} : ")),
    Row("dump_fts -M", groups),
    Row("dump_fts -M 0xc001 0xc004", groups),
    Row("dump_fts --node-name-map map", has("'The Second Leaf'")),
    Row("check_lft_balance -l lft -i cache -v", has(r"^(Unb|B)?\w* ?Switch Port Usage: leaf-2, 0x")),
    Row("check_lft_balance -e -l lft -i cache", has("Switch Port Usage|^$")),
    Row("ibcacheedit cache edited --switchguid {leafguid}:0x1234", lacks("rror")),
    Row("ibcacheedit cache edited --caguid {firstnode}:0x1234", lacks("rror")),
    Row("ibcacheedit cache edited --sysimgguid {leafguid}:0x1234", lacks("rror")),
    Row("ibcacheedit cache edited --portguid {leafguid}:{leafguid}:0x1234", lacks("rror")),
    Row("ibroute {leaf}", routes(one="leaf-2")),
    Row("ibroute {leaf} 10", routes(10, one="leaf-2")),
    Row("ibroute {leaf} 4 0x10", routes(4, 16, one="leaf-2")),
    Row("ibroute -n {leaf}", routes(named_too=False, one="leaf-2")),
    Row("ibroute -a {leaf} 30 70", links_shown(lambda lab: int(lab.f.lid.max()) - 29, "^0x.* : ")),
    Row("ibroute -G {leafguid}", routes(one="leaf-2")),
    Row("ibroute -D 0,1", routes(one="leaf-1")),
    Row("ibroute -L {leaf}", routes(one="leaf-2")),
    Row("ibroute --node-name-map map {spine}", has("'The Second Leaf'")),
    Row("ibroute -M {leaf}", groups),
    Row("ibroute -M -n {leaf}", group_masks),
    Row("ibroute -M {leaf} 0xc002 0xc003", groups),
    Row("ibtracert {first} {host}", trace("host-0001", "host-0009")),
    Row("ibtracert -L {first} {host}", trace("host-0001", "host-0009")),
    Row("ibtracert -G {firstguid} {hostguid}", trace("host-0001", "host-0009")),
    Row("ibtracert -f {first} {host}", trace("host-0001", "host-0009")),
    Row("ibtracert -n {first} {host}", links_shown(lambda _: 6, r"^\[\d+\] -> ")),
    Row("ibtracert -m 0xc003 {host} {first}", trace("host-0009", "host-0001")),
    Row("ibtracert --ports-file pairs", both(trace("host-0001", "host-0009"), has("^1 lid/guid pairs processed"))),
    Row("ibtracert --node-name-map map {first} {leaf}", has('"The Second Leaf"')),
    Row("smpquery NI {leaf}", value("Guid", lambda lab: int(lab.f.node_guid[lab.f.node_names().index("leaf-2")]))),
    Row("smpquery nodedesc {leaf}", has("leaf-2$")),
    Row("smpquery --node-name-map map nodedesc {leaf}", has("The Second Leaf$")),
    Row("smpquery -D nodedesc 0,1", has("leaf-1$")),
    Row("smpquery -G nodedesc {hostguid}", has("host-0009$")),
    Row("smpquery -L nodedesc {host}", has("host-0009$")),
    Row("smpquery -c nodedesc {leaf} 0,2", has("host-0004$")),
    Row("smpquery -c portinfo {spine} 0,2 3", value("LocalPort", lambda lab: 3)),
    Row("smpquery -x portinfo {leaf} 3", has("LinkSpeedExtActive:.*53.125 Gbps")),
    Row("smpquery portinfo {host} 1", both(value("Lid", lambda lab: info(lab, "host-0009", "lid")), value("LinkState", lambda lab: "Active"))),
    Row("smpquery -K portinfo {host} 1", has("Mkey:.*0x0000000000000000")),
    Row("smpquery switchinfo {leaf}", value("LinearFdbTop", lambda lab: int(SwitchInfo.linear_fdb_top.get(lab.f.switch_info[0])))),
    Row("smpquery pkeys {host} 1", has("0xffff", "128 pkeys capacity")),
    Row("smpquery sl2vl {leaf} 1", links_shown(lambda _: 5, r"^ports: in +\d+, out +1: +\| 0\| 1\| 2\| 3\| 4\| 5\| 6\| 7\|")),
    Row("smpquery vlarb {leaf} 1", has("# Low priority VL Arbitration", "# High priority")),
    Row("smpquery guidinfo {host}", has("{hostguid16}")),
    Row("smpquery mepi {leaf} 1", has("StateChangeEnable")),
    Row("smpquery portinfoextended {leaf} 3", value("FECModeActive", lambda lab: 2)),
    Row("smpdump -D 0,1 0x15 2", has(r"^0000 0000 0000 0000 fe80 0000 0000 0000$", "SMP status: 0x8000")),
    Row("smpdump {host} 0x11", has(r"^0101 0101 ")),
    Row("smpdump -L {host} 0x11", has(r"^0101 0101 ")),
    Row("smpdump -s -D 0,1 16", has("^leaf-1$")),
    Row("ibaddr", has(r"^GID fe80::\S+:1401 LID start 0x1 end 0x1$")),
    Row("ibaddr -g {host}", has(r"^GID fe80::\S+ $")),
    Row("ibaddr -l {host}", has("^LID start {hosthex} end {hosthex}$")),
    Row("ibaddr -L {host}", has("^LID start {host} end {host}$")),
    Row("ibaddr -D 0,1", has("^GID fe80::250:f1b0:0:0 LID start 0x2 ")),
    Row("ibaddr -G {hostguid}", has("LID start {hosthex} end {hosthex}$")),
    Row("sminfo", has("sm lid 1 sm guid {firstguid}, activity count [1-9][0-9]* priority 0 state 3 SMINFO_MASTER")),
    Row("sminfo {first}", has("state 3 SMINFO_MASTER")),
    Row("sminfo -L {first}", has("state 3 SMINFO_MASTER")),
    Row("sminfo -G {firstguid}", has("state 3 SMINFO_MASTER")),
    Row("ibstat", both(value("Base lid", lambda lab: 1), value("State", lambda lab: "Active"), has("{firstguid16}"))),
    Row("ibstat -l", has(r"^(mlx5_0|ibsim0)$")),
    Row("ibstat -s", both(has("Number of ports: 1"), lacks("Base lid"))),
    Row("ibstat -p", has("^{firstguid16}$")),
    Row("ibstat mlx5_0 1", both(value("SM lid", lambda lab: 1), value("Rate", lambda lab: 200)), libraries=("own",)),
    Row("ibstatus", has(r"200 Gb/sec \(4X HDR\)", "4: ACTIVE"), libraries=("own",)),
    Row("ibstatus mlx5_0:1", has("base lid:\t 0x1$"), libraries=("own",)),
)  # fmt: skip


def spelled(lab: Lab, text: str) -> str:
    for name, what in places(lab).items():
        text = text.replace("{" + name + "}", str(what))
    return text


@pytest.mark.parametrize(("row", "library"), in_turn(ROWS, lambda row: row.libraries))
def test_an_option_answers_with_right_data(row, library, lab):
    code, said = lab.tool(library, *spelled(lab, row.words).split())
    assert code == row.code, said[-2000:]
    row.check(lab, said)
