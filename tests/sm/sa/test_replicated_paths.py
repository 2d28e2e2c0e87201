"""A take-over keeps what the master before gave to paths: SLs, routes of hosts that are away, SLtoVL and VL arbitration tables."""

from __future__ import annotations

import random

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import SmpAttr
from softib.sm.managers.ucast_cache import EndLocations
from softib.sm.options.qos import PortQos, QosConfig
from softib.sm.replication.long_records import absent, cut, joined, read_absent, read_sls, sl_octets
from softib.sm.tables.sl_history import GivenSls, SlHistory
from tests.sm.replication.replication_lab import Lab

TABLES = (SmpAttr.LFT, SmpAttr.SL2VL, SmpAttr.VL_ARB)


def on_lanes(engine="dfsssp", **more):
    """Two managers on a dragonfly, whose paths need SLs."""
    fabric = generate("dragonfly", a=4, p=2, h=2, g=9)
    lab = Lab(a=1, b=1, fabric=fabric, configs={name: {"engine": engine, **more} for name in "ab"})
    lab.start("a", 5)
    lab.start("b", 5)
    assert (lab.state("a"), lab.state("b")) == ("MASTER", "STANDBY")
    lab.run(12)
    return lab


def cable(lab):
    """A port of a cable between switches."""
    f = lab.fabric
    return int(np.flatnonzero(f.linked & f.is_switch[f.port_node] & f.is_switch[f.port_node[f.port_peer]])[0])


@pytest.mark.parametrize("engine", ["dfsssp", "lash"])
def test_a_take_over_changes_no_sl_and_sets_no_table(engine):
    lab = on_lanes(engine)
    sls, tables, sl2vl = lab.path_sls("a"), lab.tables(), lab.fabric.sl2vl.tobytes()
    assert len(np.unique(sls)) > 1, "there is something to keep"
    lab.take_over("a", "b")
    assert np.array_equal(lab.path_sls("b"), sls)
    assert lab.tables() == tables and lab.fabric.sl2vl.tobytes() == sl2vl
    assert not any(lab.sets[attr] for attr in TABLES), lab.sets
    assert lab.sm["b"].report.tables_change == "unchanged"


def test_old_sls_are_known_after_a_take_over():
    """SLs of path records from before the last change are in the copy: the next change is judged by them, not 'unknown-sls'."""
    lab = on_lanes()
    before = lab.path_sls("a")
    lab.plane.set_link(cable(lab), False, lab.now_ps)
    lab.run(12)
    after = lab.path_sls("a")
    knew = lab.sm["a"]._stores.lft.sls
    lab.take_over("a", "b")
    knows = lab.sm["b"]._stores.lft.sls
    assert (before != after).any() and np.array_equal(knows.masks, knew.masks) and knows.every == knew.every
    lab.plane.set_link(cable(lab), True, lab.now_ps)
    lab.run(12)
    assert lab.sm["b"].report.tables_change != "unknown-sls"


def test_hosts_that_are_away_keep_their_routes_over_a_take_over():
    """Without their places the engine spreads one LID less, and moves others."""
    lab = on_lanes()
    gone = int(lab.hosts[9])
    lab.plane.set_link(gone, False, lab.now_ps)
    lab.run(12)
    tables, sls = lab.fabric.lft.copy(), lab.path_sls("a")
    lab.take_over("a", "b")
    assert not lab.sets[SmpAttr.LFT] and np.array_equal(lab.fabric.lft, tables)
    assert np.array_equal(lab.path_sls("b"), sls)


def test_a_switch_that_restarts_between_two_masters_gets_its_tables():
    lab = on_lanes()
    f = lab.fabric
    switch = int(np.flatnonzero(f.is_switch)[-1])
    ports = np.flatnonzero((f.port_node == switch) & f.linked)
    was = f.sl2vl.copy()
    lab.kill("a")
    for port in ports.tolist():
        lab.plane.set_link(port, False, lab.now_ps)
    rows = slice(int(f.sl2vl_base[ports].min()), int(f.sl2vl_base[ports].max()) + 1)
    f.sl2vl[rows] = 0
    for port in ports.tolist():
        lab.plane.set_link(port, True, lab.now_ps)
    lab.take_over("a", "b")
    lab.run(5)
    assert np.array_equal(f.sl2vl[rows], was[rows]) and lab.sets[SmpAttr.SL2VL]
    assert lab.sets[SmpAttr.SL2VL] < len(was) // 4, "the others are left alone"


def test_other_settings_than_the_masters_are_written():
    """A copy says what was written, not what shall be: a standby whose options differ sets its own VL arbitration, and nothing else."""
    fabric = generate("dragonfly", a=4, p=2, h=2, g=9)
    configs = {
        "a": {"engine": "dfsssp"},
        "b": {"engine": "dfsssp", "qos": QosConfig(PortQos(vlarb_low=((0, 9), (1, 9))))},
    }
    lab = Lab(a=1, b=1, fabric=fabric, configs=configs)
    lab.start("a", 5)
    lab.start("b", 17)
    lab.take_over("a", "b")
    assert lab.sets[SmpAttr.VL_ARB] and not lab.sets[SmpAttr.SL2VL] and not lab.sets[SmpAttr.LFT]


def test_sls_survive_packing_and_damage_makes_none():
    rng = np.random.default_rng(2)
    given = GivenSls(
        3,
        np.arange(1, 6, dtype=np.uint64),
        np.arange(10, 17, dtype=np.uint64),
        rng.integers(0, 9, (5, 7)).astype(np.uint16),
        np.arange(16, dtype=np.uint8),
    )
    history = SlHistory()
    assert sl_octets(history) == b"", "nothing is known, nothing is told"
    history.take_over(given)
    pieces = cut(sl_octets(history))
    back = read_sls(pieces)
    assert back is not None and all(np.array_equal(x, y) for x, y in zip(back, given, strict=True))
    rng = random.Random(4)
    for _ in range(300):
        bad = [bytearray(p) for p in pieces]
        piece = rng.randrange(len(bad))
        bad[piece][rng.randrange(len(bad[piece]))] ^= 1 << rng.randrange(8)
        assert read_sls([bytes(p) for p in bad]) is None
    assert read_sls(pieces[:-1]) is None and read_sls([]) is None
    for _ in range(300):
        read_sls(cut(rng.randbytes(rng.randrange(80))))  # raises nothing


def test_places_survive_packing():
    where = EndLocations(
        *(
            np.array(x, t)
            for x, t in (
                ([7, 8], np.uint64),
                ([1, 1], np.uint64),
                ([3, 4], np.uint8),
                ([1, 1], np.uint8),
                ([5, 6], np.uint16),
                ([0, 1], np.uint8),
                ([True, False], np.bool_),
            )
        )
    )
    back = read_absent(absent(where, set()))
    assert all(np.array_equal(getattr(back, name), getattr(where, name)) for name in vars(where))
    assert [guid for guid, _ in absent(where, {7})] == [8]
    assert not len(read_absent([(9, bytes(14)), (9, b"x")]).guid), "LID 0 is nowhere"


def test_pieces_of_nothing():
    assert joined([]) is None and joined(cut(b"")) == b""
