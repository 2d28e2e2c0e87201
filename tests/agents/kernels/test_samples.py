"""PortSamplesControl: counting between two moments of MAD time."""

import pytest

from softib.agents.plane import AgentPlane
from softib.iba.perf import PortSamplesControl as Control
from softib.iba.perf import PortSamplesResult as Result
from tests.agents.lab import program
from tests.agents.smps import SET, ask, line

TICK_PS = 387  # ten bit times of an EDR lane of 25.78125 Gb/s, rounded down
MS = 10**9
SELECT = [1, 2, 3, 4, 5] + [0] * 9 + [1]


@pytest.fixture
def lab():
    f, s, h = line(2)
    plane = AgentPlane(f, count_mads=False)
    sm = program(f, plane, s, h)
    return f, plane, sm, s


def control(plane, sm, now=0, method=1, port=7, **fields):
    data = Control.pack(port_select=port, **fields)
    status, said = ask(plane, sm, klass=4, attr=0x10, dlid=1, method=method, data=data, now=now)
    return status, Control.unpack(said[: Control.size].tobytes())


def result(plane, sm, now):
    status, said = ask(plane, sm, klass=4, attr=0x11, dlid=1, now=now)
    assert status == 0
    got = Result.unpack(said[: Result.size].tobytes())
    return got["tag"], got["sample_status"], got["counter"]


def arm(plane, sm, now=0, start=1_000_000, interval=2_000_000, tag=0xBEEF, **kw):
    status, got = control(
        plane, sm, now, SET, sample_start=start, sample_interval=interval, tag=tag, counter_select=SELECT, **kw
    )
    assert status == 0
    return got


def test_what_a_mechanism_can_count(lab):
    _f, plane, sm, _s = lab
    status, got = control(plane, sm)
    assert status == 0 and got["port_select"] == 7 and got["sample_status"] == 0 and got["sample_mechanisms"] == 0
    assert got["tick"] == 0 and got["counter_width"] == 4
    # Every counter can count the mandatory quantities: bit 0 of each 3-bit mask.
    assert (got["counter_mask0"], got["counter_masks_1to9"], got["counter_masks_10to14"]) == (1, 0o111111111, 0o11111)
    assert result(plane, sm, 0) == (0, 0, [0] * 15)


def test_done_started_running_done(lab):
    f, plane, sm, s = lab
    row = int(f.port(s[0], 7))
    names = ["port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts", "port_xmit_wait"]
    begin, until = 1_000_000 * TICK_PS, 3_000_000 * TICK_PS + 10_000
    for name in names:
        f.counters[name][row] = 1000
    assert arm(plane, sm)["sample_status"] == 1
    assert plane.advance(0) == pytest.approx(begin, rel=0.01)
    assert result(plane, sm, begin // 2) == (0xBEEF, 1, [0] * 15)
    for i, name in enumerate(names):
        f.counters[name][row] += 100 + i
    due = plane.advance(int(begin * 1.01))
    assert due == pytest.approx(until, rel=0.01) and result(plane, sm, int(begin * 1.02))[1] == 2
    for i, name in enumerate(names):
        f.counters[name][row] += 10 + i
    # While it runs, the result so far; a Set changes nothing.
    assert result(plane, sm, 2 * begin)[2] == [10, 11, 12, 13, 14] + [0] * 9 + [10]
    assert arm(plane, sm, now=2 * begin, tag=1)["tag"] == 0xBEEF
    assert plane.advance(int(until * 1.01)) is None
    f.counters["port_xmit_data"][row] += 5_000
    tag, status, counts = result(plane, sm, 2 * until)
    assert (tag, status) == (0xBEEF, 0) and counts == [10, 11, 12, 13, 14] + [0] * 9 + [10]
    # And again, for another port.
    arm(plane, sm, now=2 * until, start=0, interval=1, tag=2, port=1)
    assert result(plane, sm, 3 * until) == (2, 0, [0] * 15)


def test_switches_have_one_mechanism_each_ca_its_own(lab):
    f, plane, sm, _s = lab
    arm(plane, sm)
    data = Control.pack(port_select=1)
    said = ask(plane, sm, klass=4, attr=0x10, dlid=int(f.lid[sm]), data=data)[1]
    assert Control.sample_status.get(said) == 0
    assert control(plane, sm, port=1)[1]["sample_status"] == 1 and control(plane, sm, port=1)[1]["tag"] == 0xBEEF


def test_a_tick_is_ten_bit_times(lab):
    for speed, tick_fs in (("SDR", 4_000_000), ("QDR", 1_000_000), ("HDR", 188_235), ("NDR", 94_118)):
        f, s, h = line(2, speed=speed)
        plane = AgentPlane(f)
        sm = program(f, plane, s, h)
        arm(plane, sm, start=2_000_000_000, interval=1)
        assert plane.advance(0) == pytest.approx(2_000_000_000 * tick_fs // 1000, rel=1e-9)


def test_refusals(lab):
    _f, plane, sm, _s = lab
    assert control(plane, sm, port=255)[0] == 0x1C and control(plane, sm, port=9)[0] == 0x1C
    assert ask(plane, sm, klass=4, attr=0x11, dlid=1, method=SET)[0] == 0x0C


def test_mads_are_sampled_too():
    f, s, h = line(2)
    plane = AgentPlane(f)
    sm = program(f, plane, s, h)
    arm(plane, sm, start=0, interval=10**6, port=1)
    for _ in range(5):
        assert ask(plane, sm, path=[1], now=100)[0] == 0
    # The five, and the answer to the Set.
    assert result(plane, sm, MS)[2][:4] == [6 * 72, 5 * 72, 6, 5]
    assert f.counters["port_xmit_pkts"][int(f.port(s[0], 1))] > 6
