"""How MADs travel: directed, by LID, both."""

import numpy as np
import pytest

from softib.errors import InputError
from softib.iba.notice import Notice
from softib.iba.smp import NodeInfo, PortInfo, SwitchInfo
from tests.agents.client_plane import ClientPlane
from tests.agents.lab import program, walk

from .smps import ask, line, random_fabric, requests


@pytest.mark.parametrize("seed", range(4))
def test_directed_routes_end_where_the_cables_lead(seed):
    rng = np.random.default_rng(seed)
    f = random_fabric(rng)
    plane = ClientPlane(f)
    senders = f.end_ports()
    reached = 0
    for _ in range(300):
        port = int(rng.choice(senders))
        path = [int(x) for x in rng.integers(1, 9, rng.integers(0, 6))]
        if rng.random() < 0.8 and f.node_type[f.port_node[port]] == 1 and path:
            path[0] = int(f.port_num[port])
        end, ingress = walk(f, port, path)
        answers = plane.send(requests(1, path=path), port)
        assert len(answers) == (end is not None)
        if end is None:
            continue
        reached += 1
        info = NodeInfo.unpack(answers.mad[0, 64:128].tobytes())
        node = int(f.port_node[end])
        assert info["node_guid"] == int(f.node_guid[node])
        assert info["port_guid"] == int(f.port_guid[end])
        assert info["local_port_num"] == int(f.port_num[end])
        assert answers.mad[0, 192 : 192 + len(ingress)].tolist() == ingress
        assert answers.mad[0, 3] == 0x81 and answers.mad[0, 4] & 0x80 and answers.mad[0, 6] == 0
    assert reached > 60


def test_the_return_path_backwards_is_the_way_home():
    f, _s, h = line(5)
    plane = ClientPlane(f)
    m = plane.send(requests(1, path=[1, 7, 7, 7, 1]), int(f.port(h[0], 1))).mad[0]
    back = m[193:198][::-1].tolist()
    assert NodeInfo.node_guid.get(m[64:128]) == f.node_guid[h[3]]
    answer = ask(plane, int(f.port(h[3], 1)), path=back)
    assert NodeInfo.node_guid.get(answer[1][:64]) == f.node_guid[h[0]]


def test_a_link_that_is_down_carries_nothing_in_either_direction():
    f, s, h = line(2)
    plane = ClientPlane(f)
    PortInfo.port_phys_state.set(f.port_info[int(f.port(s[0], 7)) : int(f.port(s[0], 7)) + 1], 2)
    assert ask(plane, int(f.port(h[0], 1)), path=[1, 7]) is None
    assert ask(plane, int(f.port(h[1], 1)), path=[1, 8]) is None


def test_lid_routes_follow_the_programmed_tables():
    f, s, h = line(4)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    for klass in (0x01, 0x04):
        attr = 0x11 if klass == 1 else 0x01
        for lid in range(32):
            batch = requests(1, klass=klass, attr=attr, dlid=lid)
            answers = plane.send(batch, sm)
            assert len(answers) == (1 <= lid <= 4 or 11 <= lid <= 14), lid
            if len(answers):
                assert answers.slid[0] == lid and answers.dlid[0] == 11
                assert answers.mad[0, 4:6].tolist() == [0, 0]
                if klass == 1:
                    want = s[lid - 1] if lid < 10 else h[lid - 11]
                    assert NodeInfo.node_guid.get(answers.mad[0, 64:128]) == f.node_guid[want]


def test_linear_fdb_top_ends_the_table():
    f, s, h = line(2)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    assert ask(plane, sm, klass=1, dlid=12)
    SwitchInfo.linear_fdb_top.set(f.switch_info[:1], 11)
    assert ask(plane, sm, klass=1, dlid=12) is None


def test_an_answer_needs_its_own_way_back():
    f, s, h = line(3)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    assert ask(plane, sm, klass=1, dlid=13)
    f.lft[1, 11] = 255  # the middle switch forgets the asker
    assert ask(plane, sm, klass=1, dlid=13) is None
    assert ask(plane, sm, klass=1, dlid=1)


def test_a_forwarding_loop_swallows_the_mad():
    f, s, h = line(2)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    f.lft[0, 20], f.lft[1, 20] = 7, 8
    assert ask(plane, sm, klass=1, dlid=20) is None


def test_lid_routes_know_no_limit_of_hops():
    """IBA 14.2.1.2 limits directed routes alone: across 80 switches a MAD arrives by its LID."""
    n = 80
    f, _, h = line(n)
    ports = f.node_base[h] + 1
    info = f.port_info.copy()
    PortInfo.port_state.set(info, 4, f.linked)
    PortInfo.lid.set(info, 101 + np.arange(n), ports)
    f.port_info[:] = info
    at, to = np.arange(n)[:, None], np.arange(n)[None, :]
    f.lft[:, 101 : 101 + n] = np.where(at == to, 1, np.where(to > at, 7, 8))
    SwitchInfo.linear_fdb_top.set(f.switch_info, 300)
    plane = ClientPlane(f)
    for klass, attr in ((1, 0x11), (4, 0x01)):
        assert all(ask(plane, int(ports[0]), klass=klass, attr=attr, dlid=101 + j) for j in range(n))
    f.lft[40, 101 + n - 1] = 8  # back to where it came from
    assert ask(plane, int(ports[0]), klass=1, dlid=101 + n - 1) is None


def test_smps_travel_in_init_and_data_needs_active():
    f, s, h = line(2)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h, activate=False)
    assert ask(plane, sm, klass=1, dlid=2) is not None
    assert ask(plane, sm, klass=4, attr=1, dlid=2) is None


def test_combined_routes():
    f, s, h = line(4)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    batch = requests(1, path=[7, 7], dlid=2)  # by LID to switch 1, then directed twice to the right
    batch.mad[0, 32:34] = [0, 11]
    answers = plane.send(batch, sm)
    assert NodeInfo.node_guid.get(answers.mad[0, 64:128]) == f.node_guid[s[3]]
    batch = requests(1, path=[1, 7])  # directed to switch 1, then by LID to host 3
    batch.mad[0, 34:36] = [0, 14]
    answers = plane.send(batch, sm)
    assert NodeInfo.node_guid.get(answers.mad[0, 64:128]) == f.node_guid[h[3]]
    batch = requests(1, path=[1], dlid=12)  # a CA starts no directed part for others
    batch.mad[0, 32:34] = [0, 11]
    assert len(plane.send(batch, sm)) == 0


def test_what_clients_must_answer_is_delivered_apart():
    f, s, h = line(3)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    sm_info = requests(2, attr=0x20, path=[1, 7, 7, 1])
    assert len(plane.send(sm_info, sm)) == 0
    (got,) = plane.take_deliveries()
    assert got.ports.tolist() == [f.port(h[2], 1)] * 2 and got.rows.tolist() == [0, 1] and got.sender == sm
    assert got.batch.tid.tolist() == [0x100, 0x101]
    assert got.batch.mad[0, 193:197].tolist() == [1, 8, 8, 1], "return path for the client's answer"
    answer = got.batch
    answer.mad[:, 3], answer.mad[:, 4] = 0x81, 0x80
    assert len(plane.send(answer, int(got.ports[0]))) == 0
    (home,) = plane.take_deliveries()
    assert home.ports.tolist() == [sm, sm]
    assert len(plane.send(requests(1, klass=3, attr=0x35, dlid=12), sm)) == 0
    (query,) = plane.take_deliveries()
    assert query.ports.tolist() == [f.port(h[1], 1)] and query.batch.slid.tolist() == [11]
    assert plane.take_deliveries() == []


def test_a_trap_reaches_the_subnet_manager():
    f, s, h = line(3)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    plane.set_link(int(f.port(s[2], 1)), False, 77)
    (notice,) = plane.take_notices()
    assert plane.trap(notice) is None, "the switch knows no SM yet"
    PortInfo.master_sm_lid.set(f.port_info, 11)
    batch, port = plane.trap(notice)
    assert len(plane.send(batch, port, 78)) == 0
    (got,) = plane.take_deliveries()
    said = Notice.unpack(got.batch.mad[0, 64:128].tobytes())
    assert got.ports.tolist() == [sm] and got.batch.mad[0, 3] == 5
    assert (said["trap_number"], said["issuer_lid"], said["producer_type"], said["type"]) == (128, 3, 2, 1)
    assert said["data_details"][:2] == [0, 3]


def test_order_tids_and_the_request_stay():
    f, _s, h = line(3)
    plane = ClientPlane(f)
    batch = requests(50, path=[1, 7])
    batch.mad[::3, 130] = 5  # an empty port: lost
    before = batch.mad.copy()
    answers = plane.send(batch, int(f.port(h[0], 1)))
    assert answers.tid.tolist() == [0x100 + i for i in range(50) if i % 3]
    assert (batch.mad == before).all()


def test_a_sender_without_qp0_is_refused():
    f, s, _h = line(2)
    plane = ClientPlane(f)
    with pytest.raises(InputError, match=r"s0\[7\]"):
        plane.send(requests(1), int(f.port(s[0], 7)))
    with pytest.raises(InputError, match="rows 0 to"):
        plane.send(requests(1), f.sizes.ports)
