"""Ethernet by speed: what switches add and hold. The adapters' memory side is that of the InfiniBand generation of the fabric's links."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ETHERNET_PROFILES", "EthernetProfile", "ethernet_profile"]


@dataclass(frozen=True)
class EthernetProfile:
    """One speed. ``switch_ns``: from port to port; ``buffer_mib``: memory of a switch of ``radix`` ports of this speed, of which each port has an even
    share; ``cut_through``: does a switch send before it has a whole frame? ``example``: whose data sheet the figures are."""

    gbps: float
    switch_ns: int
    buffer_mib: float
    radix: int
    cut_through: bool
    example: str


ETHERNET_PROFILES = (
    EthernetProfile(1, 3000, 4, 48, False, "assumed: a store-and-forward top-of-rack switch"),
    EthernetProfile(10, 800, 9, 64, True, "Arista 7050S-64 (Trident+): 0.8 to 1.3 us, 9 MB shared"),
    EthernetProfile(25, 300, 16, 32, True, "NVIDIA SN2410 (Spectrum): 300 ns, 16 MB shared; ports as uplinks of 100G"),
    EthernetProfile(40, 550, 12, 32, True, "Arista 7050QX-32 (Trident II): 550 ns, 12 MB shared; the switch of the DCQCN paper"),
    EthernetProfile(50, 300, 16, 64, True, "NVIDIA SN2700 (Spectrum), ports split: 300 ns, 16 MB shared"),
    EthernetProfile(100, 300, 16, 32, True, "NVIDIA SN2700 (Spectrum): 300 ns, 16 MB shared"),
    EthernetProfile(200, 425, 42, 32, True, "NVIDIA SN3700 (Spectrum-2): 425 ns, 42 MB shared"),
    EthernetProfile(400, 500, 64, 32, True, "NVIDIA SN4700 (Spectrum-3): 64 MB shared; latency assumed"),
    EthernetProfile(800, 500, 160, 64, True, "NVIDIA SN5600 (Spectrum-4): 160 MB shared; latency assumed"),
)  # fmt: skip
"""Slowest first. Buffers and latencies are those that vendors print; where they print none it is said. A speed between two takes the next
one above."""


def ethernet_profile(gbps: float) -> EthernetProfile:
    """The profile of links of ``gbps``: the first that is as fast (within 2 %), the fastest for more."""
    return next((p for p in ETHERNET_PROFILES if p.gbps * 1.02 >= gbps), ETHERNET_PROFILES[-1])
