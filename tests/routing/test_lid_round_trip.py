"""Ports keep the LIDs of their file, so tables that softib dumps are tables of that file (IBA 14.4.3, OpenSM's lid manager)."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from softib.analysis.pipeline import quietly
from softib.analysis.routed import routed
from softib.fabric.end_ports import common_lmc, valid_lids
from softib.fabric.formats.base import ReadResult
from softib.fabric.formats.lft.dump import write_lfts
from softib.fabric.formats.registry import read
from softib.fabric.model import Fabric
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from softib.scenario.bring_up import bring_up
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager
from tests.conftest import find_shared_data
from tests.live.internal_sm.runs import one_pass
from tests.live.serving import Serving


def real_files() -> list:
    """All rows of COUNTS.tsv with links; those without LIDs of their own, and the large ones, are slow tests."""
    data = find_shared_data()
    if data is None:
        return []
    with (data / "COUNTS.tsv").open() as file:
        rows = [r for r in csv.DictReader(file, delimiter="\t") if r["links"] not in ("", "0", "-")]
    quick = lambda r: r["format"] in ("ibnetdiscover", "lst") and r["cas"].isdigit() and int(r["cas"]) < 300
    return [pytest.param(r["file"], marks=() if quick(r) else pytest.mark.slow) for r in rows]


def there_and_back(result: ReadResult, folder) -> tuple:
    """(what ``route`` says of its own tables, what it says of its dump of them, the fabric with them)."""
    made = routed(result, None, None, quietly)
    write_lfts(made.fabric, made.lft, folder / "dump")
    judged = routed(result, None, str(folder / "dump"), quietly)
    said = [(r.proof.unreachable, r.proof.deadlock_free, r.proof.hops, r.proof.ca_ca.total) for r in (made, judged)]
    return *said, made.fabric


@pytest.mark.parametrize("name", real_files())
def test_a_dump_of_a_real_files_tables_is_judged_as_the_tables_are(name, shared_data, tmp_path):
    result = read(shared_data / name)
    made, judged, after = there_and_back(result, tmp_path)
    assert made == judged and made[0] == 0
    ports, valid = valid_lids(result.fabric)
    assert (after.lid[ports[valid]] == result.fabric.lid[ports[valid]]).all()


def with_lids(f: Fabric, rng, lmc: int = 0) -> Fabric:
    """Any unicast LIDs, far apart and in no order."""
    ends = f.end_ports()
    blocks = rng.permutation(np.arange(8, 3000))[: len(ends)]
    PortInfo.lid.set(f.port_info, blocks * 16, ends)
    cas = ends[~f.is_switch[f.port_node[ends]]]
    PortInfo.lmc.set(f.port_info, lmc, cas)
    return f


@pytest.mark.parametrize("lmc", [0, 2])
def test_lids_and_lmc_of_a_file_stay(lmc, tmp_path):
    f = with_lids(generate("fat-tree", radix=8, levels=2), np.random.default_rng(1), lmc)
    assert common_lmc(f) == lmc
    made, judged, after = there_and_back(ReadResult(f, [], "ibnetdiscover"), tmp_path)
    assert made == judged and made[0] == 0
    ends = f.end_ports()
    assert (after.lid[ends] == f.lid[ends]).all() and (after.lmc[ends] == f.lmc[ends]).all()


def test_lids_that_cannot_stay_are_given_anew(tmp_path):
    """A LID twice, one beyond the unicast range, none at all: only these ports move, and the dump tells where to."""
    f = with_lids(generate("fat-tree", radix=8, levels=2), np.random.default_rng(2))
    ends = f.end_ports()
    for row, lid in ((3, int(f.lid[ends[2]])), (5, 0xC001), (7, 0), (9, 0xFFFF)):
        PortInfo.lid.set(f.port_info, lid, ends[row : row + 1])
    made, judged, after = there_and_back(ReadResult(f, [], "ibnetdiscover"), tmp_path)
    assert made == judged and made[0] == 0
    moved = np.flatnonzero(after.lid[ends] != f.lid[ends])
    assert moved.tolist() == [3, 5, 7, 9] and len(np.unique(after.lid[ends])) == len(ends)


def test_a_part_that_no_manager_reaches_is_left_out_as_before(tmp_path):
    """Its ports hold LIDs of another time; they are no pairs of this subnet."""
    from softib.fabric.plugging import delete_cables

    f = with_lids(generate("ring", switches=6), np.random.default_rng(3))
    switch = f.is_switch[f.port_node]
    between = [i for i, (a, b) in enumerate(f.cable_port.tolist()) if switch[a] and switch[b]]
    delete_cables(f, np.array([between[0], between[3]]))
    made, judged, _ = there_and_back(ReadResult(f, [], "ibnetdiscover"), tmp_path)
    assert made == judged and made[0] == 0 and 0 < made[3] < 30


def test_reassign_lids_forgets_what_ports_hold():
    f = with_lids(generate("fat-tree", radix=4, levels=2), np.random.default_rng(4))
    power_on(f, keep_lids=True)
    before = f.lid.copy()
    b = bring_up(f)
    assert (f.lid == before).all()
    b.sm = SubnetManager(SmConfig(reassign_lids=True))
    b.sweep()
    assert sorted(f.lid[f.end_ports()].tolist()) == list(range(1, len(f.end_ports()) + 1))


@pytest.mark.stock
def test_stock_opensm_lets_them_stand_too(stock, tmp_path):
    f = with_lids(generate("fat-tree", radix=4, levels=2), np.random.default_rng(5))
    power_on(f, keep_lids=True)
    ends = f.end_ports()
    before = f.lid[ends].copy()
    s = Serving(f)
    try:
        run = one_pass(
            stock("opensm"), s.environment(f"H-{int(f.node_guid[f.cas[0]]):016x}"), tmp_path / "sm", "-R", "updn"
        )
    finally:
        s.stop()
    assert run.up and (f.lid[ends] == before).all()
    ours = generate("fat-tree", radix=4, levels=2)
    PortInfo.lid.set(ours.port_info, before, ends)
    bring_up(ours, "updn")
    assert (ours.lid[ends] == before).all()
