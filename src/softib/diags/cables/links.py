"""Finds links that are down, and links that are slower or narrower than their ends support, or than their peers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from softib.diags.cables.device_speeds import supported
from softib.diags.context import Context
from softib.diags.finding import Finding, Severity, code, finding
from softib.diags.rules import mode
from softib.diags.structure.ranks import TREES
from softib.diags.view import FabricView, speed_text
from softib.fabric.identity import models
from softib.iba.constants import PortState
from softib.iba.rates import data_gbps
from softib.plural import counted, plural

LINK_NOT_ACTIVE = code(
    "link-not-active",
    Severity.ERROR,
    "a cabled link is not in state ACTIVE",
    "DOWN: cable, transceiver, power; INIT or ARMED: the subnet manager has not configured it",
)
LINKS_NOT_ACTIVE = code(
    "fabric-not-active", Severity.ERROR, "most links are not in state ACTIVE", "start a subnet manager"
)
LINK_SLOW = code(
    "link-slow",
    Severity.WARNING,
    "a link runs at a lower speed than both ends support",
    "check that the speed is enabled at both ends (ibportstate), then reseat or replace the cable",
)
LINK_NARROW = code(
    "link-narrow",
    Severity.WARNING,
    "a link runs on fewer lanes than both ends support",
    "check the enabled width and the split mode (ibportstate), then reseat or replace the cable: a lane did not train",
)
LINK_SLOWER_THAN_PEERS = code(
    "link-slower-than-peers",
    Severity.WARNING,
    "a link carries less than the other links of its kind",
    "compare cable, transceiver and firmware with those of its peers",
)
LINKS_BELOW_GENERATION = code(
    "links-below-generation",
    Severity.INFO,
    "many links of a kind run below the rate of their parts, or below the rest",
    "compare the enabled speeds and widths with those of faster ports (ibportstate, smpquery portinfo): one setting "
    "slows many links; replace no cable before. Expected with slower cables, splitters or card variants",
)
MIXED_LINK_SPEEDS = code(
    "mixed-link-speeds",
    Severity.WARNING,
    "many links between two tiers of switches are slower than the rest, although their parts support the same rate, or "
    "next to faster uplinks of the same switches",
    "compare first the enabled speeds and widths, then the cables of both groups: routing counts links, not their "
    "speed, so the slow ones limit the traffic",
)

MANY = 8
PEER_SHARE = 0.75
"""Minimum share of the links of a kind that must have the same rate before the other links are exceptions."""
MIN_PEERS = 4
COMMON = 0.1
"""Minimum share of a group's links with a rate for this rate to be common. A group may have several common rates."""
RARE, RARE_LINKS = 0.05, 2
"""Maximum share of a group's links, and maximum number of links, with a rate for this rate to be an exception. More
links with one rate are a separate class.
"""
FRACTION_OF_FAULT = 0.25
"""Share of the supported rate at which a link is faulty: no variant of a part or cable is designed to run so slowly."""
AT_A_SWITCH = 4
"""Minimum number of slow links with one rate at a switch for one finding about all of them."""


def inactive_links(c: Context) -> Iterator[Finding]:
    """Report links with a port that is not ACTIVE, if the source records port states."""
    view, f = c.view, c.view.fabric
    if "states" not in view.records or not len(view.cable):
        return
    state = f.port_state
    bad = np.flatnonzero((state[view.port_a] != PortState.ACTIVE) | (state[view.port_b] != PortState.ACTIVE))
    if len(bad) > max(MANY, len(view.cable) // 2):
        ports = np.stack([view.port_a[bad], view.port_b[bad]], axis=1).ravel()
        yield finding(
            LINKS_NOT_ACTIVE,
            map(view.location, ports.tolist()),
            f"{len(bad)} of {counted(len(view.cable), 'link')} {plural(len(view.cable), 'is', 'are')} not active",
            {"links": len(bad), "of": len(view.cable)},
        )
        return
    for row in bad.tolist():
        a, b = int(view.port_a[row]), int(view.port_b[row])
        names = sorted({PortState(int(state[p])).name for p in (a, b) if state[p] != PortState.ACTIVE})
        yield finding(
            LINK_NOT_ACTIVE,
            [view.location(a), view.location(b)],
            f"{view.link_name(a, b)}: {' / '.join(names)}, not ACTIVE",
            {"states": names},
        )


def slow_links(c: Context) -> Iterator[Finding]:
    """Report links that are slower than both ends support, or slower than their peers. A class of slow links is one
    finding.
    """
    view = c.view
    if "speeds" not in view.records or not len(view.cable):
        return
    a, b = view.port_a, view.port_b
    speed = np.minimum(view.speed[a], view.speed[b]).astype(np.int64)
    external = ~view.is_sharp[view.node_a] & ~view.is_sharp[view.node_b] & (speed > 0)
    rows = np.flatnonzero(external)
    if not len(rows):
        return
    lanes = np.minimum(view.lanes[a], view.lanes[b])
    (speed_a, lanes_a), (speed_b, lanes_b) = supported(view, a), supported(view, b)
    can, wide = np.minimum(speed_a, speed_b), np.minimum(lanes_a, lanes_b)
    links = _Links(view, rows, speed, lanes, can, wide, "capabilities" in view.records, _uneven(c, rows))
    kind, on, classes = _kinds(c)
    groups = [_Peers(links, g[rows]) for g in classes]
    here, of_class = groups[0], groups[1]
    here.odd &= ~_scattered(here, of_class)
    choice = _agreeing_class(of_class, _Peers(links, on[rows]))
    reported: set[tuple[int, int | None]] = set()
    for k in np.unique(kind[rows]).tolist():
        for one in _judge(links, np.flatnonzero(kind[rows] == k), groups, choice):
            reported.update((place.guid, place.portnum) for place in one.where)
            yield one
    yield from _slower_models(c, links, reported)


def _uneven(c: Context, rows: np.ndarray) -> np.ndarray:
    """Return the uplinks of a tree that are slower than other uplinks of the same switch (bool[cables]). They matter
    because routing distributes paths over links regardless of their speed. ``rows``: the links whose speed is known.
    """
    view, rank = c.view, c.structure.rank.astype(np.int64)
    up = np.zeros(len(view.cable), bool)
    if c.structure.kind in TREES:
        up[rows] = (view.is_switch[view.node_a] & view.is_switch[view.node_b])[rows]
        up &= (rank[view.node_a] != rank[view.node_b]) & (rank[view.node_a] > 0) & (rank[view.node_b] > 0)
    low = np.where(rank[view.node_a] < rank[view.node_b], view.node_a, view.node_b)
    most = np.zeros(len(view.names))
    np.maximum.at(most, low[up], view.link_gbps[up])
    return np.asarray(up & (view.link_gbps < most[low]))


def _slower_models(c: Context, links: _Links, reported: set[tuple[int, int | None]]) -> Iterator[Finding]:
    """Report the uneven uplinks that no other finding names, one finding for each pair of tiers and each rate. They
    lead to a switch of a slower model.
    """
    view, rank = c.view, c.structure.rank.astype(np.int64)[: len(c.view.names)]
    locations = [view.location(int(p)) for p in view.port_a[links.rows]]
    named = np.array([(place.guid, place.portnum) in reported for place in locations], bool)
    tiers = np.minimum(rank[view.node_a], rank[view.node_b]) * 128 + np.maximum(rank[view.node_a], rank[view.node_b])
    between = view.is_switch[view.node_a[links.rows]] & view.is_switch[view.node_b[links.rows]]
    left = links.uneven[links.rows] & ~named
    for tier, gbps in np.unique(np.stack([tiers[links.rows][left], links.gbps[left]]), axis=1).T.tolist():
        at = np.flatnonzero(between & (tiers[links.rows] == tier))
        chosen = left[at] & (links.gbps[at] == gbps)
        if chosen.sum() >= AT_A_SWITCH:
            yield _crowd(links, at, chosen, None)


@dataclass(frozen=True)
class _Links:
    """Columns over ``view.cable``: the active and the supported rate of each link (0: unknown). ``rows``: the checked
    links. ``sure``: the source states the supported rates (otherwise they are those of the parts). ``uneven``: result
    of :func:`_uneven`.
    """

    view: FabricView
    rows: np.ndarray
    speed: np.ndarray
    lanes: np.ndarray
    can: np.ndarray
    wide: np.ndarray
    sure: bool
    uneven: np.ndarray

    @property
    def gbps(self) -> np.ndarray:
        """The data rate of each checked link in Gb/s."""
        return self.view.link_gbps[self.rows]


class _Peers:
    """The checked links in groups of peers: the most common rate of each link's group, and the
    exceptions."""

    def __init__(self, links: _Links, group: np.ndarray):
        gbps = links.gbps
        at = np.unique(group, return_inverse=True)[1].reshape(-1)
        rates, rate = np.unique(gbps, return_inverse=True)
        cell, inverse, count = np.unique(at * len(rates) + rate.reshape(-1), return_inverse=True, return_counts=True)
        of, size = cell // len(rates), np.bincount(at)
        by_count = np.argsort(count, kind="stable")  # later writes win: the most frequent rate of each group
        usual = np.zeros(len(size), np.int64)
        usual[of[by_count]] = by_count
        floor = np.full(len(size), np.inf)
        common = count >= np.maximum(MIN_PEERS, COMMON * size[of])
        np.minimum.at(floor, of[common], rates[cell[common] % len(rates)])
        floor[np.isinf(floor)] = 0.0  # groups without a common rate have no exceptions
        self.inverse = inverse.reshape(-1)
        self.size, self.same_rate = size[at], count[self.inverse]
        self.usual_gbps, self.usual_count = rates[cell[usual] % len(rates)][at], count[usual][at]
        rare = self.same_rate <= np.maximum(RARE_LINKS, RARE * self.size)
        self.slower = gbps < self.usual_gbps
        self.majority = (self.usual_count >= PEER_SHARE * self.size) & (self.size >= MIN_PEERS)
        self.odd = rare & ((self.slower & self.majority) | (gbps < floor[at]))
        """Whether each link is an exception: slower than most links of its group, or than every common rate of the
        group."""


def _scattered(here: _Peers, of_class: _Peers) -> np.ndarray:
    """Return the links that are slower than most links of their switch, although many links of their class run at the
    same rate on switches with faster links (bool[links]). In such a class, servers of both rates are mixed, so the
    other hosts of the switch are not a reference.
    """
    slower = np.bincount(of_class.inverse, here.slower)[of_class.inverse]
    return np.asarray(slower >= np.maximum(MIN_PEERS, COMMON * of_class.size))


def _agreeing_class(of_class: _Peers, on_switch: _Peers) -> np.ndarray:
    """Return the links of classes that have only one rate, on switches on which all hosts have this rate (bool[links]).
    If the parts are unknown, these are assumed to be servers of another model.
    """
    agree = of_class.same_rate == of_class.size
    return np.asarray(agree & (of_class.size > 1) & (on_switch.same_rate == on_switch.size))


class _Kinds(NamedTuple):
    """Columns of the links of ``view.cable`` (int64[links])."""

    kind: np.ndarray
    """The kind of the link, which follows from the parts and tiers of both ends."""
    switch: np.ndarray
    """The switch of a link to a host; a negative number that no other link has for a link between switches."""
    peers: list[np.ndarray]
    """Groups of links within a kind, the closest peers first."""


def _kinds(c: Context) -> _Kinds:
    """Return the kinds of links, and their peers.

    The closest peers of a host's link are the links of hosts of its class on the same switch, then those of its class
    in the fabric, then those of its kind. A class contains one adapter (``mlx5_4`` may be the storage rail) of each
    host whose name differs only in numbers; these adapters have the same part and number of ports.
    """
    view, f = c.view, c.view.fabric
    part = np.stack([c.structure.rank.astype(np.int64), models(f)])
    part = np.unique(part, axis=1, return_inverse=True)[1].reshape(-1)
    named = np.unique(np.stack([part, host_classes(c), f.node_nports]), axis=1, return_inverse=True)[1].reshape(-1)
    kind, by_class = (_pairs_of(of, view) for of in (part, named))
    switch = np.where(view.is_switch[view.node_a], view.node_a, view.node_b)
    to_host = view.is_host[view.node_a] | view.is_host[view.node_b]
    on_switch = by_class * len(view.names) + np.where(to_host, switch, 0)
    switch = np.where(to_host, switch, -1 - np.arange(len(switch)))  # a link between switches is alone in its group
    return _Kinds(kind, switch, [on_switch, by_class, kind])


def _pairs_of(of: np.ndarray, view: FabricView) -> np.ndarray:
    """Return a number for each cable that identifies the unordered pair of the values of ``of`` at its ends."""
    x, y = of[view.node_a], of[view.node_b]
    return np.asarray(np.minimum(x, y) * (of.max(initial=0) + 1) + np.maximum(x, y))


def host_classes(c: Context) -> np.ndarray:
    """Return the number of each node's class, as in :func:`_kinds` (int64[nodes]); 0 for switches and for nodes without
    a class.
    """
    view, class_of = c.view, c.pattern.labels.class_of
    numbers: dict[tuple[int, str], int] = {}
    out = np.zeros(len(view.names), np.int64)
    hosts, adapters = np.flatnonzero(view.is_host), view.adapters
    none = ("", "")
    for node, name_class in zip(hosts.tolist(), class_of[hosts].tolist(), strict=True):
        out[node] = numbers.setdefault((name_class, adapters.get(node, none)[1]), len(numbers) + 1)
    return out


def _judge(links: _Links, at: np.ndarray, groups: list[_Peers], choice: np.ndarray) -> Iterator[Finding]:
    """Yield findings about the links ``at`` (indices into ``links.rows``), which are of one kind. ``choice``: result of
    :func:`_agreeing_class` for all links.
    """
    rows = links.rows[at]
    speed, lanes, can, wide = links.speed[rows], links.lanes[rows], links.can[rows], links.wide[rows]
    rated = (can > 0) & (wide > 0)
    below = rated & ((speed < can) | (lanes < wide))
    deficient = rated & (links.gbps[at] <= FRACTION_OF_FAULT * data_gbps(can, wide))
    deficient |= ~rated & (lanes <= FRACTION_OF_FAULT * wide)
    here, kind = groups[0], groups[-1]
    # If all hosts of a leaf have one rate, this may also be the design.
    alike = (here.same_rate[at] >= PEER_SHARE * here.size[at]) & (here.size[at] >= MIN_PEERS)
    alike |= choice[at] & ~rated
    odd = np.any([g.odd[at] for g in groups], axis=0) & ~alike
    crowd = np.zeros(len(at), bool)
    if links.sure:  # many links with one rate below that of their ends are a design (cables, splitters), not faults
        on_switch, of_kind = (np.bincount(g.inverse[at], below)[g.inverse[at]] for g in (here, kind))
        alike = (on_switch >= PEER_SHARE * here.size[at]) & (here.size[at] >= MIN_PEERS)
        crowd = below & ~odd & (alike | (of_kind > np.maximum(MANY, RARE * kind.size[at])))
        single = below & ~crowd
    else:
        single = odd
        crowd = ~odd & kind.slower[at] & kind.majority[at]
        if len(at) >= MIN_PEERS:  # other links between the same parts and tiers are faster
            crowd |= ~odd & below & (links.gbps[at] < links.gbps[at].max())
        if kind.majority[at[0]] and rated.all():
            usual = links.gbps[at] == kind.usual_gbps[at]
            crowd |= usual & below
        single |= deficient & ~crowd
    rate = speed * 16 + lanes
    for several in _at_one_switch(links, rows, rate, np.flatnonzero(single)):
        findings = [
            _single(links, int(rows[i]), next((g for g in groups if g.odd[at[i]]), kind), int(at[i])) for i in several
        ]
        yield findings[0] if len(findings) == 1 else _of_a_switch(links, rows, several, findings)
    for one in np.unique(rate[crowd]).tolist():
        chosen = crowd & (rate == one)
        yield _crowd(links, at, chosen, Severity.WARNING if deficient[chosen].all() else None)


def _at_one_switch(links: _Links, rows: np.ndarray, rate: np.ndarray, single: np.ndarray) -> Iterator[list[int]]:
    """Split the links ``single`` (indices into ``rows``) into one list per finding: all links of a switch if many have
    the same rate, otherwise single links.
    """
    view, left = links.view, single
    while len(left):
        ends = [(view.node_a[rows[left]], rate[left]), (view.node_b[rows[left]], rate[left])]
        node, of = (np.concatenate(x) for x in zip(*ends, strict=True))
        key = np.where(view.is_switch[node], node.astype(np.int64) * 4096 + of, -1)
        most, count = mode(key[key >= 0])
        if count < AT_A_SWITCH:
            break
        here = (key[: len(left)] == most) | (key[len(left) :] == most)
        yield left[here].tolist()
        left = left[~here]
    yield from ([i] for i in left.tolist())


def _of_a_switch(links: _Links, rows: np.ndarray, several: list[int], findings: list[Finding]) -> Finding:
    """Return one finding for the equally slow links of a switch."""
    view, slow = links.view, rows[several]
    ends = np.concatenate([view.node_a[slow], view.node_b[slow]])
    switch = mode(ends[view.is_switch[ends]])[0]
    kind = np.concatenate([view.node_a[rows], view.node_b[rows]])
    of = int((kind == switch).sum())
    where = [place for f in findings for place in f.where]
    first = findings[0]
    _, _, rest = first.message.partition(": runs at ")
    return finding(
        first.code,
        where,
        f"{view.display_names[switch]}: {len(findings)} of its {counted(of, 'link')} of a kind, "
        f"{view.link_name(int(view.port_a[slow[0]]), int(view.port_b[slow[0]]))} "
        f"the first, run at {rest}",
        {**first.evidence, "links": len(findings), "of": of},
    )


def _crowd(links: _Links, at: np.ndarray, chosen: np.ndarray, severity: Severity | None) -> Finding:
    """Return the finding for many equally slow links of a kind."""
    view, first = links.view, int(links.rows[at[chosen][0]])
    a, b = int(view.port_a[first]), int(view.port_b[first])
    count, of = int(chosen.sum()), len(at)
    now = speed_text(int(links.speed[first]), int(links.lanes[first]))
    can = links.can[first] > 0
    parts = f"their parts are {speed_text(int(links.can[first]), int(links.wide[first]))}" if can else ""
    faster = int((links.gbps[at] > links.gbps[at[chosen][0]]).sum())
    others = f"{faster} of their kind run faster" if faster else ""
    low = links.rows[at[chosen]]
    between = view.is_switch[view.node_a[first]] and view.is_switch[view.node_b[first]]
    mixed = faster and between and (can or links.uneven[low].any())
    ports = np.stack([view.port_a[low], view.port_b[low]], axis=1).ravel()
    return finding(
        MIXED_LINK_SPEEDS if mixed else LINKS_BELOW_GENERATION,
        map(view.location, ports.tolist()),
        f"{counted(count, 'link')}{plural(count, '', ' such as')} {view.link_name(a, b)} "
        f"{plural(count, 'runs', 'run')} at {now}, {' and '.join(t for t in (parts, others) if t)}",
        {
            "links": count,
            "of": of,
            "faster": faster,
            "speed": speed_text(int(links.speed[first])),
            "lanes": int(links.lanes[first]),
            "can": speed_text(int(links.can[first])) if can else None,
        },
        severity=severity,
    )


def _single(links: _Links, row: int, peers: _Peers, at: int) -> Finding:
    view, speed, lanes = links.view, int(links.speed[row]), int(links.lanes[row])
    a, b = int(view.port_a[row]), int(view.port_b[row])
    now = speed_text(speed, lanes)
    evidence: dict[str, Any] = {"speed": speed_text(speed), "lanes": lanes}
    usual = _at_rate(links, peers, at) if peers.slower[at] else ""
    if usual:
        evidence |= {"peers": usual, "peers_there": int(peers.usual_count[at]), "peers_in_all": int(peers.size[at]) - 1}
    where = [view.location(a), view.location(b)]
    if not links.sure:
        most = f"{peers.usual_count[at]} of its {peers.size[at] - 1} peers at {usual}" if usual else "its peers faster"
        lacks_lanes = lanes < links.wide[row] and not links.can[row]
        if usual or not (links.can[row] or lacks_lanes):
            return finding(LINK_SLOWER_THAN_PEERS, where, f"{view.link_name(a, b)}: runs at {now}, {most}", evidence)
    can, wide = int(links.can[row]), int(links.wide[row])
    evidence |= {"can": speed_text(can) if can else None, "can_lanes": wide}
    best = speed_text(can, wide)
    narrow = speed >= can
    return finding(
        LINK_NARROW if narrow else LINK_SLOW,
        where,
        f"{view.link_name(a, b)}: runs at {now}, both ends support {best if not narrow else f'{wide}x'}",
        evidence,
    )


def _at_rate(links: _Links, peers: _Peers, at: int) -> str:
    """Return the most common rate of the peers of link ``at``, as text."""
    row = int(links.rows[np.flatnonzero(links.gbps == peers.usual_gbps[at])[0]])
    return speed_text(int(links.speed[row]), int(links.lanes[row]))
