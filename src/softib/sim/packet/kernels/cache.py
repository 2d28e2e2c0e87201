# mypy: ignore-errors
"""Brings what the events of a bucket will need into the processor's cache, all at once.

A large fabric's ports do not fit into it, and an event's loads wait for each other: which port, which table entry, which output.
The loads of different events do not. This changes nothing and decides nothing.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.tables import (
    ARRIVE,
    BASE,
    DLID,
    HEAP_N,
    IN,
    KIND,
    LOOK,
    OPT_VLS,
    PEER,
    Q_HEAD,
    Q_NEXT,
    RECEIVE,
    RING,
    SCRATCH,
    SWITCH,
    SWITCH_PORT,
)  # fmt: skip

KIND_SHIFT, KIND_MASK, PAYLOAD_MASK, ENTITY_SHIFT = 28, 15, 0xFFFFFFF, 32


@inner
def port_rows(n, s, port):
    """Read a number of each row of ``port``."""
    return n.port[port, 0] + s.port[port, 0] + s.vl[port * n.opt[OPT_VLS], 0] + s.count[port, 0]


@inner
def touch(n, s):
    """Read what the events in the heap will read. The sum is kept so that the reads are."""
    total = np.int64(0)
    for i in range(s.reg[HEAP_N]):
        what = s.heap[i, 1]
        total += port_rows(n, s, what >> ENTITY_SHIFT)
        kind = what >> KIND_SHIFT & KIND_MASK
        if kind in (ARRIVE, RECEIVE):
            total += s.packet[what & PAYLOAD_MASK, 0]
    for i in range(s.reg[HEAP_N]):
        what = s.heap[i, 1]
        port, kind = what >> ENTITY_SHIFT, what >> KIND_SHIFT & KIND_MASK
        if kind == ARRIVE:
            dlid = s.packet[what & PAYLOAD_MASK, DLID]
            if dlid < n.lft.shape[1]:
                out = n.port[port, BASE] + n.lft[n.port[port, SWITCH], dlid]
                if out < n.port.shape[0]:
                    total += port_rows(n, s, out)
            total += s.vl[n.port[port, PEER] * n.opt[OPT_VLS], 0]
        elif kind == LOOK:
            total += n.port[n.port[port, PEER], 0]
            ring = s.vl[port * n.opt[OPT_VLS], RING]
            if ring and n.port[port, KIND] == SWITCH_PORT:
                k = s.voq[s.voq[ring - 1, Q_NEXT] - 1, Q_HEAD]
                total += port_rows(n, s, s.packet[k, IN])
    s.reg[SCRATCH] = total
