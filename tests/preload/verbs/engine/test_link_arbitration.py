"""VL arbitration of paced links in C: times are given, none is measured. Oracles: arithmetic on the weights (IBA 7.6.9), the work
that a link can do, and the order of service."""

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from tests.preload.verbs.link_clocks import START, Clocks

BULK, BYTES = 1_250_000, 50
"""A message of 25 us at 400 Gb/s, and the bytes that such a link sends in a ns."""
PACKET = 4096 + 26
LATENCY, STORAGE = 0, 1
"""Service levels, each with a VL of its own."""


@pytest.fixture
def shared(tmp_path):
    """A function: a fabric whose ports have these tables, as (VL, weight) of low and high priority."""
    made = []

    def make(low, high=(), limit=0):
        one = Clocks(tmp_path, generate("fat-tree", radix=4, levels=2, generation="NDR"))
        made.append(one)
        f = one.fabric
        f.vl_arb[:] = 0
        for block, table in ((0, low), (2, high)):
            for n, pair in enumerate(table):
                f.vl_arb[:, block, 2 * n : 2 * n + 2] = pair
        f.port_info[:, PortInfo.vl_high_limit.byte] = limit
        f.port_info[:, PortInfo.operational_vls.byte] = 3 << 4  # four data VLs
        f.sl2vl[:] = np.array([0x01, *[0] * 7], np.uint8)  # SL 1 to VL 1, the others to VL 0
        return one

    yield make
    for one in made:
        one.traffic.close()


def ns(octets):
    return octets / BYTES


def test_equal_weights_halve_the_link(shared):
    """Both VLs have the same work: the first message ends in time, as if the second had not come; the second waits for half of its
    work beside the first, and a packet."""
    made = shared([(0, 64), (1, 64)])
    one, two = made.timed(0, 7, LATENCY), made.timed(0, 7, STORAGE)
    assert made.send(one, BULK) - START == pytest.approx(ns(BULK), abs=2)
    assert made.send(two, BULK) - START == pytest.approx(2 * ns(BULK) + ns(PACKET), abs=4)


def test_a_short_message_does_not_wait_behind_bulk_of_another_vl(shared):
    """A hundred bulk messages are queued. On their VL a short one waits for all of them; on the other for a packet, and its own
    bytes at half the rate."""
    made = shared([(0, 64), (1, 64)])
    bulk, beside, behind = made.timed(0, 7, STORAGE), made.timed(0, 7, LATENCY), made.timed(0, 7, STORAGE)
    for _ in range(100):
        last = made.send(bulk, BULK)
    assert made.send(beside, 100) - START == pytest.approx(2 * ns(100) + ns(PACKET), abs=4)
    assert made.send(behind, 100) >= last


@pytest.mark.parametrize(("weights", "share"), (((64, 64), 1 / 2), ((128, 64), 2 / 3), ((32, 224), 1 / 8)))
def test_backlogged_vls_share_by_their_weights(shared, weights, share):
    """Two senders post again whenever their message has arrived: rates after a while are the weights', and fill the link."""
    made = shared(list(enumerate(weights)))
    timed = [made.timed(0, 7, LATENCY), made.timed(0, 7, STORAGE)]
    sent, done = [0, 0], [[START] * 8, [START] * 8]
    size, end = 40_000, START + 10_000_000
    while min(map(min, done)) < end:
        sender = 0 if min(done[0]) <= min(done[1]) else 1
        at = min(done[sender])
        done[sender].remove(at)
        done[sender].append(made.send(timed[sender], size, at))
        sent[sender] += size
    assert sent[0] / sum(sent) == pytest.approx(share, abs=0.02)
    assert sum(sent) == pytest.approx(BYTES * (end - START), rel=0.02)


def test_high_priority_goes_first(shared):
    """Without a limit the low table waits until the high one has no work; a limit of one unit leaves it every second packet."""
    made = shared([(1, 64)], high=[(0, 64)], limit=255)
    low, high = made.timed(0, 7, STORAGE), made.timed(0, 7, LATENCY)
    made.send(low, BULK)
    assert made.send(high, BULK) - START == pytest.approx(ns(BULK) + ns(PACKET), abs=4)
    assert made.send(low, 0) - START == pytest.approx(2 * ns(BULK) + ns(PACKET), abs=4)


def test_the_limit_of_high_priority_leaves_packets_of_the_others(shared):
    made = shared([(1, 64)], high=[(0, 64)], limit=1)
    low, high = made.timed(0, 7, STORAGE), made.timed(0, 7, LATENCY)
    made.send(low, BULK)
    assert made.send(high, BULK) - START == pytest.approx(2 * ns(BULK) + ns(PACKET), abs=4)


def test_without_tables_or_vls_messages_are_served_in_order(shared):
    made = shared([])
    bulk, short = made.timed(0, 7, STORAGE), made.timed(0, 7, LATENCY)
    last = made.send(bulk, BULK)
    assert made.send(short, 100) >= last


def test_a_lock_of_a_dead_process_is_taken_over(shared):
    made = shared([(0, 64), (1, 64)])
    timed = made.timed(0, 7, STORAGE)
    made.send(timed, BULK)
    made.traffic.cells.link_clocks[:, 4] = START  # in ns / 64: held for minutes
    assert made.send(timed, 100, START + 10**6) >= START + 10**6
