"""Draws ``docs/img/concepts/``, the pictures of docs/concepts.md, from softib's own structures and tables.

    python docs/draw_concepts.py            # writes the pictures
    python docs/draw_concepts.py --check    # exit 1 where a picture no longer shows the code

``packet`` and ``smp`` have the fields of the wire structures, ``forwarding`` the tables that the subnet manager wrote into a small fabric, ``loop``
the cycle that the proof found on a torus, ``states`` the port states. Same code, same bytes.
"""

from __future__ import annotations

import itertools
import math
import sys
from html import escape
from pathlib import Path

import softib
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.headers import BTH, DETH, LRH
from softib.iba.smp import PortInfo, Smp
from softib.scenario.bring_up import bring_up

PICTURES = Path(__file__).resolve().parent / "img" / "concepts"
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1c2530;text-anchor:middle}.l{text-anchor:start}.s{font-size:11px;fill:#54606e}"
    ".b{font-weight:600}rect{stroke:#54606e;rx:4px}line,path{stroke:#54606e;fill:none}.red{stroke:#c2342b;stroke-width:2.5}"
)
BLUE, GREEN, SAND, ROSE, GREY = "#e4eef8", "#e6f3ee", "#f6eee0", "#f3e8ef", "#eef1f4"
ARROW = (
    '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">'
    '<path d="M0 0L8 4L0 8z" style="fill:#54606e;stroke:none"/></marker></defs>'
)


def svg(width: float, height: float, parts: list[str], about: str) -> str:
    """Return a picture on white, with a sentence that describes it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img">'
        f'<title>{escape(about)}</title><style>{STYLE}</style>{ARROW}<rect width="{width:.0f}" height="{height:.0f}" style="fill:#fff;stroke:none"/>'
        + "\n".join(["", *parts])
        + "\n</svg>\n"
    )


def box(x: float, y: float, w: float, h: float, text: str, colour: str, small: str = "") -> str:
    """A box with one or two lines in it."""
    middle = y + h / 2 + (5 if not small else -2)
    second = f'<text x="{x + w / 2:.0f}" y="{middle + 16:.0f}" class="s">{escape(small)}</text>' if small else ""
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{w:.0f}" height="{h:.0f}" fill="{colour}"/>'
        f'<text x="{x + w / 2:.0f}" y="{middle:.0f}" class="b">{escape(text)}</text>{second}'
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "") -> str:
    """A straight line; ``kind`` is a class of the style."""
    return f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}" class="{kind}"/>'


def label(x: float, y: float, text: str, kind: str = "s") -> str:
    """A line of text."""
    return f'<text x="{x:.0f}" y="{y:.0f}" class="{kind}">{escape(text)}</text>'


def packet() -> str:
    """A management datagram on the wire, header by header, with the fields that decide its way."""
    shown = {LRH: ("vl", "sl", "dlid", "slid"), BTH: ("opcode", "pkey", "dest_qp", "psn"), DETH: ("qkey", "src_qp")}
    parts, x = [], 16.0
    for header, colour in ((LRH, BLUE), (BTH, GREEN), (DETH, SAND)):
        wide = 84 + 64 * len(shown[header]) / 2
        parts.append(box(x, 20, wide, 46, header.__name__, colour, f"{header.size} bytes"))
        for i, f in enumerate(f for f in header.named() if f.name in shown[header]):
            parts.append(label(x + wide / 2, 88 + 17 * i, f"{f.name}: {f.bits} bits"))
        x += wide
    for name, size in (("payload", "256 bytes: a MAD"), ("ICRC", "4 bytes"), ("VCRC", "2 bytes")):
        wide = 190 if name == "payload" else 70
        parts.append(box(x, 20, wide, 46, name, GREY, size))
        x += wide
    return svg(x + 16, 164, parts, "A management datagram on the wire: LRH, BTH, DETH, payload, ICRC, VCRC")


def smp() -> str:
    """A subnet management packet, field by field."""
    names = {
        "header": "MAD header",
        "mkey": "M_Key",
        "dr_slid": "DrSLID",
        "dr_dlid": "DrDLID",
        "data": "attribute",
        "initial_path": "initial path",
        "return_path": "return path",
    }
    widths: dict[str, int] = {}
    for f in sorted(Smp.fields.values(), key=lambda f: f.offset):
        name = "reserved" if f.name.startswith("_") else names[f.name]
        widths[name] = widths.get(name, 0) + f.bits * f.count // 8
    colours = {"attribute": GREEN, "initial path": BLUE, "return path": BLUE, "M_Key": SAND}
    parts, x = [], 16.0
    for name, size in widths.items():
        wide = max(90.0, size * 1.9) if name != "M_Key" else 66.0
        parts.append(box(x, 20, wide, 46, name, colours.get(name, GREY), f"{size}"))
        x += wide
    parts.append(
        label(
            16,
            92,
            "Lengths in bytes, 256 in all (IBA 14.2.1). A directed route leaves by the ports of the initial path;",
            "s l",
        )
    )
    parts.append(label(16, 110, "each switch writes the port where the packet came in into the return path.", "s l"))
    return svg(x + 16, 122, parts, "A subnet management packet of 256 bytes, field by field")


def small() -> Fabric:
    """Four hosts on two leaves, two spines: up, with tables."""
    fabric = generate("fat-tree", m=[2, 2], w=[1, 2], generation="EDR")
    bring_up(fabric)
    return fabric


def forwarding() -> str:
    """The tables of a small fabric, and the path from the first host to the last."""
    fabric = small()
    node = {name: n for n, name in enumerate(fabric.node_names())}
    at = {
        "spine-1": (230, 24),
        "spine-2": (470, 24),
        "leaf-1": (150, 130),
        "leaf-2": (550, 130),
        "host-0001": (80, 300),
        "host-0002": (220, 300),
        "host-0003": (480, 300),
        "host-0004": (620, 300),
    }
    name_of = {n: name for name, n in node.items()}
    lid = {name: int(PortInfo.lid.get(fabric.port_info[end_port(fabric, n)])) for name, n in node.items()}
    path = walk(fabric, node["host-0001"], node["host-0004"], lid["host-0004"])
    parts = []
    for a, b in fabric.cable_port:
        pair = [int(fabric.port_node[p]) for p in (a, b)]
        (x1, y1), (x2, y2) = (at[name_of[n]] for n in pair)
        used = any({one, two} == set(pair) for one, two in itertools.pairwise(path))
        parts.append(line(x1, y1 + 20, x2, y2 + 20, "red" if used else ""))
    for name, (x, y) in at.items():
        colour = BLUE if name.startswith("leaf") else GREEN if name.startswith("spine") else GREY
        parts.append(box(x - 52, y, 104, 40, name, colour, f"LID {lid[name]}"))
    for name, side in (("leaf-1", -1), ("leaf-2", 1)):
        x, y = at[name]
        table = fabric.lft[fabric.switch_of_node[node[name]]]
        left = x - 134 if side < 0 else x + 64
        parts.append(label(left, y - 6, f"LFT of {name}", "s l b"))
        for i, host in enumerate(n for n in sorted(at) if n.startswith("host")):
            parts.append(label(left, y + 10 + 15 * i, f"LID {lid[host]} → {int(table[lid[host]])}", "s l"))
    return svg(
        720,
        356,
        parts,
        "Two leaves and two spines: the path of a packet from host-0001 to host-0004, and the leaves' forwarding tables",
    )


def end_port(fabric: Fabric, node: int) -> int:
    """The port that packets to a node are addressed to."""
    return int(fabric.port(node, 0 if fabric.switch_of_node[node] >= 0 else 1))


def walk(fabric: Fabric, source: int, target: int, dlid: int) -> list[int]:
    """Nodes on the path of a packet, as the forwarding tables lead."""
    path, port = [source], end_port(fabric, source)
    while path[-1] != target:
        path.append(int(fabric.port_node[fabric.port_peer[port]]))
        switch = int(fabric.switch_of_node[path[-1]])
        if switch >= 0:
            port = int(fabric.port(path[-1], int(fabric.lft[switch][dlid])))
    return path


def states() -> str:
    """Port states, and who moves a port on."""
    parts, x = [], 16.0
    for name, small_text, by in (
        ("DOWN", "no signal", "training"),
        ("INIT", "link is up, SMPs only", "manager: LID, tables, MTU, VLs"),
        ("ARMED", "configured", "manager: Set(PortInfo)"),
        ("ACTIVE", "data flows", ""),
    ):
        colour = {"DOWN": GREY, "INIT": SAND, "ARMED": BLUE, "ACTIVE": GREEN}[name]
        parts.append(box(x, 20, 128, 50, name, colour, small_text))
        if by:
            parts += [f'<path d="M{x + 130:.0f} 45H{x + 206:.0f}" marker-end="url(#a)"/>', label(x + 170, 92, by)]
        x += 210
    return svg(x - 66, 106, parts, "Port states: DOWN, INIT, ARMED, ACTIVE, and who moves a port from one to the next")


def loop() -> str:
    """The cycle that the proof finds on a torus under minhop."""
    torus = softib.generate("torus", dims=[4, 4, 4])
    cycle = softib.route(torus, "minhop").credit_loop
    assert cycle
    names = [str(c) for c in cycle]
    n, r, cx, cy = len(names), 95, 300, 140
    points = [
        (cx + 1.9 * r * math.cos(2 * math.pi * (i + 0.5) / n), cy + r * math.sin(2 * math.pi * (i + 0.5) / n))
        for i in range(n)
    ]
    parts = []
    for i, (x, y) in enumerate(points):
        x2, y2 = points[(i + 1) % n]
        d = math.hypot(x2 - x, y2 - y)
        ux, uy = (x2 - x) / d, (y2 - y) / d
        cut = 74 if abs(ux) > abs(uy) else 26
        parts.append(
            f'<path class="red" d="M{x + ux * cut:.0f} {y + uy * cut:.0f}L{x2 - ux * cut:.0f} {y2 - uy * cut:.0f}" marker-end="url(#a)"/>'
        )
    for (x, y), name in zip(points, names, strict=True):
        parts.append(box(x - 70, y - 22, 140, 44, name, ROSE, "its buffer is full"))
    parts.append(label(cx, cy + 4, "each waits for the next"))
    return svg(600, 290, parts, "A credit loop: four switches in a circle, each waits for buffer space at the next")


def queue_pairs() -> str:
    """Two queue pairs, their memory and what passes between them."""
    parts = []
    for x, who in ((16, "initiator"), (436, "responder")):
        parts.append(f'<rect x="{x}" y="20" width="250" height="170" fill="#fff"/>')
        parts.append(label(x + 12, 40, who, "l b"))
        parts.append(box(x + 12, 54, 106, 40, "send queue", BLUE))
        parts.append(box(x + 12, 100, 106, 40, "receive queue", BLUE))
        parts.append(box(x + 12, 146, 106, 36, "CQ", SAND))
        parts.append(box(x + 132, 54, 104, 128, "memory", GREEN, "L_Key, R_Key"))
    parts += [
        '<path d="M134 74C134 4 560 4 618 52" marker-end="url(#a)"/>',
        label(351, 14, "RDMA WRITE: into memory, no receive is used"),
    ]
    parts += ['<path d="M268 120H434" marker-end="url(#a)"/>', label(351, 112, "SEND: takes a receive")]
    parts += ['<path d="M434 164H268" marker-end="url(#a)"/>', label(351, 156, "ACK: completes the request")]
    return svg(
        702, 206, parts, "Two queue pairs: a SEND takes a posted receive, an RDMA WRITE goes straight into memory"
    )


DRAWN = {
    "packet": packet,
    "smp": smp,
    "forwarding": forwarding,
    "states": states,
    "loop": loop,
    "queue-pairs": queue_pairs,
}


def pictures() -> dict[str, str]:
    """Every picture by the name of its file."""
    return {f"{name}.svg": draw() for name, draw in DRAWN.items()}


def main(argv: list[str]) -> int:
    """Write the pictures, or compare them."""
    made = pictures()
    if "--check" in argv:
        return int(any((PICTURES / n).read_text("utf-8") != text for n, text in made.items()))
    PICTURES.mkdir(exist_ok=True)
    for name, text in made.items():
        (PICTURES / name).write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
