"""Limits due to credits: the maximum rate of a virtual lane whose receive buffer fills before the first credit returns
(IBA chapter 7, flow control)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.iba.rates import SPEEDS
from softib.iba.smp import PortInfo
from softib.iba.virtual_lanes import DATA_VLS
from softib.plural import counted

if TYPE_CHECKING:
    from softib.sim.paths import Laid, Plane

__all__ = ["Credits", "ahead_ps", "credit_note", "credits_of", "too_long", "vl_blocks"]

SHARED_BY = 8
"""``vl_blocks`` of a profile is the receive buffer of a VL if this number of data VLs is operational. The operational
VLs of a port share one memory: Linux' mlx4 driver requests 8, 4, 2 and 1 VLs from ConnectX until the memory is
sufficient (mlx4_SET_PORT)."""
BLOCK, WINDOW = 64, 2048
"""Bytes of a credit, and the largest difference between FCCL and FCTBS in credits (IBA chapter 7)."""
PACKET_HEADERS = 26
"""Bytes of headers and checks: LRH 8, BTH 12, ICRC 4, VCRC 2."""
CREDIT_OCTETS = 8
"""Bytes of a flow-control packet."""
NS_PER_M = 5.0


def vl_blocks(blocks: np.ndarray, operational: np.ndarray) -> np.ndarray:
    """Return the receive buffer of each data VL in credits of 64 bytes (int64). It is ``blocks`` if
    eight VLs are operational, more with fewer VLs, fewer with more VLs, and at most the limit of
    FCCL's 12 bits. ``operational``: codes of OperationalVLs; a code that was never written means
    eight."""
    vls = np.where(operational > 0, DATA_VLS[operational & 7], SHARED_BY)
    return np.minimum(blocks * SHARED_BY // vls, WINDOW)


@dataclass(frozen=True)
class Credits:
    """Credit limits of each sending port (float64[ports]).

    * ``gbps``: maximum rate of one VL of the link (inf: credits do not limit it).
    * ``octets``: receive buffer of a VL at the other end.
    * ``reach_m``: longest cable over which that buffer keeps the link full.
    * ``packet``: bytes of a full packet.
    * ``fit``: bytes of the full packets for which the buffer has room.
    * ``spare``: bytes of the buffer that remain beside these packets.
    * ``back_ps``: time from the first byte of a packet to the return of its credit.
    """

    gbps: np.ndarray
    octets: np.ndarray
    reach_m: np.ndarray
    packet: np.ndarray
    fit: np.ndarray
    spare: np.ndarray
    back_ps: np.ndarray


def credits_of(plane: Plane) -> Credits:
    """Return :class:`Credits` of the links of ``plane``.

    A credit returns after the packet was sent, has crossed the cable and left the buffer, and a
    flow-control packet has crossed the cable in the other direction. If sending the packets that fit
    into the buffer takes at least that long, the link is fully used.
    """
    from softib.sim.packet.profiles import PROFILES

    f, t = plane.fabric, plane.table
    peer = np.maximum(t.peer, 0)
    figures = [plane.profile.vl_blocks, *(PROFILES[s.name].vl_blocks for s in SPEEDS)]
    blocks = vl_blocks(
        np.array(figures, np.int64)[plane.speed_codes[peer]], PortInfo.operational_vls.get(f.port_info[peer])
    )
    packet = (t.mtu + PACKET_HEADERS).astype(np.float64)
    full = -(-(t.mtu + PACKET_HEADERS) // BLOCK)
    fit = np.maximum(blocks // full, 1)
    gbps = np.where(plane.gbps > 0, plane.gbps, np.inf)
    sends_ns, credit_ns = packet * 8 / gbps, CREDIT_OCTETS * 8 / gbps
    to_memory_ns = packet * 8 / plane.profile.pcie_gbps if plane.profile.pcie_gbps else 0.0 * packet
    through_ns = np.where(t.switch[peer] >= 0, plane.switch_ps[peer] / 1000, to_memory_ns)
    cable_ns = plane.cable_ps / 1000
    back_ns = (sends_ns + through_ns + 2 * cable_ns + credit_ns) * plane.scale.latency
    limited = (t.peer >= 0) & (plane.gbps > 0) & (fit * sends_ns < back_ns)
    limited[plane.inside] = limited[f.port_peer[plane.inside]] = False
    return Credits(
        np.where(limited, fit * packet * 8 / back_ns, np.inf),
        blocks * float(BLOCK),
        np.maximum((fit - 1) * sends_ns - through_ns - credit_ns, 0.0) / (2 * NS_PER_M),
        packet,
        fit * packet,
        (blocks - fit * full) * float(BLOCK),
        back_ns * 1000,
    )


def ahead_ps(plane: Plane, laid: Laid, octets: np.ndarray) -> np.ndarray:
    """Return how much earlier a message ends if it starts with all credits, compared with one that always sends at the
    credits' long-run rate (ps, int64 by message). Such a message sends one buffer of bytes at the link's rate, and each
    following buffer a round trip later. ``octets``: the message's bytes on the wire."""
    rows = laid.port >> 4
    if not np.isfinite(plane.credits.gbps[rows]).any():
        return np.zeros(len(octets), np.int64)
    c, entry = plane.credits, rows[laid.channel]
    size = np.repeat(octets, np.diff(laid.first))
    packet = np.maximum(c.packet[entry], 1)
    packets = np.maximum(np.ceil(size / packet), 1)
    rounds = np.ceil(packets / (c.fit[entry] / packet)) - 1
    last = size - (packets - 1) * packet
    squeezed = (packets > 1) & ((packets - 1) * packet == rounds * c.fit[entry]) & (last <= c.spare[entry])
    rounds -= squeezed  # a short last packet fits beside the full ones
    alone = rounds * c.back_ps[entry] + (size - rounds * c.fit[entry]) * 8000 / np.maximum(plane.gbps[entry], 1e-9)
    ahead = np.where(np.isfinite(c.gbps[entry]), size * 8000 / c.gbps[entry] - alone, 0.0)
    most = np.zeros(len(octets))
    np.maximum.at(most, np.repeat(np.arange(len(octets)), np.diff(laid.first)), ahead)
    return np.round(most).astype(np.int64)


def credit_note(plane: Plane, laid: Laid) -> tuple[str, ...]:
    """Return a note if links on the paths ``laid`` are longer than their credits can keep full."""
    used = np.unique(laid.port[laid.channel]) >> 4
    ports = np.unique(used[np.isfinite(plane.credits.gbps[used])])
    if not len(ports):
        return ()
    worst = int(ports[np.argmin(plane.credits.gbps[ports] / plane.gbps[ports])])
    others = f" and {counted(len(ports) - 1, 'other link')}" if len(ports) > 1 else ""
    return (f"{plane.fabric.port_name(worst)}{others}: {too_long(plane, worst)}",)


def too_long(plane: Plane, port: int) -> str:
    """Return the reason why credits limit the link of ``port``."""
    c = plane.credits
    buffer, metres = c.octets[port] / 1024, plane.cable_ps[port] / 1000 / NS_PER_M
    return (
        f"credits of {buffer:.0f} KiB a VL last for {c.reach_m[port]:.0f} m at {plane.gbps[port]:.0f} Gb/s, "
        f"the cable has {metres:.0f} m: {c.gbps[port]:.0f} Gb/s a VL"
    )
