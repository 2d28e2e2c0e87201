"""Learns the cabling pattern of a fabric from its majority: the expected peer node of each port.

Ports with the same number on nodes of one class (all ``leaf-#[40]``) follow one rule, which computes the numbers of the
peer from the numbers of the node (:mod:`softib.diags.rules`). A rule is used if it predicts nearly all of these ports;
a port that it does not predict correctly is suspect. No plan is needed, and no topology is assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import comb, exp, log

import numpy as np

from softib.diags.labels import Labels, NodeClass, read_labels
from softib.diags.rules import MAX_DIGITS, fit_rule, mode
from softib.diags.view import FabricView

__all__ = ["NO_OPINION", "Pattern", "learn_pattern"]

NO_OPINION = -1
MIN_SHARE = 0.6
"""Minimum share of correct predictions of a rule. It is low because one swap in a ring of five makes four of ten ports
wrong.
"""
FEW = 3
SPARE_HITS = 3
"""Minimum difference between the numbers of a rule's correct predictions and of its parameters. For example, a line
always predicts two points.
"""

EXPECTED_RANDOM = 0.01
"""If arbitrary cabling is expected to have at most this number of equally good rules, a rule counts even if the other
ports of its pool have none."""

SHUFFLES = 3
"""Number of times that the cables of a group of ports are shuffled. The comparison uses the shuffled cabling whose
rules predict most cables.
"""

SURE_HITS, SURE_SHARE = 7, 0.95
"""Minimum number of ports that a rule must predict, and their minimum share, for the rule to report a single cable."""


Rule = tuple[np.ndarray, np.ndarray, int]
"""Port rows, the node expected at the other end of each, and the number of slopes."""


@dataclass
class Pattern:
    """The learned pattern. ``expected`` int32[ports]: the expected node at the other end of each port's cable, or
    :data:`NO_OPINION`. ``plain`` bool[ports]: the port's rule predicts nearly all of its ports; if these are few, a
    deviation is only doubtful. ``sure`` bool[ports]: the rule also has enough ports, so that it can report a single
    cable.
    """

    labels: Labels
    expected: np.ndarray
    sure: np.ndarray
    plain: np.ndarray
    rules: int
    ports_predicted: int


def learn_pattern(view: FabricView, labels: Labels | None = None) -> Pattern:
    """Learn the pattern of all classes in ``labels`` (default: the classes of the nodes' names). The running time is
    nearly linear in the number of ports.
    """
    labels = labels or read_labels(view)
    fabric = view.fabric
    peer = np.where(fabric.port_peer >= 0, fabric.port_node[np.maximum(fabric.port_peer, 0)], -1)
    expected = np.full(fabric.sizes.ports, NO_OPINION, np.int32)
    sure, plain = np.zeros((2, fabric.sizes.ports), bool)
    rules = 0
    for made in labels.classes:
        for target, ports in _pools(view, labels, made, peer):
            for rows, predicted in _learn(view, labels, made, target, ports, peer):
                expected[rows] = predicted
                sure[rows], plain[rows] = _is_sure(predicted, peer[rows])
                rules += 1
    return Pattern(labels, expected, sure, plain, rules, int((expected != NO_OPINION).sum()))


def _pools(
    view: FabricView, labels: Labels, made: NodeClass, peer: np.ndarray
) -> list[tuple[NodeClass | None, list[int]]]:
    """Return groups of portnums that may have one rule: (class of most of their peers, portnums).

    If peers are of the same class (grids, dragonflies), ports form a group if their cables leave the same numbers of
    the node unchanged. These are the ports of one dimension, or the local or global ports.
    """
    pools: dict[tuple[int, tuple[bool, ...]], list[int]] = {}
    fabric = view.fabric
    nports = fabric.node_nports[made.nodes].astype(np.int64)
    for portnum in range(1, int(nports.max(initial=0)) + 1):
        neighbour = np.where(
            nports >= portnum, peer[np.minimum(fabric.node_base[made.nodes] + portnum, len(peer) - 1)], -1
        )
        cabled = np.flatnonzero(neighbour >= 0)
        usual, count = mode(labels.class_of[neighbour[cabled]])
        if labels.by_ports and (made.by_ports != (usual >= 0 and labels.classes[usual].by_ports)):
            continue  # derived positions of switches have no relation to numbers of hosts
        if (
            not len(cabled)
            or count < MIN_SHARE * len(cabled)
            or (len(cabled) < FEW and 4 * len(cabled) < len(neighbour))
        ):
            continue  # a port used by one or two of many nodes has no rule
        keeps: tuple[bool, ...] = ()
        if usual >= 0 and labels.classes[usual] is made:
            same_class = cabled[labels.class_of[neighbour[cabled]] == usual]
            same = made.numbers[same_class] == made.numbers[labels.row_of[neighbour[same_class]]]
            keeps = tuple((same.mean(axis=0) > 0.5).tolist())
        pools.setdefault((usual, keeps), []).append(portnum)
    return [(labels.classes[u] if u >= 0 else None, ports) for (u, _), ports in pools.items()]


def _learn(
    view: FabricView,
    labels: Labels,
    node_class: NodeClass,
    target: NodeClass | None,
    ports: list[int],
    peer: np.ndarray,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return (port rows, expected peers) of each rule found: one for all ``ports`` of the class if
    it holds, else one per port. If these together predict few more cables than rules of shuffled
    cables do, the cabling is arbitrary: only rules that chance does not explain are returned."""
    rows = _port_rows(view, node_class, ports)[0]
    rows = rows[peer[rows] >= 0]
    peers = len(np.unique(peer[rows]))
    for learn in (_of_all, _of_each):
        rules = learn(view, labels, node_class, target, ports, peer)
        likely = [_random_probability([rule], peer, peers) * len(ports) > EXPECTED_RANDOM for rule in rules]
        if any(likely) and not _beats_shuffled(
            rules, peer, rows, peers, partial(learn, view, labels, node_class, target, ports)
        ):
            rules = [rule for rule, is_likely in zip(rules, likely, strict=True) if not is_likely]
        if rules:
            return [(of, predicted) for of, predicted, _ in rules]
    return []


def _of_all(
    view: FabricView,
    labels: Labels,
    node_class: NodeClass,
    target: NodeClass | None,
    ports: list[int],
    peer: np.ndarray,
) -> list[Rule]:
    """Return the common rule of all ``ports``, if there is one."""
    if target is None or len(ports) < 2:
        return []
    rows, members, numbers = _port_rows(view, node_class, ports)
    pool = node_class.renumbered(numbers, node_class.nodes[members])
    # The offset of the peer's portnum in the pool, if the peers' ports are in the pool.
    peer_portnum = view.fabric.port_num[np.maximum(view.fabric.port_peer[rows], 0)].astype(np.int64) - min(ports)
    predicted = _expected_of(pool, node_class is target, target, labels, peer[rows], peer_portnum)
    return [] if predicted is None else [(rows, predicted, numbers.shape[1])]


def _of_each(
    view: FabricView,
    labels: Labels,
    node_class: NodeClass,
    target: NodeClass | None,
    ports: list[int],
    peer: np.ndarray,
) -> list[Rule]:
    """Return the rule of each of ``ports`` that has one."""
    rules = []
    for portnum in ports:
        rows, members, _ = _port_rows(view, node_class, [portnum])
        predicted, slopes = None, 0
        if target is not None:
            of = (
                node_class
                if len(rows) == len(node_class.nodes)
                else node_class.renumbered(node_class.numbers[members], node_class.nodes[members])
            )
            predicted, slopes = _expected_of(of, node_class is target, target, labels, peer[rows]), of.numbers.shape[1]
        if predicted is None:
            predicted, slopes = _one_peer(peer[rows]), 0
        if predicted is not None:
            rules.append((rows, predicted, slopes))
    return rules


def _beats_shuffled(
    rules: list[Rule], peer: np.ndarray, rows: np.ndarray, peers: int, learn: Callable[[np.ndarray], list[Rule]]
) -> bool:
    """Return whether ``rules`` predict :data:`MIN_SHARE` of the cables of ``rows`` that the rules of
    shuffled cables do not: with few switches, chance alone gives many ports a rule."""
    hits = _hits(rules, peer)
    if hits == len(rows) or _random_probability(rules, peer, peers) <= EXPECTED_RANDOM:
        return True
    if hits < MIN_SHARE * len(rows):
        return False  # regardless of the predictions for shuffled cables
    rng, random_hits, shuffled = np.random.default_rng(len(rows)), 0, peer.copy()
    for _ in range(SHUFFLES):
        shuffled[rows] = rng.permutation(peer[rows])
        random_hits = max(random_hits, _hits(learn(shuffled), shuffled))
        if hits < MIN_SHARE * len(rows) + (1 - MIN_SHARE) * random_hits:
            return False
    return True


def _random_probability(rules: list[Rule], peer: np.ndarray, peers: int) -> float:
    """Return an upper bound of the probability that ``rules`` predict as many ports by chance, if each cable leads to
    any of ``peers`` nodes. One port for each constant, and one for each digit of a slope, does not count, because these
    parameters are fitted to ports."""
    ports = sum(int((peer[rows] >= 0).sum()) for rows, _, _ in rules)
    hits, free = _hits(rules, peer), sum(1 + slopes * MAX_DIGITS for _, _, slopes in rules)
    return exp(min(0.0, log(comb(ports, hits)) - max(0, hits - free) * log(peers)))


def _hits(rules: list[Rule], peer: np.ndarray) -> int:
    return sum(int((predicted == peer[rows])[peer[rows] >= 0].sum()) for rows, predicted, _ in rules)


def _port_rows(view: FabricView, made: NodeClass, ports: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (port rows, members, numbers with the portnum as an additional last column) for the members that have
    these ports.
    """
    fabric = view.fabric
    portnum = np.tile(np.array(ports), len(made.nodes))
    member = np.repeat(np.arange(len(made.nodes)), len(ports))
    has = fabric.node_nports[made.nodes[member]] >= portnum
    portnum, member = portnum[has], member[has]
    numbers = np.concatenate([made.numbers[member], (portnum - min(ports))[:, None]], axis=1)
    return fabric.node_base[made.nodes[member]] + portnum, member, numbers


def _expected_of(
    of: NodeClass,
    same_class: bool,
    target: NodeClass,
    labels: Labels,
    peer: np.ndarray,
    peer_portnum: np.ndarray | None = None,
) -> np.ndarray | None:
    """Return the expected peer node of each row of ``of``; None if no rule holds. ``same_class``: the peers are of the
    same class as the nodes.
    """
    row = np.where(peer >= 0, labels.row_of[np.maximum(peer, 0)], -1)
    known = (row >= 0) & (labels.class_of[np.maximum(peer, 0)] == labels.class_of[target.nodes[0]])
    if not known.any():
        return None
    numbers = np.zeros((len(peer), target.numbers.shape[1]), np.int64)
    numbers[known] = target.numbers[row[known]]
    found = target.find(
        _numbers_of_peer(of, numbers, known, peer_portnum) if same_class else _plain_numbers(of, numbers, known)
    )
    expected = np.where(found >= 0, target.nodes[np.maximum(found, 0)], NO_OPINION)
    if same_class:
        expected[expected == of.nodes] = NO_OPINION  # no cable leads back to its switch
    return expected if _holds(expected, peer, of.numbers.shape[1]) else None


def _one_peer(peer: np.ndarray) -> np.ndarray | None:
    """Return the prediction that all ports lead to one node, which does not depend on numbers in that node's name; None
    if they do not.
    """
    if not (peer >= 0).any():
        return None
    expected = np.full(len(peer), mode(peer[peer >= 0])[0])
    return expected if _holds(expected, peer, 0) else None


def _holds(expected: np.ndarray, peer: np.ndarray, slopes: int) -> bool:
    cabled = peer >= 0
    ports, hits = int(cabled.sum()), int((expected[cabled] == peer[cabled]).sum())
    return hits >= SPARE_HITS + slopes and hits >= MIN_SHARE * ports


def _is_sure(expected: np.ndarray, peer: np.ndarray) -> tuple[bool, bool]:
    """Return whether the rule may report cables as wrong, and whether it holds for nearly all of its ports, even if
    these are few.
    """
    hit = (expected == peer)[peer >= 0]
    misses = int((~hit).sum())
    plain = misses <= 2 or misses <= (1 - SURE_SHARE) * len(hit)
    return int(hit.sum()) >= SURE_HITS and plain, plain


def _plain_numbers(of: NodeClass, target: np.ndarray, stated: np.ndarray) -> np.ndarray:
    """Return the predicted numbers of the peers, each number from a separate rule."""
    return np.stack([fit_rule(of, target[:, t], stated)[0] for t in range(target.shape[1])], axis=1)


def _numbers_of_peer(
    of: NodeClass, target: np.ndarray, stated: np.ndarray, peer_portnum: np.ndarray | None
) -> np.ndarray:
    """Return the predicted numbers of peers of the same class, as in grids and dragonflies.

    If a separate rule for each number does not predict all peers, one of the node's numbers and the port number are
    combined into one number, in either order: the global ports of a dragonfly's group may be numbered consecutively
    across its switches (absolute arrangement, Kim et al. 2008).
    """
    best = _fit_columns(of, target, stated)
    share = _share_of_rows(best, target, stated)
    if peer_portnum is None or share == 1.0 or not stated.any():
        return best
    ports = int(of.numbers[:, -1].max()) + 1
    usable = stated & (peer_portnum >= 0) & (peer_portnum < ports)
    for t in range(target.shape[1]):
        span = int(max(of.numbers[:, t].max(), target[:, t].max())) + 1
        for weigh_t, weigh_p in ((ports, 1), (1, span)):
            numbers = np.delete(of.numbers, [t, of.numbers.shape[1] - 1], axis=1)
            numbers = np.column_stack([numbers, of.numbers[:, t] * weigh_t + of.numbers[:, -1] * weigh_p])
            wanted = np.column_stack([np.delete(target, t, axis=1), target[:, t] * weigh_t + peer_portnum * weigh_p])
            if not usable.any():
                continue
            fitted = _fit_columns(of.renumbered(numbers, of.nodes), wanted, usable)
            number = fitted[:, -1] // ports if weigh_p == 1 else fitted[:, -1] % span
            tried = np.insert(fitted[:, :-1], t, number, axis=1)
            if (got := _share_of_rows(tried, target, stated)) > share:
                best, share = tried, got
    return best


def _share_of_rows(predicted: np.ndarray, target: np.ndarray, stated: np.ndarray) -> float:
    return float((predicted[stated] == target[stated]).all(axis=1).mean()) if stated.any() else 0.0


def _fit_columns(of: NodeClass, target: np.ndarray, stated: np.ndarray) -> np.ndarray:
    """Return the predictions of one rule per column of ``target``. A column without a good rule may depend on the rank
    of the node's group among the groups other than the peer's: in a dragonfly, a global cable ends at the position that
    the node's group has in the peer group's list of other groups.
    """
    fits = [fit_rule(of, target[:, t], stated) for t in range(target.shape[1])]
    for s in [s for s, (_, share) in enumerate(fits) if share >= MIN_SHARE]:
        for t in [t for t, (_, share) in enumerate(fits) if share < 1.0]:
            numbers = of.numbers.copy()
            numbers[:, s] -= (numbers[:, s] > fits[s][0]) & (numbers[:, s] > 0)
            refit = fit_rule(of.renumbered(numbers, of.nodes), target[:, t], stated)
            if refit[1] > fits[t][1] + 1e-9:
                fits[t] = refit
    return np.stack([predicted for predicted, _ in fits], axis=1)
