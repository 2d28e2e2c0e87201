"""The manager as a sans-I/O machine: what it answers, when it looks again, what it refuses to believe."""

from __future__ import annotations

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.errors import LimitError
from softib.fabric.node_finder import find_node
from softib.fabric.topologies.registry import generate
from softib.fabric.virtual_ports import give_virtual_ports
from softib.iba.constants import Method, MgmtClass, PortState, SmpAttr
from softib.iba.notice import Notice
from softib.iba.smp import MadHeader, NodeInfo, PortInfo, SMInfo
from softib.mad.batch import MadBatch
from softib.mad.transactor import NEVER_PS
from softib.sm.config import SmConfig
from softib.sm.ha.election import TRANSITIONS, SmEvent, SmState, next_state
from softib.sm.subnet_manager import PHASES, SubnetManager
from tests.sm.wire import line_of, settle

H = MadHeader
PS_PER_MS = 1_000_000_000


def running(switches: int = 2, **config):
    fabric = line_of(switches)
    plane, sm = AgentPlane(fabric), SubnetManager(SmConfig(**config))
    port = fabric.port(find_node(fabric, "first"), 1)
    settle(sm, plane, port)
    return fabric, plane, sm, int(port)


def unsolicited(method: int, attr: int, klass: int = MgmtClass.SUBN_LID) -> MadBatch:
    batch = MadBatch.zeros(1)
    H.base_version.set(batch.mad, 1)
    H.class_version.set(batch.mad, 1)
    H.mgmt_class.set(batch.mad, int(klass))
    H.method.set(batch.mad, int(method))
    H.attr_id.set(batch.mad, int(attr))
    H.tid.set(batch.mad, np.array([0x0123456789ABCDEF], np.uint64))
    batch.slid[:], batch.dlid[:] = 7, 1
    return batch


@pytest.mark.parametrize("virtual", [True, False])
def test_four_smps_on_the_wire_by_default_and_rest_at_the_end(virtual):
    fabric = line_of(3)
    port = int(fabric.port(find_node(fabric, "first"), 1))
    if virtual:
        give_virtual_ports(
            fabric, (np.arange(fabric.sizes.ports) == port).astype(np.int64), np.ones(fabric.sizes.ports, bool)
        )
    plane, sm = AgentPlane(fabric), SubnetManager()
    inbox, phases, most = None, [], 0
    for _ in range(10_000):
        outbox, deadline = sm.step(0, inbox)
        most = max(most, len(outbox))
        if sm.phase and (not phases or phases[-1] != sm.phase):
            phases.append(sm.phase)
        if sm.settled:
            break
        inbox = plane.send(outbox, port, 0) if len(outbox) else None
    assert sm.settled and deadline == NEVER_PS and most == 4
    assert tuple(phases) == tuple(p for p in PHASES if virtual or not p.startswith("vport"))
    assert sm.state == SmState.MASTER and (fabric.port_state[fabric.linked] == PortState.ACTIVE).all()


def test_sm_info_is_answered():
    _, _, sm, _ = running(priority=5)
    out, _ = sm.step(10, unsolicited(Method.GET, SmpAttr.SM_INFO))
    assert len(out) == 1 and H.method.get(out.mad) == Method.GET_RESP and H.status.get(out.mad) == 0
    assert H.tid.get(out.mad)[0] == np.uint64(0x0123456789ABCDEF)
    assert (out.dlid[0], out.slid[0]) == (7, 1)
    told = SMInfo.unpack(out.mad[0, 64:128].tobytes())
    assert told["priority"] == 5 and told["sm_state"] == SmState.MASTER and told["sm_key"] == sm.config.sm_key
    assert told["guid"] == int(sm.database.port_guid[sm.database.sm_port]) and told["act_count"] > 0


def test_sm_info_by_directed_route_carries_the_direction_bit_and_a_set_of_nothing_is_refused():
    _, _, sm, _ = running()
    out, _ = sm.step(10, unsolicited(Method.GET, SmpAttr.SM_INFO, MgmtClass.SUBN_DR))
    assert H.status.get(out.mad) == 0x8000
    out, _ = sm.step(11, unsolicited(Method.SET, SmpAttr.SM_INFO))
    assert H.status.get(out.mad) == 0x001C and sm.state == SmState.MASTER


@pytest.mark.parametrize(("trap", "sweeps"), [(128, True), (144, True), (145, True), (256, False), (65, False)])
def test_a_trap_is_repressed_and_a_changed_link_is_looked_at(trap, sweeps):
    _, plane, sm, port = running()
    batch = unsolicited(Method.TRAP, SmpAttr.NOTICE)
    batch.mad[0, 64:128] = Notice.pack(is_generic=1, type=1, producer_type=2, trap_number=trap, issuer_lid=7)
    out, _ = sm.step(5, batch)
    methods = H.method.get(out.mad).tolist()
    assert methods[0] == Method.TRAP_REPRESS and bool(methods[1:]) == sweeps
    assert sm.settled != sweeps
    if sweeps:
        settle(sm, plane, port, 5, plane.send(out[1:], port, 5))
        assert sm.sweeps == 2 and sm.report.sets == 0 and sm.state == SmState.MASTER


@pytest.mark.parametrize("method", [Method.REPORT, Method.SEND, Method.TRAP_REPRESS, 0x00, 0x7F])
def test_other_mads_nobody_asked_for_are_left_alone(method):
    _, _, sm, _ = running()
    out, deadline = sm.step(5, unsolicited(int(method), SmpAttr.NOTICE))
    assert len(out) == 0 and deadline == NEVER_PS and sm.settled


def test_random_octets_change_nothing():
    _, _, sm, _ = running()
    rng = np.random.default_rng(3)
    before = sm.database.port_info.copy()
    for _ in range(50):
        batch = MadBatch.zeros(20)
        batch.mad[:] = rng.integers(0, 256, batch.mad.shape, dtype=np.uint8)
        out, _ = sm.step(9, batch)
        assert len(out) == 0
    assert sm.settled and (sm.database.port_info == before).all()


def test_a_request_that_the_wire_hands_back_is_no_question():
    """umad and ibsim return what nobody answered, status ETIMEDOUT."""
    sm = SubnetManager()
    out, _ = sm.step(0)
    out.status[:] = 110
    sm.step(1, out)
    assert sm.phase == "discover" and sm.transactor.busy


def test_nobody_there_at_all_ends_after_800_ms_with_one_problem():
    sm = SubnetManager()
    now = 0
    while not sm.settled:
        assert now <= 800 * PS_PER_MS
        _, deadline = sm.step(now)
        now = max(now, deadline)
    assert (
        sm.state == SmState.DISCOVERING
        and sm.report.nodes == 0
        and sm.report.problems == ["behind the manager's own port: is not answered; nothing there is managed"]
    )


@pytest.mark.parametrize(
    "lie",
    [
        {"node_type": 9},
        {"node_type": 0},
        {"num_ports": 0},
        {"num_ports": 255},
        {"node_guid": 0},
        {"local_port_num": 200},
    ],
)
def test_an_impossible_node_info_is_reported_and_left_out(lie):
    fabric = line_of(3)
    sm = SubnetManager()
    settle(sm, liar_plane(fabric, "last", lie), int(fabric.port(find_node(fabric, "first"), 1)))
    assert sm.report.problems == ["behind s2[3]: impossible NodeInfo; nothing there is managed"]
    assert sm.report.nodes == 4 and sm.report.links == 3
    sm = SubnetManager()
    settle(sm, liar_plane(fabric, "first", lie), int(fabric.port(find_node(fabric, "first"), 1)))
    assert sm.report.problems == ["behind the manager's own port: impossible NodeInfo; nothing there is managed"]


def liar_plane(fabric, name, lie):
    liar = find_node(fabric, name)

    class Liar(AgentPlane):
        def send(self, batch, port, now_ps=0):
            answers = super().send(batch, port, now_ps)
            guid = NodeInfo.node_guid.get(answers.mad[:, 64:128])
            rows = np.flatnonzero((H.attr_id.get(answers.mad) == SmpAttr.NODE_INFO) & (guid == fabric.node_guid[liar]))
            for name, value in lie.items():
                data = answers.mad[rows, 64:128]
                getattr(NodeInfo, name).set(data, value)
                answers.mad[rows, 64:128] = data
            return answers

    return Liar(fabric)


def test_63_hops_are_managed_and_what_is_further_is_named():
    fabric = line_of(70)
    sm = SubnetManager()
    settle(sm, AgentPlane(fabric), int(fabric.port(find_node(fabric, "first"), 1)))
    assert sm.report.switches == 63 and sm.report.cas == 1 and sm.report.links == 63
    assert sm.report.problems == [
        "behind s62[2]: is further than the 63 hops of a directed route; nothing there is managed"
    ]


def test_an_mkey_is_set_and_used():
    fabric, plane, sm, port = running(mkey=0xC0FFEE0123456789, mkey_protect=2)  # only who knows it is answered
    ends = fabric.end_ports()
    assert (PortInfo.mkey.get(fabric.port_info[ends]) == np.uint64(0xC0FFEE0123456789)).all()
    sm.request_sweep()
    settle(sm, plane, port)
    assert not sm.report.problems and sm.report.nodes == fabric.sizes.nodes
    stranger = SubnetManager()
    settle(stranger, plane, port)
    assert stranger.report.nodes == 0 and stranger.report.timeouts == 1


def test_a_sweep_that_cannot_be_finished_is_given_up_and_can_be_asked_for_again(monkeypatch):
    def no_room(*_):
        raise LimitError("no room")

    fabric = line_of(3)
    plane, sm = AgentPlane(fabric), SubnetManager()
    port = int(fabric.port(find_node(fabric, "first"), 1))
    with monkeypatch.context() as patch:
        patch.setattr("softib.sm.managers.ucast_mgr.route_subnet", no_room)
        with pytest.raises(LimitError, match="no room"):
            settle(sm, plane, port)
    assert sm.settled and not sm.transactor.busy and len(sm.step(0)[0]) == 0
    sm.request_sweep()
    settle(sm, plane, port)
    assert not sm.report.problems and (fabric.port_state[fabric.linked] == PortState.ACTIVE).all()


def test_too_many_lids_are_noticed_while_the_sweep_is_under_way():
    """Half of the answers of that sweep are still on the wire; they must not be taken for answers of the next one."""
    fabric = generate("fat-tree", radix=36, levels=2)
    plane, sm = AgentPlane(fabric), SubnetManager(SmConfig(lmc=7, window=64))
    with pytest.raises(LimitError, match="49,151"):
        settle(sm, plane, int(fabric.port(int(fabric.cas[0]), 1)))
    assert sm.settled and sm.database.n_nodes < fabric.sizes.nodes
    assert not fabric.lid.any()


def test_another_manager_is_noted():
    fabric = line_of(2)
    row = fabric.port_info[fabric.port(find_node(fabric, "last"), 1)]
    PortInfo.cap_mask.set(row, int(PortInfo.cap_mask.get(row)) | 2)
    sm = SubnetManager()
    settle(sm, AgentPlane(fabric), int(fabric.port(find_node(fabric, "first"), 1)))
    assert "last[1] has IsSM set" in sm.report.notes


def test_every_state_and_event():
    """IBA 14.4.1: whatever is not in the table changes nothing, and every state can be left."""
    for state in SmState:
        assert {next_state(state, e) for e in SmEvent} - {state}, state
    assert set(SmState) <= {SmState.DISCOVERING} | set(TRANSITIONS.values())
    # A standby alone is told to stop, a stopped manager alone to go on, and a standby alone polls a master.
    for event, concerned in (
        (SmEvent.DISABLE, SmState.STANDBY),
        (SmEvent.STANDBY_SIGNAL, SmState.NOT_ACTIVE),
        (SmEvent.POLLING_TIMEOUT, SmState.STANDBY),
        (SmEvent.ACKNOWLEDGED, SmState.MASTER),
    ):
        assert [s for s in SmState if next_state(s, event) != s] == [concerned], event
