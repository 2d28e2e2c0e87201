"""Virtual ports as a manager's MADs see them: states, LIDs and tables of one adapter port."""

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.fabric.node_finder import find_node
from softib.fabric.power_cycle import power_on
from softib.fabric.virtual_ports import give_virtual_ports
from softib.iba.constants import PortState, SmpAttr
from softib.iba.smp import PortInfo
from softib.iba.vendor.vports import (
    VirtualizationInfo,
    VNodeInfo,
    VPortInfo,
    VPortPKeyTable,
    VPortState,
    vport_modifier,
)
from tests.agents.vport_changes import change_vport, vport_count

from .smps import GET, SET, ask, line

A = SmpAttr
HEAD, INFO, VNODE, STATE = A.MLNX_VIRTUALIZATION_INFO, A.MLNX_VPORT_INFO, A.MLNX_VNODE_INFO, A.MLNX_VPORT_STATE
DESC, GUIDS, PKEYS = A.MLNX_VNODE_DESC, A.MLNX_VPORT_GUID_INFO, A.MLNX_VPORT_PKEY_TABLE
BAD_FIELD, BAD_ATTRIBUTE = 0x1C, 0x0C


@pytest.fixture
def adapter():
    """(plane, port): an ACTIVE port with 200 functions, which require LIDs."""
    f, _, hosts = line(2, 2)
    functions = np.zeros(f.sizes.ports, np.int64)
    port = int(f.port(hosts[0], 1))
    functions[port], functions[f.port(hosts[1], 1)] = 200, 2
    give_virtual_ports(f, functions, functions > 2)
    plane = AgentPlane(f)
    state(f, port, PortState.ACTIVE)
    return plane, port


def state(f, port, to):
    for end in (port, int(f.port_peer[port])):
        PortInfo.port_state.set(f.port_info, int(to), [end])


def get(plane, port, attr, mod=0):
    status, data = ask(plane, port, attr=int(attr), mod=mod, method=GET)
    return status, data[:64]


def put(plane, port, attr, data, mod=0):
    status, answer = ask(plane, port, attr=int(attr), mod=mod, data=data, method=SET)
    return status, answer[:64]


def test_what_there_is(adapter):
    plane, port = adapter
    f = plane.fabric
    assert vport_count(f, port) == 201
    head = get(plane, port, HEAD)[1]
    assert (VirtualizationInfo.vport_cap.get(head), VirtualizationInfo.vport_index_top.get(head)) == (200, 200)
    first, second = (VPortState.vport_state.get(get(plane, port, STATE, block)[1]) for block in (0, 1))
    assert (first == PortState.INIT).all() and (second[:73] == PortState.INIT).all() and not second[73:].any()
    assert get(plane, port, STATE, 2)[0] == BAD_FIELD and get(plane, port, INFO, 201)[0] == BAD_FIELD
    own = VPortInfo.unpack(get(plane, port, INFO, 0)[1])
    one = VPortInfo.unpack(get(plane, port, INFO, 7)[1])
    assert own["vport_guid"] == f.port_guid[port] and not own["lid_required"]
    assert one["lid_required"] and one["vport_guid"] not in f.port_guid
    vnode = VNodeInfo.unpack(get(plane, port, VNODE, 7)[1])
    assert vnode["vnode_guid"] == one["vport_guid"] and vnode["num_ports"] == 1
    assert bytes(get(plane, port, DESC, 7)[1]).rstrip(b"\0") == b"h0 VF7"
    guids = f.vport_info[:201].copy()
    assert len(set(VPortInfo.vport_guid.get(guids).tolist())) == 201


def test_only_ports_that_say_so_have_some(adapter):
    plane, port = adapter
    f = plane.fabric
    for other in (int(f.port(find_node(f, "h2"), 1)), int(f.node_base[f.port_node[f.port_peer[port]]])):
        for attr in (HEAD, INFO, VNODE, STATE, DESC, GUIDS, PKEYS):
            assert get(plane, other, attr)[0] == BAD_ATTRIBUTE


def test_states_go_up_one_by_one(adapter):
    plane, port = adapter
    f = plane.fabric
    row = f.vport_base[port] + 3
    image = VPortInfo.pack(vport_state=PortState.ACTIVE, vport_lid=9)
    before = f.vport_info.copy()
    assert put(plane, port, INFO, image, 3)[0] == BAD_FIELD, "Initialize to Active"
    assert (f.vport_info == before).all(), "a bad field changes nothing"
    for wanted in (PortState.ARMED, PortState.ACTIVE):
        status, answer = put(plane, port, INFO, VPortInfo.pack(vport_state=wanted, vport_lid=9), 3)
        assert status == 0 and VPortInfo.vport_state.get(answer) == wanted
    assert VPortInfo.vport_lid.get(f.vport_info[row]) == 9
    assert put(plane, port, INFO, VPortInfo.pack(vport_lid=9), 3)[0] == 0, "0 is no change"
    assert VPortInfo.vport_state.get(f.vport_info[row]) == PortState.ACTIVE
    states = VPortState.vport_state.get(get(plane, port, STATE)[1])
    assert states[3] == PortState.ACTIVE and (np.delete(states, 3) == PortState.INIT).all()
    state(f, port, PortState.INIT)
    assert VPortInfo.vport_state.get(get(plane, port, INFO, 3)[1]) == PortState.INIT, "never further than its port"
    assert put(plane, port, INFO, VPortInfo.pack(vport_state=PortState.ARMED, vport_lid=9), 3)[0] == BAD_FIELD


def test_lids(adapter):
    plane, port = adapter
    f = plane.fabric
    for lid in (0xC000, 0xFFFF):
        assert put(plane, port, INFO, VPortInfo.pack(vport_lid=lid), 3)[0] == BAD_FIELD
    assert put(plane, port, INFO, VPortInfo.pack(lid_by_vport_index=201), 3)[0] == BAD_FIELD
    assert put(plane, port, INFO, VPortInfo.pack(vport_lid=5), 0)[0] == BAD_FIELD, "no LID of its own is required"
    assert put(plane, port, INFO, VPortInfo.pack(vport_lid=77, vport_guid=1, guid_cap=9), 3)[0] == 0
    one = VPortInfo.unpack(get(plane, port, INFO, 3)[1])
    assert one["vport_lid"] == 77 and one["vport_guid"] != 1 and one["guid_cap"] == 8, "what is read-only stays"
    PortInfo.lid.set(f.port_info, 30, [port])
    assert ask(plane, port, klass=1, dlid=77, attr=int(A.NODE_INFO)) is not None
    assert ask(plane, port, klass=1, dlid=78, attr=int(A.NODE_INFO)) is None


def test_tables(adapter):
    plane, port = adapter
    f = plane.fabric
    row = f.vport_base[port] + 5
    wanted = np.arange(32, dtype=np.uint16) + 0x8001
    at = vport_modifier(5)
    assert put(plane, port, PKEYS, VPortPKeyTable.pack(pkeys=wanted), at)[0] == 0
    assert (f.vport_pkeys[row] == wanted).all() and f.vport_pkeys[row + 1, 0] == 0xFFFF
    assert get(plane, port, PKEYS, vport_modifier(5, 1))[0] == BAD_FIELD
    guids = (np.arange(8) + 100).astype(">u8")
    assert put(plane, port, GUIDS, guids.view(np.uint8), at)[0] == 0
    assert f.vport_guids[row, 1:].tolist() == guids[1:].tolist() and f.vport_guids[row, 0] != 100, "entry 0 is its own"
    assert put(plane, port, VNODE, guids.view(np.uint8), 5)[0] == BAD_ATTRIBUTE


def test_functions_come_and_go(adapter):
    plane, port = adapter
    f = plane.fabric
    PortInfo.lid.set(f.port_info, 30, [port])
    put(plane, port, INFO, VPortInfo.pack(vport_lid=77), 200)
    change_vport(plane, port, 200, False)
    head = get(plane, port, HEAD)[1]
    assert VirtualizationInfo.vport_index_top.get(head) == 199 and VirtualizationInfo.vport_state_change.get(head)
    one = VPortInfo.unpack(get(plane, port, INFO, 200)[1])
    assert one["vport_state"] == PortState.DOWN and one["vport_lid"] == 0
    assert [n.trap for n in plane.take_notices()] == [1144]
    change_vport(plane, port, 200, False)
    assert not plane.take_notices(), "nothing changed"
    put(plane, port, HEAD, VirtualizationInfo.pack(vport_index_top=3))
    assert VirtualizationInfo.vport_state_change.get(get(plane, port, HEAD)[1]), "no 1 is written"
    status, answer = put(plane, port, HEAD, VirtualizationInfo.pack(vport_state_change=1, vport_index_top=3))
    assert status == 0 and not VirtualizationInfo.vport_state_change.get(answer)
    assert VirtualizationInfo.vport_index_top.get(answer) == 199
    with pytest.raises(InputError, match="no virtual port 201; it has 201"):
        change_vport(plane, port, 201, True)
    power_on(f)
    assert VPortInfo.vport_state.get(f.vport_info[200]) == PortState.DOWN, "the host's doing outlives a power cycle"
