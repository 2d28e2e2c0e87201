"""The packet layer: InfiniBand or Ethernet, packet by packet, in virtual time."""

from softib.sim.packet.engine import run
from softib.sim.packet.options import PacketOptions

__all__ = ["PacketOptions", "run"]
