"""Rack elevations as a drawing (SVG)."""

from __future__ import annotations

from html import escape

from softib.foreign_text import shown
from softib.plan.layout import Layout

__all__ = ["elevation_svg"]

UNIT, WIDTH, GAP, TOP = 9, 150, 24, 42
"""Height of a rack unit, width of a rack, gap between racks, and margin above racks, in pixels."""


def elevation_svg(layout: Layout) -> str:
    """Draw every rack that holds a device, row by row, with the devices at their units, and the rack's power below its
    name."""
    floor = layout.floor
    used = sorted({e.rack for e in layout.elevations})
    rows = sorted({r // floor.racks for r in used})
    height = floor.rack_units * UNIT
    columns = max((sum(r // floor.racks == row for r in used) for row in rows), default=0)
    width = GAP + columns * (WIDTH + GAP)
    total = len(rows) * (height + TOP + GAP) + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {total}" width="{width}" height="{total}" '
        'font-family="sans-serif" font-size="8" fill="#1a1a1a">',
        "<title>rack elevations</title>",
        f'<rect width="{width}" height="{total}" fill="#ffffff"/>',
    ]
    for line, row in enumerate(rows):
        y = line * (height + TOP + GAP) + TOP
        for column, rack in enumerate(r for r in used if r // floor.racks == row):
            x = GAP + column * (WIDTH + GAP)
            parts += _rack(layout, rack, x, y, height)
    return "\n".join([*parts, "</svg>", ""])


def _rack(layout: Layout, rack: int, x: int, y: int, height: int) -> list[str]:
    floor = layout.floor
    parts = [
        f'<text x="{x}" y="{y - 16}" font-size="12" font-weight="bold">{floor.rack_name(rack)}</text>',
        f'<text x="{x}" y="{y - 5}">{layout.kw[rack]:.1f} kW'
        + (f" of {floor.kw:g}" if floor.kw is not None else "")
        + "</text>",
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{height}" fill="none" stroke="#6b6b6b"/>',
    ]
    for device in (e for e in layout.elevations if e.rack == rack):
        top = y + height - (device.u + device.units - 1) * UNIT
        fill = "#cfe3f7" if device.is_switch else "#e9ecef"
        middle = top + device.units * UNIT / 2 + 3
        parts.append(
            f'<rect x="{x}" y="{top}" width="{WIDTH}" height="{device.units * UNIT}" fill="{fill}" stroke="#9a9a9a"/>'
            f'<text x="{x + 4}" y="{middle:g}">U{device.u:02d} {escape(shown(device.name))}</text>'
        )
    return parts
