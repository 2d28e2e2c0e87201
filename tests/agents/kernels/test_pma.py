"""PerfMgt: counters as tools read and clear them."""

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.counters import COUNTER_NAMES
from softib.iba.notice import ClassPortInfo
from softib.iba.perf import PortCounters
from softib.iba.perf_optional import PortCountersExtended
from tests.agents.lab import program, read
from tests.agents.smps import SET, ask, line


@pytest.fixture
def lab():
    f, s, h = line(2)
    plane = AgentPlane(f)
    sm = program(f, plane, s, h)
    return f, plane, sm, s


def test_each_field_saturates_at_its_own_width(lab):
    f, plane, sm, s = lab
    row = int(f.port(s[0], 7))
    for value in (3, 15, 16, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1):
        for name in COUNTER_NAMES:
            f.counters[name][row] = value
        status, got = read(plane, sm, PortCounters, 7)
        assert status == 0
        for field in PortCounters.named():
            if field.name in COUNTER_NAMES:
                assert got[field.name] == min(value, field.mask), field
        status, got = read(plane, sm, PortCountersExtended, 7)
        assert status == 0 and all(got[n] == value for n in COUNTER_NAMES)


def test_set_writes_the_selected_counters_only(lab):
    f, plane, sm, s = lab
    row = int(f.port(s[0], 7))
    order = [x.name for x in PortCounters.named() if x.name in COUNTER_NAMES and x.name != "qp1_dropped"]
    for bit, name in enumerate(order):
        for n in COUNTER_NAMES:
            f.counters[n][row] = 7
        select = {"counter_select": 1 << bit} if bit < 16 else {"counter_select2": 1}
        assert read(plane, sm, PortCounters, 7, method=SET, fields=select)[0] == 0
        assert [n for n in COUNTER_NAMES if f.counters[n][row] == 0] == [name]
    assert len(order) == 17


def test_all_ports_sum_and_clear(lab):
    f, plane, sm, s = lab
    rows = [int(f.port(s[0], p)) for p in range(1, 9)]
    f.counters["port_xmit_data"][rows] = np.arange(8)
    f.counters["port_rcv_data"][rows[0]] = f.counters["port_rcv_data"][rows[1]] = 2**64 - 2
    status, got = read(plane, sm, PortCountersExtended, 255)
    assert status == 0 and got["port_xmit_data"] == 28 and got["port_rcv_data"] == 2**64 - 1
    other = int(f.port(s[1], 1))
    f.counters["port_xmit_data"][other] = 5
    assert read(plane, sm, PortCounters, 255, method=SET, fields={"counter_select": 0xFFFF})[0] == 0
    # The answer to the Set is the first packet that counts again.
    assert f.counters["port_xmit_data"][rows].tolist() == [72] + 7 * [0]
    assert not f.counters["port_rcv_data"][rows].any() and f.counters["port_xmit_data"][other] == 5


def test_class_port_info_and_refusals(lab):
    _f, plane, sm, _s = lab
    status, data = ask(plane, sm, klass=4, attr=1, dlid=1)
    got = ClassPortInfo.unpack(data[:72].tobytes())
    assert status == 0 and got["base_version"] == got["class_version"] == 1 and got["cap_mask"] & 0x300 == 0x300
    assert read(plane, sm, PortCounters, 9)[0] == 0x1C
    assert ask(plane, sm, klass=4, attr=0x77, dlid=1)[0] == 0x0C
    assert ask(plane, sm, klass=4, method=5, attr=0x12, dlid=1)[0] == 0x08
