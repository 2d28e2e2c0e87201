"""Traps 130 and 131 by their causes: overrun buffers and late flow-control updates, against laws (IBA 7.9)."""

import numpy as np
import pytest

from softib.agents.kernels.faults import flow_control
from softib.agents.plane import AgentPlane
from softib.errors import InputError
from softib.iba.perf import PortCounters
from softib.iba.perf_optional import PortVLXmitFlowCtlUpdateErrors
from softib.iba.smp import PortInfo
from tests.agents.lab import S, cable, powered, program, read, sent_where_it_can
from tests.agents.smps import ask, line

expiries = flow_control.expiries.__wrapped__


@pytest.mark.parametrize("lost", [0.3, 0.5, 0.8, 0.99])
def test_runs_of_six_lost_updates_are_as_frequent_as_in_a_drawn_sequence(lost):
    """Counted in two million Bernoulli trials, each run of six once and from anew behind it."""
    rng = np.random.default_rng(3)
    run = found = 0
    slots = 2_000_000
    for corrupted in (rng.random(slots) < lost).tolist():
        run = run + 1 if corrupted else 0
        if run == 6:
            found, run = found + 1, 0
    want = expiries(slots, lost)
    assert abs(found - want) < 6 * want**0.5, (found, want)
    assert expiries(slots, 1.0) == slots / 6 and expiries(slots, 0.0) == 0.0


@pytest.mark.parametrize(
    ("generation", "ber", "least", "most"),
    [
        ("QDR", 1e-2, 1, 10**9),
        ("QDR", 1e-4, 0, 0),
        ("HDR", 3e-3, 1, 10**9),
        ("HDR", 1e-4, 0, 0),
        ("EDR", 3e-2, 1, 10**9),
    ],
)
def test_late_updates_count_at_both_ends_and_raise_131(generation, ber, least, most):
    f, plane = powered(generation)
    PortInfo.master_sm_lid.set(f.port_info, 1)
    PortInfo.lid.set(f.port_info, 7)
    a, b = cable(f)
    plane.faults.seed(5)
    plane.faults.noise(a, ber, 0)
    plane.faults.settle([a, b], S)
    late = f.vl_counters["port_vl_xmit_flow_ctl_update_errors"]
    mine, theirs = int(late[a].sum()), int(late[b].sum())
    assert least <= mine <= most and least <= theirs <= most
    recovered = f.counters["link_error_recovery_counter"]
    assert int(recovered[a]) == int(recovered[b]) == mine + theirs, "each has the link of both ends recover"
    assert not late[np.setdiff1d(np.arange(f.sizes.ports), [a, b])].any()
    traps = [(t, d["portnum"]) for t, _, kind, d in sent_where_it_can(plane) if t == 131 and kind == 1]
    assert traps == ([(131, int(f.port_num[a])), (131, int(f.port_num[b]))] if least else [])


def test_a_port_that_grants_what_it_has_not_overruns():
    """Each update period in a row counts once; OverrunErrors of them are one error and one trap 130."""
    f, s, h = line(3, speed="QDR")
    plane = AgentPlane(f)
    sm = program(f, plane, s, h)
    PortInfo.master_sm_lid.set(f.port_info, int(f.lid[sm]))
    port = int(f.port(s[1], 8))
    PortInfo.overrun_errors.set(f.port_info, 3, [port])
    plane.take_notices()
    plane.faults.slow(port, 0.0, 0, overrun=True)
    period = 65_536 * 1000  # QDR: 1 ns a symbol
    ping = lambda now: ask(plane, sm, klass=4, attr=0x12, dlid=int(f.lid[int(f.port(s[2], 0))]), now=now)
    for i in (0, 0, 1, 5, 6):  # two in the first, one period without, then two in a row
        assert ping(i * period) is None
    count = f.counters["excessive_buffer_overrun_errors"]
    assert not count.any() and plane.take_notices() == []
    assert ping(7 * period) is None
    assert int(count[port]) == 1 and not np.delete(count, port).any()
    ((number, _issuer, _kind, told),) = sent_where_it_can(plane)
    assert number == 130 and told["portnum"] == 8 and told["lid"] == int(f.lid[int(f.port(s[1], 0))])
    assert f.detail_counters["port_buffer_overrun_errors"][port] == f.counters["port_rcv_errors"][port] == 6
    assert f.counters["port_rcv_pkts"][port] >= 6, "they were sent, and arrived"
    plane.faults.slow(port, None, 8 * period)
    assert ping(9 * period) is not None


def test_the_pma_tells_them():
    f, s, h = line(3, speed="QDR")
    plane = AgentPlane(f)
    sm = program(f, plane, s, h)
    port = int(f.port(s[0], 7))
    f.counters["excessive_buffer_overrun_errors"][port] = 5
    f.vl_counters["port_vl_xmit_flow_ctl_update_errors"][port, 3] = 2
    assert int(f.lid[int(f.port(s[0], 0))]) == 1
    assert read(plane, sm, PortCounters, 7)[1]["excessive_buffer_overrun_errors"] == 5
    assert read(plane, sm, PortVLXmitFlowCtlUpdateErrors, 7)[1]["port_vl_xmit_flow_ctl_update_errors"][3] == 2


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_a_port_that_leaves_out_flow_control_packets_starves_its_peer(share):
    """As many expiries as :func:`expiries` says of so many slots, on every data VL; the link is clean otherwise."""
    f, plane = powered("QDR")
    a, b = cable(f)
    plane.faults.seed(4)
    plane.faults.leave_out(a, share, 0)
    plane.faults.settle([a, b], 10 * S)
    late = f.vl_counters["port_vl_xmit_flow_ctl_update_errors"].sum(axis=1)
    vls = int(flow_control.VLS[int(PortInfo.operational_vls.get(f.port_info[[b]])[0])])
    want = vls * expiries(10 * S / (65_536 * 1000), share)
    assert abs(int(late[b]) - want) < 6 * want**0.5 and not late[np.arange(len(late)) != b].any()
    assert f.counters["link_error_recovery_counter"][[a, b]].tolist() == [late[b], late[b]]
    assert not f.counters["symbol_error_counter"].any() and not f.counters["port_rcv_errors"].any()
    plane.faults.leave_out(a, 0.0, 10 * S)
    plane.faults.settle([a, b], 20 * S)
    assert int(late[b]) == int(f.vl_counters["port_vl_xmit_flow_ctl_update_errors"].sum(axis=1)[b])
    assert not len(plane.faults.marked())
    with pytest.raises(InputError, match="use 0 to 1"):
        plane.faults.leave_out(a, 1.5)
