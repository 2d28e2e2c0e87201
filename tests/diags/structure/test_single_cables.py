"""Every single cable between switches that is removed from a small fabric is a finding with both of its ports: a missing
cable, or, of so few cables, one that no rule judges. The oracle is the generator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.view import FabricView
from softib.fabric.faults.inject import move_cable
from softib.fabric.plugging import delete_cables
from softib.fabric.topologies.registry import generate
from tests.extent import extent

GRIDS = ([2, 2], [3, 2], [2, 3], [3, 3], [4, 2], [5, 2], [2, 2, 2], [3, 2, 2], [4, 4])
SMALL: list[tuple[str, dict[str, Any]]] = [
    *((kind, {"dims": dims}) for kind in ("mesh", "torus", "hyperx") for dims in GRIDS),
    *((kind, {"dims": [4, 2], "parallel": 2}) for kind in ("mesh", "torus")),
    *(("ring", {"switches": n}) for n in (3, 4, 5, 6, 8)),
    *(
        ("dragonfly", dict(zip("gaph", x, strict=True)))
        for x in ((2, 2, 1, 1), (3, 2, 1, 1), (3, 2, 2, 2), (4, 2, 1, 2))
    ),
    *(
        ("dragonfly", dict(zip("gaph", x, strict=True)))
        for x in ((5, 2, 2, 2), (5, 2, 1, 4), (4, 3, 1, 1), (3, 1, 2, 2))
    ),
    *(("dragonfly+", dict(zip("glsph", x, strict=True))) for x in ((2, 2, 2, 2, 1), (3, 2, 2, 2, 1), (5, 2, 2, 1, 2))),
]


@pytest.mark.parametrize(("kind", "parameters"), SMALL, ids=lambda x: str(x))
def test_a_removed_cable_is_named_with_both_ports(kind: str, parameters: dict[str, Any]) -> None:
    whole = generate(kind, **parameters)
    view = FabricView(whole)
    between = view.between_switches
    pairs = [(int(a), int(b)) for a, b in zip(view.port_a[between], view.port_b[between], strict=True)]
    for a, b in pairs[:: extent(max(1, len(pairs) // 5), 1)]:
        fabric = generate(kind, **parameters)
        delete_cables(fabric, [int(fabric.port_cable[a])])
        wanted = {str(view.location(p)) for p in (a, b)}
        findings = check(fabric)
        named = [f for f in findings if wanted <= {str(p) for p in f.where}]
        assert [f.code for f in named] in (["missing-cable"], ["unjudged-cables"], ["isolated-part"]), (
            wanted,
            findings,
        )
        assert {f.code for f in findings} <= {named[0].code, "uneven-routes"}, (wanted, [f.message for f in findings])


def test_a_cable_that_only_one_shape_has_is_a_warning_from_seven_cables_on() -> None:
    """Of 4 cables, one is no exception; a mesh of 3 x 2 has 7."""
    for kind, parameters, code in (
        ("mesh", {"dims": [3, 2]}, "missing-cable"),
        ("mesh", {"dims": [2, 2]}, "unjudged-cables"),
    ):
        fabric = generate(kind, **parameters)
        view = FabricView(fabric)
        delete_cables(fabric, [int(fabric.port_cable[view.port_a[view.between_switches[0]]])])
        assert [f.code for f in check(fabric)] == [code]


def test_two_groups_of_a_dragonfly_that_lost_two_cables_are_not_guessed() -> None:
    """More than one cable of so few is no exception, and many free ports are a design."""
    fabric = generate("dragonfly", g=3, a=2, p=1, h=1, radix=36)
    assert np.count_nonzero(fabric.port_cable < 0) > 100
    assert not check(fabric)


MOVES: list[tuple[str, dict[str, Any]]] = [
    ("fat-tree", {"radix": 8, "levels": 2, "hosts": 12}),
    ("mesh", {"dims": [4, 2], "radix": 20}),
    ("torus", {"dims": [5, 2], "radix": 20}),
    ("hyperx", {"dims": [4, 2], "radix": 20}),
]


@pytest.mark.parametrize(("kind", "parameters"), MOVES, ids=lambda x: str(x))
def test_one_plug_in_the_wrong_switch_is_named_or_said_to_be_unjudged(kind: str, parameters: dict[str, Any]) -> None:
    """A plug moved to a free port of a third switch: rules of three to six ports, and silence before."""
    whole = generate(kind, **parameters)
    view, rng = FabricView(whole), np.random.default_rng(3)
    links = view.between_switches
    for row in rng.choice(links, extent(5, len(links)), replace=False).tolist():
        fabric = generate(kind, **parameters)
        plug, stays = int(view.port_a[row]), int(view.port_b[row])
        free = (fabric.port_cable < 0) & fabric.is_switch[fabric.port_node] & (fabric.port_num > 0)
        free &= ~np.isin(fabric.port_node, fabric.port_node[[plug, stays]])
        to = int(rng.choice(np.flatnonzero(free)))
        move_cable(fabric, fabric.port_name(plug), fabric.port_name(to))
        findings = [f for f in check(fabric) if f.code != "uneven-routes"]
        places = [{str(p) for p in f.where} for f in findings]
        wanted, freed = {fabric.port_name(stays), fabric.port_name(to)}, fabric.port_name(plug)
        assert any(wanted <= named or freed in named for named in places), (wanted, [f.message for f in findings])
        # A mesh with a cable to its far end may be a torus without some: those are missing then.
        others = [named for f, named in zip(findings, places, strict=True) if f.code != "missing-cable"]
        assert all(named & {*wanted, freed} for named in others), (wanted, [f.message for f in findings])
