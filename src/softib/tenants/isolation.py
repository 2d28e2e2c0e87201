"""Find ports that can exchange packets although no partition joins them, from the P_Key tables of
the whole subnet.

Two ports exchange packets with each P_Key that is in both tables, if one of the ports is a full
member (IBA 10.9.3). Membership in the default partition is not a permission: every port is in it.
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
    """``pairs``: number of pairs that can exchange packets, of which ``meets`` lists the first;
    ``exceptions``: paths to a subnet manager whose host is only in the default partition;
    ``silent``: ports with unknown tables."""

    pairs: int
    meets: list[Meeting]
    exceptions: list[Meeting]
    silent: list[int]


@dataclass(frozen=True)
class _Holders:
    """The ports with a P_Key: full and limited members."""

    full: set[int]
    limited: set[int]

    def partners(self, full: bool) -> set[int]:
        """Return the ports that exchange packets with a full or a limited member."""
        return self.full | self.limited if full else self.full


def isolation_of(
    guids: Iterable[int], tables: Mapping[int, Held], silent: set[int], state: State, sm: int
) -> Isolation:
    """Return the pairs of one of ``guids`` with any port that can exchange packets according to
    ``tables`` (PortGUID → table of every port that answered), although the partitions of ``state``
    do not permit it. ``silent``: ports that did not answer; ``sm``: the subnet manager's port."""
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
            met = {p for p in met if not (p in queried and p < guid)}  # counted there
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
    """Return P_Key → ports with which ``guid`` may exchange packets, by the partitions that contain both."""
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
    """Yield a meeting for each of ``met``; ``reasons``: those of pairs with these ports."""
    kind = lambda port: "full" if port in held[base].full else "limited"
    default = ", the default partition" if base == DEFAULT_BASE else ""
    for other in heapq.nsmallest(MOST_ROWS, met):
        a, b = sorted((guid, other))
        reason = reasons.get(a) or reasons.get(b) or NO_PARTITION
        yield Meeting(a, b, base, f"{kind(a)} and {kind(b)} member of {pkey_text(base)}{default}: {reason}")
