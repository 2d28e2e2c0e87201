"""Finds pairs of leaves whose hosts are exchanged, and leaves whose hosts are shifted relative to other leaves. Sites
number racks in the order of their leaves, so two leaves with exchanged hosts do not follow an order that nearly all
other leaves follow. Cabling does not show whether hosts, leaves or names are exchanged, so the finding is only
information.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.diags.rules import mode
from softib.diags.view import FabricView
from softib.natural_order import natural_rank

__all__ = ["ExchangedLeaves", "ShiftedLeaf", "exchanged_leaves", "shifted_leaves"]

MIN_LEAVES = 4
"""Minimum number of leaves that follow an order, or that use the same ports, for a rule."""
MOST = 0.7
"""Minimum share of leaves that must follow the rule."""
CLEAR = 0.8
"""Minimum share of the hosts of two leaves that must be in the same order as the medians of the two leaves."""
MIN_HOSTS = 4
"""Minimum number of hosts of a leaf for this check."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class ExchangedLeaves:
    """Two leaves (nodes) ``a`` and ``b`` whose hosts are exchanged. Of ``of`` leaves, ``follow`` are in order."""

    a: int
    b: int
    follow: int
    of: int


@dataclass(frozen=True)
class ShiftedLeaf:
    """A leaf whose hosts are at ``ports`` (rows). Their port numbers are larger by ``by`` than on ``of`` similar
    leaves.
    """

    leaf: int
    ports: tuple[int, ...]
    by: int
    of: int


class _Hosts:
    """The host ports of each leaf, and the rank of each host in the order of all host names."""

    def __init__(self, view: FabricView, rank: np.ndarray):
        f = view.fabric
        _, host_port, leaf_port = view.to_hosts
        keep = rank[f.port_node[leaf_port]] == 1
        host_port, leaf_port = host_port[keep], leaf_port[keep]
        order = np.lexsort((leaf_port, f.port_node[leaf_port]))
        self.host, self.port = f.port_node[host_port][order], leaf_port[order]
        self.leaves, first = np.unique(f.port_node[self.port], return_index=True)
        self.rows = np.split(np.arange(len(self.port)), first[1:])[: len(self.leaves)]
        place = natural_rank(view.names)
        number = f.port_num[self.port]
        self.ranks = {
            int(leaf): dict(zip(number[r].tolist(), place[self.host[r]].tolist(), strict=True))
            for leaf, r in zip(self.leaves, self.rows, strict=True)
        }
        names = [_NUMBER.sub("#", view.names[n]) for n in self.host.tolist()]
        form = np.unique(names, return_inverse=True)[1].reshape(-1)
        usual = [r[form[r] == mode(form[r])[0]] for r in self.rows]  # without a manager's node
        self.place = np.array([float(np.median(place[self.host[r]])) for r in usual])
        several = Counter(view.names[n] for n in self.host.tolist())
        self.unique = np.array(
            [
                len(r) >= MIN_HOSTS and all(several[view.names[n]] == 1 for n in self.host[r].tolist())
                for r in self.rows
            ],
            bool,
        )

    def apart(self, a: int, b: int, rising: bool) -> bool:
        """Return whether, at nearly all port numbers that both leaves use, the host of leaf ``a`` is before
        (``rising``) or after the host of leaf ``b``. If both leaves use few common port numbers, nearly all hosts of
        ``a`` must be before (or after) nearly all hosts of ``b``.
        """
        x, y = self.ranks[a], self.ranks[b]
        both = sorted(x.keys() & y.keys())
        if 2 * len(both) >= min(len(x), len(y)):
            return sum((x[p] < y[p]) == rising for p in both) >= CLEAR * len(both)
        low, high = (x, y) if rising else (y, x)
        return bool(np.quantile(list(low.values()), CLEAR) < np.quantile(list(high.values()), 1 - CLEAR))


def exchanged_leaves(view: FabricView, rank: np.ndarray) -> list[ExchangedLeaves]:
    """Return the exchanged pairs of leaves. Leaves are ordered by their names, or if that gives no order, by their port
    numbers on the switches above.
    """
    hosts = _Hosts(view, rank)
    if hosts.unique.sum() < MIN_LEAVES:
        return []
    leaves, place = hosts.leaves[hosts.unique], hosts.place[hosts.unique]
    for key in (_by_name(view, leaves), _by_uplink(view, rank, leaves)):
        if key is None:
            continue
        by_key, by_hosts = np.argsort(np.argsort(key)), np.argsort(np.argsort(place, kind="stable"), kind="stable")
        for order in (by_hosts, len(leaves) - 1 - by_hosts):
            apart = np.flatnonzero(by_key != order)
            if len(apart) > (1 - MOST) * len(leaves):
                continue
            at = {int(k): i for i, k in enumerate(by_key.tolist())}
            pairs = [(i, at[int(order[i])]) for i in apart.tolist()]
            follow = len(leaves) - len(apart)
            return [
                ExchangedLeaves(int(leaves[i]), int(leaves[j]), follow, len(leaves))
                for i, j in pairs
                if i < j
                and order[j] == by_key[i]
                and hosts.apart(int(leaves[i]), int(leaves[j]), bool(by_hosts[i] < by_hosts[j]))
            ]
    return []


def _by_name(view: FabricView, leaves: np.ndarray) -> np.ndarray | None:
    """Return the rank of each leaf in the natural order of names; None if several leaves have the same name."""
    names = [view.names[n] for n in leaves.tolist()]
    return None if len(set(names)) < len(names) else natural_rank(names)


def _by_uplink(view: FabricView, rank: np.ndarray, leaves: np.ndarray) -> np.ndarray | None:
    """Return the lowest port number of each leaf on the switches above; None if several leaves have the same."""
    f = view.fabric
    lowest = []
    for leaf in leaves.tolist():
        peers = f.port_peer[list(f.ports_of(leaf))]
        peers = peers[peers >= 0]
        above = peers[rank[f.port_node[peers]] > rank[leaf]]
        lowest.append(min(f.port_num[above].tolist(), default=-1))
    return None if len(set(lowest)) < len(lowest) else np.array(lowest)


def shifted_leaves(view: FabricView, rank: np.ndarray) -> Iterator[ShiftedLeaf]:
    """Yield the leaves whose hosts are all shifted by the same number of ports relative to other leaves."""
    hosts, f = _Hosts(view, rank), view.fabric
    used = {
        int(leaf): frozenset(f.port_num[hosts.port[r]].tolist())
        for leaf, r in zip(hosts.leaves, hosts.rows, strict=True)
    }
    if not used:
        return
    usual, count = Counter(used.values()).most_common(1)[0]
    if count < MIN_LEAVES or count < MOST * len(used) or len(usual) < MIN_HOSTS:
        return
    for leaf, ports in used.items():
        by = min(ports) - min(usual)
        if by and len(ports) == len(usual) and {p - by for p in ports} == usual:
            yield ShiftedLeaf(leaf, tuple(int(f.node_base[leaf]) + p for p in sorted(ports)), by, count)
