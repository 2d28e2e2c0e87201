"""No increase is negative, and a known one is true: random counts, clears and restarts against their exact sums."""

from __future__ import annotations

import itertools

import numpy as np

from softib.monitor.intervals import between
from softib.monitor.reading import Reading


def reading(guid, portnum, time_ns, values, largest):
    r = Reading.empty(guid, portnum)
    rows = np.arange(len(guid))
    for name, column in values.items():
        r.put(name, rows, np.minimum(column, np.uint64(largest)), largest)
    r.answered[:], r.time_ns[:] = True, time_ns
    return r


def test_random_histories():
    rng = np.random.default_rng(2)
    n = 40
    guid, portnum = np.repeat(np.arange(10, dtype=np.uint64), 4), np.tile(np.arange(1, 5, dtype=np.int32), 10)
    names = ("symbol_error_counter", "link_downed_counter")
    values = {name: rng.integers(0, 50, n).astype(np.uint64) for name in names}
    before = reading(guid, portnum, 1, values, 255)
    wrong = known = 0
    for step in range(2, 400):
        true = {name: rng.poisson(3, n).astype(np.uint64) for name in names}
        cleared = rng.random(n) < 0.05
        for name in names:
            values[name] = np.where(cleared, np.uint64(0), values[name]) + true[name]
        after = reading(guid, portnum, step, values, 255)
        rose = between(before, after)
        for name in names:
            assert rose.increase[name].dtype == np.uint64 and (rose.increase[name] <= 255).all()
            assert (rose.increase[name][~rose.known[name]] == 0).all()
            sure = rose.known[name] & ~cleared
            assert (rose.increase[name][sure] == true[name][sure]).all()
            # A clear after which a counter passed its old value cannot be seen from outside; it tells too little, never too much.
            hidden = rose.known[name] & cleared
            assert (rose.increase[name][hidden] <= true[name][hidden]).all()
            wrong, known = wrong + int(hidden.sum()), known + int(sure.sum())
        before = after
    assert known > 5000 and wrong < 0.01 * known


def test_a_clock_that_jumps_back_tells_nothing():
    guid, portnum = np.array([1], np.uint64), np.array([1], np.int32)
    a = reading(guid, portnum, 100, {"symbol_error_counter": np.array([1], np.uint64)}, 65535)
    b = reading(guid, portnum, 90, {"symbol_error_counter": np.array([5], np.uint64)}, 65535)
    rose = between(a, b)
    assert not rose.known["symbol_error_counter"].any() and (rose.end_ns >= rose.begin_ns).all()


def test_a_port_that_is_new_has_no_interval():
    a = reading(
        np.array([1], np.uint64), np.array([1], np.int32), 5, {"link_downed_counter": np.array([1], np.uint64)}, 255
    )
    b = reading(
        np.array([1, 2], np.uint64),
        np.array([1, 1], np.int32),
        9,
        {"link_downed_counter": np.array([2, 200], np.uint64)},
        255,
    )
    rose = between(a, b)
    assert rose.known["link_downed_counter"].tolist() == [True, False]
    assert rose.increase["link_downed_counter"].tolist() == [1, 0] and rose.begin_ns.tolist() == [5, 9]


def test_a_counter_at_its_largest_value_says_when_it_got_there():
    """Levels ``stuck_NAME``: 0 counts, 1 stands, 2 got there in the interval."""
    guid, portnum = np.array([1, 2, 3], np.uint64), np.ones(3, np.int32)
    a = reading(guid, portnum, 1, {"link_downed_counter": np.array([1, 255, 7], np.uint64)}, 255)
    b = reading(guid, portnum, 2, {"link_downed_counter": np.array([300, 255, 8], np.uint64)}, 255)
    rose = between(a, b)
    assert rose.level["stuck_link_downed_counter"].tolist() == [2, 1, 0]
    assert rose.known["link_downed_counter"].tolist() == [False, False, True]
    b.have["link_downed_counter"][1] = False
    assert np.isnan(between(a, b).level["stuck_link_downed_counter"][1])
    assert (
        "stuck_link_downed_counter" not in between(a, a).level
        or between(a, a).level["stuck_link_downed_counter"][1] == 1
    )


def test_a_counter_below_zero_tells_nothing():
    """A real ConnectX-7 reads PortRcvErrors 2**64 - 40; what comes after it is known again."""
    guid, portnum = np.array([1, 2], np.uint64), np.ones(2, np.int32)
    shots = [
        reading(guid, portnum, t, {"port_rcv_errors": np.array([v, 5], np.uint64)}, 2**64 - 1)
        for t, v in enumerate((2**64 - 40, 2**64 - 30, 7, 9), 1)
    ]
    known = [between(a, b).known["port_rcv_errors"].tolist() for a, b in itertools.pairwise(shots)]
    assert (
        known == [[False, True], [False, True], [True, True]]
        and int(between(shots[2], shots[3]).increase["port_rcv_errors"][0]) == 2
    )
