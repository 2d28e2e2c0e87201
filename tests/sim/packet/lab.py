"""What several tests of the packet layer use: ideal adapters, tables of managers, credits of a network that is empty."""

from __future__ import annotations

import numpy as np

from softib.iba.smp import PortInfo
from softib.sim.packet import PacketOptions, run
from softib.sim.packet import tables as t

IDEAL = {"message_gap_ns": 0, "pcie_gbps": 1e6, "vl_blocks": 2048}
"""Adapters that limit nothing."""


def drained(net, states):
    """Let flow-control packets that are under way arrive."""
    s = states[0]
    free = s.vl[:, t.FCCL] + s.vl[:, t.FIRST_BLOCKS] + s.vl[:, t.SECOND_BLOCKS]
    for row in np.flatnonzero(s.vl[:, t.CREDITS]).tolist():
        credit = states[int(net.rare[row // net.opt[t.OPT_VLS], t.PART_OF])].credit
        c = int(s.vl[row, t.CREDITS])
        while c:
            free[row] += credit[c, t.C_BLOCKS]
            c = int(credit[c, t.C_NEXT])
    return (free - s.vl[:, t.FCTBS]) & t.WRAP


def arbitration(fabric, low, high=(), limit=0):
    """Write the arbitration tables of all ports."""
    fabric.vl_arb[:] = 0
    for block, entries in ((0, low), (2, high)):
        for i, (vl, weight) in enumerate(entries):
            fabric.vl_arb[:, block, 2 * i], fabric.vl_arb[:, block, 2 * i + 1] = vl, weight
    PortInfo.vl_high_limit.set(fabric.port_info, limit)
    return fabric


def same(fabric, sent, **options) -> None:
    """The outcome of one, two and three cores is the same, deadlocks and counters too."""
    one = run(fabric, sent, PacketOptions(**options))
    for cores in (2, 3):
        many = run(fabric, sent, PacketOptions(cores=cores, **options))
        for column in ("began_ps", "arrived_ps", "completed_ps", "counters"):
            assert np.array_equal(getattr(one, column), getattr(many, column)), (cores, column)
        notes = tuple(note for note in many.notes if "cores were asked for" not in note)
        assert (one.end_ps, one.deadlock, one.notes, one.valid) == (many.end_ps, many.deadlock, notes, many.valid)
        assert one.work["packet hops"] == many.work["packet hops"]
        assert one.port_figures.keys() == many.port_figures.keys()
        for name, figure in one.port_figures.items():
            assert np.array_equal(figure, many.port_figures[name]), (cores, name)
        if one.samples is not None:
            assert one.samples.interval_ps == many.samples.interval_ps and one.samples.end_ps == many.samples.end_ps
            assert one.samples.octets.tobytes() == many.samples.octets.tobytes()
            assert one.samples.queued.tobytes() == many.samples.queued.tobytes()
