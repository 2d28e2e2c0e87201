"""Options of a run of the packet layer, and additional options of runs over Ethernet (framing, flow control, congestion
control, the kernel's network stack)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from softib.errors import InputError, UnknownName
from softib.sim.packet.congestion_control import CongestionControl, congestion_control

__all__ = ["NETWORKS", "EthernetOptions", "PacketOptions", "Progress", "ethernet_options", "network_of"]


NETWORKS = ("infiniband", "roce", "tcp")


@dataclass(frozen=True)
class EthernetOptions:
    """Options of runs over Ethernet. "(0: …)" states the value that 0 stands for; it is derived from the links.

    * ``gbps``: speed of the hosts' links (0: the data rate of the InfiniBand links; other links scale by the same
      factor).
    * ``mtu``: largest payload of a frame (0: 9000 for RoCE, 1500 for TCP). For RoCE, 1024, 2048 and 4096 are path MTUs:
      headers come in addition.
    * ``ecmp``: hash flows over shortest paths, otherwise use the forwarding tables.
    * ``cut_through``: switches forward a frame before it has fully arrived (None: depends on the speed of the links).
    * ``switch_ns`` and ``buffer_bytes``: latency and buffer of a switch (0: depends on the speed of the links). The
      limit of a queue is ``share`` times the free buffer (dynamic threshold, Choudhury and Hahne, 1998), or
      ``queue_bytes``.

    Priority flow control: ``pfc``; ``xoff_bytes`` (0: the dynamic threshold), ``xon_bytes`` below
    XOFF (0: two frames), ``headroom_bytes`` (-1: enough for round trip, reaction time and frames in transit),
    ``pfc_reaction_ns``: time until a port obeys a pause frame (802.1Q 36.1.3.3 allows 614.4 ns at 10 Gb/s).

    RoCE: ``cc``, a congestion control (:mod:`~softib.sim.packet.congestion_control`), whose
    options are ``cc_options``. Switches mark with ``k_min_bytes``, ``k_max_bytes`` (0: those of Zhu
    et al. 2015 for 40 Gb/s, scaled with the rate) and ``p_max``. ``reorder_us``: with reordering
    receivers, a packet that is missing this long counts as lost.

    TCP: ``congestion`` "reno" (RFC 5681, 6675, 8985) or "dctcp" (RFC 8257; ``dctcp_k_bytes`` 0: 65 frames
    at 10 Gb/s, scaled); ``first_window`` RFC 6928; ``rto_min_ms`` and ``delayed_ack_ms`` as in Linux.
    The stack's processor time: ``send_us`` and ``receive_us`` for each message; ``segment_ns`` for each segment at
    either end (0: included in the time for bytes). Its rate on one core: ``send_gbps`` and ``receive_gbps`` (Cai et
    al., SIGCOMM 2021: about 89 and 42 Gb/s with all offloads). ``cores``: number of a host's cores for the stack;
    ``interrupt_us``: minimum time between two interrupts of a port for data (interrupt moderation; 50 in Intel's igb
    and ixgbe for low-latency traffic; 0: one interrupt for each frame). ``jitter_ns``: the delay between an
    acknowledgement and the segments that it releases is drawn from 0 to this value (-1: the time of a frame). Without
    it, flows with identical timing lock each other out of a full queue (Floyd and Jacobson 1992).

    ``clock_ppm``: each device's clock is off by a number drawn between minus and plus this value; IEEE 802.3 allows
    100 millionths. With 0, all clocks run at the same rate. Frames of a host that sends at the rate at which a full
    queue drains are then either all accepted or all dropped.
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
    cc: str = "dcqcn"
    cc_options: Mapping[str, float] = field(default_factory=dict)
    reorder_us: float = 100.0
    k_min_bytes: int = 0
    k_max_bytes: int = 0
    p_max: float = 0.01
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
    clock_ppm: float = 100.0

    def __post_init__(self) -> None:
        if self.congestion not in ("reno", "dctcp"):
            raise UnknownName("congestion control of TCP", self.congestion, ("reno", "dctcp"))
        if self.mtu and not 576 <= self.mtu <= 9216:
            raise InputError(f"mtu {self.mtu} is out of range; use 576 to 9216 bytes")
        if not 0 < self.p_max <= 1 or not 0 < self.dctcp_gain <= 1:
            raise InputError("p_max or dctcp_gain is out of range; use a share above 0 and at most 1")
        if not 1 <= self.first_window <= self.window <= 1000:
            raise InputError("first_window and window are in segments: use 1 to 1000, with first_window at most window")
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name not in ("headroom_bytes", "jitter_ns") and isinstance(value, int | float) and value < 0:
                raise InputError(f"{f.name} {value} is out of range; use 0 or more")
        for name in ("rto_min_ms", "cores"):
            if getattr(self, name) <= 0:
                raise InputError(f"{name} {getattr(self, name)} is out of range; use a number above 0")
        if self.clock_ppm > 1000:
            raise InputError(f"clock_ppm {self.clock_ppm} is out of range; use 0 to 1000 (IEEE 802.3: 100)")
        self.control.checked(self.cc_options)

    @property
    def control(self) -> CongestionControl:
        """Return the congestion control named by ``cc``."""
        return congestion_control(self.cc)


ETHERNET_NAMES = {f.name for f in fields(EthernetOptions)} - {"cc_options"}
"""Option names that are reserved: options of congestion controls must have other names."""


def ethernet_options(given: Mapping[str, Any]) -> EthernetOptions:
    """Return the options with the values ``given`` by name, including options of the congestion control. Raises
    :class:`UnknownName` and :class:`InputError`."""
    control = congestion_control(given.get("cc", EthernetOptions.cc))
    names = {option.name for option in control.options}
    for name in given:
        if name not in ETHERNET_NAMES | names:
            raise UnknownName(f"option of Ethernet with cc={control.name}", name, sorted(ETHERNET_NAMES | names))
    cc_options = {name: value for name, value in given.items() if name in names}
    return EthernetOptions(**{n: v for n, v in given.items() if n not in names}, cc_options=cc_options)


def network_of(text: str) -> dict[str, Any]:
    """Parse ``roce,pfc=off,gbps=100`` into ``network`` and ``ethernet`` of
    :class:`~softib.sim.packet.PacketOptions`. Raises :class:`UnknownName` and :class:`InputError`.
    """
    name, *parts = (part.strip() for part in text.split(","))
    if name not in NETWORKS:
        raise UnknownName("network", name, NETWORKS)
    if parts and name == "infiniband":
        raise InputError(f"network {text!r}: options like {parts[0]} exist only for roce and tcp")
    given = {}
    for part in parts:
        key, equals, value = (p.strip() for p in part.partition("="))
        if not equals or not value:
            raise InputError(f"network {text!r}: use name=value for options, for example {name},mtu=1500")
        given[key] = value
    kinds = {f.name: str(f.type) for f in fields(EthernetOptions)}
    ethernet = {key: _value(key, kinds.get(key, "own"), value) for key, value in given.items()}
    PacketOptions(network=name, ethernet=ethernet)
    return {"network": name, "ethernet": ethernet}


def _value(key: str, kind: str, text: str) -> Any:
    """Return ``text`` as a value of type ``kind``."""
    if "bool" in kind:
        if text not in ("on", "off"):
            raise InputError(f"{key}={text}: use on or off")
        return text == "on"
    if kind in ("str", "own"):  # a congestion control checks its own options
        return text
    try:
        return int(text) if kind == "int" else float(text)
    except ValueError:
        raise InputError(f"{key}={text}: not a number; use a number") from None


Progress = Callable[[int, int, int], None]
"""Called with (virtual time in ps, packets of messages sent, total packets of messages)."""
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
    """Options of a run of the packet layer.

    * ``profile``: values of :class:`~softib.sim.packet.profiles.DeviceProfile` to override.
    * ``seed`` of random numbers (bit errors, random arbitration).
    * ``until_ps``: the longest virtual time.
    * ``ack_timeout``: 4.096 us * 2^n (IBA 9.7.6.1.3).
    * ``retries``: number of retries after ACK timeouts.
    * ``fifo``: inputs have one queue per VL instead of one for each output.
    * ``random_arbitration``: an output port selects the next input port at random.
    * ``adaptive_routing``, ``congestion_control``: use the tables written by managers.
    * ``placement``: receivers place packets of WRITEs that arrive out of order.
    * ``counters_by_sl``: count data by SL and waiting by VL.
    * ``rnr_timer``: timer code in an RNR NAK (IBA table 45; 12: 0.64 ms), ``rnr_retries``: consecutive RNR NAKs that
      a sender accepts (7: no limit).
    * ``sample_ps``: interval at which samples of loads and queues are taken (0: none).
    * ``watch_ports`` (rows) and ``watch_messages`` (rows): log their packets
      (:class:`~softib.sim.packet.log.PacketLog`).
    * ``interruptible``: Ctrl-C ends the run, and the outcome is partial.
    * ``skip``: skip steady states (:mod:`~softib.sim.packet.steady`).
    * ``network``: ``infiniband``; or ``roce`` (RoCEv2, priority flow control, DCQCN) or ``tcp``, which run over
      Ethernet with the same cables and switches. ``ethernet``: values of
      :class:`~softib.sim.packet.options.EthernetOptions` by name.
    """

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
    interruptible: bool = False
    skip: bool = True

    @property
    def control(self) -> CongestionControl:
        """Return the congestion control of a run over RoCE."""
        return ethernet_options(self.ethernet).control

    def __post_init__(self) -> None:
        if self.until_ps < 1:
            raise InputError("until_ps must be above 0")
        if not 1 <= self.ack_timeout <= 31:
            raise InputError(
                f"ack_timeout {self.ack_timeout} is out of range; use the exponent n, 1 to 31, of the ACK timeout "
                f"4.096 us * 2^n"
            )
        if self.network not in NETWORKS:
            raise UnknownName("network of the packet layer", self.network, NETWORKS)
        ethernet_options(self.ethernet)
        if self.network == "tcp" and "cc" in self.ethernet:
            raise InputError("cc is an option of roce; for tcp use congestion=reno or congestion=dctcp")
        if not 0 <= self.retries <= 7:
            raise InputError(f"retries {self.retries} is out of range; use 0 to 7 (Retry Count has 3 bits)")
        if not 0 <= self.rnr_retries <= 7:
            raise InputError(f"rnr_retries {self.rnr_retries} is out of range; use 0 to 7 (RNR Retry Count has 3 bits)")
        if not 0 <= self.rnr_timer < len(RNR_TIMER_US):
            raise InputError(
                f"rnr_timer {self.rnr_timer} is out of range; use 0 to 31 (the code of the RNR NAK timer has 5 bits, "
                f"IBA table 45)"
            )
