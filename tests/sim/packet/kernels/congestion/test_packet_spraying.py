"""Packet spraying: near-full throughput of a permutation where flows that keep to one path collide; receivers that reorder.

Oracles: the rate of a link less frames' headers and acknowledgements; flows hashed to paths collide (Dixit et al., INFOCOM 2013; Raiciu et al.,
SIGCOMM 2011, figure 1: half of the throughput of a fat tree).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from softib.sim.messages import Opcode, messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.engine import execute
from tests.sim.packet.fabrics import fabric_copy, star, tree

WIRE, ACK = 4096 + 62 + 20, 66 + 20
LINE = 100 * 4096 / (WIRE + ACK)
"""Gb/s of payload on a link that carries an acknowledgement of the other direction for each frame."""


def permutation(n: int) -> np.ndarray:
    """Each host sends to another one, in one cycle."""
    order = np.random.default_rng(7).permutation(n)
    to = np.empty(n, np.int64)
    to[order] = np.roll(order, 1)
    return to


@cache
def goodput(cc: str, size: int = 4_000_000):
    """Gb/s of payload of each host of a permutation on a fat tree of three levels."""
    fabric = tree(8, 3, "EDR")
    n = int((~fabric.is_switch).sum())
    out = run(fabric, messages(np.arange(n), permutation(n), size), PacketOptions(network="roce", ethernet={"cc": cc}))
    assert (out.arrived_ps >= 0).all()
    return size * 8e3 / (out.arrived_ps - out.began_ps)


def test_a_permutation_is_near_full_throughput_where_hashed_flows_collide():
    """128 hosts: the mean is above 0.92 of the line with spraying, and the slowest above 0.75; hashed flows have 0.65 at most, the slowest 0.4."""
    sprayed, hashed = goodput("spray"), goodput("dcqcn")
    assert sprayed.mean() > 0.92 * LINE and sprayed.min() > 0.75 * LINE
    assert hashed.mean() < 0.65 * LINE and hashed.min() < 0.4 * LINE


def paths_of(cc: str):
    """Packets that each port of the sender's leaf sent up, of one flow over a fat tree of two levels."""
    fabric = tree(8, 2, "EDR")
    n = int((~fabric.is_switch).sum())
    net, s, _, _ = execute(
        fabric, messages([0], [n - 1], 4_000_000), PacketOptions(network="roce", ethernet={"cc": cc})
    )
    leaf = int(net.port["peer"][s.qp["src"][0]])
    ports = np.flatnonzero((net.port["switch"] == net.port["switch"][leaf]) & (net.port["next_kind"] == 1))
    return s.port["xmit_packets"][ports], s


def test_each_packet_takes_its_own_of_the_equal_paths():
    """Of the paths in turn each has its share to a packet a round; a hashed flow has one."""
    up, s = paths_of("spray")
    assert len(up) == 4 and up.max() - up.min() <= 4 and up.sum() == s.message["packets"][0]
    assert np.count_nonzero(paths_of("dcqcn")[0]) == 1


@pytest.mark.parametrize("opcode", [Opcode.WRITE, Opcode.SEND, Opcode.READ])
def test_what_is_lost_is_sent_again_alone(opcode):
    """Bit errors on all cables: each message arrives, and hardly more packets are sent again than were lost (going back would send a window)."""
    fabric = fabric_copy(tree(8, 2, "EDR"))
    fabric.port_loss[(fabric.port_num > 0) & (fabric.port_peer >= 0), 1] = 1e-7
    n = int((~fabric.is_switch).sum())
    sent = messages(np.arange(n), permutation(n), 2_000_000, opcode=opcode)
    _, s, _, _ = execute(fabric, sent, PacketOptions(network="roce", ack_timeout=8, ethernet={"cc": "spray"}))
    assert (s.message["arrived"] >= 0).all()
    lost = int(s.port["rcv_errors"].sum())
    assert lost > 20
    if opcode != Opcode.READ:  # a READ is asked for again from the missing response on
        assert s.resent.sum() < 3 * lost


def test_messages_of_a_queue_pair_complete_in_order():
    """However its packets overtake each other (IBA chapter 9, ordering)."""
    fabric = tree(8, 2, "EDR")
    n = int((~fabric.is_switch).sum())
    src = np.repeat(np.arange(n), 6)
    sent = messages(src, permutation(n)[src], np.tile([100, 50_000, 8, 9_000, 200_000, 1], n), qp=src)
    out = run(fabric, sent, PacketOptions(network="roce", ethernet={"cc": "spray"}))
    assert (np.diff(out.arrived_ps.reshape(n, 6), axis=1) >= 0).all() and (out.arrived_ps >= 0).all()


def test_one_path_is_as_good_as_another_control():
    """Over one switch there is nothing to spray: a lone flow has the whole line."""
    size = 20_000_000
    out = run(star(2), messages([0], [1], size), PacketOptions(network="roce", ethernet={"cc": "spray"}))
    assert size * 8e3 / out.arrived_ps[0] > 0.98 * 100 * 4096 / WIRE
