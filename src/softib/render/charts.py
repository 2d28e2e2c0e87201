"""Small charts as SVG: load curves, a heat map of links, a histogram of hops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import escape

from softib.plural import counted
from softib.render.bundles import load_class

__all__ = ["bars", "heat_map", "hop_bars", "load_curves", "scaling_curve"]

CURVE_POINTS = 160
NAME_LETTERS = 22
W, H, LEFT, RIGHT, BOTTOM, TOP = 560.0, 250.0, 40.0, 20.0, 34.0, 12.0


def load_curves(curves: list[tuple[str, np.ndarray]]) -> str:
    """Return a chart of the sorted loads of all switch links, with one line per pattern: x = share of links, y = load
    (1 = link exactly full)."""
    top = max((float(c.max(initial=0.0)) for _, c in curves), default=0.0)
    top = _nice(max(top, 1.0))
    parts = [f'<svg class="chart" viewBox="0 0 {W:.0f} {H:.0f}" role="img" aria-label="sorted link loads">']
    for i in range(5):
        value = top * i / 4
        y = _y(value, top)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{W - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="axis end" x="{LEFT - 6}" y="{y + 4:.1f}">{value:g}</text>')
    for share in (0, 25, 50, 75, 100):
        parts.append(f'<text class="axis mid" x="{_x(share / 100):.1f}" y="{H - 16:.1f}">{share}%</text>')
    parts.append(f'<text class="axis mid" x="{_x(0.5):.1f}" y="{H - 2:.1f}">of the links, busiest first</text>')
    parts.append(f'<line class="full" x1="{LEFT}" x2="{W - RIGHT}" y1="{_y(1, top):.1f}" y2="{_y(1, top):.1f}"/>')
    for i, (name, load) in enumerate(curves):
        if not len(load):
            continue
        ordered = np.sort(load)[::-1]
        at = np.unique(np.linspace(0, len(ordered) - 1, min(CURVE_POINTS, len(ordered))).round().astype(int))
        last = max(len(ordered) - 1, 1)
        points = " ".join(f"{_x(k / last):.1f},{_y(float(ordered[k]), top):.1f}" for k in at)
        parts.append(f'<polyline class="c{i}" points="{points}"><title>{escape(name)}</title></polyline>')
    return "".join([*parts, "</svg>"])


def _x(share: float) -> float:
    return LEFT + share * (W - LEFT - RIGHT)


def _y(value: float, top: float) -> float:
    return H - BOTTOM - value / top * (H - BOTTOM - TOP)


def _nice(value: float) -> float:
    """Return the smallest of 1, 2, 4, 5, 8 × 10^k that is not below ``value``."""
    power = 10.0 ** np.floor(np.log10(value))
    return float(next(f * power for f in (1, 2, 4, 5, 8, 10) if f * power >= value * 0.999))


def heat_map(rows: list[tuple[str, list[tuple[str, float]]]]) -> str:
    """Return a chart with one row per switch and one cell per link, (peer, load); colours are those of the drawing."""
    widest = max((len(cells) for _, cells in rows), default=0)
    if not widest:
        return ""
    label = 150.0
    cell = min(22.0, (1120.0 - label) / widest)
    high = 15.0
    parts = [
        f'<svg class="heat" viewBox="0 0 {label + cell * widest + 4:.0f} {high * len(rows) + 4:.0f}" '
        f'style="max-width:{label + cell * widest + 4:.0f}px" role="img" aria-label="load of each link">'
    ]
    for i, (name, cells) in enumerate(rows):
        shown = name if len(name) <= 22 else "…" + name[-21:]
        parts.append(f'<text class="axis" x="0" y="{i * high + 12:.0f}">{escape(shown)}</text>')
        parts += [
            f'<rect class="h{load_class(load)}" x="{label + j * cell:.1f}" y="{i * high + 1:.0f}" '
            f'width="{cell - 1:.1f}" '
            f'height="{high - 1:.0f}"><title>{escape(f"{name} to {peer}: load {load:.2f}")}</title></rect>'
            for j, (peer, load) in enumerate(cells)
        ]
    return "".join([*parts, "</svg>"])


def hop_bars(hops: dict[int, int]) -> str:
    """Return a chart of the number of pairs for each number of hops, as horizontal bars."""
    total = sum(hops.values()) or 1
    most = max(hops.values(), default=1) or 1
    high = 24
    parts = [f'<svg class="chart" viewBox="0 0 {W:.0f} {high * len(hops) + 4}" role="img" aria-label="pairs by hops">']
    for i, (n, pairs) in enumerate(sorted(hops.items())):
        wide = (W - 260) * pairs / most
        parts.append(f'<text class="axis" x="0" y="{i * high + 16}">{counted(n, "hop")}</text>')
        parts.append(f'<rect class="bar" x="64" y="{i * high + 4}" width="{max(wide, 1):.1f}" height="16" rx="3"/>')
        parts.append(
            f'<text class="axis" x="{70 + wide:.1f}" y="{i * high + 16}">{counted(pairs, "pair")} '
            f"({100 * pairs / total:.1f} %)</text>"
        )
    return "".join([*parts, "</svg>"])


def bars(rows: Sequence[tuple[str, float | None, str]], label: str) -> str:
    """Return a chart of ``rows``: (name, value (None: no bar), text next to the bar)."""
    most = max((value or 0.0 for _, value, _ in rows), default=0.0) or 1.0
    high, left, right = 24, 150.0, 150.0
    parts = [
        f'<svg class="chart" viewBox="0 0 {W:.0f} {high * len(rows) + 4}" role="img" aria-label="{escape(label)}">'
    ]
    for i, (name, value, text) in enumerate(rows):
        wide = (W - left - right) * (value or 0.0) / most
        shown = name if len(name) <= NAME_LETTERS else f"{name[: NAME_LETTERS - 1]}…"
        parts.append(
            f'<text class="axis" x="0" y="{i * high + 16}"><title>{escape(name)}</title>{escape(shown)}</text>'
        )
        if value is not None:
            parts.append(
                f'<rect class="bar" x="{left:.0f}" y="{i * high + 4}" width="{max(wide, 1):.1f}" height="16" rx="3"/>'
            )
        parts.append(f'<text class="axis" x="{left + wide + 6:.1f}" y="{i * high + 16}">{escape(text)}</text>')
    return "".join([*parts, "</svg>"])


STYLE = (
    "text{font:12px sans-serif;fill:#1a1a1a} .grid{stroke:#d5d8dc} polyline{fill:none;stroke:#1f5fa8;stroke-width:2} "
    ".high{stroke-dasharray:5 4}"
)


def scaling_curve(rows: Sequence[Mapping[str, float | None]], currency: str) -> str:
    """Return an SVG file with three panels over the number of GPUs (logarithmic): step time, efficiency, and network
    cost per useful GPU-hour. In the last panel, the solid line is the lower bound of the price, and the dashed line the
    upper."""
    panels = (
        ("time of a step, ms", [(("step_us", 1e-3), "")]),
        ("efficiency, %", [(("efficiency", 100.0), "")]),
        (f"network for a useful GPU-hour, {currency}", [(("gpu_hour_low", 1.0), ""), (("gpu_hour_high", 1.0), "high")]),
    )
    doublings = np.log2([float(row["gpus"] or 1) for row in rows])
    share = (doublings - doublings.min()) / max(float(np.ptp(doublings)), 1e-9)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {W:.0f} {len(panels) * (H + 24):.0f}" '
        f'role="img" aria-label="scaling curve"><style>{STYLE}</style>'
    ]
    for number, (title, lines) in enumerate(panels):
        parts.append(
            f'<g transform="translate(0 {number * (H + 24) + 20:.0f})"><text x="0" y="0">{escape(title)}</text>'
        )
        values = {
            key: [None if row[key] is None else float(row[key] or 0) * by for row in rows] for (key, by), _ in lines
        }
        stated = [v for column in values.values() for v in column if v is not None]
        top = _nice(max(stated)) if stated and max(stated) > 0 else 1.0
        for i in range(5):
            y = _y(top * i / 4, top)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{W - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text x="{LEFT - 4}" y="{y + 4:.1f}" text-anchor="end">{top * i / 4:,g}</text>')
        for x, row in zip(share, rows, strict=True):
            parts.append(f'<text x="{_x(x):.1f}" y="{H - 16:.1f}" text-anchor="middle">{row["gpus"]:,.0f}</text>')
        if not stated:
            parts.append(f'<text x="{_x(0.5):.1f}" y="{H / 2:.0f}" text-anchor="middle">unknown: no price</text>')
        for (key, _), style in lines:
            points = [f"{_x(x):.1f},{_y(v, top):.1f}" for x, v in zip(share, values[key], strict=True) if v is not None]
            parts.append(f'<polyline class="{style}" points="{" ".join(points)}"/>')
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])
