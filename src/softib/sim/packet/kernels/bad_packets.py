# mypy: ignore-errors
"""Packets with a wrong bit (IBA chapter 7, packet checks; 16.1.3.5).

CRCs stand at the end of a packet, so a receiver finds the damage when the last octet is there. The port of the damaged link counts
PortRcvErrors. A channel adapter discards the packet. A switch that has begun to forward it by then sends the rest and ends it with EBP, the
delimiter of a bad packet: each port further on counts PortRcvRemotePhysicalErrors, and the destination discards it. A switch that has
not begun discards it. Either way it held its buffer, and the credits come back when it has left that buffer. (Damage to the header, some
8 octets of 4,096, is taken as damage to the payload: the packet takes its own path.)
"""

from softib.jit import inner
from softib.sim.packet.constants import BAD, RCV_ERRORS
from softib.sim.packet.kernels.discards import corrupted, drop


@inner
def check(n, s, port, k, now):
    """Packet ``k`` came in by ``port``, its cable's end: count it if it is marked as bad, or damaged here."""
    if s.packet[k].marks & BAD:
        s.rare_count[port].remote_errors += 1
    elif corrupted(n, s, port, s.packet[k].octets, now):
        s.packet[k].marks |= BAD
        s.port[port].rcv_errors += 1


@inner
def known_bad(s, k, now):
    """Has packet ``k``, which waits in a switch, come in whole and been found bad?"""
    return s.packet[k].marks & BAD != 0 and s.packet[k].tail <= now


@inner
def refuse(n, s, port, k, now):
    """Packet ``k`` is whole at end port ``port`` and bad: its buffer is free. Returns -1."""
    if s.packet[k].came_in == port:  # port 0 of a switch: the port that it came in by has counted it
        s.port[port].rcv_octets += s.packet[k].octets
        s.port[port].rcv_packets += 1
    return drop(n, s, k, port, RCV_ERRORS, now)
