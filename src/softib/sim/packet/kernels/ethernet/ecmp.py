"""Equal-cost multipath: a switch hashes a flow to one of the ports on shortest paths (RFC 2992).

A flow is identified by the 5-tuple of addresses, protocol and ports. In RoCEv2 each queue pair has a separate UDP
source port, and in TCP each connection a separate port. Therefore the hash is over the stream (queue pair and
direction). Each switch has a different seed, so that switches choose differently.
"""

import numpy as np

from softib.jit import inner
from softib.sim.packet.kernels.engine.rng import mixed
from softib.sim.packet.kernels.switch.switch import by_table


@inner
def next_hop(net, state, k, came_in, now):
    """Return the output port of packet ``k``; -1: none."""
    dlid = np.int64(state.packet[k].dlid)
    switch = np.int64(net.port[came_in].switch)
    base = np.int64(net.port[came_in].port_0)
    if net.ethernet.ecmp and dlid < net.leaf.shape[0] and net.leaf[dlid] >= 0 and net.leaf[dlid] != switch:
        row = net.ecmp[switch, net.leaf[dlid]]
        paths = np.int64(net.next_hops[row])
        if paths == 0:
            return np.int64(-1)
        return base + np.int64(net.next_hop[row, chosen_path(net, state, k, switch, paths)])
    return by_table(net, came_in, dlid)


@inner
def path_seed(net, state, k, switch):
    """Return the hash of the flow of packet ``k`` at ``switch``."""
    return mixed(
        np.uint64(state.packet[k].stream) << np.uint64(24)
        ^ np.uint64(switch)
        ^ np.uint64(net.ethernet.seed) << np.uint64(52)
    )


@inner
def chosen_path(net, state, k, switch, paths):
    """Return which of ``paths`` packet ``k`` takes at ``switch``: by default the same for all packets
    of its flow."""
    return hashed_path(net, state, k, switch, paths)


@inner
def hashed_path(net, state, k, switch, paths):
    """Return which of ``paths`` the flow of packet ``k`` takes at ``switch``."""
    return np.int64(mixed(path_seed(net, state, k, switch) + np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)) % paths
