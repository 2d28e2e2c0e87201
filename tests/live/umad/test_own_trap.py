"""A manager whose own request raises a trap: the trap reaches it first, and the request comes back as timed out all the same.

OpenSM without the M_Key of its own port hung for ever on the Set that the port refused: the trap 256 that this raised was taken for its
answer.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from softib.agents import trap_queue
from softib.iba.constants import Method, SmpAttr
from softib.iba.smp import PortInfo
from softib.live.umad.wire import constant, types
from tests.live.ibsim.fuzzing import Device, Running
from tests.live.serving import mad

TRAP_TAKER = [1 << int(Method.TRAP), 0]
ETIMEDOUT = 110


@pytest.fixture
def running(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    one = Running("trap")
    yield one
    one.stop()


def test_a_request_whose_trap_comes_back_to_its_sender_times_out(running, monkeypatch):
    f, daemon = running.fabric, running.daemon_
    node = int(f.cas[0])
    port = int(f.node_base[node]) + 1
    PortInfo.subnet_timeout.set(f.port_info, 0, [port])
    monkeypatch.setattr(
        trap_queue, "SHORTEST_PS", 1
    )  # a trap need not wait for the one before (144: there is a manager)
    PortInfo.mkey.set(f.port_info, np.uint64(0x1234), [port])
    PortInfo.mkey_protect.set(f.port_info, 2, [port])
    assert PortInfo.master_sm_lid.get(f.port_info)[port] == PortInfo.lid.get(f.port_info)[port]
    device = Device(running, daemon.umads.views.show(f.node_name(node), port).folder.name, np.random.default_rng(0))
    _, told = device.ask(op=constant("UNREGISTER"), handle=device.handle, agent=device.agents[0x01])
    _, told = device.ask(
        op=constant("REGISTER"),
        handle=device.handle,
        qpn=0,
        mgmt_class=0x01,
        mgmt_class_version=1,
        method_mask=np.array(TRAP_TAKER, np.uint64),
    )
    assert told["error"] == 0
    head = np.zeros(1, types()["softib_umad_head"])
    head["id"], head["timeout_ms"], head["length"], head["lid"] = device.agents[0x81], 100, 320, 0xFFFF
    device.sock.send(head.tobytes() + mad(method=Method.SET, attr=SmpAttr.PORT_INFO, modifier=1, tid=77).tobytes())
    device.sock.settimeout(60)
    began, back, traps = time.monotonic(), b"", set()
    while not (back and 256 in traps):  # in any order, where the daemon was late
        message = device.sock.recv(1000)
        told, octets = np.frombuffer(message[: head.itemsize], head.dtype)[0], message[head.itemsize :]
        if int(told["status"]) == ETIMEDOUT:
            back = octets
        else:
            assert octets[3] == Method.TRAP
            traps.add(int.from_bytes(octets[68:70], "big"))
    assert back[3] == Method.SET and int.from_bytes(back[12:16], "big") == 77
    assert time.monotonic() - began >= 0.09
    device.sock.close()
