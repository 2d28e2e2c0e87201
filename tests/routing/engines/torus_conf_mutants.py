"""Sixty torus-2QoS.conf files of two tori: what people write, what they forget, and random damage."""

from __future__ import annotations

import random

from tests.routing.engines.torus_lab import Lab

__all__ = ["MUTANTS", "TORI", "verdicts"]

TORI = {"4x3x1": Lab(4, 3, 1), "3x3x3": Lab(3, 3, 3)}
KEYWORDS = ("torus", "mesh", "xp_link", "xm_link", "yp_link", "zm_link", "x_dateline", "y_dateline", "z_dateline", "port_order", "next_seed",
            "max_changes", "portgroup_max_ports", "xq_link", "Torus", "#torus")  # fmt: skip # a packed list of short values

PORTS = ("0", "x", "00", "2", "4294967296", "4294967298", "16\nportgroup_max_ports 0", "0\nportgroup_max_ports 16")


def _by_hand(lab: Lab) -> list[str]:
    """Mistakes and spellings that people make."""
    good = lab.config()
    head, size, *links = good.splitlines()
    seed, beside = "0x1", links[0].split()[2]
    text = lambda *lines: "\n".join([head, *lines]) + "\n"
    return [
        good, text(*links, size), text(size, *links[::2]), text(size, *links[1::2]), text(size, *links, "x_dateline 7"),
        text(size, *links, "x_dateline -2"), text("x_dateline 1", size, *links), text(size, *links, "y_dateline 2"), text(size, *links, "y_dateline 3"),
        text(size, *links, "y_dateline -3"), text(size, *links, "next_seed", *links[:1]), text(size, "next_seed", *links), text(size, *links, "next_seed", *links),
        text(size, *links, size), text(size), text(*links), text(size.replace("torus", "mesh"), *links), text(size.upper(), *links),
        text(size.rsplit(None, 1)[0], *links), text(size, *links, f"xp_link 0x2 {beside}"), text(size, *links, f"xp_link {seed}"),
        text(size, *links, "port_order 1 2 99"), text(size, *links, "port_order 2 1"), text(size, *links, "port_order"),
        text(size, *links, "max_changes"), text(size, *links, "max_changes x"), text(size, *links, "portgroup_max_ports 1"), text(size, *links, "x_dateline x"),
        text(size + " # racks", *links), text(size, *(line.replace("_", "-") for line in links)),
    ]  # fmt: skip # a packed list of short values


def _by_chance(lab: Lab, rng: random.Random) -> str:
    lines = lab.config().splitlines()
    for _ in range(rng.randint(1, 2)):
        kind, at = rng.randrange(5), rng.randrange(1, len(lines))
        words = lines[at].split()
        if kind == 0:
            lines.pop(at) if len(lines) > 2 else None
        elif kind == 1:
            lines.insert(rng.randrange(1, len(lines)), lines.pop(at))
        elif kind == 2:
            words[0] = rng.choice(KEYWORDS)
            lines[at] = " ".join(words)
        elif kind == 3:
            words[rng.randrange(len(words))] = rng.choice(("0", "3", "4m", "0x1", "1", "-1", "08", "x"))
            lines[at] = " ".join(words)
        else:
            lines.insert(at, f"{rng.choice(KEYWORDS)} {rng.choice(('1', '-1', '2', '5', '0x1 0x2'))}")
    return "\n".join(lines) + "\n"


def _mutants() -> list[tuple[str, str]]:
    rng = random.Random(2)
    out = [(name, text) for name, lab in TORI.items() for text in _by_hand(lab)]
    out += [(name, _by_chance(lab, rng)) for _ in range(20) for name, lab in TORI.items()]
    return out + [(name, lab.config(more=f"portgroup_max_ports {n}\n")) for name, lab in TORI.items() for n in PORTS]


MUTANTS = _mutants()
"""(name of the torus, text of the file)"""
TAKEN = """
110001010001100010000011010110
111101010001100010000011010110
0101010011000111110001001001100100100010
00010101 00010101
"""
"""By file, in order: 1 where OpenSM 3.3.23 routed by torus-2QoS, 0 where it fell back. A slow test asks it again."""


def verdicts() -> list[int]:
    """:data:`TAKEN` as numbers."""
    return [int(c) for c in TAKEN if c in "01"]
