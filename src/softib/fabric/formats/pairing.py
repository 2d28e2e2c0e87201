"""Pair port records into cables. Report records without a counterpart, with their lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from softib.fabric.formats.base import REPEATED, Problems, octets, shown
from softib.fabric.formats.records import Records
from softib.iba.constants import MAX_SWITCH_PORTS
from softib.plural import counted

__all__ = ["Cables", "NodeIndex", "merge_repeated_nodes", "pair"]


class NodeIndex:
    """Find the node that other records call ``key``. If several nodes have this name, the one with
    the matching port record is chosen."""

    def __init__(self, first: dict[str, int], others: dict[str, list[int]], dropped: set[int]):
        self.first, self.others, self.dropped = first, others, dropped
        self.claims: dict[tuple[int, int], tuple[str, int]] = {}

    def prepare(self, r: Records) -> None:
        """Index the port records of nodes that have the same name."""
        shared = {i for nodes in self.others.values() for i in nodes}
        if shared:
            for node, num, peer, peer_num in zip(r.port_node, r.portnum, r.peer, r.peer_portnum, strict=True):
                if node in shared:
                    self.claims[node, num] = (peer, peer_num)

    def find(self, key: str, portnum: int, asker: tuple[str, int]) -> int:
        """Return the node called ``key``. If several have this name, return the one whose port
        ``portnum`` names ``asker`` as its peer, or otherwise the first. Return -1 if no node has
        this name."""
        for node in self.others.get(key, ()):
            if self.claims.get((node, portnum)) == asker:
                return node
        return self.first.get(key, -1)


def merge_repeated_nodes(r: Records, problems: Problems) -> NodeIndex:
    """Drop each node record that repeats an earlier one. Records with the same GUID that differ
    stay separate nodes. Both cases are problems. A log that contains one dump twice is read as one
    fabric.
    """
    nodes_of: dict[str, list[int]] = {}
    for i, key in enumerate(r.key):
        nodes_of.setdefault(key, []).append(i)
    shared = {key: nodes for key, nodes in nodes_of.items() if len(nodes) > 1}
    dropped: set[int] = set()
    if shared:
        ports = _ports_of(r, {i for nodes in shared.values() for i in nodes})
        for key, nodes in shared.items():
            kept: list[int] = []
            for i in nodes:
                same = next((k for k in kept if _describes_the_same(r, ports, k, i)), None)
                if same is None:
                    if kept:
                        problems.add(
                            r.node_line[i],
                            f"{shown(key)} is also the name of the node in line "
                            f"{r.node_line[kept[0]]}; both are kept, with one GUID",
                        )
                    kept.append(i)
                else:
                    problems.add(r.node_line[i], f"{REPEATED} {shown(key)} in line {r.node_line[same]}")
                    dropped.add(i)
            shared[key] = kept
    index = NodeIndex(
        {key: nodes[0] for key, nodes in nodes_of.items()},
        {key: kept for key, kept in shared.items() if len(kept) > 1},
        dropped,
    )
    if dropped:
        _compact(r, index)
    index.prepare(r)
    return index


def _ports_of(r: Records, nodes: set[int]) -> dict[int, dict[int, tuple[str, int]]]:
    ports: dict[int, dict[int, tuple[str, int]]] = {i: {} for i in nodes}
    for node, num, peer, peer_num in zip(r.port_node, r.portnum, r.peer, r.peer_portnum, strict=True):
        if node in nodes:
            ports[node][num] = (peer, peer_num)
    return ports


def _describes_the_same(r: Records, ports: dict[int, dict[int, tuple[str, int]]], a: int, b: int) -> bool:
    return (
        r.desc[a] == r.desc[b]
        and r.node_type[a] == r.node_type[b]
        and (r.both_ends_in_one_line or ports[a] == ports[b])
    )


def _compact(r: Records, index: NodeIndex) -> None:
    """Remove the dropped nodes and their port records from the columns. Renumber the rest."""
    new: dict[int, int] = {}
    for i in range(len(r.key)):
        if i not in index.dropped:
            new[i] = len(new)
    for name in (
        "key",
        "node_type",
        "nports",
        "desc",
        "node_guid",
        "sys_guid",
        "vendor_id",
        "device_id",
        "revision",
        "pkey_cap",
        "external_pkey_cap",
        "guid_cap",
        "lid0",
        "lmc0",
        "enhanced_port0",
        "node_line",
    ):
        column = getattr(r, name)
        setattr(r, name, [v for i, v in enumerate(column) if i in new])
    r.only_a_peer, r.uncounted = ({new[i] for i in nodes if i in new} for nodes in (r.only_a_peer, r.uncounted))
    keep = [node in new for node in r.port_node]
    for name in (
        "portnum",
        "peer",
        "peer_portnum",
        "port_line",
        "speed",
        "lanes",
        "lid",
        "lmc",
        "port_guid",
        "peer_lid",
        "peer_guid",
        "state",
    ):
        setattr(r, name, [v for v, k in zip(getattr(r, name), keep, strict=True) if k])
    r.port_node = [new[i] for i in r.port_node if i in new]
    r.label = {(new[i], p): text for (i, p), text in r.label.items() if i in new}
    index.first = {key: new[i] for key, i in index.first.items()}
    index.others = {key: [new[i] for i in nodes] for key, nodes in index.others.items()}


_STEP = 256
"""Factor to encode a port as one number: node * 256 + portnum."""


@dataclass
class Cables:
    """Cables as columns (``node_b`` -1: unknown peer). For each record, whether it is usable, and
    its peer."""

    node_a: np.ndarray
    portnum_a: np.ndarray
    node_b: np.ndarray
    portnum_b: np.ndarray
    listed: np.ndarray
    dangling: int
    """Number of cables whose peer has no node record."""
    nports: np.ndarray
    """Number of ports of each node. If a record names a port beyond the stated number, that port is
    included."""
    usable: np.ndarray
    """bool[records]: the local port of the record exists, and no earlier record describes it."""
    peer_node: np.ndarray
    """Peer node of each record; -1 = the file does not describe the peer."""

    @property
    def record_of_a(self) -> np.ndarray:
        """Indices of the usable records."""
        return np.flatnonzero(self.usable)


def pair(r: Records, index: NodeIndex, c: dict[str, np.ndarray], problems: Problems) -> Cables:
    """Make cables from the port records of ``r``. ``c`` holds the integer columns of ``r`` as
    arrays."""
    node, num, peer_num, line = (c[n] for n in ("port_node", "portnum", "peer_portnum", "port_line"))
    find, keys = index.find, r.key
    if index.others:
        peer = [
            find(p, n, (keys[a], m)) for p, n, a, m in zip(r.peer, r.peer_portnum, r.port_node, r.portnum, strict=True)
        ]
    else:
        get = index.first.get
        peer = [get(p, -1) for p in r.peer]
    peer_node = np.array(peer, np.int64)
    usable = (num >= 1) & (num <= MAX_SWITCH_PORTS)
    for i in np.flatnonzero(~usable):
        problems.add(int(line[i]), f"port number {int(num[i])} is not 1 to {MAX_SWITCH_PORTS}")
    reachable = (peer_node >= 0) & (peer_num >= 1) & (peer_num <= MAX_SWITCH_PORTS)
    for i in np.flatnonzero(usable & (peer_node >= 0) & ~reachable):
        problems.add(int(line[i]), f"port number {int(peer_num[i])} of the peer is not 1 to {MAX_SWITCH_PORTS}")
    a = node * _STEP + num
    b = np.where(reachable, peer_node * _STEP + peer_num, -1)
    _drop_repeats(r, a, b, usable, line, problems)
    nports = _port_counts(r, c, a, b, usable, problems)
    _by_the_other_end(a, b, usable, peer_node)
    first, second, listed, dangling = _match(r, a, b, usable, line, peer_node, problems)
    answered = second >= 0
    loops = answered & (first // _STEP == second // _STEP)
    by_port = {int(p): int(n) for p, n in zip(a[usable], line[usable], strict=True)} if loops.any() else {}
    for p, q in zip(first[loops], second[loops], strict=True):
        problems.add(
            by_port[int(p)],
            f"cable from port {int(p) % _STEP} back to port {int(q) % _STEP} of the same node",
            SELF_LOOP,
        )
    return Cables(
        node_a=first // _STEP,
        portnum_a=first % _STEP,
        node_b=np.where(answered, second // _STEP, -1),
        portnum_b=np.where(answered, second % _STEP, 0),
        listed=listed,
        dangling=dangling,
        nports=nports,
        usable=usable,
        peer_node=np.where(reachable, peer_node, -1),
    )


DANGLING, ONE_SIDED, SELF_LOOP = "dangling-record", "one-sided-record", "self-loop-cable"
"""Codes of the findings that checks report for such cables."""


def _drop_repeats(
    r: Records, a: np.ndarray, b: np.ndarray, usable: np.ndarray, line: np.ndarray, problems: Problems
) -> None:
    """If several records describe one port, keep the first. The others are problems, unless files
    of this format normally repeat records."""
    rows = np.flatnonzero(usable)
    order = rows[np.argsort(a[rows], kind="stable")]
    repeated = np.flatnonzero(a[order][1:] == a[order][:-1]) + 1
    first, last = -1, -2
    for k in repeated.tolist():
        if k != last + 1:
            first = int(order[k - 1])
        last = k
        i = int(order[k])
        usable[i] = False
        same = b[i] == b[first] and r.peer[i] == r.peer[first]
        if same and r.both_ends_in_one_line:
            continue
        problems.add(
            int(line[i]),
            f"port {int(a[i]) % _STEP} is listed again"
            + (
                f" (line {int(line[first])})"
                if same
                else f", now to {_peer(r, i)}; line {int(line[first])} says {_peer(r, first)}"
            ),
        )


def _port_counts(
    r: Records, c: dict[str, np.ndarray], a: np.ndarray, b: np.ndarray, usable: np.ndarray, problems: Problems
) -> np.ndarray:
    """Return the number of ports of each node. If a node's record states no number, it is the
    highest port number in the records. A port number above the stated number is a problem. If it
    belongs to the local port, the record is skipped (``usable``); if it belongs to the peer's port,
    the peer (``b``) is dropped."""
    stated = c["nports"]
    nports = stated.copy()
    for ends, local in ((a, True), (b, False)):
        rows = np.flatnonzero(usable & (ends >= 0))
        node, num = ends[rows] // _STEP, ends[rows] % _STEP
        unstated = stated[node] == 0
        np.maximum.at(nports, node[unstated], num[unstated])
        for i in rows[~unstated & (num > stated[node])].tolist():
            n = int(ends[i] // _STEP)
            lost = "the record" if local else "this end of the cable"
            problems.add(
                int(c["port_line"][i]),
                f"no port {int(ends[i] % _STEP)} of {_name(r, n)}, which has {counted(int(stated[n]), 'port')} "
                f"according to line {r.node_line[n]}; {lost} is skipped",
            )
            if local:
                usable[i] = False
            else:
                b[i] = -1
    return nports


def _by_the_other_end(a: np.ndarray, b: np.ndarray, usable: np.ndarray, peer_node: np.ndarray) -> None:
    """Correct a record that names a port which its peer does not have. If exactly one record of the
    peer names this record's port, the port of that record is written into ``b``."""
    bad = np.flatnonzero(usable & (b < 0) & (peer_node >= 0))
    if len(bad):
        rows = np.flatnonzero(usable & np.isin(b, a[bad]))
        for i in bad.tolist():
            named = rows[(b[rows] == a[i]) & (a[rows] // _STEP == peer_node[i])]
            if len(named) == 1:
                b[i] = a[named[0]]


class _Matches(NamedTuple):
    """Cables, int64[cables] each."""

    first: np.ndarray
    second: np.ndarray
    """-1: unknown."""
    listed: np.ndarray
    """Number of ends that are listed."""
    dangling: int
    """Number of records whose peer has no record."""


def _match(
    r: Records,
    a: np.ndarray,
    b: np.ndarray,
    usable: np.ndarray,
    line: np.ndarray,
    peer_node: np.ndarray,
    problems: Problems,
) -> _Matches:
    """Return the cables in file order."""
    rows = np.flatnonzero(usable)
    order = rows[np.argsort(a[rows], kind="stable")]
    at = np.searchsorted(a[order], b)
    at_safe = np.minimum(at, max(len(order) - 1, 0))
    answer = np.where((at < len(order)) & (b >= 0), order[at_safe] if len(order) else -1, -1) if len(a) else at
    answered = answer >= 0
    answered[answered] = a[answer[answered]] == b[answered]
    mutual = usable & answered
    mutual[mutual] = b[answer[mutual]] == a[mutual]
    keep = mutual & (np.arange(len(a)) <= answer)
    second = b.copy()
    listed = np.where(mutual, 2, 1)
    dangling = 0
    taken: dict[int, int] = {}
    lone = np.flatnonzero(usable & ~mutual)
    for i in lone:
        keep[i] = True
        if b[i] < 0:
            dangling += int(peer_node[i] < 0)
            if peer_node[i] < 0:
                problems.add(
                    int(line[i]), f"peer {_peer(r, int(i))} has no record in the file", DANGLING, shown(r.peer[int(i)])
                )
        elif answered[i]:
            other = int(answer[i])
            problems.add(
                int(line[i]),
                f"says the peer is {_peer(r, int(i))}, but line {int(line[other])} cables that port to "
                f"{_peer(r, other)}",
                DANGLING,
            )
            second[i] = -1
        elif int(b[i]) in taken:
            problems.add(
                int(line[i]), f"says the peer is {_peer(r, int(i))}, but so does line {taken[int(b[i])]}", DANGLING
            )
            second[i] = -1
        else:
            taken[int(b[i])] = int(line[i])
            if int(peer_node[i]) not in r.only_a_peer:
                problems.add(int(line[i]), f"one-sided: {_peer(r, int(i))} does not list this cable", ONE_SIDED)
    return _Matches(a[keep], second[keep], listed[keep], dangling)


def _name(r: Records, node: int) -> str:
    return shown(octets(r.key[node]) if not r.desc[node] else r.desc[node])


def _peer(r: Records, record: int) -> str:
    return f"{shown(r.peer[record])}[{r.peer_portnum[record]}]"
