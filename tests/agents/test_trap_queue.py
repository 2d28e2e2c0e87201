"""Traps are sent again until they are repressed: numbers, times, bounds (IBA 13.4.9, 14.2.5.1), in virtual time."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from softib.agents import trap_queue as tq
from softib.iba import notice
from softib.iba.smp import PortInfo, SwitchInfo
from tests.agents.client_plane import ClientPlane
from tests.agents.lab import program
from tests.extent import examples

from .smps import ask, line, requests

MS, S = 10**9, 10**12
INTERVAL = 4_096_000 << 18
REPRESS = 7


def due(queue, now):
    return list(iter(lambda: queue.take(now), None))


class Lab:
    """Three switches in a row with a host each; the first host's port knows the manager, which is on it."""

    def __init__(self):
        self.f, self.s, self.h = line(3)
        self.plane = ClientPlane(self.f)
        self.sm = program(self.f, self.plane, self.s, self.h)
        PortInfo.master_sm_lid.set(self.f.port_info, int(self.f.lid[self.sm]))
        PortInfo.subnet_timeout.set(self.f.port_info, 18)
        self.plane.take_notices()
        self.queue = tq.TrapQueue(self.plane)

    def host(self, i):
        return int(self.f.port(self.h[i], 1))

    def watchdog(self, switch=1, number=7, now=0):
        self.plane.watchdog(int(self.f.port(self.s[switch], number)), now)
        self.queue.collect(now)

    def sent(self, until_ps):
        """(time, port, TID) of everything that leaves up to then, by the queue's own clock."""
        out = []
        while (now := self.queue.next_ps()) is not None and now <= until_ps:
            for batch, port in due(self.queue, now):
                assert batch.mad[0, 24:32].tolist() == [0] * 8, "its M_Key is 0"
                out.append((now, port, int.from_bytes(batch.mad[0, 8:16].tobytes(), "big")))
        return out

    def repress(self, dlid, tid, now=0, **more):
        """The manager's answer, as it crosses the fabric; True where it reached the device and ended the trap."""
        asked = requests(1, klass=1, method=REPRESS, attr=2, dlid=dlid, **more)
        asked.mad[0, 8:16] = list(tid.to_bytes(8, "big"))
        assert len(self.plane.send(asked, self.sm, now)) == 0
        return any(
            self.queue.repressed(int(port), int.from_bytes(d.batch.mad[i, 8:16].tobytes(), "big"), now)
            for d in self.plane.take_deliveries()
            for i, port in enumerate(d.ports)
        )


@pytest.fixture
def lab():
    return Lab()


def test_ten_copies_at_intervals_that_double_and_then_no_more(lab):
    lab.watchdog(now=5)
    sent = lab.sent(10**18)
    gaps = np.diff([t for t, _, _ in sent]) // INTERVAL
    assert gaps.tolist() == [1, 2, 4, 8, 16, 32, 32, 32, 32] and sent[0][0] == 5
    assert len({tid for _, _, tid in sent}) == 1 and sent[0][2] != 0
    assert lab.queue.next_ps() is None and lab.queue.pending == 0
    assert lab.queue.stats() == {"pending": 0, "sent": 10, "repressed": 0, "merged": 0, "given_up": 1, "lost": 0}


def test_its_trap_repress_ends_it_and_nothing_else_does(lab):
    lab.watchdog(1)
    lab.watchdog(2)
    (_, one, tid), (_, _, other) = lab.sent(0)
    assert tid != other and lab.f.port_node[one] == lab.s[1]
    assert not lab.repress(2, other), "it is another device's"
    assert not lab.repress(2, tid + 5) and lab.queue.pending == 2
    assert lab.repress(2, tid) and lab.queue.pending == 1
    assert {t for _, _, t in lab.sent(10**18)} == {other}
    assert not lab.repress(2, tid), "once"


def test_the_mkey_of_a_repression_is_looked_at_as_that_of_a_set(lab):
    lab.watchdog(1)
    ((_, port, tid),) = lab.sent(0)
    PortInfo.mkey.set(lab.f.port_info[port], 0xABC)
    assert not lab.repress(2, tid, mkey=0x77)
    assert int(PortInfo.mkey_violations.get(lab.f.port_info[port])) == 1
    assert [n.trap for n in lab.plane.take_notices()] == [256]
    assert lab.repress(2, tid, mkey=0xABC) and lab.queue.pending == 0


def test_without_a_manager_it_waits_and_costs_no_copy(lab):
    PortInfo.master_sm_lid.set(lab.f.port_info, 0)
    lab.watchdog()
    assert lab.sent(100 * S) == [] and lab.queue.pending == 1 and lab.queue.counts.sent == 0
    PortInfo.master_sm_lid.set(lab.f.port_info, 11)
    sent = lab.sent(10**18)
    assert len(sent) == tq.MOST_SENDS and sent[0][0] <= 101 * S


def test_another_manager_is_told_from_the_beginning(lab):
    lab.watchdog()
    first = lab.sent(100 * S)
    assert 5 < len(first) < 10
    PortInfo.master_sm_lid.set(lab.f.port_info, 12)
    again = lab.sent(10**18)
    assert len(again) == 10 and {t for _, _, t in again} == {first[0][2]}
    assert again[1][0] - again[0][0] == INTERVAL


def test_the_same_notice_is_one_trap_and_what_follows_its_copy_is_new(lab):
    for _ in range(5):
        lab.watchdog()
    assert (lab.queue.pending, lab.queue.counts.merged) == (1, 4)
    ((_, _, tid),) = lab.sent(0)
    lab.watchdog(now=10)  # after it was sent: the manager may have looked already
    assert lab.queue.pending == 1
    assert lab.repress(2, tid, 20) and lab.queue.pending == 1
    ((when, _, new),) = lab.sent(INTERVAL)
    assert new != tid and when == INTERVAL, "no sooner than SubnetTimeOut after the last (o14-2)"
    assert lab.repress(2, new, INTERVAL) and lab.queue.next_ps() is None


def test_a_port_keeps_a_hundred_the_newest(lab):
    f, plane = lab.f, lab.plane
    for key in range(103):
        plane.security(lab.host(1), 257, lid1=11, lid2=12, key=0x8001 + key)
    lab.queue.collect(0)
    assert (lab.queue.pending, lab.queue.counts.lost) == (tq.MOST_PENDING, 3)
    (batch, port), *none = due(lab.queue, 0)
    details = notice.Notice.data_details.get(batch.mad[0, 64:128])
    assert not none and port == lab.host(1) and int(notice.TrapBadKey.key.get(details)) == 0x8004
    for _ in range(len(plane.tables.notices) + 7):
        plane.watchdog(int(f.port(lab.s[1], 7)))
    lab.queue.collect(1)
    assert lab.queue.counts.lost == 10, "what the devices' own queue had no room for counts, too"


def test_a_switch_that_loses_its_power_forgets(lab):
    lab.watchdog(1)
    lab.watchdog(2)
    lab.plane.faults.power(int(lab.s[1]), False)
    lab.plane.take_notices()
    assert {lab.f.port_node[p] for _, p, _ in lab.sent(10**18)} == {lab.s[2]}
    assert lab.queue.pending == 0 and lab.queue.counts.lost == 1


def test_a_hundred_flapping_links_are_one_trap_in_a_subnet_timeout():
    """The manager clears PortStateChange each time at once and represses: each fall raises a trap of its own."""
    from softib.fabric.builder import FabricBuilder

    b = FabricBuilder("star")
    (s,), h = b.nodes(1, 2, 101), b.nodes(101, 1, 1)
    for i, node in enumerate(h):
        b.links([s], i + 1, [node], 1)
    f = b.build()
    plane = ClientPlane(f)
    sm, base = int(f.port(h[0], 1)), int(f.node_base[s])
    PortInfo.lid.set(f.port_info, 2, [base])
    PortInfo.lid.set(f.port_info, 1, [sm])
    PortInfo.master_sm_lid.set(f.port_info, 1)
    PortInfo.subnet_timeout.set(f.port_info, 18)
    queue, told, raised = tq.TrapQueue(plane), [], 0
    plane.take_notices()
    SwitchInfo.port_state_change.set(f.switch_info, 0)
    for step in range(1000):  # 10 s of flaps every 10 ms
        now = step * 10 * MS
        for i in range(1, 101):
            plane.set_link(base + 1 + i, bool(step & 1), now)
        raised += int(plane.tables.notice_count[0])
        queue.collect(now)
        for batch, port in due(queue, now):
            told.append(now)
            SwitchInfo.port_state_change.set(f.switch_info, 0)
            assert queue.repressed(port, int.from_bytes(batch.mad[0, 8:16].tobytes(), "big"), now)
    assert raised > 5 and len(told) <= 10 * S // INTERVAL + 1, (raised, len(told))
    assert min(np.diff(told)) >= INTERVAL


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3 * S), st.integers(0, 5)), max_size=60))
def test_laws_under_any_history(history):
    """No port sends twice within its interval, no trap more than ten copies, a number belongs to one trap, and all
    that was raised is accounted for."""
    lab = Lab()
    queue, now, sent, raised = lab.queue, 0, [], 0
    for pause, what in history:
        for row in lab.sent(now + pause):
            sent.append(row)
        now += pause
        if what < 4:
            lab.watchdog(what % 3, 7 if what % 3 < 2 else 8, now)
            raised += 1
        elif sent:
            _, port, tid = sent[-1 - (what + len(sent)) % min(3, len(sent))]
            queue.repressed(port, tid, now)
    sent += lab.sent(10**19)
    ports, copies = defaultdict(list), defaultdict(set)
    for when, port, tid in sent:
        ports[port].append(when)
        copies[tid].add(when)
    assert all(min(np.diff(times)) >= INTERVAL for times in ports.values() if len(times) > 1)
    assert all(len(times) <= tq.MOST_SENDS for times in copies.values())
    assert queue.pending == 0 and queue.counts.sent == len(sent)
    assert raised - queue.counts.merged <= queue.counts.repressed + queue.counts.given_up <= raised


def test_an_answer_that_is_no_repression_ends_nothing(lab):
    lab.watchdog(1)
    assert ask(lab.plane, lab.sm, klass=1, attr=2, dlid=2)[0] != 0, "Get(Notice) is not offered"
    assert lab.queue.pending == 1


def test_a_trap_that_a_bug_of_ours_meets_is_lost_and_no_other(lab, monkeypatch):
    real, bad = lab.plane.trap, lambda notice, tid: 1 / 0
    lab.watchdog(1)
    lab.watchdog(1, 8)
    monkeypatch.setattr(lab.plane, "trap", bad)
    with pytest.raises(ZeroDivisionError):
        lab.queue.take(0)
    monkeypatch.setattr(lab.plane, "trap", real)
    assert (lab.queue.pending, lab.queue.counts.lost) == (1, 1)
    assert len(lab.sent(10**18)) == tq.MOST_SENDS
