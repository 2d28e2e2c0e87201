"""Draws ``docs/img/figures.svg`` from the first table of docs/figures.md: softib's speed as a multiple of its peer's.

python docs/draw_figures.py
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path

PAGE = Path(__file__).with_name("figures.md")
PICTURE = PAGE.parent / "img" / "figures.svg"
ROW, LEFT, WIDE = 34, 330, 360


def rows() -> list[tuple[str, str, float]]:
    """What, beside what, and the ratio."""
    table = PAGE.read_text("utf-8").split("| times as fast |")[1].split("\n\n")[0]
    found = re.findall(r"^\| (.+?) \| .+? \| (.+?) \| ([\d.]+) \|$", table, re.M)
    return [(what.replace("`", ""), peer.partition(":")[0], float(ratio)) for what, peer, ratio in found]


def draw() -> str:
    """The picture as SVG: bars from 1 on a logarithmic scale."""
    lines, most = rows(), 100.0
    height = 44 + ROW * len(lines)
    style = "text{font:13px system-ui,sans-serif;fill:#1c2530}.e{text-anchor:end}.s{font-size:11px;fill:#54606e}"
    parts = []
    for power in range(3):
        x = LEFT + WIDE * power / math.log10(most)
        parts.append(f'<line x1="{x:.0f}" y1="8" x2="{x:.0f}" y2="{height - 26}" stroke="#d5dbe2"/>')
        parts.append(f'<text x="{x:.0f}" y="{height - 10}" class="s" text-anchor="middle">{10**power}×</text>')
    for i, (what, peer, ratio) in enumerate(lines):
        y = 12 + ROW * i
        wide = WIDE * math.log10(ratio) / math.log10(most)
        parts.append(f'<text x="{LEFT - 10}" y="{y + 11}" class="e">{escape(what)}</text>')
        parts.append(f'<text x="{LEFT - 10}" y="{y + 25}" class="e s">beside {escape(peer)}</text>')
        parts.append(f'<rect x="{LEFT}" y="{y + 3}" width="{wide:.1f}" height="18" rx="2" fill="#3277b8"/>')
        parts.append(f'<text x="{LEFT + wide + 6:.1f}" y="{y + 17}">{ratio:g}×</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" height="{height}" role="img">'
        f'<title>Times as fast as the peer</title><style>{style}</style><rect width="760" height="{height}" fill="#fff"/>'
        + "\n".join(["", *parts])
        + "\n</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
