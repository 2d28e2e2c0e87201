"""Finds exchanged plugs of one switch. Each of its cables still leads to an expected switch, but the order of the
cables differs from that on all other switches of its kind. No route changes, but labels and plans are wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from softib.diags.context import Context
from softib.diags.finding import MANY, Finding, Severity, code, few, finding
from softib.diags.structure.pattern import NO_OPINION
from softib.plural import counted

__all__ = ["exchanged_ports"]

EXCHANGED_PORTS = code(
    "exchanged-ports",
    Severity.INFO,
    "cables of a switch reach the right switches in another order than on the other switches of its kind",
    "compare port numbers with labels and the cabling plan; no route depends on it",
)
FEW, HANDFUL = 0.1, 2
"""Maximum share, and maximum number, of the switches of a kind that may be out of order. With more, the kind has no
order."""
MIN_ALIKE = 4
"""Minimum number of switches of a kind that form an order."""


def exchanged_ports(c: Context) -> Iterator[Finding]:
    """Report switches whose ports lead to the expected switches, but in another order than the rule of the port
    numbers."""
    view, f, done = c.view, c.view.fabric, c.seen.get("cables", set())
    expected, class_of = c.pattern.expected, c.pattern.labels.class_of
    rows = view.between_switches
    ports = np.concatenate([view.port_a[rows], view.port_b[rows]])
    ports = ports[c.pattern.sure[ports] & (expected[ports] != NO_OPINION)]
    peers = f.port_node[f.port_peer[ports]]
    odd = ports[expected[ports] != peers]
    of_switch: dict[int, list[int]] = {}
    for port in odd.tolist():
        of_switch.setdefault(int(f.port_node[port]), []).append(port)
    out: dict[int, list[tuple[int, list[int]]]] = {}
    for switch, several in of_switch.items():
        here = Counter(f.port_node[f.port_peer[several]].tolist())
        if len(several) > 1 and here == Counter(expected[several].tolist()) and not done & set(several):
            out.setdefault(int(class_of[switch]), []).append((switch, several))
    alike = Counter(class_of[np.unique(f.port_node[ports])].tolist())
    for kind, switches in out.items():
        if alike[kind] < MIN_ALIKE or len(switches) > max(HANDFUL, FEW * alike[kind]):
            continue
        for switch, several in switches:
            numbers = few([str(int(f.port_num[p])) for p in several], MANY)
            yield finding(
                EXCHANGED_PORTS,
                [view.location(p) for p in several],
                f"{view.display_names[switch]}: the cables in ports {numbers} reach the right switches in another "
                f"order than on {counted(alike[kind] - len(switches), 'other')} of its kind",
                {
                    "ports": [int(f.port_num[p]) for p in several],
                    "lead_to": [view.display_names[int(f.port_node[f.port_peer[p]])] for p in several],
                    "expected": [view.display_names[int(expected[p])] for p in several],
                },
            )
