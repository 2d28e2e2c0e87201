"""Aggregation nodes in switches (SHARP): received values are summed and forwarded (Graham et al.,
COMHPC 2016).

A node is an end port inside its switch: no posting, no host memory, and a link as fast as all ports
of the switch together. It reduces packets one after another at a fixed time per byte, and finishes
each after a fixed latency. The node's buffer is free again when the packet is reduced. A message that a node sends
waits for arriving messages, and carries the sum of their values. Each value is added once, even if its packets arrive
several times.
"""

from softib.jit import inner


@inner
def is_node(net, port):
    """Return whether ``port`` belongs to an aggregation node in use."""
    return net.opt.aggregates != 0 and net.rare[port].reduce_ps > 0


@inner
def reduced_at(net, state, port, octets, now):
    """Return when the node of ``port`` has reduced a packet that arrives now; the buffer is free
    then."""
    begins = max(now, state.port[port].rx_free)
    state.port[port].rx_free = begins + (octets * net.rare[port].reduce_fs + 500) // 1000
    return state.port[port].rx_free


@inner
def add_up(net, state, m):
    """Add the value of message ``m``, which arrived, to the messages at an aggregation node that
    wait for it. (A host that waits for a result sends its own vector.)"""
    for i in range(state.arrival[m], state.arrival[m + 1]):
        d = state.after_arrival[i]
        if is_node(net, state.qp[state.message[d].qp].src):
            state.message[d].value += state.message[m].value
