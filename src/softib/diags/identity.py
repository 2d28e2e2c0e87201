"""Identity and connectivity: GUIDs, descriptions, LIDs, and disconnected parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from softib.diags.context import Context
from softib.diags.finding import MANY, Each, Finding, Location, Severity, code, each_or_one, few, finding
from softib.diags.view import FabricView
from softib.fabric.subnets import subnet_of
from softib.iba.constants import LID_PERMISSIVE, LID_UCAST_MAX
from softib.plural import counted, plural

DUPLICATE_NODE_GUID = code(
    "duplicate-node-guid",
    Severity.ERROR,
    "several nodes have the same NodeGUID",
    "program the correct GUID into the node (flint, mlxburn); the subnet manager treats these nodes as one",
)
DUPLICATE_PORT_GUID = code(
    "duplicate-port-guid",
    Severity.ERROR,
    "ports of different nodes have the same PortGUID",
    "program the correct GUID into the adapter; paths to this GUID lead to the node that answered last",
)
DUPLICATE_DESCRIPTION = code(
    "duplicate-description",
    Severity.WARNING,
    "several nodes have the same NodeDescription",
    "name each node (hostname service, `set NodeDescription`), or use a node-name-map",
)
UNNAMED_NODES = code(
    "unnamed-nodes",
    Severity.INFO,
    "many nodes have the same description, mostly the vendor's default",
    "name them or use a node-name-map: messages, plans and pattern checks use names",
)
DUPLICATE_LID = code(
    "duplicate-lid",
    Severity.ERROR,
    "two end ports have the same LID (including LMC ranges)",
    "look for two subnet managers; let one of them reassign LIDs",
)
LID_ZERO = code(
    "lid-zero",
    Severity.ERROR,
    "a linked end port has no LID",
    "the subnet manager did not configure the port: check that it is reachable and above INIT",
)
LID_OUT_OF_RANGE = code(
    "lid-out-of-range",
    Severity.ERROR,
    "a LID is not a unicast LID (1 to 49151, IBA 4.1.3)",
    "let the subnet manager reassign LIDs",
)
ISOLATED_PART = code(
    "isolated-part",
    Severity.ERROR,
    "a part of the fabric has no link to the largest part",
    "find the missing links of this part; a single node may be powered off",
)
ONE_SIDED_RECORD = code(
    "one-sided-record",
    Severity.WARNING,
    "only one end lists the cable",
    "scan the fabric again; if it persists, one end's agent does not answer",
)
DANGLING_RECORD = code(
    "dangling-record",
    Severity.WARNING,
    "a record names a peer that is not in the source",
    "scan the fabric again; the file may be truncated",
)
SELF_LOOP_CABLE = code(
    "self-loop-cable",
    Severity.WARNING,
    "both ends of a cable are on one node",
    "remove the cable or the loopback plug; routing engines ignore it",
)

STATES_PORT_GUIDS = ("generated", "running", "db_csv")
"""Formats of sources that state the PortGUID of every port. Other sources list a port of a CA only if it has a
cable."""


def _groups(values: np.ndarray, rows: np.ndarray) -> list[np.ndarray]:
    """Return a group of rows for each value that several rows have, in order of the first row."""
    order = np.argsort(values, kind="stable")
    v = values[order]
    cut = np.flatnonzero(np.concatenate([[True], v[1:] != v[:-1]])) if len(v) else np.zeros(0, int)
    size = np.diff(np.concatenate([cut, [len(v)]]))
    several = np.flatnonzero(size > 1)  # usually empty: unique values form no group
    parts = [rows[order[i : i + n]] for i, n in zip(cut[several].tolist(), size[several].tolist(), strict=True)]
    return sorted(parts, key=lambda p: int(p[0]))


def _linked_locations(view: FabricView, nodes: list[int]) -> list[Location]:
    """Return the locations of the cabled ports of ``nodes``. For a switch, or a node without cables, return the
    location of the node.
    """
    f = view.fabric
    locations = []
    for node in nodes:
        ports = [] if f.is_switch[node] else [p for p in f.ports_of(node) if f.port_cable[p] >= 0]
        locations += [view.location(p) for p in ports] or [view.node_location(node)]
    return locations


def _neighbours(view: FabricView, nodes: list[int]) -> list[list[str]]:
    """Return the peers of each of ``nodes``, to distinguish nodes with the same name or GUID."""
    f = view.fabric
    peers = [[int(f.port_peer[p]) for p in f.ports_of(n) if f.port_peer[p] >= 0] for n in nodes]
    return [[str(view.location(p)) for p in ports] for ports in peers]


def duplicate_guids(c: Context) -> Iterator[Finding]:
    """Report NodeGUIDs that several nodes have, and PortGUIDs that ports of several nodes have."""
    view, f = c.view, c.view.fabric
    with_guid = np.flatnonzero(f.node_guid != 0)
    reported: set[int] = set()
    for nodes in _groups(f.node_guid[with_guid], with_guid):
        reported.update(nodes.tolist())
        guid = f"{int(f.node_guid[nodes[0]]):#018x}"
        names = few(view.display_names[n] for n in nodes.tolist())
        yield finding(
            DUPLICATE_NODE_GUID,
            _linked_locations(view, nodes.tolist()),
            f"NodeGUID {guid} is used by {counted(len(nodes), 'node')}: {names}",
            {"guid": guid, "nodes": len(nodes), "linked_to": _neighbours(view, nodes.tolist())},
        )
    # A dump does not list a CA's port without a link: its GUID is assumed to be node GUID + portnum.
    stated = f.is_switch[f.port_node] | (f.port_cable >= 0) | (f.source.format in STATES_PORT_GUIDS)
    owners = np.flatnonzero((~f.is_switch[f.port_node] | (f.port_num == 0)) & (f.port_guid != 0) & stated)
    for ports in _groups(f.port_guid[owners], owners):
        owners_of = set(f.port_node[ports].tolist())
        if len(owners_of) > 1 and not owners_of <= reported:
            guid = f"{int(f.port_guid[ports[0]]):#018x}"
            yield finding(
                DUPLICATE_PORT_GUID,
                map(view.location, ports.tolist()),
                f"PortGUID {guid} is used by {counted(len(ports), 'port')}: "
                f"{few(str(view.location(p)) for p in ports.tolist())}",
                {"guid": guid, "ports": len(ports)},
            )


def duplicate_descriptions(c: Context) -> Iterator[Finding]:
    """Report NodeDescriptions that nodes in different systems share. If many nodes have a vendor's default description,
    they are one finding.
    """
    view, f = c.view, c.view.fabric
    described = np.flatnonzero((f.node_desc[:, 0] != 0) & ~view.is_sharp)
    texts = np.ascontiguousarray(f.node_desc[described]).view("S64").reshape(-1)
    keys = np.unique(texts, return_inverse=True)[1] if len(described) else described
    for nodes in _groups(keys, described):
        if len(set(f.sys_guid[nodes].tolist())) == 1 and len(set(f.node_guid[nodes].tolist())) > 1:
            continue  # adapters of one host, all named after it
        text = view.names[int(nodes[0])]
        host = view.host_descriptions.get(text)
        if host and host.is_one_host and len(set(f.node_guid[nodes].tolist())) == len(nodes):
            continue  # adapters of one host on separate cards
        kind = "switches" if f.is_switch[nodes].all() else "adapters" if not f.is_switch[nodes].any() else "nodes"
        evidence: dict[str, Any] = {"description": text, "nodes": len(nodes)}
        if (len(nodes) > MANY and not host) or "Technologies" in text:
            yield finding(
                UNNAMED_NODES,
                map(view.node_location, nodes.tolist()),
                f"{len(nodes)} {kind} are all called {text!r}",
                evidence,
            )
        else:
            guids = ", ".join(f"{int(g):#018x}" for g in f.node_guid[nodes])
            if host:
                guids += f"; a host with such a name has {host.usual}"
            evidence["linked_to"] = _neighbours(view, nodes.tolist())
            yield finding(
                DUPLICATE_DESCRIPTION,
                _linked_locations(view, nodes.tolist()),
                f"{len(nodes)} {kind} are all called {text!r}: {guids}",
                evidence,
            )


def lid_faults(c: Context) -> Iterator[Finding]:
    """Report LIDs used twice on one subnet, LID 0, and LIDs that are not unicast LIDs."""
    view, f = c.view, c.view.fabric
    if "lids" not in view.records:
        return
    ends = f.end_ports()
    ends = ends[~view.is_sharp[f.port_node[ends]] | (f.lid[ends] > 0)]
    lid = f.lid[ends].astype(np.int64)
    parts = _parts(view)[1:] if len(view.cable) else []  # no manager reaches these parts; another finding reports them
    zero = ends[(lid == 0) & ~np.isin(f.port_node[ends], np.concatenate([np.zeros(0, int), *parts]))].tolist()
    yield from each_or_one(
        LID_ZERO,
        [([view.location(p)], f"{view.location(p)} has LID 0", {"lid": 0}) for p in zero],
        f"{len(zero)} of {len(ends)} end ports have LID 0",
        {"of": len(ends)},
        count="ports",
    )
    beyond: list[Each] = []
    for port in ends[lid > LID_UCAST_MAX].tolist():
        value = int(f.lid[port])
        why = ", the permissive LID: no subnet manager assigned one" if value == LID_PERMISSIVE else ""
        beyond.append(([view.location(port)], f"{view.location(port)} has LID {value}{why}", {"lid": value}))
    yield from each_or_one(
        LID_OUT_OF_RANGE,
        beyond,
        f"{len(beyond)} of {len(ends)} end ports have LIDs that are not unicast LIDs",
        {"of": len(ends)},
        count="ports",
    )
    yield from _overlaps(view, ends[(lid > 0) & (lid <= LID_UCAST_MAX)])


def _overlaps(view: FabricView, ends: np.ndarray) -> Iterator[Finding]:
    f = view.fabric
    low = f.lid[ends].astype(np.int64)
    lmc = f.lmc[ends].astype(np.int64) if "lmcs" in view.records else np.zeros(len(ends), np.int64)
    apart = subnet_of(f)[ends].astype(np.int64) << 17  # LIDs of different subnets must not overlap
    order = np.argsort(apart + low, kind="stable")
    ends, low, high, apart = ends[order], low[order], (low + (1 << lmc) - 1)[order], apart[order]
    if not len(ends):
        return
    reach = np.maximum.accumulate(apart + high)  # the highest LID of earlier ports
    cut = np.flatnonzero((apart + low)[1:] > reach[:-1]) + 1
    for rows in np.split(np.arange(len(ends)), cut):
        if len(rows) > 1:
            yield _owned_by_several(view, ends[rows], low[rows], high[rows])


def _owned_by_several(view: FabricView, ends: np.ndarray, low: np.ndarray, high: np.ndarray) -> Finding:
    """Return the finding for ports whose LID ranges overlap, directly or in a chain of overlaps."""
    where = [view.location(p) for p in ends.tolist()]
    same = bool((low == low[0]).all() and (high == high[0]).all())
    who = (
        f"{where[0]} and {where[1]} both"
        if len(where) == 2
        else f"{counted(len(where), 'port')}, {few(map(str, where))},"
    )
    first = int(low[1])
    text = f"{who} have LID {first}" if same else f"{who} have LID {first} (LMC ranges overlap)"
    if len(where) > 2 and not same:
        text = f"{who} share LIDs {int(low.min())} to {int(high.max())} (LMC ranges overlap)"
    lids = {str(p): [int(a), int(b)] for p, a, b in zip(where, low, high, strict=True)}
    return finding(DUPLICATE_LID, where, text, {"lid": first, "ports": len(where), "lids": lids})


def cable_records(c: Context) -> Iterator[Finding]:
    """Report cables that only one end lists, cables with an unknown peer, and cables that lead back to the same
    node."""
    view, f = c.view, c.view.fabric
    ends = f.cable_port
    if not len(ends):
        return
    complete = (ends >= 0).all(axis=1)
    node = f.port_node[np.maximum(ends, 0)]
    loop = complete & (node[:, 0] == node[:, 1])
    yield from _dangling(c, ends[~complete].max(axis=1).tolist())
    one_sided = ends[np.flatnonzero(complete & ~loop & (f.cable_listed == 1))].tolist()
    reported = [p for p in c.problems if p.code == ONE_SIDED_RECORD]
    lines = [p.line for p in reported] if len(reported) == len(one_sided) else [0] * len(one_sided)
    several: list[Each] = [
        (
            [view.location(a), view.location(b)],
            f"{view.link_name(a, b)}: only one end lists it{_at(line)}",
            {"line": line} if line else {},
        )
        for (a, b), line in zip(one_sided, lines, strict=True)
    ]
    yield from each_or_one(
        ONE_SIDED_RECORD,
        several,
        f"{counted(len(one_sided), 'cable')} {plural(len(one_sided), 'is', 'are')} listed by only one end",
        count="cables",
    )
    loops = ends[np.flatnonzero(loop)]
    numbers = np.sort(f.port_num[loops], axis=1)
    alike = Counter(map(tuple, numbers.tolist()))
    for (a, b), pair in zip(loops.tolist(), numbers.tolist(), strict=True):
        times = alike[tuple(pair)]
        text = (
            f"{view.location(a)} holds a loopback plug"
            if a == b
            else f"{view.link_name(a, b)}: a cable from a node to itself"
        )
        rest = f"; {counted(times, 'node')} {plural(times, 'has', 'have')} one between these ports" if times > 1 else ""
        yield finding(
            SELF_LOOP_CABLE,
            [view.location(p) for p in dict.fromkeys((a, b))],
            text + rest,
            {"ports": sorted({*pair}), "nodes_alike": times, "loops": len(loops)},
        )


def _at(line: int) -> str:
    return f" (line {line})" if line else ""


def _dangling(c: Context, ports: list[int]) -> Iterator[Finding]:
    """Report cables whose other end is not in the source: one finding for each node that the source names as a peer but
    does not contain.
    """
    view, problems = c.view, [p for p in c.problems if p.code == DANGLING_RECORD]
    reported = problems if len(problems) == len(ports) else [None] * len(ports)  # both in the order of the file
    groups: dict[Any, list[tuple[int, Any]]] = {}
    for i, (port, problem) in enumerate(zip(ports, reported, strict=True)):
        groups.setdefault(problem.peer if problem and problem.peer else i, []).append((port, problem))
    single: list[Each] = []
    for peer, rows in groups.items():
        where = [view.location(port) for port, _ in rows]
        records = [str(problem) for _, problem in rows if problem]
        evidence = {"records": records} if records else {}
        if len(rows) == 1:
            line = _at(rows[0][1].line if rows[0][1] else 0)
            single.append((where, f"{where[0]}: its peer is not in the source{line}", evidence))
        else:
            text = (
                f"{counted(len(rows), 'cable')} {plural(len(rows), 'leads', 'lead')} to {peer}, which is not in the "
                f"source: {few(map(str, where))}"
            )
            yield finding(DANGLING_RECORD, where, text, {"peer": peer, "cables": len(rows), **evidence})
    yield from each_or_one(
        DANGLING_RECORD,
        single,
        f"{counted(len(single), 'cable')} {plural(len(single), 'leads', 'lead')} to ports that are not in the source",
        count="cables",
    )


def isolated_parts(c: Context) -> Iterator[Finding]:
    """Report all connected parts except the largest, with their switches and hosts."""
    view = c.view
    if not len(view.cable) and not _dangling_nodes(view).any():
        yield from _no_links(view)
        return
    largest, *smaller = _parts(view) or [np.zeros(0, int)]
    nodes = sum(map(len, smaller))
    yield from each_or_one(
        ISOLATED_PART,
        [_isolated(view, part, len(largest)) for part in smaller],
        f"{counted(len(smaller), 'part')}, {counted(nodes, 'node')} in all, have no link to the largest part",
        {"nodes": nodes},
        count="parts",
    )


def _dangling_nodes(view: FabricView) -> np.ndarray:
    """Return whether each node has a cable whose other end is unknown (bool[nodes])."""
    f = view.fabric
    return np.bincount(f.port_node[(f.port_cable >= 0) & ~f.linked], minlength=f.sizes.nodes) > 0


def _parts(view: FabricView) -> list[np.ndarray]:
    """Return the nodes of each connected part, the largest part first."""
    f = view.fabric
    lone = np.bincount(f.port_node[f.linked], minlength=f.sizes.nodes) == 0
    lone &= ~f.is_switch | _dangling_nodes(view)  # other findings report these nodes
    joined = np.flatnonzero(~lone & ~view.is_sharp)
    if not len(joined):
        return []
    _, size = np.unique(view.component[joined], return_counts=True)
    parts = np.split(joined[np.argsort(view.component[joined], kind="stable")], np.cumsum(size)[:-1])
    largest = int(np.argmax(size))
    return [parts[largest], *parts[:largest], *parts[largest + 1 :]]


def _no_links(view: FabricView) -> Iterator[Finding]:
    """Report a fabric without links, in which every node is isolated (even if it is the only node)."""
    nodes = np.flatnonzero(~view.is_sharp)
    if len(nodes):
        named = few(view.display_names[n] for n in nodes.tolist())
        text = (
            f"{named} is the only node and has no link"
            if len(nodes) == 1
            else f"no link joins any of the {counted(len(nodes), 'node')}: {named}"
        )
        yield finding(ISOLATED_PART, map(view.node_location, nodes.tolist()), text, {"nodes": len(nodes)})


def _isolated(view: FabricView, part: np.ndarray, main: int) -> Each:
    switches = int(view.fabric.is_switch[part].sum())
    named = few(view.display_names[n] for n in part.tolist())
    evidence: dict[str, Any] = {"switches": switches, "cas": len(part) - switches, "largest_part": main}
    first = part[np.argsort(~view.fabric.is_switch[part], kind="stable")]
    text = (
        f"{named} has no link"
        if len(part) == 1
        else f"{counted(len(part), 'node')} {plural(len(part), 'has', 'have')} no link to the largest part: {named}"
    )
    ends = view.fabric.end_ports() if "lids" in view.records else np.zeros(0, int)
    zero = int((view.fabric.lid[ends[np.isin(view.fabric.port_node[ends], part)]] == 0).sum())
    if zero:
        evidence["lid_zero"] = zero
        ports = f"; {counted(zero, 'end port')} there {plural(zero, 'has', 'have')} LID 0"
        text += " and LID 0" if len(part) == 1 else ports
    return [view.node_location(n) for n in first.tolist()], text, evidence
