"""The invariants of ibsim's protocol, asked by a raw client: each is a sentence of the protocol's description.
Managers and what reaches them: ``test_protocol_managers.py``; many clients: ``test_protocol_clients.py``.
"""

from __future__ import annotations

import struct

import numpy as np
import pytest

from softib.iba.constants import CapMask
from softib.iba.smp import NodeInfo, PortInfo
from tests.live.ibsim.protocol_lab import TIMED_OUT, host
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
    address,
    mad,
    tid_of,
    wait_for,
)

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
        (name, port),
        (f"{guid:#x}", port),
        (f"H-{guid:016x}", port),
        (f"{name}:1", port),
        (f"{guid:#x}:1", port),
        ("", host(up, 0)[1]),
        (switch, int(f.node_base[f.switch_node[0]])),
        (f"{switch}:0", int(f.node_base[f.switch_node[0]])),
    ):
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
    "no such hop": mad(path=[9]),
    "beyond the fabric": mad(path=[1, 1, 1]),
    "hop count 64": mad(path=[1] * 63),
    "class nobody has": mad(0x55),
    "SA without a manager": mad(0x03),
    "SMInfo without a manager": mad(attr=0x20),
    "base version 2": mad(),
    "trap to nobody": mad(0x01, 5, 2),
}
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
