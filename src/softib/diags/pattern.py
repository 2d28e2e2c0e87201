"""The cabling pattern of a fabric, learned from its own majority: which node each port should lead to.

Ports with the same number on nodes of one class (all ``leaf-#[40]``) follow one rule from the node's numbers to those
of its peer (:mod:`softib.diags.rules`). A rule counts where it predicts nearly all of them; then each port that it does
not predict is suspect. No plan is needed, and no topology is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.diags.labels import Labels, NodeClass, read_labels
from softib.diags.rules import fit_rule, mode
from softib.diags.view import FabricView

__all__ = ["NO_OPINION", "Pattern", "learn_pattern"]

NO_OPINION = -1
MIN_SHARE = 0.75
"""A rule counts from this share of right predictions."""
MIN_HITS = 2
"""… and at least so many, and from three ports on (of two that disagree neither is the majority)."""


@dataclass
class Pattern:
    """``expected`` int32[ports]: the node each port should lead to, or :data:`NO_OPINION`."""

    labels: Labels
    expected: np.ndarray
    rules: int
    ports_told: int


def learn_pattern(view: FabricView) -> Pattern:
    """Learn the pattern of all classes. Near-linear in ports."""
    labels = read_labels(view)
    fabric = view.fabric
    peer_node = np.where(fabric.port_peer >= 0, fabric.port_node[np.maximum(fabric.port_peer, 0)], -1)
    expected = np.full(fabric.sizes.ports, NO_OPINION, np.int32)
    rules = 0
    for made in labels.classes:
        nports = fabric.node_nports[made.nodes].astype(np.int64)
        for portnum in range(1, int(nports.max(initial=0)) + 1):
            rows = np.where(nports >= portnum, fabric.node_base[made.nodes] + portnum, -1)
            told = _expected_of(made, labels, rows, peer_node)
            if told is not None:
                rules += 1
                expected[rows[rows >= 0]] = told[rows >= 0]
    return Pattern(labels, expected, rules, int((expected != NO_OPINION).sum()))


def _expected_of(made: NodeClass, labels: Labels, rows: np.ndarray, peer_node: np.ndarray) -> np.ndarray | None:
    """Expected peer node of each member's port, or None where no rule holds."""
    peer = np.where(rows >= 0, peer_node[np.maximum(rows, 0)], -1)
    cabled = np.flatnonzero(peer >= 0)
    if len(cabled) < MIN_HITS:
        return None
    peer_class = labels.class_of[peer[cabled]]
    usual, count = mode(peer_class)
    if usual < 0 or count < max(MIN_HITS, MIN_SHARE * len(cabled)):
        return _one_peer(peer, cabled)
    target_class = labels.classes[usual]
    told = np.zeros(len(peer), bool)
    told[cabled[peer_class == usual]] = True
    target = np.zeros((len(peer), target_class.numbers.shape[1]), np.int64)
    target[told] = target_class.numbers[labels.row_of[peer[told]]]
    row = target_class.find(_numbers_of_peer(made, target_class, target, told))
    expected = np.where(row >= 0, target_class.nodes[np.maximum(row, 0)], NO_OPINION)
    return expected if _holds(expected, peer, cabled) else _one_peer(peer, cabled)


def _numbers_of_peer(made: NodeClass, target_class: NodeClass, target: np.ndarray, told: np.ndarray) -> np.ndarray:
    """Predicted numbers of the peers, one rule a number.

    Where a number has no good rule and the peers are of the own class, it may follow the own rank among *the peer's*
    others: a dragonfly's global cable ends on the position that the own group has in the list of the peer group.
    """
    fits = [fit_rule(made, target[:, t], told) for t in range(target.shape[1])]
    if made is target_class:
        for s in [s for s, (_, share) in enumerate(fits) if share >= MIN_SHARE]:
            for t in [t for t, (_, share) in enumerate(fits) if share < 1.0]:
                numbers = made.numbers.copy()
                numbers[:, s] -= numbers[:, s] > fits[s][0]
                again = fit_rule(made.renumbered(numbers), target[:, t], told)
                if again[1] > fits[t][1] + 1e-9:
                    fits[t] = again
    return np.stack([predicted for predicted, _ in fits], axis=1)


def _one_peer(peer: np.ndarray, cabled: np.ndarray) -> np.ndarray | None:
    """The rule "all lead to the same node", which needs no number in that node's name."""
    expected = np.full(len(peer), mode(peer[cabled])[0])
    return expected if _holds(expected, peer, cabled) else None


def _holds(expected: np.ndarray, peer: np.ndarray, cabled: np.ndarray) -> bool:
    hits = int((expected[cabled] == peer[cabled]).sum())
    return hits >= MIN_HITS and hits >= MIN_SHARE * len(cabled) - 0.3 * (len(cabled) == 3)
