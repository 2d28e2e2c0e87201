"""Two plugs of one switch exchanged among themselves: information with exactly these two ports. The oracle is the
generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softib.diags.check import check, check_structure
from softib.diags.view import FabricView
from softib.fabric.faults.inject import swap_cables
from softib.fabric.topologies.registry import generate

SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("fat-tree", {"radix": 8, "levels": 2}),
    ("fat-tree", {"radix": 24, "levels": 2, "hosts": 120, "parallel": 2}),
    ("fat-tree", {"radix": 12, "levels": 3}),
    ("rail-optimized", {"nodes": 63}),
    ("torus", {"dims": [6, 6]}),
    ("dragonfly", {"g": 9, "a": 4, "p": 2, "h": 2}),
]


@pytest.mark.parametrize("top", [False, True])
@pytest.mark.parametrize(("kind", "parameters"), SHAPES, ids=str)
def test_two_plugs_at_one_switch(kind: str, parameters: dict[str, Any], top: bool) -> None:
    fabric, rng = generate(kind, **parameters), np.random.default_rng(5)
    rank = check_structure(fabric).structure.rank
    view, switch = FabricView(fabric), int(rng.choice(np.flatnonzero(rank == (rank.max() if top else 1))))
    linked = [p for p in fabric.ports_of(switch) if fabric.port_peer[p] >= 0]
    peer = {p: int(fabric.port_node[fabric.port_peer[p]]) for p in linked}
    first = int(rng.choice([p for p in linked if fabric.is_switch[peer[p]]]))
    second = int(rng.choice([p for p in linked if fabric.is_switch[peer[p]] and peer[p] != peer[first]]))
    wanted = {str(view.location(p)) for p in (first, second)}
    expected = {view.names[peer[p]] for p in (first, second)}
    swap_cables(fabric, fabric.port_name(first), fabric.port_name(second))
    (found,) = check(fabric)
    assert (found.code, found.severity.name) == ("exchanged-ports", "INFO")
    assert {str(p) for p in found.where} == wanted
    assert set(found.evidence["expected"]) == set(found.evidence["lead_to"]) == expected


def test_leaves_of_a_site_without_an_order_say_nothing() -> None:
    """Where three of sixteen leaves have their uplinks in an order of their own, there is no order."""
    fabric = generate("fat-tree", radix=16, levels=2)
    for leaf in ("leaf-2", "leaf-5", "leaf-9"):
        for a, b in ((9, 11), (10, 16), (12, 14)):
            swap_cables(fabric, f"{leaf}[{a}]", f"{leaf}[{b}]")
    assert not check(fabric)
