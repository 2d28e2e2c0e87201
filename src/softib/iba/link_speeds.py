"""The table of link speeds and widths for Python (:mod:`softib.iba.rates`) and C.

While the package is built, ``softib.preload.build`` runs this file by its path and generates a C
header from it. So this module imports only the standard library. Sources: IBA 5.6 and 14.2.5.6. The
latencies of devices are in :mod:`softib.iba.catalogue`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinkSpeed:
    """A generation of links.

    ``lane_gbps`` is the signalling rate of one lane, ``lane_data_gbps`` its data rate, without line
    coding. ``speed_bit`` is the generation's bit in PortInfo.LinkSpeed* (0: none), ``ext_bit`` its
    bit in LinkSpeedExt*, ``ext2_bit`` in LinkSpeedExt2*, and ``mlnx_bit`` in the Mellanox
    ExtendedPortInfo. Lanes with ``pam4`` carry two bits per symbol and need forward error
    correction. ``kernel_rate`` is a lane's rate in units of 100 Mb/s, rounded as in Linux
    (drivers/infiniband/core/sysfs.c, ``rate_show``; ``ib_port_attr_to_speed_info``).
    """

    name: str
    code: int
    lane_gbps: float
    lane_data_gbps: float
    speed_bit: int = 0
    ext_bit: int = 0
    ext2_bit: int = 0
    mlnx_bit: int = 0
    pam4: bool = False
    kernel_rate: int = 0


SPEEDS: tuple[LinkSpeed, ...] = (
    LinkSpeed("SDR", 1, 2.5, 2.0, speed_bit=1, kernel_rate=25),
    LinkSpeed("DDR", 2, 5.0, 4.0, speed_bit=2, kernel_rate=50),
    LinkSpeed("QDR", 3, 10.0, 8.0, speed_bit=4, kernel_rate=100),
    LinkSpeed("FDR10", 4, 10.3125, 10.0, speed_bit=4, mlnx_bit=1, kernel_rate=100),
    LinkSpeed("FDR", 5, 14.0625, 14.0625 * 64 / 66, ext_bit=1, kernel_rate=140),
    LinkSpeed("EDR", 6, 25.78125, 25.0, ext_bit=2, kernel_rate=250),
    LinkSpeed("HDR", 7, 53.125, 50.0, ext_bit=4, pam4=True, kernel_rate=500),
    LinkSpeed("NDR", 8, 106.25, 100.0, ext_bit=8, pam4=True, kernel_rate=1000),
    LinkSpeed("XDR", 9, 212.5, 200.0, ext2_bit=1, pam4=True, kernel_rate=2000),
    LinkSpeed("GDR", 10, 425.0, 400.0, ext2_bit=2, pam4=True, kernel_rate=4000),
)
"""Generations, slowest first. ``code`` is softib's consecutive number (0 = unknown); a larger code
means faster lanes.
"""

WIDTH_BITS = {1: 1, 4: 2, 8: 4, 12: 8, 2: 16}
"""Bit in PortInfo.LinkWidth* for each number of lanes (IBA 14.2.5.6)."""
