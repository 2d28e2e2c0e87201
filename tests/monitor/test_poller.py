"""Rounds over agents in this process. Oracle: the fabric's own counters, read directly; the rules are IBA 16.1.3.5 (counters stop at their largest value, a Set clears them)."""

from __future__ import annotations

import numpy as np
import pytest

from softib.iba.constants import Method, MgmtClass
from softib.iba.smp import PortInfo
from softib.iba.vendor.mlnx import GeneralInfo
from softib.monitor.intervals import between, merged_ports, observations_of
from softib.monitor.targets import best_gbps, rate_gbps
from tests.monitor.lab import Lab, clear, fabric_up, port_of, row_of

STEADY = (
    "symbol_error_counter",
    "link_downed_counter",
    "port_rcv_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "port_multicast_xmit_pkts",
)
"""Counters that MADs themselves do not move."""


@pytest.fixture
def lab():
    return Lab()


def test_what_both_ends_of_a_link_support_is_told():
    """Of PortInfo: an EDR adapter on an HDR switch could run at EDR's 100 Gb/s, whatever its neighbours do."""
    fabric = fabric_up()
    info = fabric.port_info[fabric.port_peer >= 0]
    own = np.arange(len(info))
    assert (best_gbps(info, own) == rate_gbps(info)).all()
    assert np.isnan(best_gbps(info, np.full(len(info), -1))).all()
    older = info[:2].copy()
    PortInfo.link_speed_ext_supported.set(older, np.array([3, 3]), np.arange(2))
    PortInfo.link_speed_ext2_supported.set(older, np.zeros(2, np.int64), np.arange(2))
    mixed = np.concatenate([older[:1], info[:1]])
    assert best_gbps(mixed, np.array([1, 0])).round().tolist() == [100, 100]


@pytest.mark.parametrize("additional", [False, True])
def test_increases_are_what_the_fabric_counted(additional):
    lab = Lab(additional)
    before = lab.round().reading
    rng = np.random.default_rng(7)
    then = lab.fabric.counters.copy()
    for counter in STEADY:
        lab.fabric.counters[counter] += rng.integers(0, 100, lab.fabric.sizes.ports).astype(np.uint64)
    one = lab.round()
    rose = between(before, one.reading)
    for port in range(lab.fabric.sizes.ports):
        if lab.fabric.port_num[port] and lab.fabric.port_peer[port] >= 0:
            row = row_of(one.targets, lab.fabric, port)
            for counter in STEADY:
                assert rose.known[counter][row], counter
                assert int(rose.increase[counter][row]) == int(lab.fabric.counters[counter][port] - then[counter][port])
    assert (rose.end_ns - rose.begin_ns == 10**9).all()


def test_nothing_but_gets_is_sent_and_few_at_a_time_to_each_device(lab):
    lab.round()
    assert lab.wire.methods == {int(Method.GET)}
    assert lab.wire.most <= lab.poller.pace.most


def test_a_counter_that_stands_at_its_largest_value_tells_nothing(lab):
    port = port_of(lab.fabric, "leaf-1", 1)
    before = lab.round().reading
    lab.add(port, "symbol_error_counter", 70_000)  # 16 bits in PortCounters
    one = lab.round()
    row = row_of(one.targets, lab.fabric, port)
    assert one.reading.value["symbol_error_counter"][row] == 0xFFFF and one.reading.stuck["symbol_error_counter"][row]
    rose = between(before, one.reading)
    assert not rose.known["symbol_error_counter"][row] and rose.increase["symbol_error_counter"][row] == 0
    assert rose.known["link_downed_counter"][row]
    again = between(one.reading, lab.round().reading)
    assert not again.known["symbol_error_counter"][row]


def test_the_additional_extended_counters_do_not_stop_there():
    lab = Lab(additional=True)
    port = port_of(lab.fabric, "leaf-1", 1)
    before = lab.round().reading
    lab.add(port, "symbol_error_counter", 70_000)
    one = lab.round()
    rose = between(before, one.reading)
    assert int(rose.increase["symbol_error_counter"][row_of(one.targets, lab.fabric, port)]) == 70_000


def test_counters_that_somebody_clears_are_unknown_once_and_right_again_after(lab):
    port = port_of(lab.fabric, "leaf-1", 1)
    lab.add(port, "symbol_error_counter", 500)
    before = lab.round()
    clear(lab.wire, lab.fabric, port)
    lab.add(port, "symbol_error_counter", 40)
    lab.add(port, "link_downed_counter", 1)  # passes its old value: it was cleared with the other
    after = lab.round()
    row = row_of(after.targets, lab.fabric, port)
    rose = between(before.reading, after.reading)
    assert not rose.known["symbol_error_counter"][row] and not rose.known["link_downed_counter"][row]
    other = row_of(after.targets, lab.fabric, port_of(lab.fabric, "leaf-1", 2))
    assert rose.known["symbol_error_counter"][other]
    lab.add(port, "symbol_error_counter", 3)
    rose = between(after.reading, lab.round().reading)
    assert rose.known["symbol_error_counter"][row] and int(rose.increase["symbol_error_counter"][row]) == 3


def test_a_device_that_restarts_is_unknown_on_all_its_ports(lab):
    ports = [port_of(lab.fabric, "leaf-1", n) for n in (1, 2, 3, 4)]
    for port in ports[:3]:
        lab.add(port, "symbol_error_counter", 9)
    before = lab.round()
    for port in ports:
        lab.fabric.counters[port] = np.zeros((), lab.fabric.counters.dtype)
    lab.add(ports[3], "symbol_error_counter", 7)  # counted 0 before: alone it looks like an increase
    after = lab.round()
    rose = between(before.reading, after.reading)
    for port in ports:
        assert not rose.known["symbol_error_counter"][row_of(after.targets, lab.fabric, port)]


def test_a_lid_that_became_another_device_s_is_not_taken_for_the_old_one(lab):
    f = lab.fabric
    a, b = (port_of(f, f"host-000{n}", 1) for n in (5, 7))
    lab.add(a, "symbol_error_counter", 10)
    lab.add(b, "symbol_error_counter", 1000)
    before = lab.round()
    lids = [int(PortInfo.lid.get(f.port_info[p])) for p in (a, b)]
    for port, lid in ((a, lids[1]), (b, lids[0])):
        PortInfo.lid.set(f.port_info[port], lid)
    f.lft[:, lids] = f.lft[:, lids[::-1]]
    during = lab.round()
    rose = between(before.reading, during.reading)
    rows = [row_of(during.targets, f, p) for p in (a, b)]
    assert not during.reading.answered[rows].any()
    assert not rose.known["symbol_error_counter"][rows].any()
    assert rose.known["symbol_error_counter"][row_of(during.targets, f, port_of(f, "host-0001", 1))]
    after = lab.round()  # the subnet was looked at again
    assert after.targets.ports.lid[rows].tolist() == lids[::-1]
    assert after.reading.value["symbol_error_counter"][rows].tolist() == [10, 1000]
    lab.add(a, "symbol_error_counter", 2)
    rose = between(after.reading, lab.round().reading)
    assert int(rose.increase["symbol_error_counter"][rows[0]]) == 2 and rose.increase["symbol_error_counter"].sum() == 2


def test_a_cable_that_moves_keeps_each_port_its_counters_and_changes_its_peer(lab):
    from softib.fabric.faults.inject import swap_cables
    from softib.scenario.bring_up import bring_up

    before = lab.round()
    f = lab.fabric
    a, b = port_of(f, "leaf-1", 1), port_of(f, "leaf-2", 1)
    old = before.targets.ports
    lab.add(a, "symbol_error_counter", 5)
    swap_cables(f, "leaf-1[1]", "leaf-2[1]")
    counted = f.counters.copy()
    bring_up(f)
    f.counters[:] = counted
    lab.wire.plane.fabric = f
    lab.poller.discover()
    after = lab.round()
    new = after.targets.ports
    row_a, row_b = (row_of(after.targets, f, p) for p in (a, b))
    assert new.peer[row_a] == old.peer[row_b] and new.peer[row_b] == old.peer[row_a]
    rose = between(before.reading, after.reading)
    assert int(rose.increase["symbol_error_counter"][row_a]) == 5 and rose.increase["symbol_error_counter"].sum() == 5
    seen = observations_of(merged_ports(old, new), [rose])
    assert int(seen.total("symbol_error_counter")[row_a]) == 5 and seen.ports.peer[row_a] == new.peer[row_a]


def test_a_silent_device_is_left_alone_longer_and_longer_and_delays_nobody():
    lab = Lab()
    host = port_of(lab.fabric, "host-0006", 1)
    lid = int(PortInfo.lid.get(lab.fabric.port_info[host]))
    lab.round()
    lab.wire.mute.add(lid)
    asked = []
    for _ in range(12):
        lab.wire.asked.clear()
        one = lab.round()
        asked.append(sum(klass == int(MgmtClass.PERF) and to == lid for klass, _, to in lab.wire.asked))
        row = row_of(one.targets, lab.fabric, host)
        assert not one.reading.answered[row] and one.reading.answered.sum() == len(one.reading) - 1
        assert int(lab.fabric.node_guid[lab.fabric.port_node[host]]) in one.silent.tolist()
    quiet = [n == 0 for n in asked]
    assert not quiet[0] and sum(quiet) > len(quiet) / 2, asked
    lab.wire.mute.clear()
    for _ in range(12):
        one = lab.round()
    assert one.reading.answered.all() and not len(one.silent)


def test_causes_are_read_where_their_total_rose_and_stand_still_elsewhere(lab):
    port = port_of(lab.fabric, "leaf-2", 3)
    lab.round()
    before = lab.round().reading
    lab.wire.asked.clear()
    quiet = lab.round()
    assert not [a for klass, a, _ in lab.wire.asked if klass == int(MgmtClass.PERF) and a in (0x15, 0x16)]
    assert quiet.reading.have["port_sw_hoq_lifetime_limit_discards"].all()
    lab.add(port, "port_xmit_discards", 6)
    lab.add(port, "port_sw_hoq_lifetime_limit_discards", 6)
    lab.wire.asked.clear()
    after = lab.round()
    assert len([a for klass, a, _ in lab.wire.asked if klass == int(MgmtClass.PERF) and a == 0x16]) == 1
    rose = between(before, after.reading)
    name = "port_sw_hoq_lifetime_limit_discards"
    assert (
        rose.known[name].all()
        and int(rose.increase[name][row_of(after.targets, lab.fabric, port)]) == 6
        and rose.increase[name].sum() == 6
    )


def test_states_follow_the_link(lab):
    lab.round()
    port = port_of(lab.fabric, "leaf-1", 3)
    lab.wire.plane.set_link(port, False, lab.wire.now_ps)
    one = lab.round()
    row = row_of(one.targets, lab.fabric, port)
    assert one.reading.level["state"][row] == 1 and one.reading.level["rate_gbps"][row] == 0
    assert np.isnan(one.reading.level["lanes"][row])


def test_firmware_and_boards_of_mellanox_devices_are_asked_and_others_left_alone():
    lab = Lab()
    fabric = lab.fabric
    fabric.vendor_id[:] = 0x1234
    mellanox = fabric.node_names().index("leaf-1")
    fabric.vendor_id[mellanox], fabric.device_id[mellanox] = 0x2C9, 0xD2F0
    lab.wire.asked.clear()
    lab.poller.discover()
    text = lab.round().targets.ports.text
    leaf = np.array([name == "leaf-1" for name in lab.poller.targets.ports.node])
    assert set(text["device"][leaf].tolist()) == {"SOFTIB"} and len(set(text["firmware"][leaf].tolist())) == 1
    assert text["firmware"][leaf][0].count(".") == 2 and set(text["firmware"][~leaf].tolist()) == {""}
    of_vendor = [(attr, lid) for klass, attr, lid in lab.wire.asked if klass == int(MgmtClass.VENDOR_MLNX)]
    assert sum(attr == GeneralInfo.attr for attr, _ in of_vendor) == 1 and len({lid for _, lid in of_vendor}) == 1


def test_flow_control_errors_are_read_where_a_link_recovered(lab):
    """PortVLXmitFlowCtlUpdateErrors: the sum of the VLs; each has 2 bits and stops at 3 (IBA 16.1.4.7)."""
    port = port_of(lab.fabric, "leaf-1", 1)
    late = lab.fabric.vl_counters["port_vl_xmit_flow_ctl_update_errors"]
    before = lab.round().reading
    name = "port_vl_xmit_flow_ctl_update_errors"
    lab.wire.asked.clear()
    lab.round()
    assert 0x1B not in {attr for _, attr, _ in lab.wire.asked}
    late[port, 2], late[port, 5] = 1, 2
    lab.add(port, "link_error_recovery_counter", 3)
    one = lab.round()
    row = row_of(one.targets, lab.fabric, port)
    assert int(between(before, one.reading).increase[name][row]) == 3
    late[port, 5] += 9
    lab.add(port, "link_error_recovery_counter", 9)
    then = between(one.reading, lab.round().reading)
    assert not then.known[name][row] and then.level[f"stuck_{name}"][row] == 2


def test_an_attribute_that_an_agent_lacks_is_not_asked_for_each_round(lab):
    """Status 0x0C (IBA 13.4.7) is remembered until the next discovery; any other refusal is not."""
    port = port_of(lab.fabric, "leaf-1", 1)
    guid = int(lab.fabric.node_guid[lab.fabric.port_node[port]])
    lid = int(PortInfo.lid.get(lab.fabric.port_info[int(lab.fabric.node_base[lab.fabric.port_node[port]])]))
    exchange = lab.wire.exchange
    status = 0x0C

    def without(outbox=None):
        answers = exchange(outbox)
        if answers is not None:
            lacking = (answers.mad[:, 17] == 0x1B) & (answers.mad[:, 1] == int(MgmtClass.PERF)) & (answers.slid == lid)
            answers.mad[lacking, 5] = status
        return answers

    lab.wire.exchange = without
    asked = []
    for status in (0x0C, 0x0C, 0x0C):  # noqa: B007
        lab.wire.asked.clear()
        lab.add(port, "link_error_recovery_counter", 1)
        one = lab.round()
        asked.append((int(MgmtClass.PERF), 0x1B, lid) in lab.wire.asked)
    assert asked == [True, False, False]
    name = "port_vl_xmit_flow_ctl_update_errors"
    assert (
        not one.reading.have[name][one.targets.ports.node_guid == np.uint64(guid)].any()
        and one.reading.have[name].any()
    )
    lab.poller.discover()
    lab.wire.asked.clear()
    status = 0x04  # busy and such pass: asked each time
    for _ in range(2):
        lab.wire.asked.clear()
        lab.round()
        assert (int(MgmtClass.PERF), 0x1B, lid) in lab.wire.asked
