"""Load is what a port sent over what its link can send; counters that somebody cleared never make it negative, and what cannot be told is not zero."""

from __future__ import annotations

import numpy as np
import pytest

from softib.monitor.intervals import between
from softib.web.rates import Recent, port_rows, sample_of
from tests.monitor.lab import Lab, clear, port_of, row_of


@pytest.fixture
def lab():
    return Lab()


def test_half_of_a_link(lab):
    port = port_of(lab.fabric, "leaf-1", 3)
    before = lab.round()
    row = row_of(before.targets, lab.fabric, port)
    # 4x NDR carries 400 Gb/s of data: 50 GB in the second between two rounds, in words of four octets.
    lab.add(port, "port_xmit_data", int(50e9 / 2 / 4))
    lab.add(port, "symbol_error_counter", 3)
    sample = sample_of(between(before.reading, lab.round().reading))
    assert float(sample.load[row]) == pytest.approx(0.5, rel=1e-2)
    assert int(sample.errors[row]) == 3 and sample.errors.sum() == 3
    assert (np.nan_to_num(sample.load) > 0.01).sum() == 1


def test_cleared_counters_are_no_rate(lab):
    port = port_of(lab.fabric, "leaf-1", 3)
    lab.add(port, "port_xmit_data", 1 << 30)
    before = lab.round()
    clear(lab.wire, lab.fabric, port)
    sample = sample_of(between(before.reading, lab.round().reading))
    assert np.isnan(sample.load[row_of(before.targets, lab.fabric, port)])


def test_rows_are_found_by_guid_and_portnum(lab):
    f = lab.fabric
    everything = np.arange(f.sizes.ports)
    assert (port_rows(f, f.node_guid[f.port_node], f.port_num.astype(np.int32)) == everything).all()
    assert port_rows(f, np.array([1], np.uint64), np.array([1], np.int32)).tolist() == [-1]
    assert port_rows(f, f.node_guid[:1], np.array([200], np.int32)).tolist() == [-1]


def test_the_oldest_go_first_and_time_never_goes_back(lab):
    before = lab.round().reading
    recent = Recent(3)
    one = between(before, lab.round().reading)
    for second in (1.0, 2.0, 3.0, 2.5, 4.0, 5.0):
        sample = sample_of(one)
        recent.add(type(sample)(second, *(getattr(sample, n) for n in ("guid", "portnum", "load", "wait", "errors"))))
    assert recent.times() == [3.0, 4.0, 5.0]
    assert recent.at(4.2).time_s == 4.0 and recent.at(None).time_s == 5.0
