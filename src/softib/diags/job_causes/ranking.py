"""Computes the probability of each cause with Bayes' rule, from its prior, the log's first symptom, and the counters of
each part. The prior of a cause is divided among the parts that can be faulty (cables, switches or hosts) in proportion
to the job's traffic that crosses them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from softib.diags.job_causes.causes import BACKGROUND, CAUSES, Cause
from softib.diags.job_causes.readings import Readings
from softib.diags.job_causes.site import Site

__all__ = ["Facts", "Hypothesis", "rank"]

NOT_NAMED = 0.01
"""Factor for a host's prior if a scheduler or kernel names another host."""
ELSEWHERE = 0.02
"""Factor for the prior of parts that the job's known traffic does not cross."""
LIKELIEST = 0.98
"""Maximum probability of a cause, because the table of causes is an assumption."""

LINK_RETURNED = 0.5
"""If a cause leaves links down with more than this probability, earlier failures of a link that is up now do not
indicate this cause.
"""

MOST_LOG = 100.0
"""Largest logarithm of a likelihood ratio. Without this limit, a switch with many ports could exceed the range of a
float."""


DEAD_SWITCH = 0.002
"""Probability that a switch loses power at the time of a failure that it did not cause. Its links fail together, so
they are one coincidence and not several.
"""

IN_TIME = 0.9
"""Probability that a log without times was last written soon after the cause (:attr:`Window.likely_s`). A program that
loses a packet ends within seconds, but its log may be continued.
"""

LOST_LINKS = 2
"""Minimum number of failed links of a switch that may be without power."""


@dataclass
class Facts:
    """Known facts about a failed job. ``features``: feature of the whole job → whether it is present (a missing key:
    unknown). ``weight``: cable (its smaller port row) → share of the job's packets that cross it. ``hosts``: port rows
    of the job's ends.
    """

    symptom: str
    features: dict[str, bool] = field(default_factory=dict)
    weight: Mapping[int, float] = field(default_factory=dict)
    hosts: tuple[int, ...] = ()
    alive: frozenset[int] = frozenset()
    """Nodes whose programs printed a network error: their hosts were running."""
    named: frozenset[int] = frozenset()
    """Nodes that a scheduler or kernel names in the first symptom."""
    lost: frozenset[int] = frozenset()
    """Ports on the job's paths that have no link now."""
    isolated: Mapping[int, float] = field(default_factory=dict)
    """Switch without any link whose table has a route to an end of the job → share of these ends."""
    other_ends: Mapping[int, list[int]] = field(default_factory=dict)
    """Port of :attr:`lost` → the ports of which one was the other end of its cable."""


@dataclass(frozen=True)
class Hypothesis:
    """A cause at a location: ``port`` is the row of a cable's end, ``node`` the row of a switch or
    host; -1: none."""

    cause: Cause
    probability: float
    port: int = -1
    node: int = -1


def rank(facts: Facts, readings: Readings | None) -> list[Hypothesis]:
    """Return all hypotheses, the most probable first; their probabilities sum to 1."""
    scored: list[tuple[float, Cause, int, int]] = []
    if readings is not None:
        readings = replace(readings, explained=_explained(facts, readings))
    for cause in CAUSES:
        base = cause.prior * cause.expects(facts.symptom) * _job(cause, facts.features)
        locations = _locations(cause, facts, readings)
        whole = sum(share for share, *_ in locations)
        scored += [(base * share / whole * ratio, cause, port, node) for share, ratio, port, node in locations]
    total = sum(s for s, *_ in scored)
    scored.sort(key=lambda s: (-s[0], s[1].code, s[2], s[3]))
    return [Hypothesis(cause, min(LIKELIEST, score / total), port, node) for score, cause, port, node in scored]


def _job(cause: Cause, features: Mapping[str, bool]) -> float:
    """Return the likelihood ratio of the job's features: their probability given the cause, divided by that without
    it.
    """
    ratio = 1.0
    for name, there in features.items():
        usual = BACKGROUND[name]
        p = cause.features.get(name, usual)
        ratio *= p / usual if there else (1 - p) / (1 - usual)
    return ratio


Located = tuple[float, float, int, int]
"""(share of the prior, likelihood ratio of its features, port, node)."""


def _locations(cause: Cause, facts: Facts, readings: Readings | None) -> list[Located]:
    if readings is None or cause.scope == "job":
        return [(1.0, 1.0, -1, -1)]
    cables = _cables(facts, readings)
    site = readings.site
    if cause.scope == "cable":
        return [
            (share, _cable_ratio(cause, readings, c) if c >= 0 else _rest_ratio(cause, readings), c, -1)
            for c, share in cables
        ] or [(1.0, 1.0, -1, -1)]
    nodes: dict[int, float] = {}
    for cable, share in cables:
        for port in _ends(site, cable):
            node = int(site.fabric.port_node[port])
            if bool(site.fabric.is_switch[node]) == (cause.scope == "switch"):
                nodes[node] = max(nodes.get(node, 0.0), share)
    if cause.scope == "switch":
        nodes |= facts.isolated
    if cause.scope == "host":
        ends = {int(site.fabric.port_node[p]) for p in facts.hosts}
        nodes = {n: share for n, share in nodes.items() if not ends or n in ends} | {
            n: nodes.get(n, 1.0) for n in sorted(ends | facts.named)
        }
        if facts.named:
            nodes = {n: share * (1.0 if n in facts.named else NOT_NAMED) for n, share in nodes.items()}
    return [(share, _node_ratio(cause, facts, readings, n), -1, n) for n, share in sorted(nodes.items())] or [
        (1.0, 1.0, -1, -1)
    ]


def _cables(facts: Facts, readings: Readings) -> list[tuple[int, float]]:
    """Return cables with their shares of the prior: the cables that the job's traffic crosses (including cables that
    lost their link and have only one known end), other cables with features, and -1 for all remaining cables together.
    """
    site = readings.site
    every = np.unique(site.cable[site.cable >= 0])
    lost = [(p, 1.0) for p in sorted(facts.lost) if site.peer[p] < 0]
    if not len(every):
        return lost
    shows = np.zeros(len(site.peer), bool)
    r = readings
    for feature in (r.link == 1, r.link == 2, r.damaged == 1, r.waits == 1, r.unheard == 1, r.unreached == 1):
        shows |= feature
    odd = np.unique(site.cable[shows & (site.cable >= 0)])
    odd = odd[[int(c) not in facts.weight for c in odd]] if len(odd) else odd
    each = (ELSEWHERE if facts.weight else 1.0) / len(every)
    shares = [(c, w) for c, w in sorted(facts.weight.items())] + [(int(c), each) for c in odd]
    rest = len(every) - len(shares)
    return [*shares, *lost, (-1, rest * each)] if rest > 0 else [*shares, *lost]


def _ends(site: Site, cable: int) -> tuple[int, ...]:
    """Return the known ends of a cable; () for -1."""
    return tuple(p for p in (cable, int(site.peer[cable])) if p >= 0) if cable >= 0 else ()


def _explained(facts: Facts, readings: Readings) -> frozenset[int]:
    """Return the ports at both ends of the links that were lost because a switch has no power."""
    site, f = readings.site, readings.site.fabric
    dead = _without_power(readings) | facts.isolated.keys()
    ports = {p for node in dead for p in f.ports_of(node)}
    ports |= {int(site.peer[p]) for p in ports if site.peer[p] >= 0}
    return frozenset(ports) | {
        p for p in facts.lost if dead and site.peer[p] < 0 and ports.issuperset(facts.other_ends.get(p, ()))
    }


def _without_power(readings: Readings) -> frozenset[int]:
    """Return the switches with several links that failed and are down, and with no link that is known to be up."""
    site, f = readings.site, readings.site.fabric
    lost, up = np.zeros((2, len(f.node_guid)), np.int64)
    ports = np.flatnonzero(site.peer >= 0)
    link = np.maximum(readings.link[ports], readings.link[site.peer[ports]])
    np.add.at(lost, f.port_node[ports], link == 1)
    np.add.at(up, f.port_node[ports], (link == 0) | (link == 2))
    return frozenset(np.flatnonzero(f.is_switch & (lost >= LOST_LINKS) & (up == 0)).tolist())


def _timeliness(readings: Readings, feature: str, ports: Iterable[int]) -> float:
    """Return the likelihood ratio of the time at which the counters of a feature rose. If the feature has the cause of
    the failure, this time is probably in the likely part of the window; if it is a coincidence, the time is anywhere in
    the window.
    """
    window, column = readings.window, readings.recent.get(feature)
    recent = -1 if column is None else max((int(column[p]) for p in ports), default=-1)
    if window is None or window.likely_s is None or recent < 0:
        return 1.0
    share = (window.end_s - window.likely_s) / (window.end_s - window.begin_s)
    return IN_TIME / share if recent else (1 - IN_TIME) / (1 - share)


def _present(p: float, usual: float, timely: float) -> float:
    """Return the likelihood ratio of a feature that is present. ``p``: its probability given the cause; ``usual``: its
    probability as a coincidence; ``timely``: result of :func:`_timeliness`.
    """
    return max(p * timely, usual) / usual if p > usual else p / usual


def _ratio(cause: Cause, name: str, value: int, timely: float = 1.0) -> float:
    if value < 0:
        return 1.0
    usual = BACKGROUND[name]
    p = cause.features.get(name, usual)
    return _present(p, usual, timely) if value else (1 - p) / (1 - usual)


def _link_ratio(cause: Cause, link: int, timely: float = 1.0) -> float:
    """Return the likelihood ratio of a cable that failed and is down (1), failed and came back (2),
    or did neither (0)."""
    if link < 0:
        return 1.0
    down, back = (
        cause.features.get("link-down", BACKGROUND["link-down"]),
        cause.features.get("link-back", BACKGROUND["link-back"]),
    )
    usual = BACKGROUND["link-down"], BACKGROUND["link-back"]
    neither = (1 - down - back) / (1 - sum(usual))
    return (neither, _present(down, usual[0], timely), _present(back, usual[1], timely))[link]


def _at(feature: np.ndarray, site: Site, cable: int) -> int:
    """Return the feature of a cable, which is present if either end has it."""
    return max(int(feature[p]) for p in _ends(site, cable))


def _cable_ratio(cause: Cause, readings: Readings, cable: int) -> float:
    site, ends = readings.site, _ends(readings.site, cable)
    if not readings.explained.isdisjoint(ends):
        return 1.0  # a switch without power explains this cable's features
    link = _at(readings.link, site, cable)
    ratio = _link_ratio(cause, link, _timeliness(readings, "link", ends))
    up = link < 0 and readings.up_now(cable)
    if up:
        ratio *= _ratio(cause, "link-down", 0)
    for name, feature in (
        ("damaged", readings.damaged),
        ("waits", readings.waits),
        ("unheard", readings.unheard),
        ("unreached", readings.unreached),
    ):
        ratio *= _ratio(cause, name, _at(feature, site, cable), _timeliness(readings, name, ends))
    if link < 0 and readings.ever:
        for name, total in (("fell-ever", readings.ever["falls"]), ("errors-ever", readings.ever["errors"])):
            more = _ratio(cause, name, int(max(total[p] for p in _ends(site, cable)) > 0))
            stays_down = name == "fell-ever" and cause.features.get("link-down", 0.0) > LINK_RETURNED
            ratio *= min(1.0, more) if up and stays_down else more
    return ratio


def _rest_ratio(cause: Cause, readings: Readings) -> float:
    """Return the likelihood ratio of cables without features. If there is a history of counters, the absence of
    features is evidence, too.
    """
    if readings.site.observed is None or not readings.covered.any():
        return _ratio(cause, "link-down", 0) if readings.site.is_live else 1.0
    return _link_ratio(cause, 0) * _ratio(cause, "damaged", 0) * _ratio(cause, "waits", 0)


def _node_ratio(cause: Cause, facts: Facts, readings: Readings, node: int) -> float:
    site, f = readings.site, readings.site.fabric
    ports = [p for p in f.ports_of(node) if site.peer[p] >= 0]
    if cause.scope == "host":
        ports = [p for p in ports if p not in readings.explained]
    links = [_at(readings.link, site, p) for p in ports]
    timely = [_timeliness(readings, "link", _ends(site, p)) for p in ports]
    if cause.scope == "switch" and site.observed is None and any(readings.up_now(p) for p in ports):
        ratio = _ratio(cause, "link-down", 0)  # the host runs, so a lost link is the cable's fault
    else:
        lost = [p for p in f.ports_of(node) if p in facts.lost - readings.explained and site.peer[p] < 0]
        lost = lost if cause.scope == "host" else []
        logs = [math.log(_link_ratio(cause, link, t)) for link, t in zip(links, timely, strict=True)]
        logs += [math.log(_link_ratio(cause, 1))] * (LOST_LINKS if node in facts.isolated else len(lost))
        logs += [math.log(_ratio(cause, "unreached", _at(readings.unreached, site, p))) for p in ports]
        ratio = math.exp(min(MOST_LOG, sum(logs)))
    if cause.scope == "switch":
        answers: Iterable[int] = (int(v) for v in readings.silent[ports] if v >= 0)
        silent = list(answers)
        ratio *= _ratio(cause, "silent", int(2 * sum(silent) > len(silent)) if silent else -1)
        ratio = min(ratio, max(timely, default=1.0) / DEAD_SWITCH)
    elif facts.alive and node not in facts.named:
        ratio *= _ratio(cause, "alive", 1 if node in facts.alive else -1)
    return ratio
