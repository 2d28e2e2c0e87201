"""Judges the empty slots of directors. In a scan, an empty slot and a board without power look the same. Two facts
distinguish them: a board without power leaves ports free on switches outside the chassis; and if a slot is empty in all
directors of the site, its board was not ordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from softib.diags.structure.absent_ports import Absent
from softib.diags.view import FabricView
from softib.iba.node_description import address_of

__all__ = ["Slots", "in_one_chassis", "with_slots"]

HALF = 0.5
"""Minimum share of the other directors that must have a board in a slot for an empty slot to be a fault."""
FEW = 1
"""Maximum number of empty slots that are reported as faults if the site has only one director. More empty slots are
reported together as information.
"""


@dataclass
class Slots:
    """Empty slots. ``ports``: backplane ports of slots that are empty by design. ``empty``: (slots, their ports,
    director) for directors that are the only ones of their kind.
    """

    ports: list[list[int]] = field(default_factory=list)
    empty: list[tuple[list[str], list[int], str]] = field(default_factory=list)


def in_one_chassis(view: FabricView, a: Absent, displaced: set[int]) -> bool:
    """Return whether all free ports of ``a`` are on chips of the director that would contain ``a``,
    except ``displaced`` chips, whose names belong to other positions."""
    here = address_of(a.name)
    nodes = {int(view.fabric.port_node[p]) for p in a.ports} - displaced
    return bool(here.card and nodes) and all(_is_of(view, n, here.system) for n in nodes)


def _is_of(view: FabricView, node: int, system: str) -> bool:
    address = address_of(view.names[node])
    return bool(address.card) and address.system == system


def with_slots(view: FabricView, absent: Sequence[Absent], displaced: set[int]) -> tuple[list[Absent], Slots]:
    """Return the faults among ``absent``, and the empty slots to report. ``displaced``: exchanged
    switches."""
    boards = _boards(view)
    kept, slots = [], Slots()
    lone: dict[tuple[str, str], list[Absent]] = {}
    for a in absent:
        here = address_of(a.name)
        if not in_one_chassis(view, a, displaced):
            kept.append(a)
            continue
        others = [
            of for system, of in boards.items() if system != here.system and any(card[0] == here.card[0] for card in of)
        ]
        if not others:
            lone.setdefault((here.system, here.card[0]), []).append(a)
        elif np.mean([here.card in of for of in others]) >= HALF:
            kept.append(a)
        else:
            slots.ports.append(a.ports)
    for several in lone.values():
        cards = list(dict.fromkeys(address_of(a.name).card for a in several))
        if len(cards) <= FEW:
            kept += several
            continue
        slots.ports += [a.ports for a in several]
        slots.empty.append((cards, [p for a in several for p in a.ports], address_of(several[0].name).spoken))
    return kept, slots


def _boards(view: FabricView) -> dict[str, set[str]]:
    """Return the boards of each director."""
    cards: dict[str, set[str]] = {}
    for node in np.flatnonzero(view.is_switch).tolist():
        address = address_of(view.names[node])
        if address.card:
            cards.setdefault(address.system, set()).add(address.card)
    return cards
