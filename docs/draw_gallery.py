"""Draws ``docs/img/gallery/`` from ``examples/gallery/``: each fabric with its fault, by softib's own drawing.

    python docs/draw_gallery.py            # writes the pictures
    python docs/draw_gallery.py --check    # exit 1 where a picture no longer shows its fabric

Links are grey, and those that a finding names are red (error) or orange (warning). Parts that only
the page of a report uses (keys, selection by click) are left out. Same code, same bytes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import softib

ROOT = Path(__file__).resolve().parent.parent
FABRICS = ROOT / "examples" / "gallery"
PICTURES = ROOT / "docs" / "img" / "gallery"
ONLY_IN_PAGES = re.compile(r' (?:data-ends|data-box|role|tabindex|aria-label)="[^"]*"')


def draw(path: Path) -> str:
    """The picture of one fabric file, as SVG."""
    svg = str(softib.report(path).plot()).replace('class="fabric by-load"', 'class="fabric by-fault"')
    return ONLY_IN_PAGES.sub("", svg).replace("</style>", ".by-fault .links path{stroke:var(--l1)}</style>", 1) + "\n"


def pictures() -> dict[str, str]:
    """Every picture by the name of its file."""
    return {f"{path.stem}.svg": draw(path) for path in sorted(FABRICS.glob("*.yaml"))}


def main(argv: list[str]) -> int:
    """Write the pictures, or compare them."""
    if "--check" in argv:
        other = [n for n, text in pictures().items() if (PICTURES / n).read_text("utf-8") != text]
        if other:
            print(f"{', '.join(other)}: not as drawn now; run python docs/draw_gallery.py", file=sys.stderr)
        return int(bool(other))
    PICTURES.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
