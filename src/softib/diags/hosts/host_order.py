"""Finds exchanged hosts from the order of host names along the port numbers of the leaves. Sites number their hosts in
the order of cabling. On similarly cabled leaves, the number of the host at port p is the base of the leaf plus the
offset of the port: for example host 1426 at port 6 of one leaf, and host 1318 at port 6 of another. Leaves need no
names, and the order need not be ascending. The offset of a port is the one on which most similar leaves agree; a leaf
with a different order is ignored.

An exchange is reported only if each of the two ports has exactly the adapter that is expected at the other. If the
other leaf has no known order, no adapter is expected at its port. The exchange is then reported only if each of the two
hosts is the only host of its class of names on its leaf, and most other hosts on the other leaf are of the first host's
class. (Names that differ only in their numbers are of one class.) Names may be exchanged instead of cables, so the
finding is only a warning.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.diags.view import FabricView

__all__ = ["HostExchange", "TurnedLeaf", "exchanged_hosts", "turned_leaves"]

MIN_LEAVES = 3
"""Minimum number of leaves with the same offsets for these offsets to be a rule."""
MIN_PORTS = 4
"""Minimum number of ports of a leaf that must follow the order. On a leaf with exactly this number of ports, one port
fewer is enough.
"""
SMALL, MIN_FOLLOWERS = 2, 16
"""Leaves with fewer than :data:`MIN_PORTS` ports can have an order if they have at least ``SMALL`` hosts, and at least
``MIN_FOLLOWERS`` hosts in total follow the order.
"""
MOST = 0.6
"""Minimum share of the hosts of a leaf that must follow the order. It is low enough that one
exchanged host of three does not hide the order."""
CLEAR = 0.9
"""Minimum share of the hosts of similar leaves that must follow the order. With a smaller share, nothing is
reported.
"""
MAX_ORDERS = 24
"""Maximum number of orders of one class of names. A class with more orders is taken as unordered."""
EXCHANGED = 2
"""Number of out-of-order ports that an exchange of two hosts on all leaves explains. With at most this number,
:data:`CLEAR` does not apply.
"""
ROUNDS = 3
SHIFTS = (1, -1, 2, -2)
"""Numbers of ports by which the hosts of a leaf may be rotated, in the order in which they are tried."""

_NUMBER = re.compile(r"\d+")
_WEIGHTS = (
    0x9E3779B97F4A7C15,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0xD6E8FEB86659FD93,
    0xA0761D6478BD642F,
    0xE7037ED1A0B428DB,
)
"""Odd weights. The code of a name is the weighted sum of its numbers modulo 2^64, so that equal differences between
names are equal differences between codes.
"""


@dataclass(frozen=True)
class HostExchange:
    """The hosts at leaf ports ``a`` and ``b`` are exchanged. Of the ``of`` hosts on leaves with the same order,
    ``follow`` are in order.
    """

    a: int
    b: int
    follow: int
    of: int
    by_rails: bool = False
    """Whether the evidence is the port numbers of the hosts on other leaves, and not the order of names."""


@dataclass(frozen=True)
class TurnedLeaf:
    """A leaf whose hosts are in order, but all shifted by ``by`` ports; the last ones are at the first ports.
    ``ports``: rows of the leaf's host ports.
    """

    leaf: int
    ports: tuple[int, ...]
    by: int
    follow: int
    of: int


@dataclass
class _Class:
    """Adapters whose names differ only in numbers. For each adapter: ``code`` uint64, the row of its leaf, and its port
    number on the leaf.
    """

    key: int
    code: np.ndarray
    leaf: np.ndarray
    portnum: np.ndarray


def exchanged_hosts(view: FabricView) -> list[HostExchange]:
    """Return the pairs of leaf ports whose hosts are exchanged. The running time is nearly linear in the number of
    adapters."""
    _, host_port, leaf_port = view.to_hosts
    node = view.fabric.port_node
    names = [view.names[n] for n in node[host_port].tolist()]
    leaves, leaf = np.unique(node[leaf_port], return_inverse=True)
    classes = list(_classes(names, leaf.reshape(-1), view.fabric.port_num[leaf_port].astype(np.int64)))
    # (class, code) of the host at each leaf port
    held = dict(zip(leaf_port.tolist(), _codes(names), strict=True))
    wanted: dict[int, list[tuple[tuple[int, int], int, int]]] = {}
    for class_ in classes:
        for expected in _orders(class_):
            for at, portnum, code, follow, of in expected:
                port = int(view.fabric.port(int(leaves[at]), portnum))
                if port in held and held[port] != (class_.key, code):
                    wanted.setdefault(port, []).append(((class_.key, code), follow, of))
    return _pairs(view, held, wanted)


def turned_leaves(view: FabricView) -> Iterator[TurnedLeaf]:
    """Yield the leaves whose hosts are in order if they are rotated back by one or two ports."""
    _, host_port, leaf_port = view.to_hosts
    node = view.fabric.port_node
    names = [view.names[n] for n in node[host_port].tolist()]
    leaves, leaf = np.unique(node[leaf_port], return_inverse=True)
    for class_ in _classes(names, leaf.reshape(-1), view.fabric.port_num[leaf_port].astype(np.int64)):
        by_leaf = _by_leaf(class_)
        for offsets, bases, follow, of in _rules(class_):
            for at, base in bases.items():
                row = dict(sorted((p, code) for p, code in by_leaf[at].items() if p in offsets))
                if len(row) != len(by_leaf[at]) or any(_is_at(offsets, p, code, base) for p, code in row.items()):
                    continue
                # A rotation by half of the ports is reported as exchanged hosts.
                by = next((k for k in SHIFTS if 2 * abs(k) < len(row) and _turned(row, offsets, k)), 0)
                if by:
                    leaf_node = int(leaves[at])
                    yield TurnedLeaf(leaf_node, tuple(int(view.fabric.port(leaf_node, p)) for p in row), by, follow, of)


def _turned(row: dict[int, int], offsets: dict[int, int], by: int) -> bool:
    """Return whether the codes of a leaf follow the offsets of its ports after each host is moved back
    by ``by`` ports."""
    ports, codes = list(row), list(row.values())
    moved = codes[by:] + codes[:by]
    return len({(code - offsets[p]) % (1 << 64) for p, code in zip(ports, moved, strict=True)}) == 1


def _codes(names: list[str]) -> list[tuple[int, int]]:
    keys: dict[str, int] = {}
    out = []
    for name in names:
        numbers = [int(x) for x in _NUMBER.findall(name)[-len(_WEIGHTS) :]]
        code = sum(n * w for n, w in zip(reversed(numbers), _WEIGHTS, strict=False)) % (1 << 64)
        out.append((keys.setdefault(_NUMBER.sub("#", name), len(keys)), code))
    return out


def _classes(names: list[str], leaf: np.ndarray, portnum: np.ndarray) -> Iterator[_Class]:
    codes = _codes(names)
    key = np.array([k for k, _ in codes], np.int64)
    code = np.array([c for _, c in codes], np.uint64)
    for k, size in enumerate(np.bincount(key) if len(key) else ()):
        if size >= MIN_LEAVES * MIN_PORTS:
            members = key == k
            yield _Class(k, code[members], leaf[members], portnum[members])


Expected = list[tuple[int, int, int, int, int]]
"""(leaf, portnum, expected code, number of hosts that follow the order, total number of hosts)."""
Rule = tuple[dict[int, int], dict[int, int], int, int]
"""(offset of each port, base of each leaf, number of hosts that follow the rule, total number of hosts)."""


def _by_leaf(class_: _Class) -> dict[int, dict[int, int]]:
    by_leaf: dict[int, dict[int, int]] = {}
    for leaf, portnum, code in zip(class_.leaf.tolist(), class_.portnum.tolist(), class_.code.tolist(), strict=True):
        by_leaf.setdefault(leaf, {})[portnum] = code
    return by_leaf


def _orders(class_: _Class) -> Iterator[Expected]:
    """Yield the expected host of each port on the leaves that follow one of the class's orders."""
    for offsets, bases, follow, of in _rules(class_):
        yield [
            (leaf, p, (base + o) % (1 << 64), follow, of) for leaf, base in bases.items() for p, o in offsets.items()
        ]


def _rules(class_: _Class) -> Iterator[Rule]:
    """Yield the orders that enough leaves of the class follow."""
    by_leaf = _by_leaf(class_)
    left = sorted((leaf for leaf, row in by_leaf.items() if len(row) >= SMALL), key=lambda x: (-len(by_leaf[x]), x))
    for _ in range(MAX_ORDERS):
        if len(left) < MIN_LEAVES:
            return
        offsets = dict(by_leaf[left[0]])
        bases: dict[int, int] = {}
        for _ in range(ROUNDS):
            bases = _bases(by_leaf, left, offsets)
            offsets = _voted(by_leaf, bases)
        followers = set(bases) | {left[0]}
        left = [leaf for leaf in left if leaf not in followers]
        if len(bases) < MIN_LEAVES:
            continue
        of = sum(len(by_leaf[leaf]) for leaf in bases)
        right = [sum(_is_at(offsets, p, code, b) for p, code in by_leaf[leaf].items()) for leaf, b in bases.items()]
        follow, odd = sum(right), sum(n < len(by_leaf[leaf]) for n, leaf in zip(right, bases, strict=True))
        enough = min(len(by_leaf[leaf]) for leaf in bases) >= MIN_PORTS or follow >= MIN_FOLLOWERS
        ports = {p for leaf, b in bases.items() for p, code in by_leaf[leaf].items() if not _is_at(offsets, p, code, b)}
        if enough and (follow >= CLEAR * of or odd <= 1 or len(ports) <= EXCHANGED):
            yield offsets, bases, follow, of


def _is_at(offsets: dict[int, int], portnum: int, code: int, base: int) -> bool:
    return portnum in offsets and (base + offsets[portnum]) % (1 << 64) == code


def _bases(by_leaf: dict[int, dict[int, int]], leaves: list[int], offsets: dict[int, int]) -> dict[int, int]:
    """Return the base of each leaf: the code of a host minus the offset of its port. There are two candidates: the base
    with which the set of the leaf's hosts matches its ports in any order, and the most frequent base. If they differ,
    the most frequent base is used only if the hosts that it expects but that the leaf does not have are all on other
    leaves, and no leaf with a certain base expects them. Example: if host 9 is in the place of host 1, hosts 2 to 9
    also match the ports, shifted by one port.
    """
    found = {leaf: _bases_of(by_leaf[leaf], offsets) for leaf in leaves}
    sure = {leaf: base for leaf, (base, whole) in found.items() if base is not None and whole in (None, base)}
    held = {code for row in by_leaf.values() for code in row.values()}
    expected = {(base + offsets[p]) % (1 << 64) for leaf, base in sure.items() for p in by_leaf[leaf] if p in offsets}
    bases = {}
    for leaf, (base, whole) in found.items():
        chosen = whole
        if base is not None and whole != base:
            wanted = {(base + offsets[p]) % (1 << 64) for p in by_leaf[leaf] if p in offsets}
            absent = wanted - set(by_leaf[leaf].values())
            chosen = base if whole is None or (absent <= held and not absent & expected) else whole
        if chosen is not None:
            bases[leaf] = chosen
    return bases


def _bases_of(row: dict[int, int], offsets: dict[int, int]) -> tuple[int | None, int | None]:
    """Return two candidates for the base of a leaf (None: no candidate): the most frequent difference between a host's
    code and its port's offset, if enough hosts agree; and the base with which the set of the leaf's hosts matches its
    ports, in any order.
    """
    votes = Counter((code - offsets[p]) % (1 << 64) for p, code in row.items() if p in offsets)
    base, count = votes.most_common(1)[0] if votes else (0, 0)
    if count == len(row):
        return base, base
    whole = None
    if row.keys() <= offsets.keys():
        codes, some = set(row.values()), next(iter(row.values()))
        each = ((some - offsets[p]) % (1 << 64) for p in row)
        whole = next((w for w in each if {(w + offsets[p]) % (1 << 64) for p in row} == codes), None)
    return base if count >= max(SMALL, min(MIN_PORTS, len(row) - 1), MOST * len(row)) else None, whole


def _voted(by_leaf: dict[int, dict[int, int]], bases: dict[int, int]) -> dict[int, int]:
    """Return the offset of each port on which most leaves agree. If two hosts are exchanged on all of their leaves
    (every rail), all leaves agree on wrong offsets; then the offset follows from the neighbouring ports.
    """
    votes: dict[int, Counter[int]] = {}
    for leaf, base in bases.items():
        for portnum, code in by_leaf[leaf].items():
            votes.setdefault(portnum, Counter())[(code - base) % (1 << 64)] += 1
    best = {portnum: count.most_common(1)[0] for portnum, count in votes.items()}
    clear = {p: offset for p, (offset, n) in best.items() if n >= 2 and 2 * n > votes[p].total()}
    steps = Counter((clear[p + 1] - offset) % (1 << 64) for p, offset in clear.items() if p + 1 in clear)
    step, _ = steps.most_common(1)[0] if steps else (0, 0)
    kept = sorted(clear)
    times = sum((clear[q] - clear[p] - (q - p) * step) % (1 << 64) == 0 for p, q in itertools.pairwise(kept))
    if not steps or times < MIN_PORTS:
        return clear
    starts = Counter((offset - p * step) % (1 << 64) for p, offset in clear.items())
    base, agree = starts.most_common(1)[0]
    row = {p: (base + p * step) % (1 << 64) for p in votes}
    if agree >= CLEAR * len(clear) or len(clear) - agree <= EXCHANGED:
        at = {offset: p for p, offset in clear.items()}
        swapped = [p for p, offset in clear.items() if offset != row[p] and at.get(row[p]) is not None]
        clear |= {p: row[p] for p in swapped if clear[at[row[p]]] == row[p] and row.get(at[row[p]]) == clear[p]}
    for p in votes.keys() - clear.keys():
        # If half of the leaves have an exchanged host at this port (because the host has an adapter on each leaf), use
        # the step between ports.
        wanted = {(clear[p + d] - d * step) % (1 << 64) for d in (-1, 1) if p + d in clear} or {row[p]}
        if len(wanted) == 1 and votes[p][offset := wanted.pop()] >= 2:
            clear[p] = offset
    return clear


def _pairs(
    view: FabricView, held: dict[int, tuple[int, int]], wanted: dict[int, list[tuple[tuple[int, int], int, int]]]
) -> list[HostExchange]:
    times = Counter(held.values())
    at = {what: port for port, what in held.items() if times[what] == 1}
    node = view.fabric.port_node
    company = _Company(held, node)
    out: list[HostExchange] = []
    used: set[int] = set()
    for port in sorted(wanted):
        for what, follow, of in wanted[port]:
            other = at.get(what, -1)
            if other < 0 or {port, other} & used or times[held[port]] != 1:
                continue
            back = next(((f, n) for w, f, n in wanted.get(other, ()) if w == held[port]), None)
            if back is None and (other in wanted or not company.belongs(port, other)):
                continue
            used |= {port, other}
            follow, of = min((follow, of), back or (follow, of))
            out.append(HostExchange(min(port, other), max(port, other), follow, of))
    return out


class _Company:
    """The classes of host names on each leaf, for leaves whose order no other leaf has."""

    def __init__(self, held: dict[int, tuple[int, int]], node: np.ndarray):
        self.held, self.node = held, node
        self.classes: dict[int, Counter[int]] = {}
        for port, (key, _) in held.items():
            self.classes.setdefault(int(node[port]), Counter())[key] += 1

    def belongs(self, port: int, other: int) -> bool:
        """Return whether the host at ``port`` is the only host of its class on its leaf, and nearly all hosts on the
        leaf of ``other`` (except the host at ``other``) are of this class.
        """
        stray, guest = self.held[port][0], self.held[other][0]
        here, there = (self.classes[int(self.node[p])] for p in (port, other))
        rest = there.total() - 1
        return (
            stray != guest
            and here[stray] == 1
            and there[guest] == 1
            and there[stray] >= MIN_PORTS
            and there[stray] >= MOST * rest
        )
