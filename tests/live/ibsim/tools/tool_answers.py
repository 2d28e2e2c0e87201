"""What must be in a stock tool's answer, said by the fabric's arrays."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from softib.iba.constants import NodeType
from softib.iba.smp import PortInfo
from tests.live.ibsim.tools.tool_lab import Lab, fields


def named(f, name: str) -> int:
    """First port row of a node: port 0 of a switch, port 1 of others."""
    node = f.node_names().index(name)
    return int(f.node_base[node]) + (0 if f.is_switch[node] else 1)


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


def places(lab: Lab) -> dict[str, object]:
    f = lab.f
    leaf, host, spine = named(f, "leaf-2"), named(f, "host-0009"), named(f, "spine-1")
    return {
        "leaf": lab.lid(leaf),
        "leafguid": lab.guid(leaf),
        "host": lab.lid(host),
        "hostguid": f"{int(f.port_guid[host]):#x}",
        "first": lab.lid(named(f, "host-0001")),
        "firstguid": f"{int(f.port_guid[named(f, 'host-0001')]):#x}",
        "hosthex": f"{lab.lid(host):#x}",
        "hostguid16": f"0x{int(f.port_guid[host]):016x}",
        "firstnode": lab.guid(named(f, "host-0001")),
        "firstguid16": f"0x{int(f.port_guid[named(f, 'host-0001')]):016x}",
        "hoq": info(lab, "leaf-2", "hoq_life", 1),
        "stall": info(lab, "leaf-2", "vl_stall_count", 1),
        "spine": lab.lid(spine),
        "cutleaf": lab.guid(named(f, "leaf-8")),
    }


def spelled(lab: Lab, text: str) -> str:
    for name, what in places(lab).items():
        text = text.replace("{" + name + "}", str(what))
    return text
