"""M_Keys of ports: what a manager knows of them opens them, and what it does not know stays shut (IBA 14.2.4)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import Method, MgmtClass, PortState, SmpAttr
from softib.iba.notice import Notice
from softib.iba.smp import MadHeader, PortInfo, Smp
from softib.live.internal_sm.guid2lid import read_keys, write_keys
from softib.mad.batch import MadBatch
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager
from tests.sm.managers.mkeys_lab import A, B, Lab
from tests.sm.sa.asking import Several
from tests.sm.wire import settle

H = MadHeader


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_a_manager_with_another_key_takes_over_by_what_is_known(lab, level):
    first = lab.managed(mkey=A, mkey_protect=level)
    assert lab.keys() == {A}
    lab.down()
    second = lab.managed(first, mkey=B, mkey_protect=level)
    assert lab.keys() == {B} and lab.violations() == 0
    assert second.report.problems == [] and second.report.timeouts == 0
    assert (lab.fabric.port_state[lab.fabric.linked] == PortState.ACTIVE).all()
    third = lab.managed(second)
    assert lab.keys() == {0} and lab.violations() == 0 and third.report.problems == []


def test_without_protection_ports_tell_their_keys(lab):
    lab.managed(mkey=A)
    assert lab.managed(mkey=B).report.problems == []
    assert lab.keys() == {B}


def test_a_hidden_key_is_reported_with_what_to_do(lab):
    lab.managed(mkey=A, mkey_protect=1)
    sm = lab.managed(mkey=B, mkey_protect=1)
    assert lab.keys() == {A}
    locked = [p for p in sm.report.problems if "M_Key" in p]
    guid = int(lab.fabric.port_guid[lab.port])
    assert any(f"'{guid:#018x} KEY' of guid2mkey" in p for p in locked), sm.report.problems


def test_lookup_off_asks_everybody_with_the_configured_key(lab):
    first = lab.managed(mkey=A, mkey_protect=1)
    lab.managed(first, mkey=B, mkey_protect=1, mkey_lookup=False)
    assert lab.keys() == {A} and lab.violations() > 0


def test_a_device_that_was_plugged_elsewhere_is_found_by_keys_that_others_hold(lab):
    """Nobody was known to be behind any port: each is asked with the configured key, then with the subnet's."""
    first = lab.managed(mkey=A, mkey_protect=3)
    first.mkeys.neighbours.clear()
    second = lab.managed(first, mkey=B, mkey_protect=3)
    assert lab.keys() == {B} and not [p for p in second.report.problems if "not answered" in p]


def test_a_key_that_is_no_longer_right_gives_way_to_the_configured_one(lab):
    old = lab.managed(mkey=A, mkey_protect=2)
    knew = dict(old.mkeys.held)
    lab.managed(old, mkey=B, mkey_protect=2)
    old.mkeys.held = knew
    sm = lab.managed(old, mkey=B, mkey_protect=2)
    assert lab.keys() == {B} and sm.report.nodes == lab.fabric.sizes.nodes
    assert set(sm.mkeys.held.values()) == {B}


def test_a_new_key_while_the_manager_runs(lab):
    """And an incremental sweep after it."""
    sm = SubnetManager(SmConfig(window=64, mkey=A, mkey_protect=2, sweep_interval_ps=10**12))
    lab.now_ps = settle(sm, lab.plane, lab.port)
    sm.reconfigure(SmConfig(window=64, mkey=B, mkey_protect=2, sweep_interval_ps=10**12))
    lab.now_ps = settle(sm, lab.plane, lab.port, lab.now_ps)
    assert lab.keys() == {B} and sm.report.problems == []
    sm.schedule.suspect({int(lab.fabric.node_guid[lab.fabric.switch_node[0]])})
    lab.now_ps = settle(sm, lab.plane, lab.port, lab.now_ps)
    assert sm.report.problems == [] and sm.report.timeouts == 0 and lab.violations() == 0


def test_the_files_are_opensms_and_hostile_lines_are_left_out(lab, tmp_path):
    sm = lab.managed(mkey=A, mkey_protect=2)
    lids = tmp_path / "guid2lid"
    write_keys(lids, sm.mkeys)
    assert (tmp_path / "guid2mkey").stat().st_mode & 0o777 == 0o600
    lines = (tmp_path / "guid2mkey").read_text().splitlines()
    assert (
        len(lines) == 2 * len(lab.ends) and lines[0] == f"{int(lab.fabric.port_guid[lab.ends].min()):#018x} {A:#018x}"
    )
    with (tmp_path / "guid2mkey").open("a") as out:
        out.write("0x1 0x10000000000000000\n0x0 0x1\nnobody 0x1\n0x2\n0x3 -1\n\0\xff\n")
    with (tmp_path / "neighbors").open("a") as out:
        out.write("0x1:1 0x2\n0x1:999 0x2:1\n0x1 0x2:1\n:1 0x1:1\n")
    again = SubnetManager(SmConfig())
    read_keys(lids, again.mkeys)
    assert again.mkeys.held == sm.mkeys.held and again.mkeys.neighbours == sm.mkeys.neighbours


def test_nothing_is_written_where_no_port_has_a_key(lab, tmp_path):
    write_keys(tmp_path / "guid2lid", lab.managed().mkeys)
    assert list(tmp_path.iterdir()) == []


def test_a_standby_gets_the_keys():
    """Its own settings name another one: at the takeover it knows what the ports hold."""
    fabric = generate("fat-tree", radix=4, levels=2)
    hosts = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])
    config = lambda p, key: SmConfig(priority=p, window=64, sweep_interval_ps=10**13, mkey=key, mkey_protect=1)
    s = Several(fabric, high=(int(hosts[0]), config(9, A)), low=(int(hosts[1]), config(1, B)))
    s.start("high")
    s.run(2)
    s.start("low")
    s.run(15)
    assert s.state("low") == "STANDBY"
    s.alive.discard("high")
    s.run(120)
    assert s.state("low") == "MASTER"
    assert set(s.sm["low"].mkeys.held.values()) == {B}
    assert (PortInfo.mkey.get(fabric.port_info[hosts]) == B).all()


def trap_of(lid: int) -> MadBatch:
    batch = MadBatch.zeros(1)
    for field, value in (
        (H.base_version, 1),
        (H.class_version, 1),
        (H.mgmt_class, int(MgmtClass.SUBN_LID)),
        (H.method, int(Method.TRAP)),
        (H.attr_id, int(SmpAttr.NOTICE)),
    ):
        field.set(batch.mad, value)
    batch.mad[0, 64:128] = Notice.pack(is_generic=1, type=4, producer_type=1, trap_number=144, issuer_lid=lid)
    batch.slid[:] = lid
    return batch


def repress_of(sm: SubnetManager, lid: int) -> list[int]:
    """The M_Keys of the TrapRepress that a trap of ``lid`` gets (none, or one)."""
    out, _ = sm.step(0, trap_of(lid))
    return Smp.mkey.get(out.mad[H.method.get(out.mad) == Method.TRAP_REPRESS]).tolist()


def test_a_trap_is_repressed_with_the_key_that_its_port_holds(lab):
    """IBA 14.2.4: M_Key of a TrapRepress is compared like a Set's. A trap that waits for a manager is the first that a new one hears."""
    first = lab.managed(mkey=A, mkey_protect=1)
    lids = {
        int(lid): int(guid) for lid, guid in zip(lab.fabric.lid[lab.ends], lab.fabric.port_guid[lab.ends], strict=True)
    }
    stranger = SubnetManager(SmConfig(window=64, mkey=B))
    assert all(repress_of(stranger, lid) == [] for lid in lids)  # nobody knows: it will be repeated
    heir = SubnetManager(SmConfig(window=64, mkey=B))
    heir.mkeys.update(first.mkeys.held)
    assert all(repress_of(heir, lid) == [] for lid in lids)
    heir.lids.update({guid: (lid, lid) for lid, guid in lids.items()})
    assert all(repress_of(heir, lid) == [A] for lid in lids)
    assert repress_of(heir, max(lids) + 1) == []
    assert all(repress_of(lab.managed(first, mkey=B, mkey_protect=1), lid) == [B] for lid in lids)
    plain = SubnetManager(SmConfig(window=64))
    assert all(repress_of(plain, lid) == [0] for lid in lids)
