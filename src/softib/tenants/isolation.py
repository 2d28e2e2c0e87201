"""Finds ports that can exchange packets although no partition contains both, from the P_Key tables of the whole subnet.

Two ports can exchange packets if a P_Key is in both of their tables and at least one of them is a full member (IBA
10.9.3). A pair that shares only the default partition is still reported if it can exchange packets, because every port
is a member of that partition.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from softib.tenants.model import DEFAULT_BASE, FULL_BIT, pkey_text
from softib.tenants.state import State
from softib.tenants.subnet import Held

__all__ = ["MOST_ROWS", "Isolation", "Meeting", "isolation_of"]

MOST_ROWS = 1000
"""Maximum number of pairs in an answer; all pairs are counted."""
NO_PARTITION = "no partition contains both"
MANAGER = "the subnet manager's port, through which every port reaches the subnet administrator"
MANAGER_TOO = "the subnet manager's port; run the manager on a host without a partition"


@dataclass(frozen=True, order=True, slots=True)
class Meeting:
    """Ports ``a`` and ``b`` (PortGUIDs) can exchange packets with ``pkey``."""

    a: int
    b: int
    pkey: int
    reason: str


@dataclass(frozen=True)
class Isolation:
    """``pairs``: number of pairs that can exchange packets although no partition contains both. ``meets``: the first of
    these pairs. ``exceptions``: number of pairs that are permitted because one of the ports is the subnet manager's,
    and the manager's host is only in the default partition. ``silent``: ports whose tables are unknown.
    """

    pairs: int
    meets: list[Meeting]
    exceptions: list[Meeting]
    silent: list[int]


@dataclass(frozen=True)
class _Holders:
    """The ports that have a P_Key as full members, and those that have it as limited members."""

    full: set[int]
    limited: set[int]

    def partners(self, full: bool) -> set[int]:
        """Return the ports with which a member can exchange packets. ``full``: the member is a full member."""
        return self.full | self.limited if full else self.full


def isolation_of(
    guids: Iterable[int], tables: Mapping[int, Held], silent: set[int], state: State, sm: int
) -> Isolation:
    """Return the pairs of ports that can exchange packets according to ``tables``, although the partitions of ``state``
    do not permit it. One port of each pair is in ``guids``. ``tables``: PortGUID → table of every port that answered.
    ``silent``: ports that did not answer. ``sm``: the subnet manager's port.
    """
    queried, is_tenants = set(guids), bool(state.memberships(sm) - {DEFAULT_BASE})
    held, wanted = dict[int, _Holders](), dict[int, _Holders]()
    for guid, table in tables.items():
        for key in table.port:
            _enter(held, guid, key)
    meetings, exceptions, pairs = list[Meeting](), list[Meeting](), 0
    for guid in sorted(queried & tables.keys()):
        allowed = _allowed(guid, state, wanted)
        others = set().union(*allowed.values())
        for key in sorted(set(tables[guid].port)):
            base, full = key & DEFAULT_BASE, bool(key & FULL_BIT)
            met = held[base].partners(full) - (others if base == DEFAULT_BASE else allowed.get(base, set())) - {guid}
            met = {p for p in met if not (p in queried and p < guid)}  # already counted for p
            if base == DEFAULT_BASE and sm in met | {guid} and not is_tenants:
                excepted = met if guid == sm else {sm}
                exceptions += _rows(guid, excepted, base, held, {sm: MANAGER})
                met -= excepted
            pairs += len(met)
            meetings += _rows(guid, met, base, held, {sm: MANAGER_TOO} if base == DEFAULT_BASE else {})
    unknown = silent | (queried - tables.keys())
    return Isolation(pairs, meetings[:MOST_ROWS], exceptions[:MOST_ROWS], sorted(unknown))


def _enter(holders: dict[int, _Holders], guid: int, key: int) -> None:
    of_key = holders.setdefault(key & DEFAULT_BASE, _Holders(set(), set()))
    (of_key.full if key & FULL_BIT else of_key.limited).add(guid)


def _allowed(guid: int, state: State, wanted: dict[int, _Holders]) -> dict[int, set[int]]:
    """Return P_Key → ports with which ``guid`` may exchange packets, because the partition contains both."""
    out = {}
    for pkey in state.memberships(guid) - {DEFAULT_BASE}:
        partition = state.partitions.get(pkey)
        if partition is None:
            continue
        if pkey not in wanted:
            wanted[pkey] = _Holders(set(), set())
            for member in partition.members:
                _enter(wanted, member, partition.membership(member))
        out[pkey] = wanted[pkey].partners(bool(partition.membership(guid) & FULL_BIT))
    return out


def _rows(
    guid: int, met: set[int], base: int, held: Mapping[int, _Holders], reasons: Mapping[int, str]
) -> Iterable[Meeting]:
    """Yield a :class:`Meeting` of ``guid`` with each port in ``met``. ``reasons``: port → reason why it can exchange
    packets with ``guid``."""
    kind = lambda port: "full" if port in held[base].full else "limited"
    default = ", the default partition" if base == DEFAULT_BASE else ""
    for other in heapq.nsmallest(MOST_ROWS, met):
        a, b = sorted((guid, other))
        reason = reasons.get(a) or reasons.get(b) or NO_PARTITION
        yield Meeting(a, b, base, f"{kind(a)} and {kind(b)} member of {pkey_text(base)}{default}: {reason}")
