"""The changes that clients can request, as functions that modify a draft. If a change is invalid, they raise
:class:`InputError` and do not modify the draft.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from softib.errors import InputError, LimitError
from softib.plural import counted
from softib.tenants.model import DEFAULT_BASE, IsolatedPort, Member, Partition, Qos, Tenant, guid_text, pkey_text
from softib.tenants.state import Draft, Rows, State

__all__ = [
    "MOST_PKEYS",
    "QUARANTINE_S",
    "Change",
    "Forbidden",
    "NotThere",
    "Occupied",
    "Options",
    "Refused",
    "add_members",
    "allot",
    "check_keys",
    "check_manager",
    "check_owners",
    "check_tenants",
    "create",
    "delete_partition",
    "put_isolated",
    "put_tenant",
    "release",
    "remove_members",
    "remove_tenant",
    "restore",
    "set_everyone",
    "set_members",
    "set_qos",
    "undo",
]

MOST_PKEYS = 128
"""Maximum number of P_Keys per port, as in adapters and UFM."""
QUARANTINE_S = 3600.0
"""Time after the end of a partition for which the service does not assign its P_Key again."""
Change = Callable[[Draft], str]
"""Applies the change to a draft, and returns a line about it for the log."""


class Refused(InputError):
    """The change contradicts the present state (status 409)."""


class NotThere(InputError):
    """The object of the change does not exist (status 404)."""


class Forbidden(InputError):
    """The account may not change that (status 403)."""


@dataclass(frozen=True)
class Options:
    """Attributes of the partition in a request. None keeps the present value; a new partition gets the default."""

    name: str | None = None
    tenant: str | None = None
    index0: bool | None = None
    ip_over_ib: bool | None = None
    qos: Qos | None = None


Room = Callable[[int], int]
"""GUID → number of P_Keys for which the port's tables have room, 0 if unknown."""
Occupied = Callable[[int, Collection[int]], str]
"""(P_Key without a partition, GUIDs of the members of the partition that will get it) → a port that may still have the
P_Key and is not one of these members; "" if there is no such port.
"""


def _existing(draft: Draft, pkey: int) -> Partition:
    partition = draft.partition(pkey)
    if partition is None:
        raise NotThere(f"there is no partition with P_Key {pkey_text(pkey)}")
    return partition


def _with(draft: Draft, pkey: int, options: Options) -> Partition:
    """Return the partition with the requested attributes. It is created if it does not exist."""
    partition = draft.partition(pkey) or Partition(pkey, name=f"api_pkey_{pkey_text(pkey)}")
    given: dict[str, Any] = {
        "name": options.name,
        "tenant": options.tenant if partition.tenant == "" else None,
        "index0": options.index0,
        "ip_over_ib": options.ip_over_ib,
        "qos": options.qos,
    }
    return replace(partition, **{k: v for k, v in given.items() if v is not None})


def add_members(draft: Draft, pkey: int, members: Mapping[int, Member], options: Options, room: Room) -> str:
    """Add members to a partition, which is created if it does not exist; existing members get the membership of the
    request."""
    partition = _with(draft, pkey, options)
    draft.put(partition.with_members({**partition.members, **members}))
    _check(draft, partition, members, room)
    return f"{counted(len(members), 'GUID')} added to {pkey_text(pkey)}"


def set_members(draft: Draft, pkey: int, members: Mapping[int, Member], options: Options, room: Room) -> str:
    """Give a partition these members and no others."""
    partition = _with(draft, pkey, options)
    draft.put(partition.with_members(dict(members)))
    _check(draft, partition, members, room)
    return f"{pkey_text(pkey)} has {counted(len(members), 'GUID')}"


def remove_members(draft: Draft, pkey: int, guids: Iterable[int], repeats: bool = True) -> str:
    """Remove members. GUIDs that are not members are ignored, because clients repeat a removal if they did not get its
    answer. With ``repeats``, a partition that does not exist is also ignored.
    """
    partition = draft.partition(pkey) if repeats else _existing(draft, pkey)
    if partition is None:
        return f"{pkey_text(pkey)} does not exist"
    removed = set(guids) & partition.members.keys()
    draft.put(partition.with_members({g: m for g, m in partition.members.items() if g not in removed}))
    return f"{counted(len(removed), 'GUID')} removed from {pkey_text(pkey)}"


def create(draft: Draft, pkey: int, options: Options) -> str:
    """Create an empty partition."""
    if draft.partition(pkey) is not None:
        raise Refused(f"a partition with P_Key {pkey_text(pkey)} already exists")
    partition = _with(draft, pkey, options)
    draft.put(partition)
    _check_tenant(draft, partition)
    return f"{pkey_text(pkey)} made"


def allot(draft: Draft, options: Options, now_s: float, occupied: Occupied, first: int = 1) -> int:
    """Create an empty partition with the next free P_Key from ``first`` on, and return the P_Key. A P_Key is not free
    while it is in quarantine or may still be in a port's table.
    """
    for pkey in (*range(first, DEFAULT_BASE), *range(1, first)):
        if draft.partition(pkey) is None and draft.quarantined_until(pkey) <= now_s and not occupied(pkey, ()):
            create(draft, pkey, options)
            return pkey
    raise LimitError("no P_Key is free: 32,766 partitions exist or are in quarantine; delete some, or wait")


def delete_partition(draft: Draft, pkey: int, now_s: float, quarantine_s: float = QUARANTINE_S) -> str:
    """Delete a partition. The P_Key then enters quarantine."""
    if pkey == DEFAULT_BASE:
        raise Refused("the default partition 0x7fff cannot be deleted; remove its GUIDs, or make its members limited")
    _existing(draft, pkey)
    draft.remove(pkey, now_s + quarantine_s)
    return f"{pkey_text(pkey)} deleted"


def release(draft: Draft, pkey: int, now_s: float, occupied: Occupied) -> str:
    """End the quarantine of a P_Key without a partition. With this, the operator confirms that no port has the P_Key,
    not even ports that were not read since the partition ended.
    """
    if draft.partition(pkey) is not None:
        raise Refused(f"{pkey_text(pkey)} has a partition; it is not in quarantine")
    if draft.quarantined_until(pkey) <= now_s and not occupied(pkey, ()):
        raise NotThere(f"{pkey_text(pkey)} is not in quarantine; GET /tenants/v1/quarantine lists the P_Keys in it")
    draft.quarantine[pkey] = None
    return f"{pkey_text(pkey)} released"


def set_qos(draft: Draft, pkey: int, qos: Qos) -> str:
    """Set MTU, SL and rate of a partition."""
    draft.put(replace(_existing(draft, pkey), qos=qos))
    return f"{pkey_text(pkey)}: MTU {qos.mtu}k, SL {qos.sl}, {qos.rate:g} Gb/s"


def set_everyone(draft: Draft, membership: str) -> str:
    """Set the membership (full or limited) of all ports that the default partition does not name."""
    if membership not in ("full", "limited"):
        raise InputError(f"membership {membership[:24]!r} is not valid; use full or limited")
    draft.put(replace(_existing(draft, DEFAULT_BASE), everyone=membership))
    return f"the default partition makes ports {membership} members"


def put_isolated(draft: Draft, ports: Mapping[str, IsolatedPort | None], text: str) -> str:
    """Record ports as isolated, or (value None) as in use again. ``ports``: name that the client used → port. ``text``:
    line for the log.
    """
    draft.isolated |= ports
    return text


def put_tenant(draft: Draft, tenant: Tenant) -> str:
    """Create a tenant, or change its limit and ports."""
    if not tenant.name.strip() or len(tenant.name) > 64 or not tenant.name.isprintable():
        raise InputError(f"tenant name {tenant.name[:24]!r} is not valid; use 1 to 64 printable characters")
    draft.tenants[tenant.name] = tenant
    ports = "any port" if tenant.ports is None else counted(len(tenant.ports), "port")
    return f"tenant {tenant.name}: at most {counted(tenant.limit, 'partition')}, {ports}"


def remove_tenant(draft: Draft, name: str) -> str:
    """Remove a tenant that has no partition."""
    if draft.tenant(name) is None:
        raise NotThere(f"there is no tenant {name[:64]!r}")
    draft.tenants[name] = None
    return f"tenant {name} removed"


def check_tenants(draft: Draft, accounts_of: Callable[[str], list[str]]) -> None:
    """Raise :class:`Refused` if a change, for example an undo or a restore, leaves a partition or an account without
    its tenant, a tenant with more partitions than its limit, or a port with two tenants. ``accounts_of``: names of
    a tenant's accounts."""
    for name, tenant in draft.tenants.items():
        count, accounts = draft.partitions_of(name), accounts_of(name) if tenant is None else []
        if tenant is None and count:
            raise Refused(f"{name} still has {counted(count, 'partition')}; delete them first")
        if accounts:
            raise Refused(f"{name} still has accounts: {', '.join(accounts[:4])}; remove them first")
        if tenant is not None and count > tenant.limit:
            raise Refused(
                f"{name} has {counted(count, 'partition')}, more than the limit of {tenant.limit}; delete some first"
            )
        _check_ports(draft, name, tenant)
    for pkey, partition in draft.partitions.items():
        if partition is not None and partition.tenant and draft.tenant(partition.tenant) is None:
            raise Refused(
                f"{pkey_text(pkey)} belongs to tenant {partition.tenant}, which does not exist; create the tenant first"
            )


def _check_ports(draft: Draft, name: str, tenant: Tenant | None) -> None:
    """Raise :class:`Refused` if a port newly assigned to ``tenant`` belongs to another tenant."""
    old = draft.base.tenant(name)
    new = set((tenant and tenant.ports) or ()) - set((old and old.ports) or ())
    for other in map(draft.tenant, draft.names() - {name} if new else ()):
        if other is not None and (both := new.intersection(other.ports or ())):
            raise Refused(f"port {min(both)} is assigned to tenant {other.name}; remove it there first")
    _check_owners(draft, Partition(0, tenant=name), (int(guid, 16) for guid in sorted(new)))


def check_owners(draft: Draft, physical: Callable[[int], int]) -> None:
    """Raise :class:`Refused` if a change adds a port of one tenant to a partition of another; this also applies to
    operators. ``physical`` returns the PortGUID of the physical port to which a virtual port belongs.
    """
    for pkey, partition in draft.partitions.items():
        old = draft.base.partition(pkey)
        if partition is None or not partition.tenant:
            continue
        same = old is not None and old.tenant == partition.tenant
        new = sorted(partition.members.keys() - (old.members.keys() if old is not None and same else set()))
        if not new:
            continue
        _check_owners(draft, partition, new)
        ports = {text: guid for guid in new for text in (guid_text(guid), guid_text(physical(guid)))}
        tenant = draft.tenant(partition.tenant)
        for other in map(draft.tenant, draft.names() - {partition.tenant}):
            for text in sorted(ports.keys() & set((other and other.ports) or ())):
                if tenant is None or guid_text(ports[text]) not in (tenant.ports or ()):
                    raise Refused(
                        f"port {text} is assigned to tenant {other.name if other else ''}, and {pkey_text(pkey)} "
                        f"belongs to tenant {partition.tenant}; assign the port to {partition.tenant} first, or use a "
                        f"partition without a tenant"
                    )


def check_keys(draft: Draft, occupied: Occupied) -> None:
    """Raise :class:`Refused` if a new partition has a P_Key that a port outside it may still have."""
    for pkey, partition in draft.partitions.items():
        if partition is not None and draft.base.partition(pkey) is None and (why := occupied(pkey, partition.members)):
            raise Refused(why)


def check_manager(draft: Draft, manager: int) -> None:
    """Raise :class:`Refused` if a change adds the port of the subnet ``manager`` (0: unknown) to a partition whose
    P_Key is at index 0 of its members' tables. Management packets use the P_Key at index 0, so the manager's port must
    have the default P_Key there.
    """
    wants = lambda p: p is not None and p.index0 and manager in p.members and p.pkey != DEFAULT_BASE
    for pkey, partition in draft.partitions.items():
        if wants(partition) and not wants(draft.base.partition(pkey)):
            raise Refused(
                f"{pkey_text(pkey)}: port {guid_text(manager)} is the subnet manager's, and needs the default P_Key at "
                f"index 0; use index0 false, or leave out this port"
            )


def restore(draft: Draft, target: State, now_s: float) -> str:
    """Restore the tenants and partitions of ``target``. P_Keys of partitions that end thereby enter quarantine. Raises
    :class:`Refused` if a P_Key or port of ``target`` now belongs to another tenant.
    """
    for pkey, partition in sorted(target.partitions.items()):
        now = draft.partition(pkey)
        if now is not None and now.tenant and now.tenant != partition.tenant:
            raise Refused(f"{pkey_text(pkey)} belongs to tenant {now.tenant} now; delete it there first")
        _check_owners(draft, partition, sorted(partition.members.keys() - (now.members.keys() if now else set())))
    for name in draft.names() - target.tenants.keys():
        draft.tenants[name] = None
    for name, tenant in target.tenants.items():
        if draft.tenant(name) != tenant:
            draft.tenants[name] = tenant
    changed = 0
    for pkey in range(1, DEFAULT_BASE + 1):
        old, new = draft.partition(pkey), target.partition(pkey)
        if old == new:
            continue
        changed += 1
        if new is not None:
            draft.put(new)
        else:
            draft.remove(pkey, now_s + QUARANTINE_S)
    return f"{counted(changed, 'partition')} restored"


def undo(draft: Draft, rows: Rows, room: Room, now_s: float, later: Sequence[tuple[int, Rows]] = ()) -> str:
    """Undo a revision: restore each row that no revision in ``later`` has changed. P_Keys of partitions that end
    thereby enter quarantine. Raises :class:`Refused` if a port would return to its former tenant although it now
    belongs to another tenant.
    """
    draft.undo(rows, now_s + QUARANTINE_S, later)
    for pkey, partition in draft.partitions.items():
        if partition is not None:
            old = draft.base.partition(pkey)
            came = partition.members.keys() - (old.members.keys() if old else set())
            _check(draft, partition, {g: partition.members[g] for g in came}, room)
            _check_owners(draft, partition, sorted(came))
    keys = {(table, str(row[0])) for table, of_table in rows.items() for row in of_table}
    taken = sum((table, str(row[0])) in keys for table, of_table in draft.rows().items() for row in of_table)
    text = f"{counted(taken, 'row')} taken back"
    if taken >= len(keys):
        return text
    touched = lambda their: any((table, str(row[0])) in keys for table, of in their.items() for row in of)
    kept = next((number for number, their in reversed(later) if touched(their)), None)
    return text if kept is None else f"{text}; revision {kept} superseded {'the others' if taken else 'it'}"


def _check(draft: Draft, partition: Partition, members: Mapping[int, Member], room: Room) -> None:
    _check_tenant(draft, partition)
    for guid in members:
        pkeys = draft.memberships(guid) | {DEFAULT_BASE}
        entries = room(guid) or MOST_PKEYS
        if len(pkeys) > min(MOST_PKEYS, entries):
            raise Refused(
                f"port {guid_text(guid)} would be in {len(pkeys)} partitions, and its P_Key table or that of the "
                f"switch port in front of it has room for {min(MOST_PKEYS, entries)}; remove it from others first"
            )


def _check_owners(draft: Draft, partition: Partition, guids: Iterable[int]) -> None:
    for guid in guids if partition.tenant else ():
        for pkey in sorted(draft.memberships(guid) - {partition.pkey}):
            other = draft.partition(pkey)
            if other is not None and other.tenant not in ("", partition.tenant):
                raise Refused(
                    f"port {guid_text(guid)} cannot be in a partition of tenant {partition.tenant}, because it is in "
                    f"{pkey_text(pkey)} of tenant {other.tenant} now; remove it there first"
                )


def _check_tenant(draft: Draft, partition: Partition) -> None:
    if not partition.tenant:
        return
    tenant = draft.tenant(partition.tenant)
    if tenant is None:
        raise NotThere(f"tenant {partition.tenant[:64]!r} does not exist; create it first")
    if draft.partitions_of(tenant.name) > tenant.limit:
        raise Refused(f"tenant {tenant.name} has reached its limit of {tenant.limit} partitions; delete one first")
