"""PortXmitDataSL, PortRcvDataSL, PortVLXmitWait (IBA 16.1.4): an option of the packet layer."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.end_ports import end_ports
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, run
from tests.sim.packet.fabrics import no_lifetimes, star
from tests.sim.packet.lab import IDEAL, arbitration

ON = PacketOptions(counters_by_sl=True)


def test_data_by_sl_add_up_to_the_ports_data():
    fabric = star(4)
    src = np.repeat(np.arange(4), 30)
    sent = messages(src, (src + 1) % 4, 9000, sl=np.tile(np.arange(3), 40), qp=np.arange(120))
    out = run(fabric, sent, ON)
    assert np.array_equal(out.sl_counters["xmit_data_sl"].sum(axis=1), out.counters["port_xmit_data"])
    assert np.array_equal(out.sl_counters["rcv_data_sl"].sum(axis=1), out.counters["port_rcv_data"])
    ends = end_ports(fabric)[:4]
    by_sl = out.sl_counters["xmit_data_sl"][ends]
    assert (by_sl[:, :3] > 0).all() and not by_sl[:, 3:].any()


def test_the_option_changes_no_time():
    fabric = star(4)
    src = np.repeat(np.arange(3), 50)
    sent = messages(src, 3, 20000, sl=np.tile([0, 1], 75), qp=np.arange(150))
    plain, counted = run(fabric, sent), run(fabric, sent, ON)
    assert plain.arrived_ps.tobytes() == counted.arrived_ps.tobytes()
    assert plain.counters.tobytes() == counted.counters.tobytes()
    assert plain.sl_counters is None and plain.vl_counters is None


def test_two_vls_that_share_a_link_wait_for_each_others_packets():
    """Under saturation of two VLs of equal weight each waits while the other sends: half of the time (arbitration counts as waiting)."""
    fabric = arbitration(no_lifetimes(star(3)), [(0, 65), (1, 65)])
    src = np.repeat([1, 2], 1500)
    out = run(fabric, messages(src, 0, 4096, qp=src, sl=src - 1), PacketOptions(profile=IDEAL, counters_by_sl=True))
    port = int(fabric.port_peer[end_ports(fabric)[0]])
    waited = out.vl_counters["port_vl_xmit_wait"][port, :2].astype(float)
    ticks = out.end_ps / 387.9
    assert waited / ticks == pytest.approx([0.5, 0.5], abs=0.05)


def test_a_vl_that_is_alone_waits_for_credits_as_long_as_its_port():
    """One VL: PortVLXmitWait is PortXmitWait, as nothing else holds it up."""
    fabric = no_lifetimes(star(3))
    src = np.repeat([1, 2], 300)
    out = run(fabric, messages(src, 0, 65536, qp=src), ON)
    by_vl = out.vl_counters["port_vl_xmit_wait"].sum(axis=1).astype(float)
    ends = end_ports(fabric)[1:3]
    assert by_vl[ends] == pytest.approx(out.counters["port_xmit_wait"][ends].astype(float), rel=0.01)
