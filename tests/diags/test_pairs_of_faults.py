"""Two faults planted at random in a tree: each one is named, and nothing else is. The oracle is what was planted."""

from __future__ import annotations

import numpy as np
import pytest

from softib.diags.check import check
from softib.diags.finding import Finding
from softib.errors import InputError
from softib.fabric.faults.targets import Planted
from softib.fabric.topologies.registry import generate
from tests.extent import extent
from tests.fabric.random_faults import random_fault

TREES = {
    "two uplinks to each spine": {"radix": 16, "levels": 2, "hosts": 64},
    "three tiers": {"radix": 8, "levels": 3, "hosts": 128},
}
KINDS = (
    "remove-cable",
    "swap-cables",
    "slow-link",
    "ber",
    "unlink-hca",
    "duplicate-guid",
    "duplicate-description",
    "one-sided",
    "inactive-link",
    "duplicate-lid",
    "lid-0",
    "dead-switch",
)


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("seed", range(extent(10, 100)))
def test_two_faults_are_both_named_and_nothing_else_is(tree: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = generate("fat-tree", **TREES[tree])
    names = {int(guid): fabric.node_name(node) for node, guid in enumerate(fabric.node_guid)}
    planted = []
    while len(planted) < 2:
        try:
            planted.append(random_fault(fabric, str(rng.choice(KINDS)), rng))
        except InputError:
            continue  # no place for it beside the first
    findings = check(fabric)
    found = [places(f, names) for f in findings]
    messages = [p.message for p in planted], [f.message for f in findings]
    for fault in planted:
        ends = set(fault.where)
        one = fault.kind == "remove-cable"  # an adapter without a link may be named alone
        assert any(ends & each if one else ends <= each for each in found), messages
    if nodes_of(planted[0]) & nodes_of(planted[1]):
        return  # one may hide in the other
    ours = {name for fault in planted for place in fault.where for name in (place, place.split("[")[0])}
    assert all(each & ours for each in found), messages


def nodes_of(fault: Planted) -> set[str]:
    return {place.split("[")[0] for place in fault.where}


def places(finding: Finding, names: dict[int, str]) -> set[str]:
    """Ports and nodes of a finding, by their names now and before any was changed."""
    nodes = [(name, p.portnum) for p in finding.where for name in (p.node, names[p.guid])]
    return {name for name, _ in nodes} | {f"{name}[{port}]" for name, port in nodes if port is not None}
