"""A clean fabric shows no finding, whatever its kind and size; but a chain of switches may be a ring without one cable."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from softib.diags.check import check
from softib.errors import TopologyError
from softib.fabric.topologies.registry import generate
from tests.extent import examples, extent

small = st.integers(2, 7)
GENERATIONS = st.sampled_from(["QDR", "FDR", "EDR", "HDR", "NDR", "XDR"])
PARAMETERS = {
    "fat-tree": st.fixed_dictionaries(
        {"radix": st.integers(2, 12).map(lambda n: 2 * n), "levels": st.integers(1, 4)},
        optional={"parallel": st.sampled_from([1, 2]), "oversubscription": st.sampled_from([1, 2, 3])},
    ),
    "rail-optimized": st.fixed_dictionaries(
        {"nodes": st.integers(1, 140), "rails": st.sampled_from([1, 2, 4, 8]), "radix": st.sampled_from([16, 32, 64])}
    ),
    "dragonfly": st.fixed_dictionaries(
        {"g": st.integers(2, 12), "a": small, "p": st.integers(1, 4), "h": st.integers(1, 4)}
    ),
    "dragonfly+": st.fixed_dictionaries({"g": st.integers(2, 9), "radix": st.sampled_from([4, 8, 12, 16])}),
    "torus": st.fixed_dictionaries(
        {"dims": st.lists(small, min_size=1, max_size=3), "hosts_per_switch": st.integers(0, 3)}
    ),
    "mesh": st.fixed_dictionaries(
        {"dims": st.lists(small, min_size=1, max_size=3), "hosts_per_switch": st.integers(0, 3)}
    ),
    "hyperx": st.fixed_dictionaries({"dims": st.lists(small, min_size=1, max_size=3), "parallel": st.integers(1, 2)}),
    "ring": st.fixed_dictionaries({"switches": st.integers(2, 60), "hosts_per_switch": st.integers(0, 4)}),
}


@pytest.mark.parametrize("kind", PARAMETERS)
@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(st.data())
def test_clean_fabrics_show_nothing(kind: str, data: st.DataObject) -> None:
    parameters = data.draw(PARAMETERS[kind])
    try:
        fabric = generate(kind, generation=data.draw(GENERATIONS), **parameters)
    except TopologyError:
        assume(False)
    assume(fabric.sizes.ports < extent(12_000, 40_000))
    sizes = [n for n in parameters.get("dims", [parameters.get("switches", 0)]) if n > 1]
    chain = kind == "mesh" and len(sizes) == 1
    assert [f.message for f in check(fabric) if not (chain and f.code == "unjudged-cables")] == []


@pytest.mark.parametrize("hosts", [1, 2, 33, 64, 65, 97, 300, 641, 1000])
def test_partly_filled_trees_show_nothing(hosts: int) -> None:
    for radix in (16, 32, 64):
        if hosts <= radix * radix // 2:
            assert [f.message for f in check(generate("fat-tree", radix=radix, levels=2, hosts=hosts))] == []


def test_mixed_generations_show_nothing() -> None:
    """Slower hosts by design: both ends do what they can."""
    assert check(generate("fat-tree", radix=16, levels=2, generation="NDR", host_generation="HDR")) == []
