"""Pictures of a run over time as SVG: heat maps, latencies by job, the timeline of a message. Cells
of one colour in a row are one rectangle, so that a page stays small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import escape

from softib.render.phrases import time_text

__all__ = ["heat_over_time", "latency_curves", "timeline_chart"]

WIDTH, LABEL, PEAK, ROW = 1120.0, 250.0, 110.0, 16.0
LETTERS = 38
POINTS = 240
W, H, LEFT, RIGHT, BOTTOM, TOP = 560.0, 250.0, 46.0, 20.0, 34.0, 12.0
MARKS = (0.5, 0.99, 0.999)
CURVES = 3
"""Number of jobs whose curves have separate colours."""
PACKET_ROWS = 40
STEPS = (0.02, 0.25, 0.5, 0.75, 0.95)
"""Thresholds of the colours of a heat map; values below the first one are not drawn."""
COLOURS = {
    "own": "t-own",
    "queue": "t-queue",
    "other_vl": "t-vl",
    "credits": "t-credits",
    "held": "t-held",
    "incoming": "t-in",
}


def heat_over_time(rows: Sequence[dict[str, Any]], interval_us: float, label: str) -> str:
    """Return a heat map with one row per port (or tier) and time from left to right. A row has ``values`` from 0 to 1,
    and ``peak``, a text at the right."""
    if not rows:
        return ""
    count = len(rows[0]["values"])
    cell = (WIDTH - LABEL - PEAK) / max(count, 1)
    high = ROW * len(rows)
    parts = [
        f'<svg class="heat over-time" viewBox="0 0 {WIDTH:.0f} {high + 22:.0f}" role="img" '
        f'aria-label="{escape(label)}">'
    ]
    shapes: dict[int, list[str]] = {}
    for i, row in enumerate(rows):
        name = str(row["name"])
        shown = name if len(name) <= LETTERS else name[: LETTERS - 1] + "…"
        parts.append(
            f'<text class="axis" x="0" y="{i * ROW + 12:.0f}"><title>{escape(name)}</title>{escape(shown)}</text>'
        )
        parts.append(f'<text class="axis end" x="{WIDTH:.0f}" y="{i * ROW + 12:.0f}">{escape(str(row["peak"]))}</text>')
        for begin, length, value in _equal(np.searchsorted(STEPS, row["values"], side="right") - 1):
            if value < 0:
                continue
            x = LABEL + begin * cell
            shapes.setdefault(value, []).append(
                f"M{x:.1f} {i * ROW + 1:.0f}h{length * cell:.1f}v{ROW - 2:.0f}h-{length * cell:.1f}z"
            )
    parts += [f'<path class="h{k}" d="{"".join(d)}"/>' for k, d in sorted(shapes.items())]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        side = " end" if share == 1.0 else "" if share == 0.0 else " mid"
        x = LABEL + share * (WIDTH - LABEL - PEAK)
        parts.append(
            f'<text class="axis{side}" x="{x:.1f}" '
            f'y="{high + 16:.0f}">{time_text(share * count * interval_us * 1e6)}</text>'
        )
    return "".join([*parts, "</svg>"])


def _equal(values: np.ndarray) -> list[tuple[int, int, int]]:
    """Return ``(begin, length, value)`` for each run of equal values."""
    begins = np.flatnonzero(np.diff(values, prepend=-2))
    ends = np.append(begins[1:], len(values))
    return [(int(b), int(e - b), int(values[b])) for b, e in zip(begins, ends, strict=True)]


def latency_curves(curves: Sequence[tuple[str, np.ndarray]]) -> str:
    """Return a chart of cumulative distributions of latencies (µs, ascending), one curve per job, on a logarithmic
    axis, with marks at p50, p99 and p99.9."""
    curves = [(name, c) for name, c in curves if len(c)][:CURVES]
    if not curves:
        return ""
    low = 10 ** np.floor(np.log10(max(min(float(c[0]) for _, c in curves), 1e-3)))
    high = 10 ** np.ceil(np.log10(max(max(float(c[-1]) for _, c in curves), low * 10)) - 1e-9)
    x = lambda v: LEFT + float(np.log10(max(v, low) / low) / np.log10(high / low)) * (W - LEFT - RIGHT)
    y = lambda share: H - BOTTOM - share * (H - BOTTOM - TOP)
    parts = [f'<svg class="chart" viewBox="0 0 {W:.0f} {H:.0f}" role="img" aria-label="latencies, cumulative">']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{W - RIGHT}" y1="{y(share):.1f}" y2="{y(share):.1f}"/>')
        parts.append(f'<text class="axis end" x="{LEFT - 6}" y="{y(share) + 4:.1f}">{share:.0%}</text>')
    for power in range(round(np.log10(low)), round(np.log10(high)) + 1):
        parts.append(
            f'<text class="axis mid" x="{x(10.0**power):.1f}" y="{H - 16:.1f}">{time_text(10.0 ** (power + 6))}</text>'
        )
    parts.append(
        f'<text class="axis mid" x="{(LEFT + W - RIGHT) / 2:.1f}" y="{H - 2:.1f}">latency, share at most as long</text>'
    )
    for number, (name, sorted_us) in enumerate(curves):
        rows = np.unique(np.linspace(0, len(sorted_us) - 1, min(POINTS, len(sorted_us))).round().astype(int))
        shares = (rows + 1) / len(sorted_us)
        points = [
            f"{x(float(sorted_us[0])):.1f},{y(0.0):.1f}",
            *(f"{x(float(sorted_us[r])):.1f},{y(float(p)):.1f}" for r, p in zip(rows, shares, strict=True)),
        ]
        parts.append(
            f'<polyline class="c{number}" points="{" ".join(points)}"><title>{escape(name)}</title></polyline>'
        )
        for share in MARKS:
            value = float(np.quantile(sorted_us, share))
            title = f"{name}: p{100 * share:g} {time_text(value * 1e6)}"
            parts.append(
                f'<circle class="m{number}" cx="{x(value):.1f}" cy="{y(share):.1f}" '
                f'r="3.2"><title>{escape(title)}</title></circle>'
            )
    return "".join([*parts, "</svg>"])


def timeline_chart(trace: dict[str, Any]) -> str:
    """Return a chart from the posting of the message to its completion, with one row per packet: its waits at each port
    by reason, and its bytes on each link."""
    packets = trace["packets"]
    if len(packets) > PACKET_ROWS:
        packets = packets[: PACKET_ROWS // 2] + packets[-PACKET_ROWS // 2 :]
    begin = trace["posted_us"]
    ends = [trace["completed_us"], trace["arrived_us"], *(p["written_us"] for p in packets)]
    end = max([e for e in ends if e is not None], default=begin + 1.0)
    scale = (WIDTH - LABEL) / max(end - begin, 1e-9)
    x = lambda us: LABEL + (us - begin) * scale
    high = ROW * len(packets)
    parts = [
        f'<svg class="timeline" viewBox="0 0 {WIDTH:.0f} {high + 22:.0f}" role="img" aria-label="packets of the '
        f'message over time">'
    ]
    for i, p in enumerate(packets):
        top = i * ROW
        parts.append(f'<text class="axis" x="0" y="{top + 12:.0f}">{escape(p["kind"])} {p["psn"]}</text>')
        for h in p["hops"]:
            at = h["arrived_us"]
            for name, us in h["waits_us"].items():
                parts.append(
                    _bar(COLOURS[name], x(at), us * scale, top, f"{h['port']}: waits, {name}, {time_text(us * 1e6)}")
                )
                at += us
            parts.append(
                _bar("t-wire", x(h["sent_us"]), (h["left_us"] - h["sent_us"]) * scale, top, f"{h['port']} sends")
            )
        if p["written_us"] is not None:
            parts.append(
                _bar("t-memory", x(p["received_us"]), (p["written_us"] - p["received_us"]) * scale, top, "into memory")
            )
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        side = " end" if share == 1.0 else "" if share == 0.0 else " mid"
        at = begin + share * (end - begin)
        parts.append(f'<text class="axis{side}" x="{x(at):.1f}" y="{high + 16:.0f}">{time_text(at * 1e6)}</text>')
    return "".join([*parts, "</svg>"])


def _bar(kind: str, x: float, wide: float, top: float, title: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{top + 2:.0f}" width="{max(wide, 0.6):.1f}" '
        f'height="{ROW - 4:.0f}"><title>{escape(title)}</title></rect>'
    )
