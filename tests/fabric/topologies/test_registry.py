"""What holds for every kind: determinism, truth, documentation, speed and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.columns import COLUMNS
from softib.fabric.power_up import active_speed_codes
from softib.fabric.topologies.registry import KINDS, generate
from softib.iba.constants import PortState
from softib.iba.rates import speed_named

from .graphs import check_wiring

ROOT = Path(__file__).resolve().parents[3]
SMALL = {
    "fat-tree": {"radix": 8, "hosts": 50},
    "rail-optimized": {"nodes": 9, "rails": 4, "radix": 8},
    "dragonfly": {"p": 2, "a": 4, "h": 2, "g": 6},
    "dragonfly+": {"radix": 8, "g": 5},
    "torus": {"dims": [4, 3]},
    "mesh": {"dims": [3, 2, 2]},
    "hyperx": {"dims": [3, 3]},
    "ring": {"switches": 5},
}


def test_every_kind_has_a_small_example():
    assert set(SMALL) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_same_parameters_same_bytes(kind):
    a, b = generate(kind, **SMALL[kind]), generate(kind, **SMALL[kind])
    for c in COLUMNS:
        assert getattr(a, c.name).tobytes() == getattr(b, c.name).tobytes(), c.name
    again = generate(kind, **a.source.generator["params"])
    assert again.port_peer.tobytes() == a.port_peer.tobytes(), "the resolved parameters say the same fabric"


@pytest.mark.parametrize("kind", KINDS)
def test_at_rest_and_its_truth(kind):
    f = generate(kind, **SMALL[kind], generation="HDR", host_generation="EDR", name="x")
    check_wiring(f)
    truth = f.source.generator
    assert f.name == "x"
    assert truth["kind"] == kind
    assert len(truth["node_level"]) == f.sizes.nodes
    assert ((truth["node_level"] == 0) == ~f.is_switch).all()
    assert len(truth["cable_tier"]) == f.sizes.cables
    assert all(len(v) == f.sizes.nodes for k, v in truth.items() if k.startswith("node_"))
    linked = f.linked
    assert (f.port_state[linked] == PortState.INIT).all()
    assert (f.lid == 0).all()
    speed = active_speed_codes(f.port_info, f.port_mlnx_speed)
    levels = truth["node_level"][f.port_node[f.cable_port]]
    host_cable = (levels == 0).any(axis=1)
    assert (speed[f.cable_port[host_cable]] == speed_named("EDR").code).all()
    assert (speed[f.cable_port[~host_cable]] == speed_named("HDR").code).all()
    tiers = np.array(truth["tiers"])[truth["cable_tier"]]
    assert (np.char.startswith(tiers, "host-") == host_cable).all()


def test_default_radix_is_the_trade_s():
    for generation, ports in (("QDR", 36), ("EDR", 36), ("HDR", 40), ("NDR", 64)):
        f = generate("fat-tree", levels=1, generation=generation)
        assert len(f.cas) == ports


def test_documentation_is_complete():
    """Every kind is named with its counts, and the reference of the fabric file has its parameters and its source."""
    text, reference = ((ROOT / "docs" / name).read_text() for name in ("topologies.md", "fabric-yaml.md"))
    for kind in KINDS.values():
        assert f"`{kind.name}`" in text
        section = reference.partition(f"### kind: {kind.name}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
        assert kind.source in section and all(f"`{p.name}`" in section for p in kind.parameters), kind.name


@pytest.mark.slow
def test_65536_hosts_in_10_seconds_and_4_gb():
    """The issue's figure: a 3-level tree of 64-port switches, in a process of its own."""
    out = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "build_fabric.py"), "--kind", "fat-tree", "radix=64", "levels=3"],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    ).stdout
    figures = json.loads(out)
    assert (figures["cas"], figures["switches"], figures["cables"]) == (65536, 5120, 3 * 65536)
    assert figures["first_s"] < 10
    assert figures["peak_mb"] < 4000


def test_registry_loads_neither_numba_nor_pydantic():
    code = (
        "import sys, softib.fabric.topologies.registry, softib.fabric.topologies.spec; "
        "print([m for m in ('numba', 'pydantic', 'yaml') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
