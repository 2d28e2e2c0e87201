"""Device profiles: what adapters and switches of each generation take and hold, beside their links.

Latencies of switches and pairs of adapters are those of :mod:`softib.iba.link_speeds`, which ``--pace`` uses too. Figures here are
fitted to published measurements where ``docs/simulate.md`` says so, else of the trade; each can be overridden.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from softib.errors import InputError, UnknownName
from softib.iba.rates import SPEED_BY_NAME, speed_named

__all__ = ["PROFILES", "DeviceProfile", "profile_of"]


@dataclass(frozen=True)
class DeviceProfile:
    """One generation of devices.

    ``vl_blocks``: receive buffer of a data VL in credits of 64 octets, at most 2048 (IBA chapter 7, flow control); ``pcie_gbps``: what the adapter
    fetches from and writes to memory; ``ramp_gbps``: what it does so for the first ``ramp_bytes`` of a message (0: as much); ``inline_bytes``: payload that
    travels with the posted request, and ``inline_ns`` what each octet of it takes; ``fetch_ns``: until other payload begins to come;
    ``program_ns``: what a program takes to see a message and to post the next one; ``message_gap_ns``: between two requests of a port (the inverse of the message rate); ``ack_ns``: until an
    acknowledgement leaves; ``cqe_ns``: until a program sees a completion; ``gap_bytes``: between two packets on the wire;
    ``ack_every``: packets of a long message between acknowledgements; ``reads``: READs and atomics in flight of a queue pair
    (max_rd_atomic); ``reduce_ns``: what an aggregation node takes to reduce a packet, beside its octets (softib's own figure). ``switch_ns``, what a switch adds from port to port, and ``adapter_ns``, what a pair of adapters takes from memory to
    memory, are those of :class:`~softib.iba.link_speeds.LinkSpeed`.
    """

    name: str
    vl_blocks: int
    pcie_gbps: float
    fetch_ns: int
    message_gap_ns: float
    inline_ns: float
    ramp_gbps: float = 0.0
    ramp_bytes: int = 0
    program_ns: int = 200
    switch_ns: int = 0
    adapter_ns: int = 0
    inline_bytes: int = 128
    ack_ns: int = 50
    cqe_ns: int = 100
    gap_bytes: int = 0
    ack_every: int = 32
    reads: int = 16
    reduce_ns: int = 100

    def but(self, **changes: Any) -> DeviceProfile:
        """The profile with other figures. Raises :class:`UnknownName` for a name that it has not and :class:`InputError` for a
        value that is no positive number."""
        for key, value in changes.items():
            if key not in self.__dataclass_fields__ or key == "name":
                raise UnknownName("figure of a device profile", key, set(self.__dataclass_fields__) - {"name"})
            if not value >= 0:
                raise InputError(f"{key} {value} of a device profile is not possible; it is a number from 0 on")
        return replace(self, **changes)


PROFILES = {
    p.name: replace(p, switch_ns=SPEED_BY_NAME[p.name].switch_ns, adapter_ns=SPEED_BY_NAME[p.name].adapter_ns)
    for p in (
        DeviceProfile("SDR", 256, 16.0, 500, 400.0, 1.8),
        DeviceProfile("DDR", 256, 25.5, 500, 250.0, 1.8),
        DeviceProfile("QDR", 256, 31.0, 660, 183.0, 1.4, program_ns=60),
        DeviceProfile("FDR10", 256, 52.0, 450, 150.0, 1.2),
        DeviceProfile("FDR", 256, 54.5, 450, 30.0, 1.2),
        DeviceProfile("EDR", 512, 104.0, 280, 7.0, 0.6),
        DeviceProfile("HDR", 768, 210.0, 400, 5.0, 0.6, ramp_gbps=107.0, ramp_bytes=16384),
        DeviceProfile("NDR", 1024, 440.0, 400, 3.3, 0.6),
        DeviceProfile("XDR", 2048, 880.0, 400, 3.3, 0.6),
        DeviceProfile("GDR", 2048, 1760.0, 400, 3.3, 0.6),
    )
}
"""By generation. Message rates: 5.47 M/s measured on QDR ConnectX, 150 M/s (EDR), 200 M/s (HDR, NDR) as vendors state for one port."""


def profile_of(name: str) -> DeviceProfile:
    """The profile of a generation; raises :class:`UnknownName`."""
    return PROFILES[speed_named(name).name]
