"""MCMemberRecord (IBA 15.2.5.17): joining, leaving, creating and listing multicast groups."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import DEFAULT_PKEY
from softib.iba.sa import JoinState, SaStatus, Selector, mask_of
from softib.iba.sa import MCMemberRecord as R
from softib.sm.journal import Kind
from softib.sm.managers.mcast_mgr import Group, McastManager, Member, has_full
from softib.sm.managers.partitions import Members
from softib.sm.sa.message import Answer, Request, matching
from softib.sm.sa.subnet import RATE_OF_RANK, RATE_RANK, Subnet

__all__ = ["Multicast", "group_record"]

E = SaStatus
FULL = int(JoinState.FULL | JoinState.SEND_ONLY_FULL)
JOIN = mask_of(R, "mgid", "port_gid", "join_state")
CREATE = mask_of(R, "port_gid", "join_state", "qkey", "pkey", "sl", "flow_label", "tclass")
"""Components that are required to create a group (IBA o15-0.1.2)."""
BIT = {name: mask_of(R, name) for name in R.fields if not name.startswith("_")}
LEVELS = BIT["mtu"] | BIT["rate"] | BIT["packet_life_time"]
FIXED = ("qkey", "pkey", "sl", "flow_label", "hop_limit", "tclass", "mlid", "scope")
"""Components that must equal those of the group if the request states them."""
SA_SIGNATURE = b"\xa0\x1b"
"""Bytes 2-3 of MGIDs that the SA creates."""
DEFAULT_SCOPE = 2
LINK_LOCAL = 2


def group_record(group: Group, gid: tuple[int, int] = (0, 0), member: Member | None = None) -> np.ndarray:
    """Return uint8[56]: the group, or one of its members."""
    exactly = int(Selector.EXACTLY)
    mgid = np.frombuffer(group.mgid, ">u8").astype(np.uint64)
    return R.pack(
        mgid=mgid,
        port_gid=np.array(gid, np.uint64),
        qkey=group.qkey,
        mlid=group.mlid,
        mtu_selector=exactly,
        mtu=group.mtu,
        tclass=group.tclass,
        pkey=group.pkey,
        rate_selector=exactly,
        rate=group.rate,
        packet_life_time_selector=exactly,
        packet_life_time=group.packet_life_time,
        sl=group.sl,
        flow_label=group.flow_label,
        hop_limit=group.hop_limit,
        scope=group.scope,
        join_state=member.join_state if member else 0,
        proxy_join=int(member.proxy) if member else 0,
    )


class Multicast:
    """Requests about groups. ``events`` collects (trap 66 or 67, MGID)."""

    def __init__(self, groups: McastManager):
        self.groups = groups
        self.events: list[tuple[int, bytes]] = []
        self.made = 0
        """MGIDs created so far."""

    # -- joining --

    def join(self, subnet: Subnet, members: Members, r: Request) -> Answer:
        """Set: join, or create and join."""
        port, status = self._port(subnet, r)
        if status:
            return Answer(status)
        state = int(R.join_state.get(r.data))
        mgid = r.data[:16].tobytes()
        group = self.groups.groups.get(mgid) if r.comp_mask & BIT["mgid"] else None
        pkey = int(R.pkey.get(r.data)) if group is None else group.pkey
        if (group is None and r.comp_mask & CREATE != CREATE) or not r.comp_mask & JOIN & ~BIT["mgid"]:
            return Answer(E.REQ_INSUFFICIENT_COMPONENTS)
        if not members.has(port, pkey & 0x7FFF) or (r.end >= 0 and not members.has(r.end, pkey & 0x7FFF)):
            return Answer(E.REQ_INVALID)
        if group is None:
            new = self._create(subnet, r, port, mgid, state)
            if isinstance(new, int):
                return Answer(new)
            group = new
        elif not self._fits(subnet, r, port, group):
            return Answer(E.REQ_INVALID)
        guid = int(subnet.end_guid[port])
        member = group.members.setdefault(guid, Member(0))
        if member.join_state | state != member.join_state:
            self.groups.changed.add(group.mlid)
        member.join_state |= state
        member.proxy = member.proxy or r.end != port
        self.groups.note_members(group, (guid,))
        gid = (subnet.config.subnet_prefix, guid)
        return Answer(records=group_record(group, gid, member)[None])

    def _port(self, subnet: Subnet, r: Request) -> tuple[int, int]:
        """Return (end that joins or leaves, status)."""
        needed = BIT["port_gid"] | BIT["join_state"]
        if r.comp_mask & needed != needed:
            return -1, E.REQ_INSUFFICIENT_COMPONENTS
        if not int(R.join_state.get(r.data)):
            return -1, E.REQ_INVALID
        end = int(subnet.ends_of_gid(R.port_gid.get(r.data)[None])[0])
        return (end, 0) if end >= 0 else (-1, E.REQ_INVALID_GID)

    def _create(self, subnet: Subnet, r: Request, port: int, mgid: bytes, state: int) -> Group | int:
        if not state & FULL:
            return int(E.REQ_INVALID)
        if not any(mgid) or not r.comp_mask & BIT["mgid"]:
            mgid = self._new_mgid(int(R.scope.get(r.data)) if r.comp_mask & BIT["scope"] else DEFAULT_SCOPE)
        elif not _allowed(mgid):
            return int(E.REQ_INVALID)
        mtu = self._level(r, "mtu", int(subnet.mtu[subnet.end_port[port]]), 1)
        rank = self._level(r, "rate", int(subnet.rate_rank[subnet.end_port[port]]), 1)
        life = self._level(r, "packet_life_time", subnet.config.subnet_timeout, 0, most=63)
        if mtu is None or rank is None or life is None:
            return int(E.REQ_INVALID)
        given = {f: int(R.fields[f].get(r.data)) for f in ("qkey", "pkey", "sl", "tclass", "flow_label")}
        hops = int(R.hop_limit.get(r.data)) if r.comp_mask & BIT["hop_limit"] else 0
        group = self.groups.add(
            mgid,
            self.groups.limit(subnet),
            mtu=mtu,
            rate=int(RATE_OF_RANK[rank]),
            packet_life_time=life,
            hop_limit=hops,
            **given,
        )
        if group is None:
            return int(E.NO_RESOURCES)
        self.events.append((66, mgid))
        return group

    def _level(self, r: Request, name: str, have: int, least: int, most: int | None = None) -> int | None:
        """Return MTU, rate (as a rank) or lifetime of a new group. If the request does not state
        it, it is the port's value."""
        if not r.comp_mask & BIT[name] or not r.comp_mask & BIT[f"{name}_selector"]:
            return have
        wanted, selector = int(R.fields[name].get(r.data)), int(R.fields[f"{name}_selector"].get(r.data))
        if name == "rate":
            wanted = int(RATE_RANK[wanted])
        if name == "packet_life_time":
            chosen = {Selector.GREATER: wanted + 1, Selector.LESS: wanted - 1, Selector.EXACTLY: wanted}.get(
                Selector(selector), have
            )
        elif selector == Selector.GREATER:
            chosen = have if have > wanted else -1
        else:
            chosen = {Selector.LESS: min(have, wanted - 1), Selector.EXACTLY: wanted}.get(Selector(selector), have)
        return chosen if least <= chosen <= (have if most is None else most) else None

    def _new_mgid(self, scope: int) -> bytes:
        while True:
            self.made += 1
            self.groups.journal.note(bytes((Kind.MADE,)))
            mgid = bytes((0xFF, 0x10 | scope)) + SA_SIGNATURE + bytes(8) + self.made.to_bytes(4, "big")
            if mgid not in self.groups.groups:
                return mgid

    def _fits(self, subnet: Subnet, r: Request, port: int, group: Group) -> bool:
        """Return whether the port may join the group with this request: all components that must be
        equal are equal, and the port supports the group's MTU and rate."""
        for name in FIXED:
            if r.comp_mask & BIT[name] and int(R.fields[name].get(r.data)) != getattr(group, name):
                return False
        row = subnet.end_port[port]
        if int(subnet.mtu[row]) < group.mtu or int(subnet.rate_rank[row]) < int(RATE_RANK[group.rate]):
            return False
        if not r.comp_mask & LEVELS:
            return True
        return bool(self._levels_match(group_record(group)[None], r, Selector.LARGEST)[0])

    # -- leaving --

    def leave(self, subnet: Subnet, members: Members, r: Request) -> Answer:
        """Delete: leave; the group ends when its last full member leaves (IBA o15-0.1.14)."""
        if not r.comp_mask & BIT["mgid"]:
            return Answer(E.REQ_INSUFFICIENT_COMPONENTS)
        port, status = self._port(subnet, r)
        if status:
            return Answer(status)
        group = self.groups.groups.get(r.data[:16].tobytes())
        guid, state = int(subnet.end_guid[port]), int(R.join_state.get(r.data))
        member = group.members.get(guid) if group is not None else None
        if group is None or member is None or state & ~member.join_state:
            return Answer(E.REQ_INVALID)
        if member.proxy is False and r.end != port and not r.trusted:
            return Answer(E.REQ_DENIED)
        # The answer contains the remaining JoinState, which is 0 if the membership ended (as in
        # OpenSM; osmtest checks it).
        left = Member(member.join_state & ~state, member.proxy)
        record = group_record(group, (subnet.config.subnet_prefix, guid), left)
        member.join_state &= ~state
        self.groups.note_members(group, (guid,))
        if not member.join_state:
            del group.members[guid]
        self.groups.changed.add(group.mlid)
        if not has_full(group):
            self.groups.remove(group)
            self.events.append((67, group.mgid))
        return Answer(records=record[None])

    # -- listing --

    def list(self, subnet: Subnet, members: Members, r: Request) -> Answer:
        """Get, GetTable: trusted requesters see every member, others only the groups (IBA 15.4.1.2;
        as in OpenSM)."""
        rows = []
        for group in sorted(self.groups.groups.values(), key=lambda g: g.mlid):
            if not r.trusted and r.end >= 0 and not members.has(r.end, group.pkey & 0x7FFF):
                continue
            if r.trusted:
                prefix = subnet.config.subnet_prefix
                rows += [group_record(group, (prefix, guid), m) for guid, m in sorted(group.members.items())]
            else:
                rows.append(group_record(group))
        table = np.stack(rows) if rows else R.zeros(0)
        selectors = frozenset(n for n in BIT if n.endswith("_selector")) | {"mtu", "rate", "packet_life_time"}
        groups = table[matching(R, table, r.comp_mask, r.data[: R.size], selectors)]
        return Answer(records=groups[self._levels_match(groups, r, Selector.EXACTLY)])

    def _levels_match(self, table: np.ndarray, r: Request, unstated: Selector) -> np.ndarray:
        """Return a mask (bool[n]) of the groups (uint8[n, 56]) whose MTU, rate and lifetime match
        the request. ``unstated`` is the selector for a value that comes without one."""
        keep = np.ones(len(table), bool)
        for name in ("mtu", "rate", "packet_life_time"):
            if not r.comp_mask & BIT[name]:
                continue
            have, wanted = R.fields[name].get(table), R.fields[name].get(r.data)
            if name == "rate":
                have, wanted = RATE_RANK[have], RATE_RANK[wanted]
            stated = r.comp_mask & BIT[f"{name}_selector"]
            selector = int(R.fields[f"{name}_selector"].get(r.data)) if stated else int(unstated)
            keep &= (have > wanted, have < wanted, have == wanted, np.ones(len(table), bool))[selector]
        return keep


def _allowed(mgid: bytes) -> bool:
    """Return whether a request may use this MGID. It must be a multicast GID with a valid scope and
    no reserved flag, and must not be one of the link-local MGIDs that the SA creates (IBA 4.1.1,
    15.2.5.17.2). Scope 15 is permitted as in OpenSM, whose osmtest requests it."""
    scope, flags = mgid[1] & 15, mgid[1] >> 4
    made_up = mgid[2:4] == SA_SIGNATURE and scope == LINK_LOCAL
    return mgid[0] == 0xFF and flags <= 1 and scope > 0 and not made_up


def broadcast_mgid(pkey: int, scope: int = DEFAULT_SCOPE) -> bytes:
    """Return the MGID of a partition's IPoIB broadcast group (RFC 4391, 4)."""
    full = (pkey | DEFAULT_PKEY & 0x8000).to_bytes(2, "big")
    return bytes((0xFF, 0x10 | scope, 0x40, 0x1B)) + full + bytes(6) + b"\xff\xff\xff\xff"
