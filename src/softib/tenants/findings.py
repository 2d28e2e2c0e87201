"""Findings for the operator: refused packets, and partitions that do not isolate their members or do not work."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from softib.plural import counted
from softib.tenants.intruders import BAD_QKEY
from softib.tenants.intrusions import Intrusion
from softib.tenants.model import DEFAULT_BASE, FULL_BIT, guid_text, pkey_text
from softib.tenants.state import State
from softib.tenants.subnet import SubnetView

__all__ = ["PARTITION_KINDS", "Finding", "FindingLog", "intrusion_findings", "partition_findings"]

PARTITION_KINDS = ("isolation", "index0", "qos")
"""Kinds of :func:`partition_findings`."""
KEPT = 1000
"""Maximum number of ended findings; the newest are kept."""


@dataclass(frozen=True)
class Finding:
    """A finding for the operator. ``kind``: ``drift``, ``intruder``, ``isolation``, ``index0``, ``qos``, ``manager``,
    ``requests``. ``begun_s``, ``ended_s``: clock times; ``ended_s`` is null while the finding is present.
    """

    kind: str
    where: str
    text: str
    begun_s: float | None = None
    ended_s: float | None = None


class FindingLog:
    """A log that adds times to findings. A finding lasts from the first check that reports it to the first check that
    does not. Any thread may use the log.
    """

    def __init__(self, clock: Callable[[], float], earlier: Iterable[Finding] = ()):
        """``earlier``: findings of an earlier process. The first check continues or ends those that had not ended."""
        self._clock = clock
        self._present: dict[tuple[str, str, int], Finding] = {}
        self._ended: list[Finding] = []
        self._lock = threading.Lock()
        counts = Counter[tuple[str, str]]()
        for one in earlier:
            if one.ended_s is not None:
                self._ended.append(one)
                continue
            self._present[one.kind, one.where, counts[one.kind, one.where]] = one
            counts[one.kind, one.where] += 1

    def look(self, findings: Iterable[Finding], kinds: Collection[str]) -> None:
        """Enter the result of a check: all present findings of these ``kinds``. If a finding has the same kind and
        place as an earlier one, the earlier one continues with the new text.
        """
        counts, present, now_s = Counter[tuple[str, str]](), dict[tuple[str, str, int], Finding](), self._clock()
        with self._lock:
            for one in findings:
                place = one.kind, one.where
                key = (*place, counts[place])
                counts[place] += 1
                old = self._present.get(key)
                present[key] = replace(one, begun_s=now_s if old is None else old.begun_s)
            for key, old in self._present.items():
                if key[0] not in kinds:
                    present[key] = old
                elif key not in present:
                    self._ended.append(replace(old, ended_s=now_s))
            self._present, self._ended = present, self._ended[-KEPT:]

    def all(self) -> list[Finding]:
        """Return the present findings and those that have ended."""
        with self._lock:
            return [*self._present.values(), *self._ended]


def partition_findings(state: State, view: SubnetView) -> list[Finding]:
    """Return the findings about the partitions of ``state`` on the ports of ``view``."""
    return (
        _default(state, view)
        + _assigned(state, view)
        + _unchecked(state, view)
        + _index0(state, view)
        + _qos(state, view)
    )


def intrusion_findings(intrusions: Iterable[Intrusion], view: SubnetView, now_s: float) -> list[Finding]:
    """Return one finding for each sender, target and key of refused packets. Refused packets that the service itself
    sent in the default partition are one finding, which ends when the table of the service's port has the full
    membership.
    """
    out, here = list[Finding](), guid_text(view.here)
    held, refused, former = view.tables.get(view.here), list[Intrusion](), list[Intrusion]()
    is_full = held is not None and FULL_BIT | DEFAULT_BASE in held.port
    for one in intrusions:
        ended_s = one.ended_s(now_s)
        from_service = one.where == here and one.trap != BAD_QKEY and one.key & DEFAULT_BASE == DEFAULT_BASE
        if not from_service:
            out.append(Finding("intruder", one.where, str(one), one.begun_s, ended_s))
        elif ended_s is None and not is_full:
            refused.append(one)
        else:
            former.append(one)
    port = view.ports.get(view.here)
    for some, is_present in ((refused, True), (former, False)):
        if not some:
            continue
        text = (
            f"{counted(sum(one.count for one in some), 'request')} of this service from "
            f"{port.name if port is not None else here}, for example for counters, were refused for their P_Key"
        )
        text += (
            ": its port is a limited member of the default partition, as are the others; add it to 0x7fff as a full "
            "member, or run the service on the subnet manager's host"
        ) * is_present
        ended_s = None if is_present else max(one.last_s for one in some)
        out.append(Finding("requests", here, text, min(one.begun_s for one in some), ended_s))
    return out


def _default(state: State, view: SubnetView) -> list[Finding]:
    """Return findings about full members of the default partition, through which ports of different partitions can
    exchange packets.
    """
    manager = view.manager
    name_of = lambda guid: view.ports[guid].name if guid in view.ports else guid_text(guid)
    named = [p for p in list(state.partitions.values()) if p.members and p.pkey != DEFAULT_BASE]
    guids = {guid for p in named for guid in p.members}
    full = sorted(g for g in guids - {manager} if state.partitions[DEFAULT_BASE].membership(g) & FULL_BIT)
    out = []
    if full and len(named) > 1:
        text = (
            f"full members of the default partition 0x7fff, through which every port can reach them, are "
            f"{counted(len(full), 'member')} of partitions, such as {name_of(full[0])}; PUT "
            f'/tenants/v1/default_membership {{"membership": "limited"}}, and remove them from 0x7fff'
        )
        out.append(Finding("isolation", pkey_text(DEFAULT_BASE), text))
    if manager in guids:
        keys = ", ".join(map(pkey_text, sorted(state.memberships(manager) - {DEFAULT_BASE})[:4]))
        text = (
            f"{name_of(manager)} is the subnet manager's port, a full member of the default partition, and in "
            f"{keys}: every port can reach it; run the manager on a host without a partition"
        )
        out.append(Finding("isolation", guid_text(manager), text))
    return out


def _assigned(state: State, view: SubnetView) -> list[Finding]:
    """Return findings about tenants to which the present subnet manager's port is assigned. The assignment was possible
    because the manager was on another port at that time.
    """
    text = guid_text(view.manager)
    port = view.ports.get(view.manager)
    return [
        Finding(
            "isolation",
            text,
            f"{port.name if port else text} is the subnet manager's port, and is assigned to tenant {tenant.name}, "
            f"whose accounts cannot add it to a partition: PUT /tenants/v1/tenants/{tenant.name} with ports without "
            f"it, or run the manager on another host",
        )
        for tenant in list(state.tenants.values())
        if view.manager and text in (tenant.ports or ())
    ]


def _unchecked(state: State, view: SubnetView) -> list[Finding]:
    """Return findings about members whose switch port does not check P_Keys, so that root on their hosts can enter any
    partition.
    """
    guids = sorted(guid for guid in view.unchecked if state.memberships(guid) - {DEFAULT_BASE})
    if not guids:
        return []
    full = [g for g in guids if 0 < view.room(g) < len(state.memberships(g) | {DEFAULT_BASE})]
    out = []
    for some, advice in (
        ([g for g in guids if g not in full], "set part_enforce both in the manager's options"),
        (full, "their P_Keys fill the tables of these switch ports, so OpenSM disables the check; remove a partition"),
    ):
        if some:
            name = view.ports[some[0]].name if some[0] in view.ports else guid_text(some[0])
            members = counted(len(some), "member")
            text = f"switches do not check the P_Keys of {members} of partitions, such as {name}; {advice}"
            out.append(Finding("isolation", guid_text(some[0]), text))
    return out


def _index0(state: State, view: SubnetView) -> list[Finding]:
    first: dict[int, list[int]] = {}
    for partition in list(state.partitions.values()):
        if partition.index0:
            for guid in partition.members if partition.pkey != DEFAULT_BASE else ():
                first.setdefault(guid, []).append(partition.pkey)
    manager = view.manager
    out = []
    if manager in first:
        text = (
            f"{guid_text(manager)} is the subnet manager's port, and {pkey_text(min(first[manager]))} wants index "
            f"0 of it, where management needs the default P_Key; no member has it there until you remove this port, or "
            f"run the manager on another host"
        )
        out.append(Finding("index0", guid_text(manager), text))
    return out + [
        Finding(
            "index0",
            guid_text(guid),
            f"{guid_text(guid)} is in {len(pkeys)} partitions that want index 0 "
            f"({', '.join(map(pkey_text, sorted(pkeys)[:4]))}); {pkey_text(min(pkeys))} has it",
        )
        for guid, pkeys in sorted(first.items())
        if len(pkeys) > 1
    ]


def _qos(state: State, view: SubnetView) -> list[Finding]:
    """Return findings about partitions whose MTU or rate a member's port does not support, so that no path or multicast
    group can have this MTU or rate.
    """
    out = []
    for partition in list(state.partitions.values()):
        mtu = partition.qos.codes[0]
        small = sorted(g for g in partition.members if 0 < (p.mtu if (p := view.ports.get(g)) else 0) < mtu)
        if small:
            text = (
                f"{pkey_text(partition.pkey)} wants an MTU of {partition.qos.mtu}k and {len(small)} of its ports, "
                f"{view.ports[small[0]].name} among them, have less; they cannot join its IPoIB group"
            )
            out.append(Finding("qos", pkey_text(partition.pkey), text))
    return out
