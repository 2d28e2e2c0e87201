"""A drawing of the fabric: switches by tier, hosts below their leaf, links coloured by load, speed or findings.

The size of the SVG is bounded: in a large tier, switches share boxes, and cables between the same two boxes share a
line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import escape

from softib.analysis.labels import distinct_parts, short_name
from softib.analysis.tiers import Tiers
from softib.diags.finding import Finding
from softib.fabric.model import Fabric
from softib.plural import counted
from softib.render.bundles import MAX_LINES, Bundle, load_class, node_severity
from softib.routing.graph import SwitchGraph

__all__ = ["LETTER", "MARGIN", "WIDTH", "Box", "draw", "place_boxes", "who"]


WIDTH, TIER_HEIGHT, BOX_HEIGHT, MARGIN = 1160.0, 150.0, 26.0, 24.0
LETTER, LONGEST = 6.0, 20
"""Width of a letter, and maximum number of letters of a vertical label."""


@dataclass
class Box:
    """A box of the drawing: centre of its upper edge, size, label, and whether the label is vertical."""

    x: float
    y: float
    w: float
    h: float
    label: str
    upright: bool


def place_boxes(
    tiers: Tiers, members: list[list[int]], names: list[str], around: bool
) -> tuple[list[Box], list[tuple[float, str]]]:
    """Return (all boxes, (y, common part of the names) for each tier)."""
    boxes = [Box(0.0, 0.0, 0.0, BOX_HEIGHT, "", False) for _ in members]
    heads: list[tuple[float, str]] = []
    for t in range(tiers.n_tiers):
        of_tier = tiers.boxes_of(t)
        pitch = (WIDTH - 2 * MARGIN) / max(len(of_tier), 1)
        width = _arc(len(of_tier)) if around else min(118.0, pitch * 0.84)
        common = _label(boxes, of_tier.tolist(), members, names, width, around)
        heads.append((0.0, common))
        for k, i in enumerate(of_tier.tolist()):
            boxes[i].x, boxes[i].w = MARGIN + pitch * (k + 0.5), width
    if around:
        _round(boxes)
        return boxes, heads
    y = 30.0
    for t in range(tiers.n_tiers - 1, -1, -1):
        of_tier = tiers.boxes_of(t)
        heads[t] = (y, heads[t][1])
        for i in of_tier:
            boxes[i].y = y
        y += TIER_HEIGHT - BOX_HEIGHT + max((boxes[i].h for i in of_tier), default=BOX_HEIGHT)
    return boxes, heads


def _label(
    boxes: list[Box], of_tier: list[int], members: list[list[int]], names: list[str], width: float, around: bool
) -> str:
    """Label the boxes of a tier. Labels are the whole names if there is room, otherwise the parts in which names
    differ; they are vertical if necessary. Return the common part of the names."""
    whole = [who(members[i], names) for i in of_tier]
    every = [n for i in of_tier for n in {members[i][0]: 0, members[i][-1]: 0}]
    apart, common = distinct_parts([names[s] for s in every])
    part = dict(zip(every, apart, strict=True))
    short = [who(members[i], part) for i in of_tier]
    room = int(width / LETTER)
    if max(map(len, whole), default=0) <= room:
        suffix, labels = "", whole
    else:
        suffix, labels = (f" · {common}" if common else ""), short
    upright = not around and max(map(len, labels), default=0) > room
    if upright:
        labels = [
            _shortened(label, part[members[i][0]], len(members[i])) for i, label in zip(of_tier, labels, strict=True)
        ]
    high = max(BOX_HEIGHT, LETTER * max(map(len, labels), default=0) + 10) if upright else BOX_HEIGHT
    for i, label in zip(of_tier, labels, strict=True):
        boxes[i].label, boxes[i].upright, boxes[i].h = label, upright, high
    return suffix


def _shortened(label: str, first: str, members: int) -> str:
    """Return a label of about :data:`LONGEST` letters: the first switch and the number of others,
    or the two ends of a name."""
    if len(label) <= LONGEST:
        return label
    head = first if len(first) <= LONGEST else f"{first[: LONGEST // 2]}…{first[-LONGEST // 2 :]}"
    return head if members == 1 else f"{head} +{members - 1}"


def _arc(n: int) -> float:
    return min(100.0, max(8.0, 1.7 * math.pi * _radius(n) / max(n, 1)))


def _radius(n: int) -> float:
    return min(300.0, 90.0 + 9.0 * n)


def _round(boxes: list[Box]) -> None:
    """Put the boxes on a circle."""
    n, radius = len(boxes), _radius(len(boxes))
    for i, box in enumerate(boxes):
        angle = 2 * math.pi * i / n - math.pi / 2
        box.x, box.y = WIDTH / 2 + 1.5 * radius * math.cos(angle), radius + 60 + radius * math.sin(angle)


def who(switches: list[int], names: Sequence[str] | Mapping[int, str]) -> str:
    """Return the names of a box's switches: a single name, or the first and the last."""
    first, last = names[switches[0]], names[switches[-1]]
    return first if len(switches) == 1 else f"{first} … {last}"


MARKS = {2: " f2", 1: " f1", 0: " f0", -1: ""}
SHOW_HOSTS = 72
"""Maximum number of hosts that are drawn one by one."""


def draw(
    fabric: Fabric,
    graph: SwitchGraph,
    tiers: Tiers,
    lines: list[Bundle],
    host_names: dict[int, list[str]],
    findings: Iterable[Finding] = (),
) -> str:
    """Return the drawing as one ``<svg>``. ``host_names``: switch → names of its CA ports.

    The page's script selects boxes by ``data-box`` and lines by ``data-ends``.
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
    # SVG paints in order, so the worst lines come last.
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
        # A label that does not fit is written small: zooming in makes it legible.
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
