"""MADs move the counters of every port that they pass."""

import numpy as np
import pytest

from softib.iba.perf import PortCounters
from tests.agents.client_plane import ClientPlane
from tests.agents.lab import program, read, walk
from tests.iba.lab import mad_packet

from .smps import TRAFFIC, ask, line, random_fabric, requests


def zero(f):
    for name in f.counters.dtype.names:
        f.counters[name] = 0


def test_the_words_of_a_mad_are_those_of_its_packet():
    f, _s, h = line(2)
    plane = ClientPlane(f)
    assert ask(plane, int(f.port(h[0], 1)), path=[1])[0] == 0
    packet = mad_packet(bytes(256), 0xFFFF, 0xFFFF, 0)
    # The two octets of the VCRC do not count (IBA 16.1.3.5), and the packet's own length field agrees.
    assert f.counters["port_xmit_data"][int(f.port(h[0], 1))] * 4 == len(packet) - 2
    assert f.counters["port_xmit_data"][int(f.port(h[0], 1))] == int.from_bytes(packet[4:6], "big") & 0x7FF


@pytest.mark.parametrize("seed", range(4))
def test_directed_requests_count_on_every_hop_both_ways(seed):
    """Oracle: a walk over the cable list."""
    rng = np.random.default_rng(seed)
    f = random_fabric(rng)
    plane = ClientPlane(f)
    want = np.zeros((2, f.sizes.ports), np.int64)
    answered = lost = 0
    for _ in range(8):
        port = int(rng.choice(f.end_ports()))
        batch = requests(60)
        batch.mad[:, 7] = rng.integers(0, 6, 60)
        batch.mad[:, 129:136] = rng.integers(1, 9, (60, 7))
        batch.mad[:, 129] = np.where(rng.random(60) < 0.7, max(int(f.port_num[port]), 1), batch.mad[:, 129])
        got = len(plane.send(batch, port))
        for row in batch.mad:
            path = row[129 : 129 + row[7]].tolist()
            end, _ = walk(f, port, path)
            passed, at = [], port
            for i in range(len(path)):
                there, _ = walk(f, port, path[: i + 1])
                if there is None:
                    break
                egress = int(f.port_peer[there])
                passed.append((egress, there))
                at = there
            for egress, ingress in passed:
                want[0, egress] += 1
                want[1, ingress] += 1
                if end is not None:
                    want[0, ingress] += 1
                    want[1, egress] += 1
            answered, lost = answered + (end is not None), lost + (end is None)
            assert end is None or at == end
        assert got <= 60
    assert answered > 50 and lost > 50
    assert (f.counters["port_xmit_pkts"] == want[0]).all() and (f.counters["port_rcv_pkts"] == want[1]).all()
    assert (f.counters["port_xmit_data"] == 72 * want[0]).all() and (f.counters["port_rcv_data"] == 72 * want[1]).all()
    assert (f.counters["port_unicast_xmit_pkts"] == want[0]).all()


def test_lid_routed_ones_count_on_both_ways_and_what_a_client_gets_on_one():
    f, s, h = line(3)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    zero(f)
    assert ask(plane, sm, klass=1, dlid=13)[0] == 0
    ends = [(h[0], 1), (s[0], 1), (s[0], 7), (s[1], 8), (s[1], 7), (s[2], 8), (s[2], 1), (h[2], 1)]
    rows = [int(f.port(*e)) for e in ends]
    assert f.counters["port_xmit_pkts"][rows].tolist() == [1] * 8 == f.counters["port_rcv_pkts"][rows].tolist()
    assert f.counters["port_xmit_pkts"].sum() == 8
    zero(f)
    assert ask(plane, sm, klass=3, dlid=13) is None and len(plane.take_deliveries()) == 1
    assert (
        f.counters["port_xmit_pkts"][rows].tolist() == [1, 0] * 4
        and f.counters["port_rcv_pkts"][rows].tolist() == [0, 1] * 4
    )
    # A link that fails stops it on the way.
    zero(f)
    plane.set_link(int(f.port(s[1], 7)), False)
    assert ask(plane, sm, klass=1, dlid=13) is None
    assert f.counters["port_xmit_pkts"][rows].tolist() == [1, 0, 1, 0, 0, 0, 0, 0]
    down = int(f.port(s[1], 7))
    assert f.counters["port_xmit_discards"][down] == f.detail_counters["port_inactive_discards"][down] == 1
    # A LID that no table knows ends at the first switch.
    assert ask(plane, sm, klass=1, dlid=29) is None
    entry = int(f.port(s[0], 1))
    assert (
        f.counters["port_rcv_switch_relay_errors"][entry] == f.detail_counters["port_dlid_mapping_errors"][entry] == 1
    )
    assert f.counters["port_rcv_switch_relay_errors"].sum() == f.counters["port_xmit_discards"].sum() == 1


def test_links_conserve_packets_and_a_pma_sees_what_was_before_it():
    f, s, h = line(3)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    zero(f)
    batch = requests(40, klass=4, attr=0x12, dlid=3, data=PortCounters.pack(port_select=8))
    answers = plane.send(batch, sm)
    shown = PortCounters.port_rcv_pkts.get(answers.mad[:, 64:])
    # As on ibsim: the request is counted when it is received, the answer after it was written.
    assert shown.tolist() == list(range(1, 41))
    assert PortCounters.port_xmit_pkts.get(answers.mad[:, 64:]).tolist() == list(range(40))
    up = np.flatnonzero(f.linked)
    assert (f.counters["port_xmit_pkts"][up] == f.counters["port_rcv_pkts"][f.port_peer[up]]).all()


def test_a_counter_stops_at_its_maximum():
    f, s, h = line(2)
    plane = ClientPlane(f)
    sm = program(f, plane, s, h)
    row = int(f.port(s[0], 1))
    f.counters["port_rcv_data"][row] = 2**64 - 5
    ask(plane, sm, path=[1])
    assert f.counters["port_rcv_data"][row] == 2**64 - 1
    assert read(plane, sm, PortCounters, 1)[1]["port_rcv_data"] == 2**32 - 1


def test_counting_can_be_switched_off():
    f, _s, h = line(2)
    plane = ClientPlane(f, count_mads=False)
    assert ask(plane, int(f.port(h[0], 1)), path=[1])[0] == 0
    assert not any(f.counters[n].any() for n in TRAFFIC)
