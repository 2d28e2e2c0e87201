"""The fabric as a picture: switches by tiers, hosts below their leaf, links coloured by load, speed
or findings.

SVG text of bounded size: switches of a large tier share boxes, cables between the same boxes share
a line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from markupsafe import escape

from softib.analysis.labels import short_name
from softib.analysis.tiers import Tiers
from softib.diags.finding import Finding
from softib.fabric.model import Fabric
from softib.plural import counted
from softib.render.boxes import LETTER, MARGIN, WIDTH, Box, place_boxes, who
from softib.render.bundles import MAX_LINES, Bundle, load_class, node_severity
from softib.routing.graph import SwitchGraph

__all__ = ["draw"]

MARKS = {2: " f2", 1: " f1", 0: " f0", -1: ""}
SHOW_HOSTS = 72
"""Up to so many hosts each is drawn by itself."""


def draw(
    fabric: Fabric,
    graph: SwitchGraph,
    tiers: Tiers,
    lines: list[Bundle],
    host_names: dict[int, list[str]],
    findings: Iterable[Finding] = (),
) -> str:
    """The drawing as one ``<svg>``. ``host_names`` are the CA ports by switch.

    Boxes carry ``data-box``, lines ``data-ends``: what the page's script selects by.
    """
    around = tiers.n_tiers == 1 and 2 < len(tiers.box_tier) <= 2 * MAX_LINES and bool(lines)
    members: list[list[int]] = [[] for _ in tiers.box_tier]
    names = [short_name(fabric.node_name(int(n))) for n in graph.switch_node]
    for s in np.lexsort((np.arange(len(names)), tiers.box)):
        members[tiers.box[s]].append(int(s))
    boxes, heads = place_boxes(tiers, members, names, around)
    height = max((b.y + b.h for b in boxes), default=0.0) + (80 if around else 58)
    worst = node_severity(fabric, findings)[graph.switch_node]
    parts = [
        f'<svg class="fabric by-load" viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="group" '
        'aria-label="drawing of the fabric: arrow keys go from box to box, Enter selects">'
    ]
    speeds = sorted({b.speed for b in lines if b.cables}, key=lambda s: float(s.split(" ")[0]), reverse=True)
    opacity = 0.8 if len(lines) < 200 else 0.55 if len(lines) < 800 else 0.35
    parts.append(f'<g class="links" stroke-opacity="{opacity}">')
    # The worst last: SVG paints in order.
    parts += [
        _line(b, boxes, members, names, speeds.index(b.speed) if b.cables else 0, around) for b in reversed(lines)
    ]
    parts.append("</g><g class='boxes'>")
    if not around:
        parts += [
            f'<text class="tier" x="{MARGIN}" y="{y - 10:.0f}">{escape(tiers.labels[t] + suffix)}</text>'
            for t, (y, suffix) in enumerate(heads)
        ]
    few = int(tiers.hosts.sum()) <= SHOW_HOSTS
    parts += [
        _box(
            i, box, members[i], names, tiers, host_names if few else {}, around, int(worst[members[i]].max(initial=-1))
        )
        for i, box in enumerate(boxes)
    ]
    return "".join([*parts, "</g></svg>"])


def _line(b: Bundle, boxes: list[Box], members: list[list[int]], names: list[str], speed: int, around: bool) -> str:
    one, two = boxes[b.a], boxes[b.b]
    x1, y1, x2, y2 = one.x, one.y, two.x, two.y
    if around:
        path = f"M{x1:.1f} {y1 + 13:.1f}L{x2:.1f} {y2 + 13:.1f}"
    elif y1 == y2:
        lift = y1 - 26 - 0.06 * abs(x2 - x1)
        path = f"M{x1:.1f} {y1:.1f}Q{(x1 + x2) / 2:.1f} {lift:.1f} {x2:.1f} {y2:.1f}"
    elif y1 > y2:
        path = f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2 + two.h:.1f}"
    else:
        path = f"M{x1:.1f} {y1 + one.h:.1f}L{x2:.1f} {y2:.1f}"
    width = min(1.0 + 0.45 * math.log2(max(b.cables, 1)), 4.0)
    mark = MARKS[b.severity]
    ends = f"{who(members[b.a], names)} – {who(members[b.b], names)}"
    where = f'data-ends="{b.a} {b.b}" d="{path}"'
    if not b.cables:
        return (
            f'<path class="ghost{mark}" {where} '
            f'stroke-width="2"><title>{escape(f"{ends}: a cable is missing")}</title></path>'
        )
    tip = f"{ends}: {counted(b.cables, 'cable')}, {b.speed}, load {b.load:.2f}"
    return (
        f'<path class="l{load_class(b.load)} s{min(speed, 4)}{mark}{" slow" if b.slow else ""}" {where} '
        f'stroke-width="{width:.1f}"><title>{escape(tip)}</title></path>'
    )


def _box(
    number: int,
    box: Box,
    switches: list[int],
    names: list[str],
    tiers: Tiers,
    host_names: dict[int, list[str]],
    around: bool,
    severity: int,
) -> str:
    hosts = int(tiers.hosts[switches].sum())
    tip = f"{who(switches, names)}: {counted(len(switches), 'switch')}, {counted(hosts, 'host port')}"
    x, y, w, h = box.x, box.y, box.w, box.h
    if box.upright:
        size = min(10.5, 0.8 * w)
        at = f'transform="translate({x + size / 3:.1f} {y + h / 2:.1f}) rotate(-90)"'
    else:
        # What does not fit is written small: zooming in makes it legible.
        size = min(10.5, 10.5 * w / (LETTER * max(len(box.label), 1)))
        at = f'x="{x:.1f}" y="{y + 13 + size / 3:.1f}"'
    text = f'<text {at} font-size="{size:.1f}">{escape(box.label)}</text>'
    rect = f'<rect x="{x - w / 2:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.0f}" rx="4"/>'
    below = _hosts(x, y + h, w, hosts, [n for s in switches for n in host_names.get(s, [])], around)
    row = min(int(tiers.box_tier[number]), 3)
    return (
        f'<g class="t{row}{MARKS[severity]}" data-box="{number}" role="button" tabindex="{0 if number == 0 else -1}" '
        f'aria-label="{escape(tip)}"><title>{escape(tip)}</title>{rect}{text}{below}</g>'
    )


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
    return (
        f'<rect class="hosts" x="{x - w / 2:.1f}" y="{y + 4:.1f}" width="{w:.1f}" '
        f'height="{min(4 + hosts / 6, 14):.1f}" rx="2"/>{size}'
    )
