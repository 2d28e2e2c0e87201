"""What a run of the packet layer can be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softib.errors import InputError, UnknownName
from softib.sim.packet.ethernet_options import NETWORKS, ethernet_options

__all__ = ["PacketOptions", "Progress"]

Progress = Callable[[int, int, int], None]
"""Called with (virtual time in ps, packets of messages sent, packets of messages in all)."""
PS_PER_S = 10**12
RNR_TIMER_US = (
    655_360,
    10,
    20,
    30,
    40,
    60,
    80,
    120,
    160,
    240,
    320,
    480,
    640,
    960,
    1280,
    1920,
    2560,
    3840,
    5120,
    7680,
    10_240,
    15_360,
    20_480,
    30_720,
    40_960,
    61_440,
    81_920,
    122_880,
    163_840,
    245_760,
    327_680,
    491_520,
)
"""Microseconds of each code of the RNR NAK timer (IBA table 45)."""


@dataclass(frozen=True)
class PacketOptions:
    """``profile``: figures of :class:`~softib.sim.packet.profiles.DeviceProfile` that are to be
    others; ``seed`` of what is drawn (bit errors, random arbitration); ``until_ps``: the longest
    virtual time; ``ack_timeout``: 4.096 us * 2^n (IBA 9.7.6.1.3); ``retries`` after timeouts;
    ``fifo``: inputs have one queue a VL instead of one for each output; ``random_arbitration``: an
    output draws the input that is next; ``adaptive_routing``, ``congestion_control``: use the
    tables that managers wrote; ``placement``: receivers place packets of WRITEs that come out of
    order; ``counters_by_sl``: count data by SL and waiting by VL; ``rnr_timer``: code of the timer
    that an RNR NAK names (IBA table 45; 12: 0.64 ms), ``rnr_retries``: RNR NAKs in a row that a
    sender bears (7: no limit); ``sample_ps``: take samples at this interval (0: none);
    ``watch_ports`` (rows) and ``watch_messages`` (rows): whose packets are logged
    (:class:`~softib.sim.packet.log.PacketLog`); ``network``: ``infiniband``, or the same cables and
    switches as Ethernet, with ``roce`` (RoCEv2, priority flow control, DCQCN) or ``tcp``, and
    ``ethernet``, figures of :class:`~softib.sim.packet.ethernet_options.EthernetOptions` by name."""

    profile: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    until_ps: int = 1000 * PS_PER_S
    ack_timeout: int = 14
    retries: int = 7
    fifo: bool = False
    random_arbitration: bool = False
    adaptive_routing: bool = True
    congestion_control: bool = True
    placement: bool = True
    counters_by_sl: bool = False
    rnr_timer: int = 12
    rnr_retries: int = 7
    network: str = "infiniband"
    ethernet: Mapping[str, Any] = field(default_factory=dict)
    sample_ps: int = 0
    watch_ports: tuple[int, ...] = ()
    watch_messages: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.until_ps < 1:
            raise InputError("a run ends after time 0")
        if not 1 <= self.ack_timeout <= 31:
            raise InputError(
                f"ack_timeout {self.ack_timeout} is not possible; the ACK timeout is 4.096 us * 2^n, n from 1 to 31"
            )
        if self.network not in NETWORKS:
            raise UnknownName("network of the packet layer", self.network, NETWORKS)
        ethernet_options(self.ethernet)
        if not 0 <= self.retries <= 7:
            raise InputError(f"retries {self.retries} is not possible; Retry Count has 3 bits")
        if not 0 <= self.rnr_retries <= 7:
            raise InputError(f"rnr_retries {self.rnr_retries} is not possible; RNR Retry Count has 3 bits")
        if not 0 <= self.rnr_timer < len(RNR_TIMER_US):
            raise InputError(
                f"rnr_timer {self.rnr_timer} is not possible; the code of the RNR NAK timer has 5 bits (IBA table 45)"
            )
