# mypy: ignore-errors
"""Packets in memory: taken from a free list and given back."""

from softib.jit import inner
from softib.sim.packet.tables import FREE_PACKET, IN_NETWORK, NEXT, SPARE_PACKETS


@inner
def new_packet(s):
    """A packet; its columns are those of the one before."""
    k = s.reg[FREE_PACKET]
    s.reg[FREE_PACKET] = s.packet[k, NEXT]
    s.reg[SPARE_PACKETS] -= 1
    s.reg[IN_NETWORK] += 1
    s.packet[k, NEXT] = 0
    return k


@inner
def free_packet(s, k):
    """Packet ``k`` is no more."""
    s.packet[k, NEXT] = s.reg[FREE_PACKET]
    s.reg[FREE_PACKET] = k
    s.reg[SPARE_PACKETS] += 1
    s.reg[IN_NETWORK] -= 1
