"""Pairs port records into cables, and says at which line a record is not answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.fabric.formats.base import Problems
from softib.fabric.formats.records import Records
from softib.fabric.formats.same_key import NodeIndex
from softib.fabric.formats.text import octets, shown
from softib.iba.constants import MAX_SWITCH_PORTS
from softib.plural import counted

__all__ = ["Cables", "pair"]

_STEP = 256
"""A port as one number: node * 256 + portnum."""


@dataclass
class Cables:
    """Cables as columns (``node_b`` -1 = unknown), and what pairing found out about the port
    records."""

    node_a: np.ndarray
    portnum_a: np.ndarray
    node_b: np.ndarray
    portnum_b: np.ndarray
    listed: np.ndarray
    dangling: int
    """Cables whose peer has no node record."""
    nports: np.ndarray
    """Ports of each node, those beyond the node's own count included when a record names them."""
    usable: np.ndarray
    """bool[records]: the record's own port exists and is this record's."""
    peer_node: np.ndarray
    """Node that each record names, -1 = none of the file."""

    @property
    def record_of_a(self) -> np.ndarray:
        """Indices of usable records."""
        return np.flatnonzero(self.usable)


def pair(r: Records, index: NodeIndex, c: dict[str, np.ndarray], problems: Problems) -> Cables:
    """Make cables of the port records of ``r`` (integer columns ``c``)."""
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
    first, second, listed, dangling = _match(r, a, b, usable, line, peer_node, problems)
    known = second >= 0
    loops = known & (first // _STEP == second // _STEP)
    by_port = {int(p): int(n) for p, n in zip(a[usable], line[usable], strict=True)} if loops.any() else {}
    for p, q in zip(first[loops], second[loops], strict=True):
        problems.add(
            by_port[int(p)], f"cable from port {int(p) % _STEP} back to port {int(q) % _STEP} of the same node"
        )
    return Cables(
        first // _STEP,
        first % _STEP,
        np.where(known, second // _STEP, -1),
        np.where(known, second % _STEP, 0),
        listed,
        dangling,
        nports,
        usable,
        np.where(reachable, peer_node, -1),
    )


DANGLING, ONE_SIDED = "dangling-record", "one-sided-record"
"""Findings that checks make of such cables."""


def _drop_repeats(
    r: Records, a: np.ndarray, b: np.ndarray, usable: np.ndarray, line: np.ndarray, problems: Problems
) -> None:
    """Of several records for one port only the first counts; the others are problems unless the
    format repeats."""
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
    """Port counts; of nodes that state none the highest port that a record names. A record of a port
    beyond a stated count is a problem: of the node's own it is left out (``usable``), of the peer
    its far end (``b``)."""
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
                f"no port {int(ends[i] % _STEP)} of {_name(r, n)}, which has {counted(int(stated[n]), 'port')} by line "
                f"{r.node_line[n]}; {lost} is left out",
            )
            if local:
                usable[i] = False
            else:
                b[i] = -1
    return nports


def _match(
    r: Records,
    a: np.ndarray,
    b: np.ndarray,
    usable: np.ndarray,
    line: np.ndarray,
    peer_node: np.ndarray,
    problems: Problems,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """(port a, port b or -1, ends listed) of each cable in file order, and how many are dangling."""
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
    return a[keep], second[keep], listed[keep], dangling


def _name(r: Records, node: int) -> str:
    return shown(octets(r.key[node]) if not r.desc[node] else r.desc[node])


def _peer(r: Records, record: int) -> str:
    return f"{shown(r.peer[record])}[{r.peer_portnum[record]}]"
