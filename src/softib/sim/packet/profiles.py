"""Device profiles: latencies and capacities of the adapters and switches of each generation, apart from the speed of
links.

Values that depend on the generation come from :mod:`softib.iba.catalogue`, also used by ``--pace``;
each can be overridden.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from softib.errors import InputError, SoftibBug, UnknownName
from softib.iba.catalogue import ADAPTER_OF, SWITCH_OF, pcie_gbps
from softib.iba.rates import SPEEDS, speed_named

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = [
    "OF_HOSTS",
    "PROFILES",
    "DeviceProfile",
    "ethernet_generation",
    "host_figures",
    "no_adaptive_routing",
    "profile_of",
]


@dataclass(frozen=True)
class DeviceProfile:
    """One generation of devices.

    * ``vl_blocks``: receive buffer of a data VL in credits of 64 bytes, at most 2048 (IBA chapter 7, flow control).
    * ``pcie_gbps``: rate at which the adapter fetches from and writes to memory.
    * ``ramp_gbps``: the rate instead of ``pcie_gbps`` for the first ``ramp_bytes`` of a message (0: no difference).
    * ``inline_bytes``: largest payload that is posted with the request; ``inline_ns``: time per byte of such a payload.
    * ``fetch_ns``: time until payload that is not inline begins to arrive from memory.
    * ``program_ns``: time of a program from seeing a message to posting the next one.
    * ``post_ns``: processor time to post a request.
    * ``copy_gbytes``: rate in GB/s at which ranks of one host copy data to each other (7000 MiB/s, as UCX estimates:
      UCP_CPU_EST_BCOPY_BW_DEFAULT, src/ucp/core/ucp_context.c).
    * ``message_gap_ns``: time between two requests of a port (the inverse of the message rate).
    * ``ack_ns``: time until an acknowledgement leaves.
    * ``cqe_ns``: time until a program sees a completion.
    * ``gap_bytes``: bytes between two packets on the wire.
    * ``ack_every``: packets of a long message between acknowledgements.
    * ``reads``: largest number of READs and atomics in flight on a queue pair (max_rd_atomic).
    * ``reduce_ns``: time of an aggregation node to reduce a packet, in addition to its bytes (softib's own figure).
    * ``switch_ns``, the latency of a switch from port to port, and ``adapter_ns``, the latency of a pair of adapters
      from memory to memory, are those of the generation's devices.
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
    post_ns: float = 169.0
    copy_gbytes: float = 7000 * 1024**2 / 1e9
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
        """Return a copy of the profile with the values in ``changes``. Raises :class:`UnknownName` for an unknown name
        and :class:`InputError` for a value that is not a positive number."""
        for key, value in changes.items():
            if key not in self.__dataclass_fields__ or key == "name":
                raise UnknownName("figure of a device profile", key, set(self.__dataclass_fields__) - {"name"})
            if not value >= 0:
                raise InputError(f"device profile: {key} {value} is out of range; use 0 or more")
        return replace(self, **changes)


def _profile(name: str) -> DeviceProfile:
    """Return the profile of a generation, from the adapter and the switch that represent this generation in the
    catalogue."""
    adapter, switch = ADAPTER_OF[name], SWITCH_OF[name]
    figures = {
        "vl_blocks": adapter.vl_blocks,
        "pcie_gbps": adapter.memory_gbps,
        "fetch_ns": adapter.fetch_ns,
        "message_gap_ns": adapter.message_gap_ns,
        "inline_ns": adapter.inline_ns_per_byte,
        "program_ns": adapter.program_ns,
        "adapter_ns": adapter.pair_latency_ns,
        "switch_ns": switch.latency_ns,
    }
    if unknown := [figure for figure, value in figures.items() if value is None]:
        raise SoftibBug(f"the catalogue has no {', '.join(unknown)} of {adapter.name}, which represents {name}")
    return DeviceProfile(name, **figures)  # type: ignore[arg-type]


OF_HOSTS = ("pcie", "program_ns", "post_ns", "fetch_ns", "message_gap_ns", "copy_gbytes", "switch_ns")
"""Keys in section ``hosts`` of a fabric file and in the argument ``hosts``: fields of a profile, but ``pcie`` instead
of ``pcie_gbps``."""
_PCIE = re.compile(r"gen([1-6])x(1|2|4|8|16|32)", re.IGNORECASE)


def host_figures(given: Mapping[str, Any]) -> dict[str, float]:
    """Convert ``{"pcie": "gen4x16", "program_ns": 860}`` to fields of a :class:`DeviceProfile`. Raises
    :class:`UnknownName` for an unknown key, :class:`InputError` for an invalid value."""
    figures: dict[str, float] = {}
    for key, value in given.items():
        if key not in OF_HOSTS:
            raise UnknownName("key of hosts", str(key), OF_HOSTS)
        if key == "pcie":
            hit = _PCIE.fullmatch(str(value).strip())
            if not hit:
                raise InputError(
                    f"hosts: pcie {value!r} is not a PCIe link; use gen1 to gen6 with x1 to x32, for example gen4x16"
                )
            figures["pcie_gbps"] = pcie_gbps(int(hit[1]), int(hit[2]))
            continue
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if isinstance(value, bool) or not 0 < number < MOST_OF_HOSTS:
            raise InputError(
                f"hosts: {key} {value!r} is out of range; use a number above 0, for example {EXAMPLES[key]}"
            )
        figures[key] = number
    return figures


MOST_OF_HOSTS = 1e9
EXAMPLES = {
    "program_ns": 200,
    "post_ns": 170,
    "fetch_ns": 400,
    "message_gap_ns": 5,
    "copy_gbytes": 7.3,
    "switch_ns": 200,
}


def no_adaptive_routing(fabric: Fabric) -> str:
    """Return a note that ``ar=on`` has no effect if switches of the links' generation do not support adaptive routing;
    otherwise an empty string."""
    from softib.sim.timing import profile_of as main_profile_of

    name = main_profile_of(fabric).name
    switch = SWITCH_OF[name]
    if switch.adaptive_routing:
        return ""
    return f"ar=on changes nothing: switches of {name} ({switch.name}) do not route adaptively"


PROFILES = {s.name: _profile(s.name) for s in SPEEDS}
"""Profile of each generation."""


SLOWEST_ETHERNET = "FDR"
"""Generation of the first adapters with RoCE in hardware: ConnectX-3, sold for Ethernet at 10, 40 and 56 Gb/s."""


def ethernet_generation(gbps: float) -> str:
    """Return the generation whose adapters and switches are sold for Ethernet at ``gbps``: the
    slowest that carries it over four lanes."""
    speeds = [s for s in SPEEDS if s.code >= speed_named(SLOWEST_ETHERNET).code]
    fast_enough = [s for s in speeds if 4 * s.lane_data_gbps >= gbps]
    return min(fast_enough or speeds[-1:], key=lambda s: s.lane_data_gbps).name


def profile_of(name: str) -> DeviceProfile:
    """Return the profile of a generation. Raises :class:`UnknownName`."""
    return PROFILES[speed_named(name).name]
