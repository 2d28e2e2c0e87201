"""The invariants of ibsim's protocol, asked by a raw client: each is a sentence of the protocol's description."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.constants import CapMask
from softib.iba.smp import NodeInfo, PortInfo, SwitchInfo
from softib.live import waiting
from softib.live.sockets import UdpDoors
from tests.live.serving import (
    CONNECT,
    DISCONNECT,
    ERROR,
    GET_GID,
    GET_GUID,
    GET_NODEINFO,
    GET_PKEYS,
    GET_PORT,
    GET_PORTINFO,
    GET_VENDOR,
    MAGIC,
    SET_ISSM,
    Raw,
    Serving,
    address,
    mad,
    tid_of,
    wait_for,
)  # fmt: skip

TIMED_OUT = 110


@pytest.fixture
def served():
    s = Serving(generate("fat-tree", radix=4, levels=2))
    yield s
    s.stop()


@pytest.fixture
def up(served):
    """The same with LIDs and routes, as a subnet manager leaves them."""
    from softib.scenario.bring_up import bring_up

    served.do(lambda: bring_up(served.fabric, plane=served.board.plane))
    f = served.fabric
    caps = PortInfo.cap_mask.get(f.port_info)
    PortInfo.cap_mask.set(f.port_info, caps & ~np.uint32(CapMask.IS_SM))
    return served


def host(s: Serving, i: int) -> tuple[str, int, int]:
    """Name, port row and LID of CA ``i``."""
    f = s.fabric
    node = int(f.cas[i])
    port = int(f.node_base[node]) + 1
    return f.node_name(node), port, int(f.lid[port])


# -- control --


def test_every_question_is_answered_with_eighty_octets_echoed(up):
    name, port, lid = host(up, 1)
    f, c = up.fabric, Raw(up.base, name)
    assert c.node == name
    kind, body = c.ask(GET_NODEINFO, length=64)
    assert kind == GET_NODEINFO
    info = np.frombuffer(body, np.uint8)
    assert int(NodeInfo.port_guid.get(info)) == int(f.port_guid[port])
    # What the stock library makes its PortGUID of.
    assert int(NodeInfo.node_guid.get(info)) + int(f.port_num[port]) == int(f.port_guid[port])
    kind, body = c.ask(GET_PORTINFO, length=64)
    assert (kind, body) == (GET_PORTINFO, f.port_info[port].tobytes())
    kind, body = c.ask(GET_PKEYS, length=64)
    assert kind == GET_PKEYS and body[:4] == b"\xff\xff\0\0"
    kind, body = c.ask(GET_PORT, length=4)
    assert (kind, struct.unpack_from("=HB", body)) == (GET_PORT, (lid, 4))
    kind, body = c.ask(GET_VENDOR, length=24)
    assert kind == GET_VENDOR and struct.unpack_from("=I", body)[0] == f.vendor_id[f.port_node[port]]
    kind, body = c.ask(GET_GID, length=16)
    guid = struct.pack(">Q", int(f.node_guid[f.port_node[port]]))
    assert (kind, body[:16]) == (GET_GID, bytes.fromhex("fe80000000000000") + guid)
    assert c.ask(GET_GUID, length=8)[1][:8] == guid
    assert c.ask(77)[0] == ERROR, "a question that does not exist is refused, not ignored"
    c.close()


def test_node_ids(up):
    f = up.fabric
    name, port, _ = host(up, 2)
    guid = int(f.node_guid[f.port_node[port]])
    switch = f.node_name(int(f.switch_node[0]))
    for asked, where in (
        (name, port), (f"{guid:#x}", port), (f"H-{guid:016x}", port), (f"{name}:1", port), (f"{guid:#x}:1", port),
        ("", host(up, 0)[1]), (switch, int(f.node_base[f.switch_node[0]])), (f"{switch}:0", int(f.node_base[f.switch_node[0]])),
    ):  # fmt: skip
        c = Raw(up.base, asked)
        assert up.server.clients[c.number].port == where, asked
        c.close()
    for wrong in ("nobody", f"{name}:2", f"{name}:0", f"{switch}:1", "0x1234", ":", "\x01\x02", "a" * 31):
        with pytest.raises(ConnectionError):
            Raw(up.base, wrong)
    assert not up.server.clients


def test_the_address_ends_with_a_nul_and_wrong_messages_are_ignored(served):
    c = Raw(served.base, connect=False)
    with pytest.raises(ConnectionRefusedError):
        c.control.connect(b"\0" + f"{served.base}:ctl".encode())
    c.control.connect(address(f"{served.base}:ctl"))
    for message in (b"", b"x", bytes(80), bytes(81), struct.pack("=4I", MAGIC, 0, CONNECT, 44)):
        c.control.send(message)
    c.control.settimeout(0.2)
    with pytest.raises(TimeoutError):
        c.control.recv(100)
    # A question without a client behind it is refused; a good-bye of somebody unknown is answered, for he waits for it.
    c.control.settimeout(60)
    c.number = 4711
    assert c.ask(GET_PORTINFO, length=64)[0] == ERROR
    assert c.ask(DISCONNECT)[0] == DISCONNECT
    c.close(goodbye=False)


def test_nobody_speaks_for_another(served):
    a, b = Raw(served.base), Raw(served.base)
    b.number, mine = a.number, b.number
    assert b.ask(GET_PORTINFO, length=64)[0] == ERROR
    b.ask(DISCONNECT)
    assert a.number in served.server.clients
    b.number = mine
    a.close()
    b.close()


def test_is_sm_follows_its_manager(served):
    _, port, _ = host(served, 0)
    says = lambda: bool(int(PortInfo.cap_mask.get(served.fabric.port_info[port])) & CapMask.IS_SM)
    a = Raw(served.base)
    assert not says()
    assert a.ask(SET_ISSM, struct.pack("=I", 1))[0] == SET_ISSM and says()
    assert a.ask(SET_ISSM, struct.pack("=I", 0))[0] == SET_ISSM and not says()
    b = Raw(served.base, issm=1)
    a.ask(SET_ISSM, struct.pack("=I", 1))
    b.close()
    assert says(), "the other manager is still there"
    a.close(goodbye=False)  # as SIGKILL leaves it
    assert wait_for(lambda: not says()) and not served.server.clients


# -- data --


def test_directed_route_answer(served):
    f, c = served.fabric, Raw(served.base)
    tid = 0x1111_0007_89AB_CDEF
    c.send(mad(tid=tid, path=[1]))
    head, m = c.receive()
    assert head == {"dlid": 0xFFFF, "slid": 0xFFFF, "dqp": 0, "sqp": 0, "status": 0}
    assert m[3] == 0x81 and m[4] == 0x80 and m[5] == 0
    assert tid_of(m) == (c.number << 48) | (tid & (1 << 48) - 1), "bits 0 to 47 stay, 48 to 63 say who asked"
    port = int(f.port_peer[host(served, 0)[1]])
    info = m[64:104]
    assert int(NodeInfo.node_guid.get(info)) == f.node_guid[f.port_node[port]]
    assert int(NodeInfo.local_port_num.get(info)) == f.port_num[port]
    assert m[6] == 0 and list(m[192:194]) == [1, f.port_num[port]], "hop pointer 0, return path filled"
    c.close()


def test_lid_routed_answer_swaps_lids_and_qps(up):
    f, c = up.fabric, Raw(up.base, host(up, 0)[0])
    _, _, lid = host(up, 5)
    c.send(mad(0x04, attr=1), dlid=lid, dqp=1, sqp=1)
    head, m = c.receive()
    assert (
        head == {"dlid": host(up, 0)[2], "slid": lid, "dqp": 1, "sqp": 1, "status": 0}
        and m[3] == 0x81
        and not m[4:6].any()
    )
    c.send(mad(0x01, attr=0x10), dlid=lid)
    head, m = c.receive()
    assert head["slid"] == lid and bytes(m[64:128]) == f.node_desc[f.cas[5]].tobytes()
    c.close()


BOUNCED = {
    "no such hop": mad(path=[9]), "beyond the fabric": mad(path=[1, 1, 1]), "hop count 64": mad(path=[1] * 63) ,
    "class nobody has": mad(0x55), "SA without a manager": mad(0x03), "SMInfo without a manager": mad(attr=0x20),
    "base version 2": mad(), "trap to nobody": mad(0x01, 5, 2),
}  # fmt: skip
BOUNCED["base version 2"][0] = 2
BOUNCED["hop count 64"][7] = 64


@pytest.mark.parametrize("what", BOUNCED)
def test_what_nobody_answers_comes_back_with_status_110(what, up):
    c = Raw(up.base)
    m = BOUNCED[what].copy()
    lid = 0xFFFF if m[1] == 0x81 else host(up, 3)[2]
    for dlid in (lid,) if m[1] == 0x81 else (lid, 0xBFFF, 0, 0xC001):
        c.send(m, dlid)
        head, back = c.receive()
        assert head["status"] == TIMED_OUT
        m[8:10] = [c.number >> 8, c.number & 255]
        assert bytes(back) == bytes(m)
    c.close()


def test_trap_repress_and_responses_need_no_answer(up):
    c = Raw(up.base)
    for m in (mad(method=7), mad(0x01, 7, 2), mad(method=0x81), mad(0x04, 0x81), mad(0x55, 0x81)):
        c.send(m, 0xFFFF if m[1] == 0x81 else host(up, 3)[2])
    assert c.silent()
    c.send(mad())
    assert c.receive()[0]["status"] == 0, "and the client is served still"
    c.close()


def test_frames_of_another_size_are_no_requests(served):
    c = Raw(served.base)
    for size in (0, 1, 31, 287, 289, 4096):
        c.data.send(bytes(size))
    c.send(mad(tid=5))
    assert tid_of(c.receive()[1]) & 0xFF == 5
    assert c.silent(0.1)
    c.close()


def manager(up, name):
    """A client that is a manager; the trap 144 of its own port, which the master (itself) gets, is read."""
    sm = Raw(up.base, name, issm=1)
    while not sm.silent(0.1):
        pass
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


# -- many clients, and those that misbehave --


def test_thirty_two_clients_at_once(up):
    clients = [Raw(up.base, host(up, i % len(up.fabric.cas))[0]) for i in range(32)]
    assert len({c.number for c in clients}) == 32 and all(c.number < 65536 for c in clients)
    for i, c in enumerate(clients):
        for k in range(8):
            c.send(mad(tid=1000 * i + k))
    for i, c in enumerate(clients):
        assert [tid_of(c.receive()[1]) & 0xFFFFFFFF for _ in range(8)] == [1000 * i + k for k in range(8)]
    for c in clients:
        c.close()


def test_a_client_that_does_not_read_disturbs_nobody(served):
    """Its queue of 10 fills, the server keeps the rest; every one of its requests is answered when it reads."""
    slow, other = Raw(served.base), Raw(served.base)
    slow.data.settimeout(0.3)
    sent = refused = 0
    while sent < 2000 and refused < 2:
        try:
            slow.send(mad(tid=sent))
            sent, refused = sent + 1, 0
        except TimeoutError:
            refused += 1
            other.send(mad(tid=1))  # the server takes its turns and serves others
            other.receive()
    assert 100 < sent < 2000, "the server stops reading of it"
    assert [tid_of(slow.receive()[1]) & 0xFFFF for _ in range(sent)] == list(range(sent))
    slow.send(mad(tid=7))
    assert tid_of(slow.receive()[1]) & 0xFFFF == 7
    slow.close()
    other.close()


KILLED = """
import sys; sys.path[:0] = {path!r}
from tests.live.serving import Raw, mad
import time
c = Raw({base!r}, {node!r}, issm=1)
for i in range(5): c.send(mad())
print(c.number, flush=True)
time.sleep(60)
"""


def test_sigkill_of_clients_disturbs_nobody(served):
    path = [*sys.path[:1], os.getcwd(), *sys.path]
    codes = [KILLED.format(path=path, base=served.base, node=host(served, i)[0]) for i in range(3)]
    running = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for code in codes]
    numbers = [int(p.stdout.readline()) for p in running]
    survivor = Raw(served.base)
    assert int(PortInfo.cap_mask.get(served.fabric.port_info[host(served, 0)[1]])) & CapMask.IS_SM
    for p in running:
        p.send_signal(signal.SIGKILL)
        p.wait()
    for i in range(50):
        survivor.send(mad(tid=i))
        assert tid_of(survivor.receive()[1]) & 0xFF == i
    assert wait_for(lambda: not set(numbers) & set(served.server.clients))
    assert not int(PortInfo.cap_mask.get(served.fabric.port_info[host(served, 0)[1]])) & CapMask.IS_SM
    survivor.close()


def test_udp_mode():
    import socket

    base = next(p for p in range(41000, 60000, 300) if free(p))
    s = Serving(generate("fat-tree", radix=4, levels=2), UdpDoors(port=base))
    ctl, data = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    for one in (ctl, data):
        one.bind(("127.0.0.1", 0))
        one.settimeout(60)
    ctl.connect(("127.0.0.1", base))
    info = struct.pack("=3I32s", data.getsockname()[1], 0, 0, b"")
    ctl.send(struct.pack("=4I", MAGIC, 0, CONNECT, 44) + info.ljust(64, b"\0"))
    reply = ctl.recv(100)
    number = struct.unpack_from("=I", reply, 16)[0]
    data.connect(("127.0.0.1", base + 1 + number))
    data.send(struct.pack(">HHHHIIIIQ", 0xFFFF, 0, 0xFFFF, 0, 0, 0, 0, 0, 256) + mad(tid=6).tobytes())
    assert data.recv(1000)[32 + 15] == 6
    data.close()
    ctl.close()
    s.stop()


def free(port: int) -> bool:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_the_repress_of_a_programs_trap_reaches_it(up):
    """A standby tells the master of its priority by trap 144 and waits: without the TrapRepress OpenSM hangs."""
    name, _, lid = host(up, 0)
    sm, standby = Raw(up.base, name, issm=1), Raw(up.base, host(up, 4)[0], issm=1)
    while not sm.silent():
        pass  # traps 144 of both ports: IsSM
    standby.send(mad(0x01, 5, 2, tid=0x7_1234_5678), lid)
    head, m = sm.receive()
    assert m[3] == 5 and head["slid"] == host(up, 4)[2] and tid_of(m) == standby.number << 48 | 0x7_1234_5678
    m = m.copy()
    m[3] = 7
    sm.send(m, head["slid"])
    head, back = standby.receive()
    assert head["slid"] == lid and bytes(back) == bytes(m)
    # One that no client sent (a device's has TID 0), or another port's, is consumed.
    for tid, dlid in ((0, head["dlid"]), (tid_of(m), host(up, 5)[2])):
        m[8:16] = list(struct.pack(">Q", tid))
        sm.send(m, dlid)
    assert standby.silent() and sm.silent(0.1)
    sm.close()
    standby.close()


def test_what_a_program_swallows_comes_back_after_two_seconds_or_when_it_dies(up, monkeypatch):
    name, _, lid = host(up, 0)
    sm, asker = Raw(up.base, name, issm=1), Raw(up.base, host(up, 4)[0])
    while not sm.silent():
        pass
    began = time.monotonic()
    asker.send(mad(0x03, attr=0x11, version=2, tid=1), lid, 1, 1)
    sm.receive()
    asker.send(mad(tid=2))
    first = tid_of(asker.receive()[1]) & 0xFF
    assert first == 2 or time.monotonic() - began > 1.5, "and meanwhile he is served"
    head, back = asker.receive()
    if first == 2:
        assert head["status"] == TIMED_OUT and tid_of(back) & 0xFF == 1 and time.monotonic() - began > 1.9
    asker.send(mad(0x03, attr=0x11, version=2, tid=3), lid, 1, 1)
    _, m = sm.receive()
    m = m.copy()
    m[3] = 0x81
    sm.send(m, host(up, 4)[2], 1, 1)
    assert asker.receive()[0]["status"] == 0 and asker.silent(2.3), "what was answered does not come back"
    monkeypatch.setattr(waiting, "TIMEOUT_PS", 3600 * 10**12)  # from now on only a death brings one back
    asker.send(mad(0x03, attr=0x11, version=2, tid=4), lid, 1, 1)
    sm.receive()
    sm.close(goodbye=False)
    head, back = asker.receive()
    assert head["status"] == TIMED_OUT and tid_of(back) & 0xFF == 4
    asker.close()
