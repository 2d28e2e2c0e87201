"""The wire's time in C: rates, sharing, latency, PortXmitWait. Times are given, none is measured. Oracles: ``softib.iba.rates``,
arithmetic on the rates, and the trade's latencies."""

import ctypes as ct
from itertools import pairwise

import numpy as np
import pytest

from softib.agents.link_faults import LinkFaults
from softib.fabric.topologies.cables import apply_cables
from softib.fabric.topologies.registry import generate
from softib.iba.rates import SPEEDS, WIDTH_BITS, data_gbps
from softib.iba.smp import PortInfo
from tests.preload.verbs.fabric_library import egress
from tests.preload.verbs.link_clocks import SECOND, START, Clocks, port_of


@pytest.fixture
def clocks(tmp_path):
    made = []

    def make(fabric, **more):
        made.append(Clocks(tmp_path, fabric, **more))
        return made[-1]

    yield make
    for one in made:
        one.traffic.close()


def tree(generation="NDR", **more):
    return generate("fat-tree", radix=4, levels=2, generation=generation, **more)


@pytest.mark.parametrize("speed", [s.name for s in SPEEDS if s.name != "FDR10"])
def test_rates_are_those_of_the_table(clocks, speed):
    made = clocks(tree(speed))
    f = made.fabric
    port = port_of(f, 0)
    for width, bit in WIDTH_BITS.items():
        f.port_info[port, PortInfo.link_width_active.byte] = bit
        lane = ct.c_double()
        code = next(s for s in SPEEDS if s.name == speed)
        assert made.c.sv_link_gbps(port, ct.byref(lane)) == pytest.approx(float(data_gbps(code.code, width)))
        assert lane.value == pytest.approx(code.lane_gbps)


def test_a_message_takes_its_octets_at_the_slowest_links_rate(clocks):
    made = clocks(tree("EDR"))
    assert made.send(made.timed(0, 7), 12_500_000) - START == pytest.approx(10**6, abs=2)  # 100 Gb/s


def test_messages_in_flight_keep_the_link_busy_and_no_more(clocks):
    made = clocks(tree("EDR"))
    timed = made.timed(0, 7)
    ends = [made.send(timed, 125_000) for _ in range(100)]
    assert ends[-1] - START == pytest.approx(100 * 10_000, abs=5)
    assert made.send(timed, 125_000, ends[-1] + SECOND) == pytest.approx(ends[-1] + SECOND + 10_000, abs=2)


def test_a_thousand_acks_take_their_time(clocks):
    made = clocks(tree("NDR"))
    timed = made.timed(0, 7)
    end = [made.send(timed, 30) for _ in range(1000)][-1]
    assert end - START == pytest.approx(1000 * 30 / 50, rel=0.03)  # 0.6 ns each


def test_two_senders_to_one_port_have_half_each(clocks):
    made = clocks(tree("EDR"))
    one, two = made.timed(0, 7), made.timed(2, 7)
    done = {0: START, 1: START}
    got = {0: 0, 1: 0}
    while min(done.values()) < START + SECOND // 100:  # each posts again when its message has arrived
        who = min(done, key=done.get)
        done[who] = made.send((one, two)[who], 65536, done[who])
        got[who] += 65536
    assert got[0] == pytest.approx(got[1], rel=0.02)
    assert sum(got.values()) == pytest.approx(12.5e9 / 100, rel=0.02)


def test_a_stream_to_elsewhere_is_not_held_up(clocks):
    made = clocks(tree("EDR"))
    crowd, alone = [made.timed(0, 7), made.timed(2, 7)], made.timed(4, 1)
    for _ in range(50):
        for timed in crowd:
            made.send(timed, 125_000)
    assert made.send(alone, 125_000) - START == pytest.approx(10_000, abs=2)


@pytest.mark.parametrize(("levels", "dst", "switches"), [(1, 1, 1), (2, 7, 3), (3, 15, 5)])
def test_latency_of_switches_and_cables(clocks, levels, dst, switches):
    fabric = generate("fat-tree", radix=4, levels=levels, generation="EDR")
    apply_cables(fabric, "auto", 10.0)
    made = clocks(fabric)
    links = switches + 1
    assert made.timed(0, dst).latency_ns == 500 + 90 * switches + 5 * 10 * links


def test_a_port_whose_data_waits_counts_the_ticks(clocks):
    """One sender, 4x NDR, onto a link of 4x EDR: 3/4 of the time it has data and no credit."""
    made = clocks(tree("NDR"))
    f = made.fabric
    last = made.shared.walk(port_of(f, 0), f.lid[port_of(f, 7)])
    slow = egress(last)[-1]
    for port in (slow, int(f.port_peer[slow])):
        at = PortInfo.link_speed_ext_active.byte
        f.port_info[port, at] = 2 << 4 | (f.port_info[port, at] & 15)  # EDR active
    timed = made.timed(0, 7)
    for _ in range(100):
        end = made.send(timed, 125_000)
    assert end - START == pytest.approx(10**6, abs=5)
    made.traffic.fold(0)
    made.traffic.fold(0)
    waits = [int(f.counters[p]["port_xmit_wait"]) for p in egress(last)]
    ticks = 750_000 * 106.25 / 10
    assert waits[0] == pytest.approx(ticks, rel=0.01)
    assert waits[-1] == 0
    assert all(a == pytest.approx(b, rel=0.01) for a, b in pairwise(waits[:-1]))
    assert np.asarray(made.traffic.cells.waited).sum() == sum(waits)


def test_a_port_that_drains_slowly_is_the_slowest_of_the_way(clocks):
    """fault slow-port: 10 Gb/s at the receiver of a link of 400. The octets take the port's time, and the ports before the last have data and no credit."""
    made = clocks(tree("NDR"))
    f = made.fabric
    LinkFaults(made.plane).slow(port_of(f, 7), 10.0)
    timed = made.timed(0, 7)
    assert made.send(timed, 12_500_000) - START == pytest.approx(10**7, rel=1e-6)
    for _ in range(2):
        made.traffic.fold(0)
    waits = [
        int(f.counters[p]["port_xmit_wait"]) for p in egress(made.shared.walk(port_of(f, 0), f.lid[port_of(f, 7)]))
    ]
    assert all(wait == pytest.approx((10**7 - 250_000) * 106.25 / 10, rel=0.01) for wait in waits[:-1])
