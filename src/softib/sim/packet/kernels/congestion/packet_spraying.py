"""Packet spraying: the packets of a queue pair take different equal-cost paths, and the receiver puts
them in order (Dixit et al., "On the impact of packet spraying in data center networks", INFOCOM 2013).

The packet's sequence number determines its path: each switch on the way up uses one digit of it. The effect is the same
as if the sender cycled through a list of all paths (NDP, Handley et al., SIGCOMM 2017). If a switch has n paths, n
consecutive packets all take different paths, and the order changes from one such round to the next. The receiver's
bitmap holds packets that arrived early (:mod:`~softib.sim.packet.kernels.congestion.round_trips`). Windows are Swift's.
"""

from dataclasses import replace

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import DATA, READ_RESPONSE
from softib.sim.packet.kernels.congestion.swift import SWIFT
from softib.sim.packet.kernels.engine.rng import mixed
from softib.sim.packet.kernels.ethernet.ecmp import hashed_path, path_seed


@inner
def sprayed_path(net, state, k, switch, paths):
    """Return which of ``paths`` packet ``k`` takes at ``switch``; all acknowledgements of a queue pair take one
    path."""
    kind = state.packet[k].kind
    if kind != DATA and kind != READ_RESPONSE:
        return hashed_path(net, state, k, switch, paths)
    number = np.int64(state.packet[k].psn)
    for _ in range(1, state.packet[k].out):  # one digit of the number for each switch on the way up
        number //= paths
    rotation = mixed(path_seed(net, state, k, switch) + np.uint64(number // paths) * np.uint64(0xD1342543DE82EF95))
    return (number + np.int64(rotation >> np.uint64(33))) % paths


SPRAY = replace(
    SWIFT,
    name="spray",
    text="packets take different paths, the receiver reorders; windows are Swift's (Dixit et al., INFOCOM 2013)",
    path=sprayed_path,
    reorders=True,
)
