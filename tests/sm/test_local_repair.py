"""A switch whose uplink dies uses the alternatives that it was given, before any manager hears of it.

Oracles: MADs that the agents carry by LID, and a walk in plain Python over the columns by the rule of ARInfo.fr_enabled.
"""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.node_finder import find_node
from softib.iba.constants import Method, MgmtClass, SmpAttr
from softib.iba.smp import MadHeader
from softib.iba.vendor import ar
from softib.iba.vendor.ar import ARInfo
from softib.mad.batch import MadBatch
from softib.sm.config import config_of
from softib.sm.options.file import read_options
from tests.sm.local_repair_lab import fate, managed, reaches
from tests.sm.wire import settle


def uplink(f) -> int:
    """A port of a leaf towards a spine, not of the manager's leaf."""
    leaf = find_node(f, "leaf-3")
    return next(int(p) for p in f.ports_of(leaf) if f.port_peer[p] >= 0 and f.is_switch[f.port_node[f.port_peer[p]]])


def carried(f, plane, source, lid) -> bool:
    """Does a Get(NodeInfo) by LID from a host's port get an answer?"""
    batch = MadBatch.zeros(1)
    batch.dlid[:], batch.slid[:] = lid, f.lid[source]
    head = MadHeader.pack(
        base_version=1,
        mgmt_class=int(MgmtClass.SUBN_LID),
        class_version=1,
        method=int(Method.GET),
        tid=9,
        attr_id=int(SmpAttr.NODE_INFO),
    )
    batch.mad[0, : MadHeader.size] = head
    return len(plane.send(batch, source, 10**13)) > 0


def lost(f, repairs) -> int:
    hosts = [int(f.port(int(n), 1)) for n in f.cas]
    return sum(not reaches(f, a, int(f.lid[b]), b, repairs) for a in hosts for b in hosts if a != b)


def test_paths_up_through_a_dead_uplink_are_repaired_by_the_switch():
    """Half of what the cable carried leads up over it, and is repaired; what comes down over it has no other way, until the manager has swept."""
    counts = {}
    for text in ("", "local_repair TRUE"):
        f, sm, plane, port = managed(text)
        assert bool(ARInfo.fr_enabled.get(f.ar_info).all()) == bool(text) and not ARInfo.ar_enabled.get(f.ar_info).any()
        repairs = bool(text)
        assert lost(f, repairs) == 0
        plane.set_link(uplink(f), False, 10**12)
        counts[text] = lost(f, repairs)
        hosts = [int(f.port(int(n), 1)) for n in f.cas]
        for a in hosts[::5]:
            for b in hosts[::3]:
                if a != b:
                    both = reaches(f, a, int(f.lid[b]), b, repairs) and reaches(f, b, int(f.lid[a]), a, repairs)
                    assert carried(f, plane, a, int(f.lid[b])) == both, "the agents forward as the tables say"
        sm.request_sweep()
        settle(sm, plane, port)
        assert lost(f, repairs) == 0
    assert 0 < counts["local_repair TRUE"] < counts[""]
    print(
        f"pairs without a path while nobody has swept: {counts['']} without, {counts['local_repair TRUE']} with local repair"
    )


def test_only_mads_write_it_and_it_is_taken_back():
    f, sm, plane, port = managed("local_repair TRUE")
    assert sm.report.mads["Set MLNX_AR_INFO"] == f.sizes.switches
    assert (f.ar_lft[:, : sm.graph.max_lid] >> ar.STATE_SHIFT != ar.FREE).all(), (
        "no packet chooses while its port is up"
    )
    sm.reconfigure(config_of(read_options("routing_engine updn").options))
    settle(sm, plane, port)
    assert not ARInfo.fr_enabled.get(f.ar_info).any()


@pytest.mark.parametrize("text", ["adaptive_routing free", "adaptive_routing free\nlocal_repair TRUE"])
def test_beside_adaptive_routing(text):
    f, _, _, _ = managed(text)
    assert ARInfo.ar_enabled.get(f.ar_info).all()
    assert np.array_equal(ARInfo.fr_enabled.get(f.ar_info) > 0, np.full(f.sizes.switches, "repair" in text))


def between_switches(f) -> list[int]:
    """One end of each cable between switches."""
    p = np.flatnonzero(f.linked & f.is_switch[f.port_node])
    return [int(x) for x in p if f.is_switch[f.port_node[f.port_peer[x]]] and x < f.port_peer[x]]


def fates(f, repairs) -> dict[tuple[int, int], str]:
    hosts = [int(f.port(int(n), 1)) for n in f.cas]
    return {(a, b): fate(f, a, int(f.lid[b]), b, repairs) for a in hosts for b in hosts if a != b}


def test_what_leads_down_takes_a_parallel_cable_to_the_same_switch():
    """Two cables between each leaf and each spine: whichever falls, no pair is lost for a moment, up or down. Without repair some are."""
    f, sm, plane, port = managed("local_repair TRUE", hosts=16)
    for cable in between_switches(f)[::5]:
        plane.set_link(cable, False, 10**12)
        assert set(fates(f, True).values()) == {"arrives"} and "lost" in fates(f, False).values()
        plane.set_link(cable, True, 10**12)
        sm.request_sweep()
        settle(sm, plane, port)
        assert set(fates(f, False).values()) == {"arrives"}


@pytest.mark.parametrize(
    ("engine", "spec"),
    [("updn", {"hosts": 16}), ("ftree", {"levels": 3, "radix": 4}), ("dnup", {"levels": 3, "radix": 4})],
)
def test_any_number_of_dead_cables_makes_no_loop_and_loses_no_pair_that_was_served(engine, spec):
    """The law of a repair, before anybody has swept: it never sends a packet round, and never takes a path that was there."""
    f, _, plane, _ = managed(f"local_repair TRUE\nrouting_engine {engine}", **spec)
    rng, gained = np.random.default_rng(7), 0
    for port in rng.permutation(between_switches(f))[:6].tolist():
        plane.set_link(port, False, 10**12)
        without, having = fates(f, False), fates(f, True)
        assert "loops" not in having.values() and "loops" not in without.values()
        assert all(having[pair] == "arrives" for pair, was in without.items() if was == "arrives")
        gained += sum(x == "arrives" for x in having.values()) - sum(x == "arrives" for x in without.values())
    assert gained > 0
