"""Finds exchanged switches: every cable of one leads to the peers of the other. If a technician replaces two switches
and confuses them, or their names, all their cables are exchanged at once. No route changes, but every name leads to the
wrong rack. The evidence is at the other ends of their cables: all these ports expect the other switch.
"""

from __future__ import annotations

import re
from collections import Counter
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from softib.diags.rules import mode
from softib.diags.structure.pattern import Pattern, learn_pattern
from softib.diags.view import FabricView
from softib.natural_order import natural_rank

__all__ = ["PAIR", "Exchange", "exchanged_switches", "explained", "out_of_order"]

MOST = 0.8
"""Minimum share of the witnesses of a switch that must expect the same other switch …"""
MIN_WITNESSES = 3
"""… and their minimum number."""
SUSPECT = 0.2
"""Minimum share of the witnesses at which the pattern is learned again with the names exchanged, because in a small
grid two exchanged switches distort the learned rules."""
NEARLY_ALL = 0.9
"""Minimum share of the witnesses at switches, and of those at hosts, that must fit the pattern with exchanged names."""
FEW = 0.15
"""Maximum share of a class of switches that may be exchanged. If there are more, they are numbered differently by
design."""
PAIR = 2
"""Number of switches that may be exchanged in a class of any size."""
MIN_ORDER = 8
"""Minimum number of switches in an order. With fewer, two switches may have their positions by design."""
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Exchange:
    """``switches`` (nodes): each is in the position of the next, and the last in that of the first;
    ``follow`` of ``of`` ports at the other ends of their cables fit after they are exchanged."""

    switches: tuple[int, ...]
    follow: int
    of: int
    by_order: bool = False
    """Whether the evidence is the order of names. In that case, ``follow`` of ``of`` switches are in the order of their
    names."""


def exchanged_switches(view: FabricView, pattern: Pattern) -> list[Exchange]:
    """Return the exchanges that are confirmed by nearly all witnesses, both ports of switches and
    ports of hosts. If the coordinates of the switches come from their ports, the rules of the names
    are learned for this purpose. The running time is nearly linear in the number of cables."""
    if pattern.labels.by_ports:
        pattern = learn_pattern(view)
    loose = _cycles(_goals(view, pattern, SUSPECT))
    if not loose:
        return []
    sure = _cycles(_goals(view, pattern, MOST))
    left, class_of = Counter(pattern.labels.class_of.tolist()), pattern.labels.class_of
    left = Counter({made: max(PAIR, int(FEW * size)) for made, size in left.items()})
    left.subtract(class_of[[n for x in sure for n in x.switches]].tolist())
    if min(left.values()) < 0:
        return []
    reported, tried = {n for x in sure for n in x.switches}, list[Exchange]()
    for x in sorted(loose, key=lambda x: (-x.follow / x.of, x.switches)):
        made = class_of[x.switches[0]]
        if not reported & {*x.switches} and left[made] >= len(x.switches):
            left[made] -= len(x.switches)
            tried.append(x)
    return sure + _tried(view, tried)


def _cycles(goal: dict[int, tuple[int, int, int, int]]) -> list[Exchange]:
    """Return the cycles of switches, each of which is in the position of the next."""
    cycles, done = [], set[int]()
    for first in sorted(goal):
        cycle = [first]
        while (after := goal[cycle[-1]][0]) in goal and after not in cycle:
            cycle.append(after)
        if after == first and first not in done:
            done.update(cycle)
            _, follow, of, switches = (sum(goal[n][i] for n in cycle) for i in range(4))
            if switches:  # if only hosts are evidence, racks may be exchanged instead
                cycles.append(Exchange(tuple(cycle), follow, of))
    return cycles


class _Witnesses:
    """Ports with a rule that lead to a switch: the actual peer (``here``), the expected one
    (``want``), and whether the port is on a ``switch``."""

    def __init__(self, view: FabricView, pattern: Pattern):
        ports = np.concatenate([view.port_a, view.port_b])
        here = np.concatenate([view.node_b, view.node_a]).astype(np.int64)
        want = pattern.expected[ports].astype(np.int64)
        owner = view.fabric.port_node[ports]
        heard = (want >= 0) & view.is_switch[here] & ~view.is_sharp[owner] & (owner != here)
        self.here, self.want, self.switch = here[heard], want[heard], view.is_switch[owner[heard]]


def _goals(view: FabricView, pattern: Pattern, share: float) -> dict[int, tuple[int, int, int, int]]:
    """Return, for each switch that may be in the position of another: the other switch, the number of its witnesses, of
    all its ports with a rule, and of those on switches. At least ``share`` of its ports must be witnesses, and if
    ``share`` is :data:`MOST` or more, also :data:`MOST` of those on switches and of those on hosts."""
    w, nodes, class_of = _Witnesses(view, pattern), len(view.names), pattern.labels.class_of
    alike = (class_of[w.here] == class_of[w.want]) & (w.here != w.want)
    pair, at = np.unique(w.here[alike] * nodes + w.want[alike], return_inverse=True)
    if not len(pair):
        return {}
    by_switch = np.bincount(at.reshape(-1), w.switch[alike], minlength=len(pair))
    here, votes, total, good = pair // nodes, np.zeros(len(pair)), np.zeros(len(pair)), np.ones(len(pair), bool)
    for kind in (w.switch, ~w.switch):
        heard_by = np.bincount(at.reshape(-1), kind[alike], minlength=len(pair))
        of = np.bincount(w.here[kind], minlength=nodes)[here]
        good &= (heard_by >= MOST * of) | (share < MOST)
        votes, total = votes + heard_by, total + of
    good &= (
        (votes >= share * total) & (total >= MIN_WITNESSES) & (np.bincount(w.here[w.switch], minlength=nodes)[here] > 0)
    )
    order = np.flatnonzero(good)
    order = order[
        np.argsort(votes[order], kind="stable")
    ]  # the last one wins, so the switch that most witnesses expect is used
    return {
        int(here[i]): (int(pair[i] % nodes), int(votes[i]), int(total[i]), int(by_switch[i])) for i in order.tolist()
    }


def _tried(view: FabricView, loose: list[Exchange]) -> list[Exchange]:
    """Return the switches of ``loose`` for which nearly all witnesses are satisfied if the pattern
    is learned with the names exchanged."""
    if not loose:
        return []
    other, names = copy(view), list(view.names)
    for x in loose:
        for node, goal in zip(x.switches, (*x.switches[1:], x.switches[0]), strict=True):
            names[node] = view.names[goal]
    other.names = names
    w = _Witnesses(other, learn_pattern(other))
    out = []
    for x in loose:
        at = np.isin(w.here, x.switches)
        right = at & (w.here == w.want)
        kinds = [(int((right & kind).sum()), int((at & kind).sum())) for kind in (w.switch, ~w.switch)]
        if kinds[0][1] and all(n >= NEARLY_ALL * of for n, of in kinds):
            out.append(replace(x, follow=int(right.sum()), of=int(at.sum())))
    return out


def explained(view: FabricView, pattern: Pattern, exchanges: list[Exchange]) -> np.ndarray:
    """Return whether each cable is at an exchanged switch and matches the pattern of this switch's actual position
    (bool[cables])."""
    goal = np.arange(len(view.names))
    for x in exchanges:
        goal[list(x.switches)] = (*x.switches[1:], x.switches[0])
    touched = (goal[view.node_a] != view.node_a) | (goal[view.node_b] != view.node_b)
    want_a, want_b = pattern.expected[view.port_a], pattern.expected[view.port_b]
    sees_b, sees_a = goal[view.node_b], goal[view.node_a]
    moved_a, moved_b = sees_a != view.node_a, sees_b != view.node_b
    right_a, right_b = (want_a == sees_b) | (want_a < 0) | moved_a, (want_b == sees_a) | (want_b < 0) | moved_b
    return touched & right_a & right_b


def out_of_order(view: FabricView, rank: np.ndarray) -> list[Exchange]:
    """In trees, return exchanged switches among switches of one class that are cabled to the same
    switches: they break the order of the port numbers there, which nearly all others follow."""
    links = view.between_switches
    ports, peers = (
        np.concatenate(ends)
        for ends in ((view.port_a[links], view.port_b[links]), (view.port_b[links], view.port_a[links]))
    )
    node = view.fabric.port_node
    seen: dict[tuple[int, bool], dict[int, int]] = {}  # (switch, its upper side?) → switch there: lowest port there
    for p, q in zip(ports.tolist(), peers.tolist(), strict=True):
        here, there, number = int(node[p]), int(node[q]), int(view.fabric.port_num[q])
        if rank[here] != rank[there]:
            side = seen.setdefault((here, bool(rank[there] > rank[here])), {})
            side[there] = min(number, side.get(there, number))
    groups: dict[tuple[bool, str, tuple[int, ...]], list[tuple[int, int]]] = {}
    for (switch, up), side in seen.items():
        number, agree = mode(np.array(list(side.values())))
        if agree >= MOST * len(side) and len(side) >= PAIR:
            form = _NUMBER.sub("#", view.names[switch])
            groups.setdefault((up, form, tuple(sorted(side))), []).append((number, switch))
    pairs = (x for members in groups.values() for x in _order(view, members))
    return list({x.switches: x for x in pairs}.values())


def _order(view: FabricView, members: list[tuple[int, int]]) -> list[Exchange]:
    numbers, switches = zip(*sorted(members), strict=True)
    names = [view.names[n] for n in switches]
    if len(members) < MIN_ORDER or len({*numbers}) < len(members) or len({*names}) < len(members):
        return []
    by_name = np.argsort(np.argsort(natural_rank(names)))
    for order in (by_name, len(by_name) - 1 - by_name):
        apart = np.flatnonzero(order != np.arange(len(order))).tolist()
        if len(apart) == PAIR:
            pair = tuple(sorted(switches[i] for i in apart))
            return [Exchange(pair, len(order) - PAIR, len(order), by_order=True)]
    return []
