"""Draws ``docs/img/architecture.svg`` from the code: packages by layer, and which package imports which.

    python docs/draw_architecture.py            # writes the picture
    python docs/draw_architecture.py --check    # exit 1 where the picture no longer shows the code

Layers are those of the import contract in ``pyproject.toml``; the line below a name is the first sentence of the package's
docstring; arrows are imports found in the source (``ast``, imports inside functions too), without those that other arrows
imply (transitive reduction). Same code, same bytes.
"""

from __future__ import annotations

import ast
import graphlib
import re
import sys
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "softib"
PICTURE = ROOT / "docs" / "img" / "architecture.svg"
WIDTH, MARGIN, GAP, BOX_H, ROW_GAP, BAND = 1180, 16, 14, 84, 46, 26
COLOURS = ("#e8eef7", "#e6f2ec", "#f6f0e2", "#f3e8ef", "#e9e9f5")


def layers() -> list[list[str]]:
    """Packages by layer, the highest first, as ``pyproject.toml`` has them; those that do not exist yet are left out."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    rows = next(c for c in contracts if c["type"] == "layers")["layers"]
    named = [re.findall(r"softib\.(\w+)", row) for row in rows]
    present = [[name for name in row if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()] for row in named]
    return [row for row in present if row]


def files_of(package: str) -> list[Path]:
    """Every Python file of ``package``, sorted."""
    folder = SOURCE / package
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def sentence(package: str) -> str:
    """The first sentence of a package's docstring; empty where it has none."""
    head = SOURCE / package / "__init__.py"
    tree = ast.parse((head if head.is_file() else head.parent.with_suffix(".py")).read_text("utf-8"))
    text = " ".join((ast.get_docstring(tree) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.]) ", text)[0].rstrip(".")


def imports(package: str, known: set[str]) -> set[str]:
    """Which of the packages ``known`` this one imports."""
    found = set()
    for file in files_of(package):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            if "softib" in names and not any(n.split(".")[-1].startswith("__") for n in names):
                names.append("softib.api")  # the names of softib itself live there, and are loaded where they are used
            for name in names:
                parts = name.split(".")
                if parts[0] == "softib" and len(parts) > 1 and parts[1] in known and parts[1] != package:
                    found.add(parts[1])
    return found


def reduced(edges: dict[str, set[str]]) -> list[tuple[str, str]]:
    """``edges`` without those that a longer path implies. Raises :class:`graphlib.CycleError` where packages import in a circle."""
    below: dict[str, set[str]] = {}
    for a in graphlib.TopologicalSorter(edges).static_order():
        below[a] = edges[a].union(*(below[b] for b in edges[a]))
    return sorted((a, b) for a in edges for b in edges[a] if not any(b in below[c] for c in edges[a] if c != b))


def _box(name: str, x: float, y: float, width: float, colour: str) -> str:
    modules = len([f for f in files_of(name) if f.name != "__init__.py"])
    lines = textwrap.wrap(sentence(name), max(12, int(width / 6.4)))[:3]
    text = "".join(
        f'<text x="{x + 10:.0f}" y="{y + 36 + 14 * i:.0f}" class="s">{escape(line)}</text>'
        for i, line in enumerate(lines)
    )
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{BOX_H}" rx="6" fill="{colour}" stroke="#54606e"/>'
        f'<text x="{x + 10:.0f}" y="{y + 19:.0f}" class="n">{name}</text>'
        f'<text x="{x + width - 10:.0f}" y="{y + 19:.0f}" class="c">{modules}</text>{text}'
    )


def draw() -> str:
    """The picture as SVG."""
    rows = layers()
    known = {name for row in rows for name in row}
    edges = {name: imports(name, known) for name in sorted(known)}
    place: dict[str, tuple[float, float, float]] = {}
    boxes = []
    for i, row in enumerate(rows):
        y = MARGIN + BAND + i * (BOX_H + ROW_GAP)
        width = min(380.0, (WIDTH - 2 * MARGIN - GAP * (len(row) - 1)) / len(row))
        left = (WIDTH - width * len(row) - GAP * (len(row) - 1)) / 2
        for j, name in enumerate(row):
            x = left + j * (width + GAP)
            place[name] = x, y, width
            boxes.append(_box(name, x, y, width, COLOURS[i % len(COLOURS)]))
    arrows = []
    for a, b in reduced(edges):
        (xa, ya, wa), (xb, yb, wb) = place[a], place[b]
        x1, y1, x2, y2 = xa + wa / 2, ya + BOX_H, xb + wb / 2, yb
        bend = (y2 - y1) / 2
        arrows.append(
            f'<path d="M{x1:.0f} {y1:.0f} C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2 - 3:.0f}" '
            'fill="none" stroke="#54606e" stroke-opacity=".55" marker-end="url(#a)"/>'
        )
    height = MARGIN * 2 + BAND + len(rows) * (BOX_H + ROW_GAP) - ROW_GAP
    style = (
        "text{font-family:system-ui,sans-serif;fill:#1c2530}.n{font-size:15px;font-weight:600}"
        ".s{font-size:11.5px}.c{font-size:11.5px;text-anchor:end;fill:#54606e}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">'
        f'<style>{style}</style><defs><marker id="a" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#54606e"/></marker></defs>'
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
        f'<text x="{MARGIN}" y="{MARGIN + 8}" class="s">A package imports only packages below it. The number is its modules; '
        "an arrow is an import that no other arrow implies.</text>" + "\n".join(["", *arrows, *boxes]) + "\n</svg>\n"
    )


def main(argv: list[str]) -> int:
    """Write the picture, or compare it."""
    made = draw()
    if "--check" in argv:
        same = PICTURE.is_file() and PICTURE.read_text("utf-8") == made
        if not same:
            print(
                f"{PICTURE.relative_to(ROOT)} does not show the code; run python docs/draw_architecture.py",
                file=sys.stderr,
            )
        return int(not same)
    PICTURE.write_text(made, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
