"""What a run over Ethernet can be told: framing, flow control, congestion control, the kernel's
stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from softib.errors import InputError, UnknownName

__all__ = ["NETWORKS", "EthernetOptions", "ethernet_options", "network_of"]

NETWORKS = ("infiniband", "roce", "tcp")
KB = 1000


@dataclass(frozen=True)
class EthernetOptions:
    """Figures marked "0: …" follow from the links.

    ``gbps``: speed of the hosts' links (0: the data rate of the InfiniBand links; others scale
    alike); ``mtu`` of a frame's payload (0: 9000 for RoCE, 1500 for TCP); ``ecmp``: hash flows over
    shortest paths, else the forwarding tables; ``cut_through`` (None: by speed); ``switch_ns`` and
    ``buffer_bytes`` of a switch (0: by speed). A queue may hold ``share`` times what is free of it
    (dynamic threshold, Choudhury and Hahne, 1998), or ``queue_bytes``.

    Priority flow control: ``pfc``; ``xoff_bytes`` (0: the dynamic threshold), ``xon_bytes`` below
    XOFF (0: two frames), ``headroom_bytes`` (-1: round trip, reaction and frames under way),
    ``pfc_reaction_ns``: 802.1Q 36.1.3.3 allows 614.4 ns at 10 Gb/s.

    DCQCN: ``dcqcn``; constants of Zhu et al. 2015 for 40 Gb/s, of which ``k_min_bytes``,
    ``k_max_bytes``, ``rate_ai_mbps`` and ``rate_hai_mbps`` scale with the rate (0: so). Hyper
    increase ten times additive, as adapters' defaults have it.

    TCP: ``congestion`` "reno" (NewReno, RFC 6582) or "dctcp" (RFC 8257; ``dctcp_k_bytes`` 0: 65
    frames at 10 Gb/s, scaled); ``first_window`` RFC 6928; ``rto_min_ms`` and ``delayed_ack_ms`` as
    in Linux. The stack: ``send_us`` and ``receive_us`` of a message; ``send_gbps`` and
    ``receive_gbps`` of one core (Cai et al., SIGCOMM 2021: about 89 and 42 Gb/s with all offloads);
    ``segment_ns`` of each segment at either end (0: within the octets' cost); ``cores`` that a host
    gives to it; ``interrupt_us``: least time between two interrupts of a port for data (moderation;
    50 in Intel's igb and ixgbe for traffic of low latency, 0: one for each frame). ``jitter_ns``:
    what is between an acknowledgement and the segments that it lets go is drawn from 0 to this (-1:
    the time of a frame); without it flows that are equal to the picosecond lock each other out of a
    full queue (Floyd and Jacobson 1992).
    """

    gbps: float = 0.0
    mtu: int = 0
    ecmp: bool = True
    cut_through: bool | None = None
    switch_ns: int = 0
    buffer_bytes: int = 0
    share: float = 1.0
    queue_bytes: int = 0
    pfc: bool = True
    xoff_bytes: int = 0
    xon_bytes: int = 0
    headroom_bytes: int = -1
    pfc_reaction_ns: float = 614.4
    dcqcn: bool = True
    k_min_bytes: int = 0
    k_max_bytes: int = 0
    p_max: float = 0.01
    cnp_us: float = 50.0
    alpha_us: float = 55.0
    rate_timer_us: float = 55.0
    byte_counter: int = 10_000 * KB
    gain: float = 1 / 256
    rate_ai_mbps: float = 0.0
    rate_hai_mbps: float = 0.0
    fast_recovery: int = 5
    rate_min_mbps: float = 40.0
    congestion: str = "reno"
    dctcp_k_bytes: int = 0
    dctcp_gain: float = 1 / 16
    first_window: int = 10
    window: int = 1000
    rto_min_ms: float = 200.0
    rto_max_ms: float = 120_000.0
    delayed_ack_ms: float = 40.0
    send_us: float = 8.0
    receive_us: float = 22.5
    send_gbps: float = 89.0
    receive_gbps: float = 42.0
    segment_ns: float = 0.0
    cores: int = 8
    interrupt_us: float = 0.0
    jitter_ns: float = -1.0

    def __post_init__(self) -> None:
        if self.congestion not in ("reno", "dctcp"):
            raise UnknownName("congestion control of TCP", self.congestion, ("reno", "dctcp"))
        if self.mtu and not 576 <= self.mtu <= 9216:
            raise InputError(f"mtu {self.mtu} is not possible; Ethernet carries 576 to 9216 octets")
        if not 0 < self.p_max <= 1 or not 0 < self.gain <= 1 or not 0 < self.dctcp_gain <= 1:
            raise InputError("p_max, gain and dctcp_gain are shares above 0 and at most 1")
        if not 1 <= self.first_window <= self.window <= 1000:
            raise InputError("first_window and window are segments: at least 1, at most 1000, the first not larger")
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name not in ("headroom_bytes", "jitter_ns") and isinstance(value, int | float) and value < 0:
                raise InputError(f"{f.name} {value} is not possible; it is a number from 0 on")
        for name in (
            "cnp_us",
            "alpha_us",
            "rate_timer_us",
            "byte_counter",
            "rate_min_mbps",
            "rto_min_ms",
            "cores",
            "fast_recovery",
        ):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} {getattr(self, name)} is not possible; it is more than 0")


def ethernet_options(given: Mapping[str, Any]) -> EthernetOptions:
    """From names and values. Raises :class:`UnknownName` and :class:`InputError`."""
    known = {f.name for f in fields(EthernetOptions)}
    for name in given:
        if name not in known:
            raise UnknownName("option of Ethernet", name, known)
    return EthernetOptions(**given)


def network_of(text: str) -> dict[str, Any]:
    """``roce,pfc=off,gbps=100`` as ``network`` and ``ethernet`` of
    :class:`~softib.sim.packet.PacketOptions`. Raises :class:`UnknownName` and :class:`InputError`."""
    name, *parts = (part.strip() for part in text.split(","))
    if name not in NETWORKS:
        raise UnknownName("network", name, NETWORKS)
    if parts and name == "infiniband":
        raise InputError(f"network {text!r}: options such as {parts[0]} are Ethernet's, of roce and tcp")
    kinds = {f.name: f.type for f in fields(EthernetOptions)}
    found = {}
    for part in parts:
        key, equals, value = (p.strip() for p in part.partition("="))
        if not equals or not value:
            raise InputError(f"network {text!r}: write options as name=value, such as {name},mtu=1500")
        if key not in kinds:
            raise UnknownName("option of Ethernet", key, kinds)
        found[key] = _value(key, str(kinds[key]), value)
    ethernet_options(found)
    return {"network": name, "ethernet": found}


def _value(key: str, kind: str, text: str) -> Any:
    """``text`` as a value of ``kind``."""
    if "bool" in kind:
        if text not in ("on", "off"):
            raise InputError(f"{key}={text}: write on or off")
        return text == "on"
    if kind == "str":
        return text
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        raise InputError(f"{key}={text}: write a number") from None
