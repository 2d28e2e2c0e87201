"""What a run of the packet layer can be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softib.errors import InputError, UnknownName
from softib.sim.packet.ethernet_options import NETWORKS, ethernet_options

__all__ = ["PacketOptions", "Progress"]

Progress = Callable[[int, int, int], None]
"""Called with (virtual time in ps, messages done, messages in all)."""
PS_PER_S = 10**12


@dataclass(frozen=True)
class PacketOptions:
    """``profile``: figures of :class:`~softib.sim.packet.profiles.DeviceProfile` that are to be others; ``seed`` of what is drawn
    (bit errors, random arbitration); ``until_ps``: the longest virtual time; ``ack_timeout``: 4.096 us * 2^n (IBA 9.7.6.1.3);
    ``retries`` after timeouts; ``fifo``: inputs have one queue a VL instead of one for each output; ``random_arbitration``: an output
    draws the input that is next; ``adaptive_routing``, ``congestion_control``: use the tables that managers wrote; ``placement``: receivers
    place packets of WRITEs that come out of order; ``cores`` that the run may use (0: all that this process has), with the same bytes out; ``network``:
    ``infiniband``, or the same cables and switches as Ethernet (on one core), with ``roce`` (RoCEv2, priority flow control, DCQCN) or ``tcp``, and
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
    cores: int = 1
    network: str = "infiniband"
    ethernet: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.until_ps < 1:
            raise InputError("a run ends after time 0")
        if self.cores < 0:
            raise InputError(f"{self.cores} cores are not possible; it is a number from 1 on, or 0 for all")
        if not 1 <= self.ack_timeout <= 31:
            raise InputError(
                f"ack_timeout {self.ack_timeout} is not possible; the ACK timeout is 4.096 us * 2^n, n from 1 to 31"
            )
        if self.network not in NETWORKS:
            raise UnknownName("network of the packet layer", self.network, NETWORKS)
        ethernet_options(self.ethernet)
        if not 0 <= self.retries <= 7:
            raise InputError(f"retries {self.retries} is not possible; Retry Count has 3 bits (IBA 11.2.4.2)")
