"""Traffic of every kind for laws that hold whatever it is."""

from __future__ import annotations

import numpy as np

from softib.sim.messages import Opcode, Transport, messages


def mixture(ends: int, n: int, seed: int):
    """Messages of every kind and size between random end ports, some waiting for others."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, ends, n)
    dst = (src + rng.integers(1, ends, n)) % ends
    transport = rng.integers(0, 3, n)
    opcode = np.where(transport == Transport.RC, rng.integers(0, 4, n), rng.integers(0, 2, n))
    opcode = np.where(transport == Transport.UD, Opcode.SEND, opcode)
    size = np.where(transport == Transport.UD, rng.integers(1, 4096, n), rng.integers(1, 40000, n))
    size = np.where(opcode == Opcode.ATOMIC, 8, size)
    waits = rng.random(n) < 0.3
    waits[0] = False
    needs = rng.integers(0, np.maximum(np.arange(n), 1))[waits]
    pair = (src * ends + dst) * 3 + transport
    return messages(
        src,
        dst,
        size,
        opcode=opcode,
        transport=transport,
        start_ps=rng.integers(0, 10**6, n),
        qp=pair,
        sl=0,
        first=np.concatenate([[0], np.cumsum(waits)]),
        needs=needs,
        delay_ps=rng.integers(0, 10**5, n),
    )
