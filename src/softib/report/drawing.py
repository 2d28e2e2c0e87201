"""The fabric as a picture: switches by tiers, hosts below their leaf, links coloured by load, speed or findings.

SVG text of bounded size: switches of a large tier share boxes, cables between the same boxes share a line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from markupsafe import escape

from softib.diags.finding import Finding
from softib.fabric.model import Fabric
from softib.iba.rates import SPEED_BY_CODE
from softib.report.tiers import Tiers
from softib.routing.graph import SwitchGraph

__all__ = ["LOAD_STEPS", "Bundle", "bundles", "draw", "ghosts", "load_class", "short_name"]

WIDTH, TIER_HEIGHT, BOX_HEIGHT, MARGIN = 1160.0, 150.0, 26.0, 24.0
MAX_LINES = 3000
"""Lines of a drawing: the busiest and the faulty come first."""
LOAD_STEPS = (0.5, 0.9, 1.1, 2.0)
"""Borders of the load colours: share of a link that uniform traffic at full rate needs; 1 = exactly full."""
SHOW_HOSTS = 72
"""Up to so many hosts each is drawn by itself."""


@dataclass
class Bundle:
    """Cables between two boxes: how many, the largest load, speeds, and the worst finding (-1 = none)."""

    a: int
    b: int
    cables: int
    load: float
    speed: str
    slow: bool
    severity: int


def short_name(name: str) -> str:
    """What people call a node: ``MF0;leaf-1:MQM9700/U1`` is ``leaf-1``."""
    found = re.fullmatch(r"[^;]*;([^:;]+):.*", name)
    return found[1] if found else name


def load_class(load: float) -> int:
    """Colour 0–4 of a load."""
    return int(np.searchsorted(LOAD_STEPS, load, side="right"))


def port_severity(fabric: Fabric, findings: Iterable[Finding]) -> np.ndarray:
    """Worst severity of the findings at each port (int8[ports], -1 = none)."""
    worst = np.full(fabric.sizes.ports, -1, np.int8)
    node_of = {int(g): i for i, g in enumerate(fabric.node_guid)}
    for finding in findings:
        for place in finding.where:
            node = node_of.get(place.guid)
            if node is None or not place.portnum or place.portnum > fabric.node_nports[node]:
                continue
            port = int(fabric.port(node, place.portnum))
            worst[port] = max(worst[port], int(finding.severity))
    return worst


def bundles(
    fabric: Fabric,
    graph: SwitchGraph,
    tiers: Tiers,
    load: np.ndarray | None,
    gbps: np.ndarray,
    findings: Iterable[Finding],
) -> list[Bundle]:
    """Cables between different boxes as lines, faulty first, then by load. ``load`` is by switch link (relative)."""
    owner = np.repeat(np.arange(graph.n_switches), np.diff(graph.first))
    row = np.flatnonzero(np.arange(len(owner)) < graph.reverse)
    a, b = tiers.box[owner[row]], tiers.box[graph.peer[row]]
    keep = a != b
    row, a, b = row[keep], a[keep], b[keep]
    a, b = np.minimum(a, b), np.maximum(a, b)
    key, which = np.unique(a.astype(np.int64) * len(tiers.box_tier) + b, return_inverse=True)
    port = fabric.node_base[graph.switch_node[owner[row]]] + graph.out_port[row]
    most, slowest, fastest = np.zeros(len(key)), np.full(len(key), np.inf), np.zeros(len(key))
    if load is not None:
        np.maximum.at(most, which, np.maximum(load[row], load[graph.reverse[row]]))
    np.minimum.at(slowest, which, gbps[port])
    np.maximum.at(fastest, which, gbps[port])
    severity = port_severity(fabric, findings)
    worst = np.full(len(key), -1)
    np.maximum.at(worst, which, np.maximum(severity[port], severity[fabric.port_peer[port]]))
    cables = np.bincount(which, minlength=len(key))
    order = np.lexsort((-most, -worst))[:MAX_LINES]
    n = max(len(tiers.box_tier), 1)
    return [
        Bundle(int(key[i] // n), int(key[i] % n), int(cables[i]), float(most[i]),
               _speeds(float(slowest[i]), float(fastest[i])), bool(slowest[i] < fastest[i]), int(worst[i]))
        for i in order
    ]  # fmt: skip


def ghosts(fabric: Fabric, graph: SwitchGraph, tiers: Tiers, findings: Iterable[Finding]) -> list[Bundle]:
    """Cables that are not there: findings that name two free switch ports, as lines of 0 cables."""
    switch_of = {int(graph.switch_guid[s]): s for s in range(graph.n_switches)}
    node_of = {int(g): i for i, g in enumerate(fabric.node_guid)}
    out = []
    for finding in findings:
        if len(finding.where) != 2 or any(p.guid not in switch_of or not p.portnum for p in finding.where):
            continue
        a, b = (int(tiers.box[switch_of[p.guid]]) for p in finding.where)
        nodes = [node_of[p.guid] for p in finding.where]
        ports = [int(fabric.port(n, p.portnum)) for n, p in zip(nodes, finding.where, strict=True)]
        known = all(p.portnum <= fabric.node_nports[n] for n, p in zip(nodes, finding.where, strict=True))
        if a != b and known and (fabric.port_peer[ports] < 0).all():
            out.append(Bundle(min(a, b), max(a, b), 0, 0.0, "no cable", False, int(finding.severity)))
    return out[:MAX_LINES]


def _speeds(slowest: float, fastest: float) -> str:
    low, high = f"{slowest:g}", f"{fastest:g}"
    return f"{high} Gb/s" if low == high else f"{low} to {high} Gb/s"


def draw(
    fabric: Fabric, graph: SwitchGraph, tiers: Tiers, lines: list[Bundle], host_names: dict[int, list[str]]
) -> str:
    """The drawing as one ``<svg>``. ``host_names`` are the CA ports by switch."""
    around = tiers.n_tiers == 1 and 2 < len(tiers.box_tier) <= 2 * MAX_LINES and bool(lines)
    place, height = _circle(tiers) if around else _rows(tiers)
    names = [short_name(fabric.node_name(int(n))) for n in graph.switch_node]
    parts = [
        f'<svg class="fabric by-load" viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="drawing of the fabric">'
    ]
    speeds = sorted({b.speed for b in lines if b.cables}, key=lambda s: float(s.split(" ")[0]), reverse=True)
    members: list[list[int]] = [[] for _ in tiers.box_tier]
    for s in np.lexsort((np.arange(len(names)), tiers.box)):
        members[tiers.box[s]].append(int(s))
    opacity = 0.8 if len(lines) < 200 else 0.55 if len(lines) < 800 else 0.35
    parts.append(f'<g class="links" stroke-opacity="{opacity}">')
    # The worst last: SVG paints in order.
    parts += [
        _line(b, place, tiers, members, names, speeds.index(b.speed) if b.cables else 0, around)
        for b in reversed(lines)
    ]
    parts.append("</g><g class='boxes'>")
    if not around:
        parts += [_tier_label(tiers, t, place) for t in range(tiers.n_tiers)]
    few = int(tiers.hosts.sum()) <= SHOW_HOSTS
    parts += [
        _box(b, place[b], members[b], names, tiers, host_names if few else {}, around) for b in range(len(members))
    ]
    return "".join([*parts, "</g></svg>"])


def _rows(tiers: Tiers) -> tuple[np.ndarray, float]:
    """x, y and width of each box in rows, leaves at the bottom; the height of the picture."""
    place = np.zeros((len(tiers.box_tier), 3))
    for t in range(tiers.n_tiers):
        mine = tiers.boxes_of(t)
        pitch = (WIDTH - 2 * MARGIN) / max(len(mine), 1)
        place[mine, 0] = MARGIN + pitch * (np.arange(len(mine)) + 0.5)
        place[mine, 1] = 30 + TIER_HEIGHT * (tiers.n_tiers - 1 - t)
        place[mine, 2] = min(118.0, pitch * 0.84)
    return place, 30 + TIER_HEIGHT * max(tiers.n_tiers - 1, 0) + BOX_HEIGHT + 58


def _circle(tiers: Tiers) -> tuple[np.ndarray, float]:
    n = len(tiers.box_tier)
    radius = min(300.0, 90.0 + 9.0 * n)
    angle = 2 * math.pi * np.arange(n) / n - math.pi / 2
    width = min(100.0, max(8.0, 1.7 * math.pi * radius / n))
    place = np.stack([WIDTH / 2 + 1.5 * radius * np.cos(angle), radius + 60 + radius * np.sin(angle),
                      np.full(n, width)], axis=1)  # fmt: skip
    return place, 2 * radius + 150


def _tier_label(tiers: Tiers, tier: int, place: np.ndarray) -> str:
    y = place[tiers.boxes_of(tier), 1].max(initial=0)
    return f'<text class="tier" x="{MARGIN}" y="{y - 10:.0f}">{escape(tiers.labels[tier])}</text>'


def _line(
    b: Bundle, place: np.ndarray, tiers: Tiers, members: list[list[int]], names: list[str], speed: int, around: bool
) -> str:
    (x1, y1, _), (x2, y2, _) = place[b.a], place[b.b]
    if around:
        path = f"M{x1:.1f} {y1 + 13:.1f}L{x2:.1f} {y2 + 13:.1f}"
    elif y1 == y2:
        lift = y1 - 26 - 0.06 * abs(x2 - x1)
        path = f"M{x1:.1f} {y1:.1f}Q{(x1 + x2) / 2:.1f} {lift:.1f} {x2:.1f} {y2:.1f}"
    else:
        path = (
            f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2 + BOX_HEIGHT:.1f}"
            if y1 > y2
            else f"M{x1:.1f} {y1 + BOX_HEIGHT:.1f}L{x2:.1f} {y2:.1f}"
        )
    width = min(1.0 + 0.45 * math.log2(max(b.cables, 1)), 4.0)
    mark = {2: " f2", 1: " f1", 0: " f0"}.get(b.severity, "")
    ends = f"{_who(members[b.a], names)} – {_who(members[b.b], names)}"
    tip = f"{ends}: {b.cables} cable{'s' * (b.cables != 1)}, {b.speed}, load {b.load:.2f}"
    if not b.cables:
        return f'<path class="ghost{mark}" d="{path}" stroke-width="2"><title>{escape(f"{ends}: a cable is missing")}</title></path>'
    return (
        f'<path class="l{load_class(b.load)} s{min(speed, 4)}{mark}{" slow" if b.slow else ""}" d="{path}" '
        f'stroke-width="{width:.1f}"><title>{escape(tip)}</title></path>'
    )


def _who(switches: list[int], names: list[str]) -> str:
    return names[switches[0]] if len(switches) == 1 else f"{names[switches[0]]} … {names[switches[-1]]}"


def _box(
    box: int,
    at: np.ndarray,
    switches: list[int],
    names: list[str],
    tiers: Tiers,
    host_names: dict[int, list[str]],
    around: bool,
) -> str:
    x, y, w = at
    hosts = int(tiers.hosts[switches].sum())
    tip = f"{_who(switches, names)}: {len(switches)} switch{'es' * (len(switches) != 1)}, {hosts} host ports"
    label = names[switches[0]] if len(switches) == 1 else f"{len(switches)}×"
    room = int(w / 6.0)
    text = ""
    if len(label) <= room or room >= 9:
        shown = label if len(label) <= room else "…" + label[-(room - 1) :]
        text = f'<text x="{x:.1f}" y="{y + 17:.1f}">{escape(shown)}</text>'
    rect = f'<rect x="{x - w / 2:.1f}" y="{y:.1f}" width="{w:.1f}" height="{BOX_HEIGHT:.0f}" rx="4"/>'
    below = _hosts(x, y + BOX_HEIGHT, w, hosts, [h for s in switches for h in host_names.get(s, [])], around)
    return f'<g class="t{min(int(tiers.box_tier[box]), 3)}"><title>{escape(tip)}</title>{rect}{text}{below}</g>'


def _hosts(x: float, y: float, w: float, hosts: int, names: list[str], around: bool) -> str:
    if not hosts:
        return ""
    if names and not around:
        step = min(14.0, w / max(len(names), 1))
        left = x - step * (len(names) - 1) / 2
        return "".join(
            f'<line class="wire" x1="{x:.1f}" y1="{y:.1f}" x2="{left + i * step:.1f}" y2="{y + 22:.1f}"/>'
            f'<circle class="host" cx="{left + i * step:.1f}" cy="{y + 26:.1f}" r="{min(5.0, step / 2.4):.1f}">'
            f"<title>{escape(name)}</title></circle>"
            for i, name in enumerate(names)
        )
    size = "" if w < 14 else f'<text class="count" x="{x:.1f}" y="{y + 30:.1f}">{hosts}</text>'
    return f'<rect class="hosts" x="{x - w / 2:.1f}" y="{y + 4:.1f}" width="{w:.1f}" height="{min(4 + hosts / 6, 14):.1f}" rx="2"/>{size}'


def speed_name(code: int) -> str:
    """Generation of a speed code (``HDR``), or ``?``."""
    return SPEED_BY_CODE[code].name if code in SPEED_BY_CODE else "?"
