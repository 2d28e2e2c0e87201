"""Shift phases by loads are the fluid layer's phases, message by message."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid
from softib.sim.fluid.phases import phase, shift_phases

TREES = (
    ("fat-tree", {"m": (8, 8), "w": (1, 8), "p": (1, 1)}, "ftree"),
    ("fat-tree", {"m": (8, 8), "w": (1, 3), "p": (1, 1)}, "updn"),  # oversubscribed
    ("fat-tree", {"m": (4, 4, 4), "w": (1, 2, 4), "p": (1, 1, 1)}, "minhop"),
    ("torus", {"dims": (4, 4), "hosts_per_switch": 4}, "updn"),
)


def up(kind: str, parameters: dict, engine: str, lengths: int | None = None) -> Fabric:
    fabric = generate(kind, **parameters)
    if lengths is not None:
        fabric.cable_length_m[:] = np.random.default_rng(lengths).integers(1, 90, len(fabric.cable_length_m))
    bring_up(fabric, engine)
    return fabric


@pytest.mark.parametrize(("kind", "parameters", "engine"), TREES, ids=[f"{k}-{e}" for k, _, e in TREES])
@pytest.mark.parametrize("size", [1, 5_000, 1_000_000])
def test_64_hosts_as_when_every_message_is_run(kind, parameters, engine, size):
    """Sum of the phases within 1e-9, cables of any length, where one link carries up to many flows."""
    fabric = up(kind, parameters, engine, lengths=7)
    found = shift_phases(fabric, size)
    every = [fluid.run(fabric, phase(64, k, size)).end_ps for k in range(1, 64)]
    assert found.flows == 64 * 63
    assert abs(found.end_ps - sum(every)) <= 1e-9 * sum(every)
    assert found.took_ps.tolist() == every
    assert found.enumerated < 63, "most phases need no enumeration"


def test_cables_beyond_their_credits_are_run_message_by_message():
    """What a message of a few packets takes there is no matter of loads."""
    fabric = up(*TREES[1])
    fabric.cable_length_m[:] = 300
    found = shift_phases(fabric, 100_000, shifts=[5, 17])
    assert found.took_ps.tolist() == [fluid.run(fabric, phase(64, k, 100_000)).end_ps for k in (5, 17)]


def test_ftree_carries_every_shift_without_sharing():
    """Zahavi 2012: shifts in the order of the tree's LIDs are free of contention."""
    found = shift_phases(up(*TREES[0]), 1_000_000)
    assert found.most.max() == 1


def test_some_shifts_are_the_same_as_those_of_all():
    fabric = up(*TREES[1], lengths=3)
    every, some = shift_phases(fabric, 4096), shift_phases(fabric, 4096, shifts=[5, 17])
    assert some.took_ps.tolist() == every.took_ps[[4, 16]].tolist()


def test_a_shift_to_oneself_uses_no_link():
    """Shift 0, and one as large as the number of hosts: run message by message."""
    fabric = up(*TREES[0])
    found = shift_phases(fabric, 4096, shifts=[0, 64, 1])
    assert found.took_ps.tolist() == [fluid.run(fabric, phase(64, k, 4096)).end_ps for k in (0, 64, 1)]


def test_links_of_several_speeds():
    """A slow host's link holds its own phase up, and the first channel of a path counts too."""
    from softib.fabric.faults.inject import slow_link

    fabric = generate("fat-tree", m=(4, 4), w=(1, 4), p=(1, 1))
    slow_link(fabric, int(fabric.ports_of(int(fabric.cas[3]))[0]), speed="SDR")
    bring_up(fabric)
    found = shift_phases(fabric, 100_000)
    assert found.took_ps.tolist() == [fluid.run(fabric, phase(16, k, 100_000)).end_ps for k in range(1, 16)]


@pytest.mark.parametrize("generation", ["QDR", "EDR", "HDR", "NDR"])
def test_adapters_whose_memory_is_slower_than_the_link(generation):
    """The last packet waits for the one before on its way into memory: by the link that the data comes in by (one is 1x)."""
    from softib.fabric.faults.inject import slow_link

    fabric = generate("fat-tree", m=(4, 4), w=(1, 4), p=(1, 1), generation=generation)
    slow_link(fabric, int(fabric.ports_of(int(fabric.cas[6]))[0]), lanes=1)
    bring_up(fabric)
    for size in (1, 4097, 20_000, 100_001):
        found = shift_phases(fabric, size)
        assert found.took_ps.tolist() == [fluid.run(fabric, phase(16, k, size)).end_ps for k in range(1, 16)]
        assert found.enumerated < 15


def test_shifts_beyond_the_hosts_wrap():
    found = shift_phases(up(*TREES[1]), 4096, shifts=[3, 67, -61])
    assert found.took_ps[0] == found.took_ps[1] == found.took_ps[2]


def test_a_port_whose_vl_goes_by_where_packets_come_in():
    """SL2VL by ingress port: loads of ports do not tell then, as one port has queues of two VLs; the answer stays."""
    fabric = up(*TREES[1])
    egress = int(fabric.node_base[np.flatnonzero(fabric.switch_of_node >= 0)[-1]]) + 1
    fabric.sl2vl[fabric.sl2vl_base[egress] + 2, 0] = 0x10
    found = shift_phases(fabric, 4096, shifts=[1, 9, 20])
    assert found.enumerated
    assert found.took_ps.tolist() == [fluid.run(fabric, phase(64, k, 4096)).end_ps for k in (1, 9, 20)]


@pytest.mark.parametrize(("hosts", "size"), [(1, 8), (65, 8), (64, 0)])
def test_what_cannot_be_is_one_line(hosts, size):
    with pytest.raises(InputError):
        shift_phases(up(*TREES[0]), size, hosts=hosts)
