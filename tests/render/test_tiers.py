"""Tiers: one count for text, JSON, drawing and tables, and its law: they sum up to all switches."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.structure.ranks import count_tiers, tier_text
from softib.diags.structure.recognise import recognise, summary
from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.render.html import _tiers
from tests.render.samples import report_of


def uneven() -> Fabric:
    """Two-level tree with few hosts on some leaves, a UFM server on a spine, and three switches that nothing links."""
    b = FabricBuilder("uneven")
    leaf = b.nodes(8, NodeType.SWITCH, 20, desc=[f"leaf-{i}" for i in range(8)])
    spine = b.nodes(4, NodeType.SWITCH, 20, desc=[f"spine-{i}" for i in range(4)])
    b.nodes(3, NodeType.SWITCH, 20, desc=[f"spare-{i}" for i in range(3)])
    for i in range(8):
        for k in range(4):
            b.links(leaf[i : i + 1], 17 + k, spine[k : k + 1], 1 + i)
        for k in range(12 if i < 6 else 3):
            host = b.nodes(1, NodeType.CA, 1, desc=[f"host-{i}-{k}"])
            b.links(leaf[i : i + 1], 1 + k, host, 1)
    ufm = b.nodes(1, NodeType.CA, 1, desc=["ufm"])
    b.links(spine[:1], 20, ufm, 1)
    return b.build()


CASES = [
    (generate, ("fat-tree",), {"radix": 6, "levels": 4}),
    (generate, ("fat-tree",), {"radix": 4, "levels": 5}),
    (generate, ("fat-tree",), {"radix": 8, "levels": 2}),
    (generate, ("fat-tree",), {"radix": 8, "levels": 3, "hosts": 77}),
    (generate, ("rail-optimized",), {"nodes": 31}),
    (generate, ("dragonfly+",), {"g": 5, "radix": 8}),
    (generate, ("torus",), {"dims": [3, 4]}),
    (uneven, (), {}),
]


@pytest.mark.parametrize(("make", "args", "parameters"), CASES)
def test_tiers_sum_up_to_all_switches_and_agree_everywhere(make, args, parameters) -> None:
    fabric = make(*args, **parameters)
    found = recognise(fabric)
    told = summary(fabric, found)
    switches = int(fabric.is_switch.sum())
    assert sum(told.tiers.values()) + told.untiered_switches == switches
    text = dict(told.facts()).get("Switches by tier")
    if text is not None:
        counts = [int(part.split(" ")[0].replace(",", "")) for part in text.split(", ")]
        assert sum(counts) == switches
    report = report_of(fabric)
    report.recognised = found
    drawn = _tiers(report)
    rows = np.bincount(drawn.tier, minlength=drawn.n_tiers).tolist()
    assert rows == [n for n in [*told.tiers.values(), told.untiered_switches] if n]
    assert [int(label.split(" ")[0].replace(",", "")) for label in drawn.labels] == rows


def test_every_tier_has_a_name() -> None:
    rank = np.array([1] * 1200 + [2] * 6 + [3] * 4 + [4] * 2 + [5, -1])
    text = tier_text(*count_tiers(rank))
    assert text == "1,200 leaf, 6 spine, 4 core, 2 tier 4, 1 tier 5, 1 without a way to a leaf"


def test_real_fabrics_agree_with_themselves(shared_data) -> None:
    """The Selene storage fabric read 58/64/38 in one table and 64/64/32 in the next."""
    from softib.fabric.formats.registry import read

    for path in ("hk-examples/Topo.5.txt", "ufm-selene-storage/selene.storage.txt", "hk-examples/Topo.6_CS8500.txt"):
        fabric = read(shared_data / path).fabric
        report = report_of(fabric)
        report.recognised = recognise(fabric)
        drawn = _tiers(report)
        told = summary(fabric, report.recognised)
        rows = np.bincount(drawn.tier).tolist()
        assert rows == [n for n in [*told.tiers.values(), told.untiered_switches] if n]
        assert sum(rows) == fabric.sizes.switches
