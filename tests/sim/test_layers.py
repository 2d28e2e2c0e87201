"""What the layers have in common: the same tables, LIDs, SLs and MTUs, so the same links, the same counters, and alone the same times."""

from __future__ import annotations

import numpy as np
import pytest

from softib.fabric.end_ports import end_ports
from softib.fabric.topologies.registry import generate
from softib.iba.smp import PortInfo
from softib.scenario.bring_up import bring_up
from softib.sim import fluid, static_messages
from softib.sim.messages import Opcode, Transport, messages
from softib.sim.packet.engine import run
from softib.sim.packet.options import PacketOptions
from softib.sm.config import config_of
from softib.sm.options.file import read_options

COUNTED = ("port_xmit_data", "port_xmit_pkts", "port_rcv_data", "port_rcv_pkts")


def lmc_and_lanes(lmc: int = 1):
    """A two-level tree with LMC, whose SLs 0 to 3 have VLs of their own; ftree leads the LIDs of a port over several spines."""
    fabric = generate("fat-tree", m=(4, 4), w=(1, 2), p=(1, 1), generation="EDR")
    lanes = "qos TRUE\nqos_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3\nqos_vlarb_low 0:65,1:65,2:65,3:65\n"
    bring_up(fabric, config=config_of(read_options(lanes + f"lmc {lmc}\n").options | {"engine": "ftree"}))
    return fabric


def one_after_another(fabric, seed: int, n: int = 200):
    """Messages of every service between random end ports, ports 0 of switches too, one at a time."""
    rng = np.random.default_rng(seed)
    ends = end_ports(fabric)
    src = rng.integers(0, len(ends), n)
    dst = (src + rng.integers(1, len(ends), n)) % len(ends)
    leads = fabric.lid[ends] > 0
    keep = leads[src] & leads[dst] & ((src < 16) | (dst < 16))  # not between spines, which ftree does not join
    src, dst = src[keep], dst[keep]
    n = len(src)
    transport = rng.integers(0, 3, n)
    opcode = np.select(
        [transport == Transport.RC, transport == Transport.UC],
        [rng.integers(0, 4, n), rng.integers(0, 2, n)],
        Opcode.SEND,
    )
    size = np.where(transport == Transport.UD, rng.integers(1, 2049, n), rng.integers(1, 40_000, n))
    return messages(
        src,
        dst,
        np.where(opcode == Opcode.ATOMIC, 8, size),
        opcode=opcode,
        transport=transport,
        qp=np.arange(n),
        path_bits=rng.integers(0, 4, n),
        sl=rng.integers(0, 4, n),
        start_ps=np.arange(n) * 10**8,
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lmc", [0, 1, 2])
def test_all_layers_send_the_same_packets_over_the_same_links(lmc, seed):
    """LMC, SLs and ports 0 of switches are known to all three: every counter of every port is the same."""
    fabric = lmc_and_lanes(lmc)
    sent = one_after_another(fabric, seed)
    a, b, c = fluid.run(fabric, sent), run(fabric, sent, PacketOptions()), static_messages.run(fabric, sent)
    assert a.done and b.done
    port0 = fabric.is_switch[fabric.port_node] & (
        fabric.port_num == 0
    )  # its own traffic, which fluid and static count at no port
    for name in COUNTED:
        for counters in (a.counters, b.counters, c.counters):
            counters[name][port0] = 0
        assert np.array_equal(a.counters[name], b.counters[name]), name
        assert np.array_equal(a.counters[name], c.counters[name]), name


@pytest.mark.parametrize("seed", range(3))
def test_alone_a_message_takes_the_same_time(seed):
    """Within 1.5 per cent (fluid takes every first header for a WRITE's, and an ATOMIC's operands for nothing), for reads, atomics and datagrams too."""
    fabric = lmc_and_lanes()
    sent = one_after_another(fabric, 100 + seed)
    a, b = fluid.run(fabric, sent), run(fabric, sent, PacketOptions())
    took = b.arrived_ps - b.began_ps
    assert (np.abs(a.arrived_ps - b.arrived_ps) / took).max() <= 0.015


def test_an_mtu_in_the_middle_is_the_paths():
    """A cable between switches with NeighborMTU 1024: the path record says so, and messages become packets of 1,024."""
    fabric = lmc_and_lanes(0)
    external = fabric.is_switch[fabric.port_node] & (fabric.port_num > 0)
    peer = fabric.port_peer
    middle = external & (peer >= 0) & external[np.maximum(peer, 0)]
    PortInfo.neighbor_mtu.set(fabric.port_info, 3, np.flatnonzero(middle))
    far, near = messages([0], [15], 10_000), messages([0], [1], 10_000)
    for sent, packets in ((far, 10), (near, 3)):
        a, b = fluid.run(fabric, sent), run(fabric, sent, PacketOptions())
        first = int(end_ports(fabric)[0])
        assert a.done and b.done
        assert a.counters["port_xmit_pkts"][first] == b.counters["port_xmit_pkts"][first] == packets
