"""ibsim's protocol: who gets which MAD that he did not ask for, managers and other programs."""

from __future__ import annotations

import struct
import time

from softib.iba.constants import CapMask
from softib.iba.smp import PortInfo, SwitchInfo
from softib.live import station
from tests.live.ibsim.protocol_lab import TIMED_OUT, host
from tests.live.serving import Raw, mad, tid_of, wait_for


def manager(up, name):
    """A client that is a manager; the trap 144 of its own port, which the master (itself) gets, is answered."""
    sm = Raw(up.base, name, issm=1)
    sm.trapped()
    return sm


def test_a_manager_that_comes_or_goes_is_told_to_the_master(up):
    """Trap 144 (IBA 14.2.5.1): CapabilityMask of that port changed."""
    sm = manager(up, host(up, 0)[0])
    name, port, lid = host(up, 4)
    for says in (True, False):
        if says:
            other = Raw(up.base, name, issm=1)
        else:
            other.close()
        head, m = sm.receive()
        sm.repress(head, m)
        assert (m[1], m[3], m[17], int.from_bytes(bytes(m[68:70]), "big"), head["slid"]) == (0x01, 5, 2, 144, lid)
        details = bytes(m[74:128])
        assert int.from_bytes(details[2:4], "big") == lid
        assert bool(int.from_bytes(details[6:10], "big") & CapMask.IS_SM) is says
        assert bool(int(PortInfo.cap_mask.get(up.fabric.port_info[port])) & CapMask.IS_SM) is says
    sm.close()


def test_a_manager_gets_only_its_classes(up):
    """OpenSM registers 0x01, 0x81, 0x03 (0x04, 0x21 too); a class it did not register kills it."""
    name, _, lid = host(up, 0)
    sm, other = manager(up, name), Raw(up.base, host(up, 4)[0])
    sm.send(mad(0x32))  # its having sent a class does not make it take requests of that class
    sm.receive()
    for klass in (0x32, 0x33, 0x09, 0x05, 0x06):
        other.send(mad(klass, tid=klass), lid, 1, 1)
        assert other.receive()[0]["status"] == TIMED_OUT
    assert sm.silent()
    for klass, attr in ((0x03, 0x11), (0x01, 0x20)):
        other.send(mad(klass, attr=attr, tid=77), lid, 1, 1)
        head, m = sm.receive()
        assert head["slid"] == host(up, 4)[2] and head["sqp"] == 1 and m[1] == klass
        assert tid_of(m) >> 48 == other.number
        m = m.copy()
        m[3] = 0x81
        sm.send(m, head["slid"], 1, 1)
        head, answer = other.receive()
        assert head["status"] == 0 and head["slid"] == lid and bytes(answer) == bytes(m)
    sm.close()
    other.close()


def test_a_program_gets_only_classes_it_has_sent_and_never_its_own_request(up):
    name, _, lid = host(up, 0)
    a, b = Raw(up.base, name), Raw(up.base, host(up, 4)[0])
    b.send(mad(0x32), lid, 1, 1)
    assert b.receive()[0]["status"] == TIMED_OUT and a.silent()
    a.send(mad(0x32), lid, 1, 1)
    assert a.receive()[0]["status"] == TIMED_OUT
    b.send(mad(0x32, tid=9), lid, 1, 1)
    head, m = a.receive()
    assert m[1] == 0x32 and tid_of(m) == (b.number << 48) | 9
    # A response reaches the one who asked, and nobody on another port or with another number.
    m = m.copy()
    m[3] = 0x81
    c = Raw(up.base, host(up, 5)[0])
    m[8:10] = c.number >> 8, c.number & 255
    a.send(m, head["slid"], 1, 1)
    assert c.silent(0.1) and b.silent(0.1)
    for one in (a, b, c):
        one.close()


def test_directed_sminfo_reaches_the_manager_and_its_response_returns(served):
    f = served.fabric
    sm = Raw(served.base, host(served, 0)[0], issm=1)
    asker = Raw(served.base, host(served, 1)[0])  # on the same leaf
    there = int(f.port_num[f.port_peer[host(served, 0)[1]]])
    asker.send(mad(attr=0x20, path=[1, there], tid=3))
    head, m = sm.receive()
    assert head["slid"] == 0xFFFF and m[3] == 1 and m[16] == 0 and m[17] == 0x20
    m = m.copy()
    m[3], m[4] = 0x81, 0x80
    sm.send(m)
    head, answer = asker.receive()
    assert head == {"dlid": 0xFFFF, "slid": 0xFFFF, "dqp": 0, "sqp": 0, "status": 0} and tid_of(answer) & 0xFFFF == 3
    sm.close()
    asker.close()


def test_trap_128_reaches_the_manager(up):
    name, _port, _lid = host(up, 0)
    sm, quiet = manager(up, name), Raw(up.base, name)
    f = up.fabric
    victim = int(f.port_peer[host(up, 5)[1]])
    up.set_link(victim, False)
    head, m = sm.receive()
    sm.repress(head, m)
    switch_lid = int(f.lid[f.node_base[f.port_node[victim]]])
    assert (m[1], m[3], m[17], int.from_bytes(bytes(m[68:70]), "big")) == (0x01, 5, 2, 128)
    assert int.from_bytes(bytes(m[74:76]), "big") == switch_lid == head["slid"]
    assert f.port_state[victim] == 1 and quiet.silent(0.1)
    up.set_link(victim, True)
    assert sm.silent(0.1), "a change that was not yet taken notice of raises no second trap (IBA 14.2.5.4)"
    SwitchInfo.port_state_change.set(f.switch_info, 0)
    up.set_link(victim, False)
    assert sm.receive()[1][3] == 5
    sm.close()
    quiet.close()


def test_the_repress_of_a_programs_trap_reaches_it(up):
    """A standby tells the master of its priority by trap 144 and waits: without the TrapRepress OpenSM hangs."""
    name, _, lid = host(up, 0)
    sm, standby = Raw(up.base, name, issm=1), Raw(up.base, host(up, 4)[0], issm=1)
    sm.trapped(2)  # 144 of both ports: IsSM
    standby.send(mad(0x01, 5, 2, tid=0x7_1234_5678), lid)
    head, m = sm.receive()
    assert m[3] == 5 and head["slid"] == host(up, 4)[2] and tid_of(m) == standby.number << 48 | 0x7_1234_5678
    m = m.copy()
    m[3] = 7
    sm.send(m, head["slid"])
    head, back = standby.receive()
    assert head["slid"] == lid and bytes(back) == bytes(m)
    # One of a trap that nobody sent, or another port's, is consumed.
    for tid, dlid in ((0, head["dlid"]), (tid_of(m), host(up, 5)[2])):
        m[8:16] = list(struct.pack(">Q", tid))
        sm.send(m, dlid)
    assert standby.silent() and sm.silent(0.1)
    sm.close()
    standby.close()


def test_what_a_program_swallows_comes_back_after_two_seconds_or_when_it_dies(up, monkeypatch):
    name, _, lid = host(up, 0)
    sm, asker = Raw(up.base, name, issm=1), Raw(up.base, host(up, 4)[0])
    sm.trapped()
    began = time.monotonic()
    asker.send(mad(0x03, attr=0x11, version=2, tid=1), lid, 1, 1)
    sm.receive()
    asker.send(mad(tid=2))
    first = tid_of(asker.receive()[1]) & 0xFF
    assert first == 2 or time.monotonic() - began > 1.5, "and meanwhile he is served"
    head, back = asker.receive()
    if first == 2:
        assert head["status"] == TIMED_OUT and tid_of(back) & 0xFF == 1 and time.monotonic() - began > 1.9
    monkeypatch.setattr(station, "TIMEOUT_PS", 3600 * 10**12)  # from now on only an answer or a death ends one
    asker.send(mad(0x03, attr=0x11, version=2, tid=3), lid, 1, 1)
    _, m = sm.receive()
    m = m.copy()
    m[3] = 0x81
    sm.send(m, host(up, 4)[2], 1, 1)
    assert asker.receive()[0]["status"] == 0
    # The answer is handed over before it ends the wait for it: the server's thread may stand between the two.
    assert wait_for(lambda: up.router.waiting.next_ps() is None), "what was answered does not come back"
    asker.send(mad(0x03, attr=0x11, version=2, tid=4), lid, 1, 1)
    sm.receive()
    sm.close(goodbye=False)
    head, back = asker.receive()
    assert head["status"] == TIMED_OUT and tid_of(back) & 0xFF == 4
    asker.close()
