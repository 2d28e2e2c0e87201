"""The packet layer of virtual time."""

from softib.sim.packet.engine import run
from softib.sim.packet.options import PacketOptions

__all__ = ["PacketOptions", "run"]
