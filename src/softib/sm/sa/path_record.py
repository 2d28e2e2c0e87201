"""PathRecord (IBA 15.2.5.16): paths in the forwarding tables, for any number of pairs at the same
time.

MTU and rate are the smallest on the path. Both ends have the P_Key. The SL is that of the engine,
or if it assigns none, that of the partition. If the DGID is in another subnet, the path leads to a
router of this subnet (IBA chapter 19). With an LMC, pairs of LIDs are in OpenSM's order: first
pairs neither of whose LIDs is in an earlier pair, then all others.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from softib.iba.sa import PathRecord as R
from softib.iba.sa import SaStatus, Selector, mask_of
from softib.sm.kernels import Hops, PathFields, walk, write_paths
from softib.sm.managers.mcast_mgr import Group
from softib.sm.managers.partitions import Members
from softib.sm.sa.path_policy import NONE, PathPolicy
from softib.sm.sa.subnet import RATE_OF_RANK, RATE_RANK, Subnet

__all__ = ["ANY", "MOST_RECORDS", "Paths", "hops_table", "path_to_group"]

ANY = -1
MOST_RECORDS = 1 << 20
"""Maximum number of records in an answer (64 MiB). A request for all pairs of 13,000 ports gets
NO_RESOURCES."""
MOST_LID_PAIRS = 128
NUMB_PATH_DEFAULT = 127
LOOPBACK_LIFE = 0
HOP_LIMIT_MAX = 255
"""HopLimit of a path to another subnet (OpenSM's IB_HOPLIMIT_MAX)."""
BIT = {name: np.uint64(mask_of(R, name)) for name in R.fields if not name.startswith("_")}
ECHOED = ("service_id", "tclass", "flow_label", "qos_class")
"""Components that a query may state although they do not affect the path. The answer repeats them.
"""
ECHOED_BITS = np.bitwise_or.reduce([BIT[name] for name in ECHOED])


class Paths:
    """Answers for one subnet and its partitions."""

    def __init__(self, subnet: Subnet, members: Members):
        self.subnet, self.members = subnet, members
        policy, partitions = subnet.config.qos_policy, subnet.config.known_partitions
        self.policy = None if policy is None else PathPolicy(policy, subnet, members, partitions)

    # -- ends --

    def ends(self, q: np.ndarray, mask: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (source end, target end, status) of each query (uint8[n, 64], uint64[n]); an end
        that is not given is ANY."""
        status = np.zeros(len(q), np.uint16)
        source = self._end(q, mask, "sgid", "slid", status)
        target = self._end(q, mask, "dgid", "dlid", status)
        return source, target, status

    def _end(self, q: np.ndarray, mask: np.ndarray, gid_name: str, lid_name: str, status: np.ndarray) -> np.ndarray:
        by_gid, by_lid = (mask & BIT[gid_name]) > 0, (mask & BIT[lid_name]) > 0
        end = np.full(len(q), ANY)
        if by_gid.any():
            gid = R.fields[gid_name].get(q[by_gid])
            ends = self.subnet.ends_of_gid(gid)
            if gid_name == "dgid" and (away := self.subnet.is_off_subnet(gid)).any():
                ends[away] = self.subnet.routers_of_gid(gid[away])
            end[by_gid] = ends
            status[np.flatnonzero(by_gid)[ends < 0]] = SaStatus.REQ_INVALID_GID
        if by_lid.any():
            rows = np.flatnonzero(by_lid)
            ends = self.subnet.end_of_lid[R.fields[lid_name].get(q[rows])].astype(np.int64)
            status[rows[(ends < 0) & (status[rows] == 0)]] = SaStatus.NO_RECORDS
            same = (end[rows] == ends) | (
                self.subnet.end_lid[end[rows]] == self.subnet.end_lid[ends]
            )  # several virtual ports may have the same LID
            status[rows[by_gid[rows] & ~same & (status[rows] == 0)]] = SaStatus.REQ_INVALID
            end[rows] = np.where(by_gid[rows] & same, end[rows], ends)
        return end

    # -- answers --

    def gets(
        self, q: np.ndarray, mask: np.ndarray, source: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the best path of each pair (all ends given): (records uint8[n, 64], bool[n] where a path exists)."""
        records, owner = self.between(q, mask, source, target, np.ones(len(q), np.int64))
        out, there = np.zeros((len(q), R.size), np.uint8), np.zeros(len(q), bool)
        out[owner], there[owner] = records, True
        return out, there

    def table(self, q: np.ndarray, mask: np.ndarray, source: int, target: int, most: int) -> np.ndarray | None:
        """Return all paths for one query (uint8[1, 64], uint64[1]), at most ``most`` per pair; None
        if there are too many."""
        n = len(self.subnet)
        from_ = np.arange(n) if source == ANY else np.array([source])
        to = np.arange(n) if target == ANY else np.array([target])
        copies = 1 << int(self.subnet.end_lmc[from_].max(initial=0)) if most > 1 else 1
        if len(from_) * len(to) * min(most, copies) > MOST_RECORDS:
            return None
        pairs = len(from_) * len(to)
        records, _ = self.between(
            np.broadcast_to(q, (pairs, R.size)),
            np.broadcast_to(mask, pairs),
            np.tile(from_, len(to)),
            np.repeat(to, len(from_)),
            np.full(pairs, most),
        )
        return records

    def between(
        self, q: np.ndarray, mask: np.ndarray, source: np.ndarray, target: np.ndarray, most: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (records, row of the query of each) for pairs of ends, up to ``most[i]`` each."""
        row, slid, dlid = self._lid_pairs(q, mask, source, target)
        records, good = self._solve(q[row], mask[row], source[row], target[row], slid, dlid)
        row = row[good]
        first = np.searchsorted(row, row)
        few = np.arange(len(row)) - first < most[row]
        return records[good][few], row[few]

    def _lid_pairs(
        self, q: np.ndarray, mask: np.ndarray, source: np.ndarray, target: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        s = self.subnet
        slid, dlid = s.end_lid[source], s.end_lid[target]
        given_s, given_d = (mask & BIT["slid"]) > 0, (mask & BIT["dlid"]) > 0
        wide_s, wide_d = np.where(given_s, 0, s.end_lmc[source]), np.where(given_d, 0, s.end_lmc[target])
        slid, dlid = np.where(given_s, R.slid.get(q), slid), np.where(given_d, R.dlid.get(q), dlid)
        if not (wide_s | wide_d).any():
            return np.arange(len(q)), slid, dlid
        rows, slids, dlids = [], [], []
        for kind in np.unique(wide_s * 8 + wide_d).tolist():
            which = np.flatnonzero(wide_s * 8 + wide_d == kind)
            more_s, more_d = _offsets(1 << kind // 8, 1 << kind % 8)
            rows.append(np.repeat(which, len(more_s)))
            slids.append((slid[which][:, None] + more_s).ravel())
            dlids.append((dlid[which][:, None] + more_d).ravel())
        row = np.concatenate(rows)
        order = np.argsort(row, kind="stable")
        return row[order], np.concatenate(slids)[order], np.concatenate(dlids)[order]

    def _solve(
        self,
        q: np.ndarray,
        mask: np.ndarray,
        source: np.ndarray,
        target: np.ndarray,
        slid: np.ndarray,
        dlid: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        s, n = self.subnet, len(q)
        hops, mtu, rank = np.empty(n, np.int16), np.zeros(n, np.uint8), np.zeros(n, np.uint8)
        walk(hops_table(s), s.end_port[source], s.end_port[target], dlid, hops, mtu, rank)
        wanted = np.where(mask & BIT["pkey"], R.pkey.get(q).astype(np.int64), -1)
        level = self._levels(q, mask, source, target, wanted)
        pkey, sl = self._partition(source, target, wanted, level)
        life = np.where(source == target, LOOPBACK_LIFE, s.config.subnet_timeout).astype(np.int64)
        sl_fits = np.ones(n, bool)
        if self.policy is not None:
            p = self.policy
            mtu = _least(mtu, p.mtu[level]).astype(np.uint8)
            rank = _least(rank, p.rate_rank[level]).astype(np.uint8)
            life = np.where((p.life[level] != NONE) & (source != target), p.life[level], life)
            sl_fits = (p.sl[level] == NONE) | ((mask & BIT["sl"]) == 0) | (R.sl.get(q) == p.sl[level])
            sl = np.where(p.sl[level] != NONE, p.sl[level], sl)
        sl, sl_ok = self._sl(q, mask, source, target, sl)
        sl_ok &= sl_fits
        mtu, mtu_ok = _chosen(q, mask, "mtu", mtu.astype(np.int64), R.mtu.get(q).astype(np.int64))
        rate_wanted = RATE_RANK[R.rate.get(q)].astype(np.int64)
        rank, rate_ok = _chosen(q, mask, "rate", rank.astype(np.int64), rate_wanted)
        life, life_ok = _chosen(q, mask, "packet_life_time", life, R.packet_life_time.get(q).astype(np.int64))
        good = (hops >= 0) & (pkey >= 0) & mtu_ok & rate_ok & life_ok & sl_ok
        out = R.zeros(n)
        for name in ECHOED if (mask & ECHOED_BITS).any() else ():
            given = (mask & BIT[name]) > 0
            if given.any():
                R.fields[name].set(out, np.where(given, R.fields[name].get(q), 0))
        numbers = [
            np.asarray(x, np.int64) for x in (slid, dlid, np.maximum(pkey, 0), sl, mtu, RATE_OF_RANK[rank], life)
        ]
        guids = [s.end_guid[source], s.end_guid[target]]
        if len(s.alias_guid):  # a record contains the GID by which the query names the port
            names = ("sgid", "dgid")
            requested = [R.fields[name].get(q)[:, 1] for name in names]
            guids = [np.where(mask & BIT[k] > 0, a, g) for k, a, g in zip(names, requested, guids, strict=True)]
        fields = PathFields(guids[0], guids[1], *numbers)
        write_paths(np.uint64(s.config.subnet_prefix), fields, out)
        self._off_subnet(q, mask, out)
        return out, good

    def _off_subnet(self, q: np.ndarray, mask: np.ndarray, out: np.ndarray) -> None:
        """Complete paths to GIDs of other subnets: they lead to a router, contain the GID, and may
        pass any number of routers."""
        dgid = R.dgid.get(q)
        away = np.flatnonzero((mask & BIT["dgid"] > 0) & self.subnet.is_off_subnet(dgid))
        if len(away):
            R.dgid.set(out, dgid[away], away)
            R.hop_limit.set(out, HOP_LIMIT_MAX, away)

    def _levels(
        self, q: np.ndarray, mask: np.ndarray, source: np.ndarray, target: np.ndarray, pkey: np.ndarray
    ) -> np.ndarray:
        """Return int64[n]: the QoS level of each request, 0 without a policy."""
        if self.policy is None:
            return np.zeros(len(q), np.int64)
        qos_class = np.where(mask & BIT["qos_class"], R.qos_class.get(q).astype(np.int64), NONE)
        return self.policy.levels(
            source, target, pkey, qos_class, R.service_id.get(q), (mask & BIT["service_id"]) == BIT["service_id"]
        )

    def _partition(
        self, source: np.ndarray, target: np.ndarray, wanted: np.ndarray, level: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return (P_Key, SL) of each pair, from the partitions that its level permits."""
        if self.policy is None or all(rows.all() for rows in self.policy.partitions_of_level):
            return self.members.common(source, target, wanted)
        pkey, sl = np.full(len(source), -1), np.zeros(len(source), np.uint8)
        for number in np.unique(level).tolist():
            pairs, rows = np.flatnonzero(level == number), self.policy.partitions_of_level[number]
            m = self.members
            allowed = Members(m.pkey[rows], m.state[rows], m.sl[rows])
            pkey[pairs], sl[pairs] = allowed.common(source[pairs], target[pairs], wanted[pairs])
        return pkey, sl

    def _sl(
        self, q: np.ndarray, mask: np.ndarray, source: np.ndarray, target: np.ndarray, sl: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        selected, wanted = (mask & BIT["sl"]) > 0, R.sl.get(q)
        table = self.subnet.routing.path_sl
        if table is None:
            return np.where(selected, wanted, sl), np.ones(len(q), bool)
        a, b = self.subnet.path_sl_row[source], self.subnet.graph_end[target]
        path_sl = table[a, b]
        return path_sl, ~selected | (path_sl == wanted)


def _least(have: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Return the lower of both limits. NONE means that there is no limit."""
    return np.where(limit == NONE, have, np.minimum(have, limit))


def _chosen(
    q: np.ndarray, mask: np.ndarray, name: str, have: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the MTU, rate or lifetime for a path whose capability is ``have``, and whether the
    path satisfies the request (IBA 15.2.5.16, selectors).

    If a request is for exactly, or less than, a value that the path exceeds, the result is the
    requested value, because a path may be used below its limit.
    """
    selected = ((mask & BIT[name]) > 0) & ((mask & BIT[f"{name}_selector"]) > 0)
    if not selected.any():
        return have, np.ones(len(have), bool)
    selector = R.fields[f"{name}_selector"].get(q)
    least = 0 if name == "packet_life_time" else 1
    value = np.where(selected & (selector == Selector.LESS), np.minimum(have, wanted - 1), have)
    value = np.where(selected & (selector == Selector.EXACTLY), wanted, value)
    good = ~selected | (selector == Selector.LARGEST)
    good |= (selector == Selector.GREATER) & (have > wanted)
    good |= (selector == Selector.LESS) & (wanted - 1 >= least)
    good |= (selector == Selector.EXACTLY) & (have >= wanted) & (wanted >= least)
    return np.where(good, value, 0), good


@functools.cache
def _offsets(sources: int, targets: int) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets from the base LIDs of source and destination: first the diagonal (paths that
    have no LID in common), then the others, by source."""
    both = min(sources, targets)
    pairs = [(i, i) for i in range(both)]
    pairs += [(i, j) for i in range(sources) for j in range(targets) if i != j or i >= both]
    chosen = np.array(pairs[:MOST_LID_PAIRS])
    return chosen[:, 0], chosen[:, 1]


def hops_table(s: Subnet) -> Any:
    """Return the tables and cables that :func:`~softib.sm.kernels.walk` follows."""
    db = s.db
    return Hops(
        s.routing.lft, s.switch_of_node, db.node_base, db.node_nports, db.port_node, db.port_peer, s.mtu, s.rate_rank
    )


def path_to_group(subnet: Subnet, group: Group, source: int) -> np.ndarray:
    """Return uint8[64]: the path from an end to a multicast group."""
    exactly = int(Selector.EXACTLY)
    sgid = np.array([subnet.config.subnet_prefix, int(subnet.end_guid[source])], np.uint64)
    return R.pack(
        dgid=np.frombuffer(group.mgid, ">u8").astype(np.uint64),
        sgid=sgid,
        dlid=group.mlid,
        slid=int(subnet.end_lid[source]),
        flow_label=group.flow_label,
        hop_limit=group.hop_limit,
        tclass=group.tclass,
        reversible=1,
        pkey=group.pkey,
        sl=group.sl,
        mtu_selector=exactly,
        mtu=group.mtu,
        rate_selector=exactly,
        rate=group.rate,
        packet_life_time_selector=exactly,
        packet_life_time=group.packet_life_time,
    )
