"""Samples over time: what is in the intervals is what was sent, however often they were joined."""

from __future__ import annotations

import numpy as np
import pytest

from softib.errors import InputError
from softib.sim.fluid import run as fluid
from softib.sim.messages import messages
from softib.sim.outcome import MOST, Sampler
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.engine import execute
from softib.sim.packet_sizes import packets_of, wire_octets
from softib.sim.paths import Plane
from tests.sim.packet.fabrics import star, tree
from tests.sim.packet.traffic import mixture


def test_intervals_joined_or_not_hold_every_octet():
    """1,000 samples of a ramp: at most MOST intervals are kept, each holds what the ramp gained in it."""
    sampler, total = Sampler(7), np.zeros(3, np.int64)
    while sampler.next_ps <= 7000:
        now = sampler.next_ps
        total = np.array([now, 2 * now, 0])
        sampler.take(total, np.array([now % 11, 0, 3]))
    found = sampler.finish(7000, np.array([7000, 14000, 0]), np.array([0, 0, 3]))
    assert len(found.octets) < MOST and found.interval_ps in (56, 112)
    assert found.octets.sum(axis=0).tolist() == [7000, 14000, 0]
    assert (found.octets[:-1, 0] == found.interval_ps).all()
    assert (found.queued[:, 2, 0] == 3 * 64).all()


@pytest.mark.parametrize("interval", [1000, 300_000, 10**12])
def test_samples_of_the_packet_layer_add_up_to_its_counters(interval):
    fabric, sent = tree(4, 2), mixture(14, 200, 5)
    out = run(fabric, sent, PacketOptions(sample_ps=interval))
    _, state, _, _ = execute(fabric, sent, PacketOptions())
    assert np.array_equal(out.samples.octets.sum(axis=0), state.port["xmit_octets"])
    assert (out.samples.load(Plane(fabric).gbps) <= 1).all()


def test_a_queue_is_no_longer_than_what_its_inputs_hold():
    """Five senders to one: the output's queue is in five receive buffers (IBA chapter 7, flow control)."""
    fabric = star(6)
    src = np.repeat(np.arange(1, 6), 4)
    out = run(fabric, messages(src, 0, 1 << 18, qp=src), PacketOptions(sample_ps=100_000))
    buffer = 512 * 64  # EDR's blocks of a VL
    assert 4 * buffer < out.samples.queued.max() <= 5 * buffer


def test_samples_of_the_fluid_layer_add_up_to_the_messages():
    fabric, sent = tree(4, 2), mixture(14, 200, 6)
    plane = Plane(fabric)
    out = fluid(plane, sent, sample_ps=1000)
    laid = plane.lay(sent)
    octets = np.repeat(wire_octets(sent, packets_of(sent, laid.mtu)), np.diff(laid.first))
    wanted = np.bincount(laid.port[laid.channel] >> 4, octets, minlength=fabric.sizes.ports)
    assert out.samples.octets.sum(axis=0) == pytest.approx(wanted, abs=MOST)
    assert out.samples.queued is None


def test_a_fluid_link_that_two_share_is_full_until_both_have_ended():
    """Two messages of 1 MB into one link of 100 Gb/s: busy for all of 160 us but the path's delay."""
    out = fluid(star(3), messages([1, 2], 0, 10**6), sample_ps=10**6)
    fabric = star(3)
    ports = Plane(fabric)
    last = int(fabric.port_peer[ports.ends[0]])
    load = out.samples.load(ports.gbps)[:, last]
    assert load[1:155].min() == pytest.approx(1.0, abs=1e-3)


def test_watching_changes_nothing():
    """The same run to the bit with samples and logs as without."""
    fabric, sent = tree(4, 2), mixture(14, 200, 7)
    plain = run(fabric, sent)
    watched = run(fabric, sent, PacketOptions(sample_ps=12345, watch_ports=(1, 2, 30), watch_messages=(3, 100)))
    for name in ("began_ps", "arrived_ps", "completed_ps", "counters"):
        assert getattr(plain, name).tobytes() == getattr(watched, name).tobytes()
    assert fluid(fabric, sent).arrived_ps.tobytes() == fluid(fabric, sent, sample_ps=999).arrived_ps.tobytes()


@pytest.mark.parametrize("interval", [0, -5])
def test_an_interval_is_positive(interval):
    with pytest.raises(InputError, match="at least 1 ps"):
        Sampler(interval)
