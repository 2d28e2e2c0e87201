"""The cabling pattern of a fabric, learned from its own majority: which node each port should lead to.

Ports with the same number on nodes of one class (all ``leaf-#[40]``) follow one rule from the node's numbers to those
of its peer (:mod:`softib.diags.rules`). A rule counts where it predicts nearly all of them; then each port that it does
not predict is suspect. No plan is needed, and no topology is assumed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from softib.diags.labels import Labels, NodeClass, read_labels
from softib.diags.rules import fit_rule, mode
from softib.diags.view import FabricView

__all__ = ["NO_OPINION", "Pattern", "learn_pattern"]

NO_OPINION = -1
MIN_SHARE = 0.6
"""A rule counts from this share of right predictions: a swap in a ring of five spoils four ports of ten."""
SPARE_HITS = 3
"""… and so many more hits than numbers it follows: two points always lie on a line."""

SURE_HITS, SURE_SHARE = 7, 0.95
"""Ports and share of them from which a rule may accuse a single cable."""


@dataclass
class Pattern:
    """``expected`` int32[ports]: the node each port should lead to, or :data:`NO_OPINION`; ``sure`` bool[ports]: the
    rule predicts nearly all of its ports, and not a few, so that it may accuse a cable by itself."""

    labels: Labels
    expected: np.ndarray
    sure: np.ndarray
    rules: int
    ports_told: int


def learn_pattern(view: FabricView) -> Pattern:
    """Learn the pattern of all classes. Near-linear in ports."""
    labels = read_labels(view)
    fabric = view.fabric
    peer = np.where(fabric.port_peer >= 0, fabric.port_node[np.maximum(fabric.port_peer, 0)], -1)
    expected = np.full(fabric.sizes.ports, NO_OPINION, np.int32)
    sure = np.zeros(fabric.sizes.ports, bool)
    rules = 0
    for made in labels.classes:
        for target, ports in _pools(view, labels, made, peer):
            for rows, told in _learn(view, labels, made, target, ports, peer):
                expected[rows] = told
                sure[rows] = _is_sure(told, peer[rows])
                rules += 1
    return Pattern(labels, expected, sure, rules, int((expected != NO_OPINION).sum()))


def _pools(
    view: FabricView, labels: Labels, made: NodeClass, peer: np.ndarray
) -> list[tuple[NodeClass | None, list[int]]]:
    """Portnums that may share a rule: (class of most of their peers, portnums).

    Within one class (grids, dragonflies) the ports that keep the same of the own numbers go together: those are the
    ports of one dimension, or the local and the global ones.
    """
    pools: dict[tuple[int, tuple[bool, ...]], list[int]] = {}
    fabric = view.fabric
    nports = fabric.node_nports[made.nodes].astype(np.int64)
    for portnum in range(1, int(nports.max(initial=0)) + 1):
        far = np.where(nports >= portnum, peer[np.minimum(fabric.node_base[made.nodes] + portnum, len(peer) - 1)], -1)
        cabled = np.flatnonzero(far >= 0)
        usual, count = mode(labels.class_of[far[cabled]])
        if not len(cabled) or count < MIN_SHARE * len(cabled):
            continue
        keeps: tuple[bool, ...] = ()
        if usual >= 0 and labels.classes[usual] is made:
            own = cabled[labels.class_of[far[cabled]] == usual]
            same = made.numbers[own] == made.numbers[labels.row_of[far[own]]]
            keeps = tuple((same.mean(axis=0) > 0.5).tolist())
        pools.setdefault((usual, keeps), []).append(portnum)
    return [(labels.classes[u] if u >= 0 else None, ports) for (u, _), ports in pools.items()]


def _learn(
    view: FabricView, labels: Labels, made: NodeClass, target: NodeClass | None, ports: list[int], peer: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:  # fmt: skip
    """(port rows, expected peers) of each rule found: one for all ``ports`` of the class where it holds, else one a port."""
    rows, members, numbers = _port_rows(view, made, ports)
    if target is not None and len(ports) > 1:
        pool = made.renumbered(numbers, made.nodes[members])
        told = _expected_of(pool, made is target, target, labels, peer[rows])
        if told is not None:
            yield rows, told
            return
    for portnum in ports:
        rows, members, _ = _port_rows(view, made, [portnum])
        told = None
        if target is not None:
            of = made if len(rows) == len(made.nodes) else made.renumbered(made.numbers[members], made.nodes[members])
            told = _expected_of(of, made is target, target, labels, peer[rows])
        if told is None:
            told = _one_peer(peer[rows])
        if told is not None:
            yield rows, told


def _port_rows(view: FabricView, made: NodeClass, ports: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(port rows, members, numbers with the portnum as the last column) of those members that have the ports."""
    fabric = view.fabric
    portnum = np.tile(np.array(ports), len(made.nodes))
    member = np.repeat(np.arange(len(made.nodes)), len(ports))
    has = fabric.node_nports[made.nodes[member]] >= portnum
    portnum, member = portnum[has], member[has]
    numbers = np.concatenate([made.numbers[member], (portnum - min(ports))[:, None]], axis=1)
    return fabric.node_base[made.nodes[member]] + portnum, member, numbers


def _expected_of(of: NodeClass, own: bool, target: NodeClass, labels: Labels, peer: np.ndarray) -> np.ndarray | None:
    """Expected peer node of each row of ``of``, or None where no rule holds. ``own``: peers are of the same class."""
    row = np.where(peer >= 0, labels.row_of[np.maximum(peer, 0)], -1)
    told = (row >= 0) & (labels.class_of[np.maximum(peer, 0)] == labels.class_of[target.nodes[0]])
    numbers = np.zeros((len(peer), target.numbers.shape[1]), np.int64)
    numbers[told] = target.numbers[row[told]]
    found = target.find(_numbers_of_peer(of, own, numbers, told))
    expected = np.where(found >= 0, target.nodes[np.maximum(found, 0)], NO_OPINION)
    return expected if _holds(expected, peer, of.numbers.shape[1]) else None


def _one_peer(peer: np.ndarray) -> np.ndarray | None:
    """The rule "all lead to the same node", which needs no number in that node's name."""
    if not (peer >= 0).any():
        return None
    expected = np.full(len(peer), mode(peer[peer >= 0])[0])
    return expected if _holds(expected, peer, 0) else None


def _holds(expected: np.ndarray, peer: np.ndarray, slopes: int) -> bool:
    cabled = peer >= 0
    ports, hits = int(cabled.sum()), int((expected[cabled] == peer[cabled]).sum())
    return hits >= SPARE_HITS + slopes and hits >= MIN_SHARE * ports


def _is_sure(expected: np.ndarray, peer: np.ndarray) -> bool:
    hit = (expected == peer)[peer >= 0]
    misses = int((~hit).sum())
    return int(hit.sum()) >= SURE_HITS and (misses <= 2 or misses <= (1 - SURE_SHARE) * len(hit))


def _numbers_of_peer(made: NodeClass, own: bool, target: np.ndarray, told: np.ndarray) -> np.ndarray:
    """Predicted numbers of the peers, one rule a number.

    Where a number has no good rule and the peers are of the own class, it may follow the own rank among *the peer's*
    others: a dragonfly's global cable ends on the position that the own group has in the list of the peer group.
    """
    fits = [fit_rule(made, target[:, t], told) for t in range(target.shape[1])]
    if own:
        for s in [s for s, (_, share) in enumerate(fits) if share >= MIN_SHARE]:
            for t in [t for t, (_, share) in enumerate(fits) if share < 1.0]:
                numbers = made.numbers.copy()
                numbers[:, s] -= (numbers[:, s] > fits[s][0]) & (numbers[:, s] > 0)
                again = fit_rule(made.renumbered(numbers, made.nodes), target[:, t], told)
                if again[1] > fits[t][1] + 1e-9:
                    fits[t] = again
    return np.stack([predicted for predicted, _ in fits], axis=1)
