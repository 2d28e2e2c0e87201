"""Where the boxes of a drawing stand, how large they are, and what is written in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from softib.analysis.labels import distinct_parts
from softib.analysis.tiers import Tiers

__all__ = ["LETTER", "MARGIN", "WIDTH", "Box", "place_boxes", "who"]

WIDTH, TIER_HEIGHT, BOX_HEIGHT, MARGIN = 1160.0, 150.0, 26.0, 24.0
LETTER, LONGEST = 6.0, 20
"""Width of a letter, and letters of a label that runs upwards."""


@dataclass
class Box:
    """A box of the drawing: centre of its upper edge, size, label, and whether the label runs
    upwards."""

    x: float
    y: float
    w: float
    h: float
    label: str
    upright: bool


def place_boxes(
    tiers: Tiers, members: list[list[int]], names: list[str], around: bool
) -> tuple[list[Box], list[tuple[float, str]]]:
    """Every box, and (y, what its names have in common) of each tier."""
    boxes = [Box(0.0, 0.0, 0.0, BOX_HEIGHT, "", False) for _ in members]
    heads: list[tuple[float, str]] = []
    for t in range(tiers.n_tiers):
        mine = tiers.boxes_of(t)
        pitch = (WIDTH - 2 * MARGIN) / max(len(mine), 1)
        width = _arc(len(mine)) if around else min(118.0, pitch * 0.84)
        common = _label(boxes, mine.tolist(), members, names, width, around)
        heads.append((0.0, common))
        for k, i in enumerate(mine.tolist()):
            boxes[i].x, boxes[i].w = MARGIN + pitch * (k + 0.5), width
    if around:
        _round(boxes)
        return boxes, heads
    y = 30.0
    for t in range(tiers.n_tiers - 1, -1, -1):
        mine = tiers.boxes_of(t)
        heads[t] = (y, heads[t][1])
        for i in mine:
            boxes[i].y = y
        y += TIER_HEIGHT - BOX_HEIGHT + max((boxes[i].h for i in mine), default=BOX_HEIGHT)
    return boxes, heads


def _label(
    boxes: list[Box], mine: list[int], members: list[list[int]], names: list[str], width: float, around: bool
) -> str:
    """Label the boxes of a tier: whole names where they fit, else what tells them apart, else that,
    upwards."""
    whole = [who(members[i], names) for i in mine]
    every = [n for i in mine for n in {members[i][0]: 0, members[i][-1]: 0}]
    apart, common = distinct_parts([names[s] for s in every])
    part = dict(zip(every, apart, strict=True))
    short = [who(members[i], part) for i in mine]
    room = int(width / LETTER)
    if max(map(len, whole), default=0) <= room:
        suffix, labels = "", whole
    else:
        suffix, labels = (f" · {common}" if common else ""), short
    upright = not around and max(map(len, labels), default=0) > room
    if upright:
        labels = [
            _shortened(label, part[members[i][0]], len(members[i])) for i, label in zip(mine, labels, strict=True)
        ]
    high = max(BOX_HEIGHT, LETTER * max(map(len, labels), default=0) + 10) if upright else BOX_HEIGHT
    for i, label in zip(mine, labels, strict=True):
        boxes[i].label, boxes[i].upright, boxes[i].h = label, upright, high
    return suffix


def _shortened(label: str, first: str, members: int) -> str:
    """A label of about :data:`LONGEST` letters: the first switch and how many more, or the two ends
    of a name."""
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
    """Names of the switches of a box: the one, or the first and the last."""
    first, last = names[switches[0]], names[switches[-1]]
    return first if len(switches) == 1 else f"{first} … {last}"
