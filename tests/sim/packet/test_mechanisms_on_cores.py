"""Bad packets, slowed responses, RNR, multicast and counters by SL on two cores: the same bytes as on one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.scenario.multicast_groups import join_group
from softib.sim.ends import end_ports
from softib.sim.messages import MulticastGroup, Opcode, Transport, messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.engine import execute


@pytest.mark.parametrize("seed", [1, 2])
def test_two_cores_give_the_bytes_of_one(seed):
    """A fat tree with 20 m cables, so that parts run apart; lossy links; SENDs with few receives, READs at a static rate, datagrams to a group."""
    up = bring_up(generate("fat-tree", radix=8, levels=2, generation="NDR"))
    fabric, rng = up.fabric, np.random.default_rng(seed)
    fabric.cable_length_m[:] = 20.0
    ends = end_ports(fabric)
    members = np.array([0, 3, 9, 17, 30])
    group = MulticastGroup(members, join_group(up, 1, ends[members].tolist()))
    fabric.port_loss[(fabric.port_num > 0) & (fabric.port_peer >= 0), 1] = 2e-7
    n = 400
    src = rng.integers(0, 32, n)
    dst = (src + rng.integers(1, 32, n)) % 32
    kind = rng.integers(0, 3, n)  # SEND, READ, datagram to the group
    src = np.where(kind == 2, members[rng.integers(0, 5, n)], src)
    dst = np.where(kind == 2, np.where(src == 0, 3, 0), dst)
    sent = messages(
        src, dst, np.where(kind == 2, 2000, rng.integers(1, 60000, n)), qp=(src * 32 + dst) * 3 + kind,
        opcode=np.where(kind == 1, Opcode.READ, Opcode.SEND), transport=np.where(kind == 2, Transport.UD, Transport.RC),
        receives=np.where(kind == 0, 1, 0), repost_ps=3_000_000, rate_gbps=np.where(kind == 1, 100.0, 0.0),
        group=np.where(kind == 2, 1, 0), groups=[group],
    )  # fmt: skip
    options = PacketOptions(seed=seed, ack_timeout=6, rnr_timer=1, counters_by_sl=True)
    two = replace(options, cores=2)
    assert len(execute(fabric, sent, two)[1]) == 2, "the network was cut"
    a, b = run(fabric, sent, options), run(fabric, sent, two)
    assert a.counters["port_rcv_remote_physical_errors"].sum() + a.counters["port_rcv_errors"].sum() > 0
    assert a.arrived_ps.tobytes() == b.arrived_ps.tobytes() and a.completed_ps.tobytes() == b.completed_ps.tobytes()
    assert a.counters.tobytes() == b.counters.tobytes()
    assert a.sl_counters.tobytes() == b.sl_counters.tobytes() and a.vl_counters.tobytes() == b.vl_counters.tobytes()
