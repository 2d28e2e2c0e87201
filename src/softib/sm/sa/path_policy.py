"""A QoS policy applied to the end ports of a subnet: the level of each request for a path."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from softib.iba.constants import NodeType
from softib.sm.managers.partitions import BASE, Members, Partition
from softib.sm.managers.qos_policy import MatchRule, PortGroup, QosPolicy, Ranges
from softib.sm.sa.subnet import RATE_RANK, Subnet

__all__ = ["NONE", "PathPolicy", "unmatched"]

NONE = -1
"""Marks a component that is missing in a request, and a property that a level does not set."""
_KIND = {"CA": NodeType.CA, "SWITCH": NodeType.SWITCH, "ROUTER": NodeType.ROUTER}


class PathPolicy:
    """``sl``, ``mtu``, ``rate_rank`` and ``life`` int64[levels] are the values of each level, NONE
    if not set. Level 0 is DEFAULT."""

    def __init__(self, policy: QosPolicy, subnet: Subnet, members: Members, partitions: Sequence[Partition]):
        self.policy, self.subnet = policy, subnet
        self.groups = {g.name: self._group(g, members, partitions) for g in policy.groups}
        levels = policy.levels
        self.sl = np.array([NONE if x.sl is None else x.sl for x in levels], np.int64)
        self.mtu = np.array([NONE if x.mtu is None else x.mtu for x in levels], np.int64)
        self.rate_rank = np.array([NONE if x.rate is None else int(RATE_RANK[x.rate]) for x in levels], np.int64)
        self.life = np.array([NONE if x.packet_life is None else x.packet_life for x in levels], np.int64)
        self._level = {level.name: i for i, level in enumerate(levels)}
        self.partitions_of_level = [
            np.array(
                [
                    inside(np.array([p], np.uint64), x.pkeys, BASE)[0] if x.pkeys else True
                    for p in members.pkey.tolist()
                ],
                bool,
            )
            for x in levels
        ]
        """bool[partitions] for each level: the partitions that its paths may have."""

    def _group(self, group: PortGroup, members: Members, partitions: Sequence[Partition]) -> np.ndarray:
        """Return the ends in the group (bool[ends])."""
        s = self.subnet
        ends = inside(s.end_guid, group.guids)
        if group.names:
            names = [
                f"{s.db.name(int(n))}/P{int(s.db.port_num[p])}" for n, p in zip(s.end_node, s.end_port, strict=True)
            ]
            ends |= np.isin(np.array(names), group.names)
        rows = inside(members.pkey.astype(np.uint64), group.pkeys, BASE)
        rows |= np.array([p.name in group.partitions for p in partitions], bool)
        ends |= (members.state[rows] > 0).any(axis=0)
        kind = s.db.node_type[s.end_node]
        for name in group.node_types:
            if name == "ALL":
                ends[:] = True
            elif name == "SELF":
                ends |= s.end_port == s.db.sm_port
            else:
                ends |= kind == _KIND[name]
        return ends

    def levels(
        self,
        source: np.ndarray,
        target: np.ndarray,
        pkey: np.ndarray,
        qos_class: np.ndarray,
        service: np.ndarray,
        by_service: np.ndarray,
    ) -> np.ndarray:
        """Return int64[n]: the level of each request. ``pkey`` and ``qos_class`` int64[n] are NONE
        if not given; ``service`` uint64[n] is used where ``by_service`` is set."""
        level, left = np.zeros(len(source), np.int64), np.ones(len(source), bool)
        for rule in self.policy.rules:
            fits = left & self._ends_fit(rule, source, target)
            if rule.pkeys:
                fits &= (pkey != NONE) & inside(np.maximum(pkey, 0).astype(np.uint64), rule.pkeys, BASE)
            if rule.qos_classes:
                fits &= (qos_class != NONE) & inside(np.maximum(qos_class, 0).astype(np.uint64), rule.qos_classes)
            if rule.service_ids:
                fits &= by_service & inside(service, rule.service_ids)
            level[fits] = self._level[rule.level]
            left &= ~fits
        return level

    def _ends_fit(self, rule: MatchRule, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        def among(names: tuple[str, ...], end: np.ndarray) -> np.ndarray:
            return np.asarray(np.logical_or.reduce([self.groups[name][end] for name in names]))

        fits = np.ones(len(source), bool)
        if rule.either:
            return among(rule.sources, source) | among(rule.sources, target)
        if rule.sources:
            fits &= among(rule.sources, source)
        if rule.targets:
            fits &= among(rule.targets, target)
        return fits


def unmatched(subnet: Subnet, members: Members) -> list[str]:
    """Return notes on port groups of the QoS policy that contain no port of the subnet; rules with
    these groups match no request."""
    policy = subnet.config.qos_policy
    if policy is None:
        return []
    groups = PathPolicy(policy, subnet, members, subnet.config.known_partitions).groups
    return [
        f"QoS policy: no port here is in the port-group {name!r}; its rules match no port"
        for name, ends in groups.items()
        if not ends.any()
    ]


def inside(values: np.ndarray, ranges: Ranges, mask: int = (1 << 64) - 1) -> np.ndarray:
    """Return bool[n]: whether ``values`` uint64[n], masked with ``mask``, are within one of the ranges."""
    within = np.zeros(len(values), bool)
    cut = np.asarray(values, np.uint64) & np.uint64(mask)
    for first, last in ranges:
        within |= (cut >= np.uint64(first & mask)) & (cut <= np.uint64(last & mask))
    return within
