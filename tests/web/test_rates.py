"""Load is what a port sent over what its link can send; counters that somebody cleared never make it negative."""

from __future__ import annotations

import numpy as np
import pytest

import softib
from softib.web.rates import History


@pytest.fixture
def fabric():
    return softib.generate("fat-tree", radix=4, levels=2, generation="EDR").arrays


def test_half_of_an_edr_link(fabric):
    history = History(4)
    port = int(np.flatnonzero(fabric.linked)[0])
    history.add(10.0, fabric)
    # 4x EDR carries 100 Gb/s of data: 12.5 GB a second, in words of four octets.
    fabric.counters["port_xmit_data"][port] += np.uint64(2 * 12.5e9 / 2 / 4)
    fabric.counters["symbol_error_counter"][port] += np.uint64(3)
    fabric.counters["port_xmit_wait"][port] += np.uint64(70)
    history.add(12.0, fabric)
    sample = history.at(None)
    assert float(sample.load[port]) == pytest.approx(0.5, rel=1e-3)
    assert int(sample.errors[port]) == 3 and int(sample.wait[port]) == 70
    assert sample.errors.sum() == 3 and (sample.load > 0).sum() == 1


def test_cleared_counters_are_no_rate(fabric):
    history = History(4)
    fabric.counters["port_xmit_data"] = 1 << 40
    history.add(1.0, fabric)
    fabric.counters["port_xmit_data"] = 0
    history.add(2.0, fabric)
    assert (history.at(None).load == 0).all()


def test_a_clock_that_jumps_back_makes_no_sample(fabric):
    history = History(4)
    history.add(10.0, fabric)
    history.add(9.0, fabric)
    assert history.times() == []
    history.add(11.0, fabric)
    assert history.times() == [11.0]


def test_the_oldest_go_first(fabric):
    history = History(3)
    for second in range(10):
        history.add(float(second), fabric)
    assert history.times() == [7.0, 8.0, 9.0]
    assert history.at(8.2).time_s == 8.0
