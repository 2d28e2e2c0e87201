"""All times of messages on an idle fabric except the transmission times of their bytes: adapters, switches, cables,
acknowledgements. The values are those of the packet layer (:mod:`softib.sim.packet.profiles`), so that all layers agree
on a single message.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.sim.messages import Messages, Opcode, Transport
from softib.sim.packet.network import main_profile
from softib.sim.packet.profiles import PROFILES, DeviceProfile

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.sim.paths import Laid

__all__ = ["Timing", "profile_of", "timing_of"]

HEADER = 42
"""Bytes of a packet in addition to its payload while it is fetched from or written to memory: LRH, BTH, RETH, ICRC,
VCRC."""


@dataclass(frozen=True)
class Timing:
    """Times of messages in ps, int64 by message ("its" is the message's).

    * ``request_ps``: from its start until a READ's data begins to leave (0 for all others).
    * ``forth_ps``: from the departure of its last byte at the link's rate to the arrival in memory, the sum of all
      delays except queues.
    * ``answer_ps``: from the arrival until the sender's completion (negative if the completion is earlier).
    * ``ramp_ps``: the part of ``forth_ps`` by which packets are slower than the link until the adapter fetches at its
      full rate.
    * ``memory_ps``: the part of ``forth_ps`` for the last packet into memory.
    * ``behind_ps``: the same as ``memory_ps`` if the last packet follows another packet, and so is written at the full
    *   rate.
    * ``lead_ps``: from its start until its first byte, or a READ's request, leaves the adapter.
    * ``ramped`` bool: the message ends before the ramp does.
    """

    request_ps: np.ndarray
    forth_ps: np.ndarray
    answer_ps: np.ndarray
    ramp_ps: np.ndarray
    memory_ps: np.ndarray
    behind_ps: np.ndarray
    lead_ps: np.ndarray
    ramped: np.ndarray


def profile_of(fabric: Fabric) -> DeviceProfile:
    """Return the profile of the generation of most adapters; EDR's if no adapter has a link."""
    try:
        return main_profile(fabric)
    except InputError:
        return PROFILES["EDR"]


def timing_of(profile: DeviceProfile, m: Messages, laid: Laid, gbps: np.ndarray, half_ps: np.ndarray) -> Timing:
    """Return :class:`Timing` of messages on their paths; ``gbps``: rate of the link through which each message's data
    arrives; ``half_ps``: half of the latency of a pair of adapters, by end port.

    For a WRITE or SEND, the times are: half a pair of adapters, fetching of payload that is not inline, the path, the
    other half, and the last packet into memory (after the previous one, if writing that to memory takes longer than the
    last packet on the wire). The acknowledgement leaves ``ack_ns`` after the arrival of the last packet and takes the
    reverse path, and the program sees it ``cqe_ns`` later. A READ's request takes the path to the responder, and an
    ATOMIC's response the reverse path.
    """
    half, cqe, ack = half_ps[m.src], profile.cqe_ns * 1000, profile.ack_ns * 1000
    mtu = np.maximum(laid.mtu, 1)
    ps_per_byte = 8000.0 / profile.pcie_gbps if profile.pcie_gbps else 0.0
    ramp = 8000.0 / profile.ramp_gbps if profile.ramp_gbps else 0.0
    slow, link = max(ps_per_byte, ramp), 8000.0 / np.maximum(gbps, 1e-9)
    ahead = (m.size - 1) // mtu * mtu  # bytes of all packets except the last
    last_octets = (m.size - 1) % mtu + 1 + HEADER
    ramped = np.minimum(ahead, -(-profile.ramp_bytes // mtu) * mtu)
    first = np.round((np.minimum(m.size, mtu) + HEADER) * (slow if profile.ramp_bytes else ps_per_byte)).astype(
        np.int64
    )
    in_ramp = ahead < profile.ramp_bytes
    last = np.round(last_octets * np.where(in_ramp, slow, ps_per_byte)).astype(np.int64)
    last += np.where(m.size > mtu, np.maximum((mtu + HEADER) * ps_per_byte - last_octets * link, 0), 0).astype(np.int64)
    ramped_ps = np.zeros(len(m), np.int64)
    if profile.ramp_bytes:  # during the ramp packets arrive more slowly than the link could send them
        packets = np.maximum(ramped // mtu - 1, 0) + (in_ramp & (ahead > 0)) * last_octets / (mtu + HEADER)
        ramped_ps = np.round(packets * (mtu + HEADER) * np.maximum(slow - link, 0)).astype(np.int64)
    read, atomic = m.opcode == Opcode.READ, m.opcode == Opcode.ATOMIC
    inline = np.round(m.size * profile.inline_ns * 1000).astype(np.int64)
    fetch = profile.fetch_ns * 1000
    fetched = np.where(m.size > profile.inline_bytes, fetch + first, inline)
    before = np.where(read, fetch + first, np.where(atomic, half + fetch, half + fetched)) + ramped_ps
    after = np.where(read | atomic, half, half_ps[m.dst]) + np.where(atomic, laid.back_ps, last)
    forth = before + laid.delay_ps + after
    acknowledged = ack + laid.back_ps + cqe - after
    unconnected = cqe - laid.delay_ps - after
    answer = np.where(read | atomic, cqe, np.where(m.transport == Transport.RC, acknowledged, unconnected))
    behind = np.round(last_octets * ps_per_byte).astype(np.int64)
    return Timing(
        np.where(read, half + laid.back_ps, 0),
        forth,
        answer.astype(np.int64),
        ramped_ps,
        np.where(atomic, 0, last),
        np.where(atomic, 0, behind),
        np.where(read, half, before).astype(np.int64),
        in_ramp & (profile.ramp_bytes > 0),
    )
