"""Changes for a what-if (``engine=updn``, ``ar=on``, ``cc=on``, ``vl=jobs``, ``generation=XDR``),
and attributes of its queue pairs under their names in ibv_modify_qp(3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from softib.api.arguments import check_choice
from softib.errors import InputError, UnknownName

if TYPE_CHECKING:
    from softib.sim.paths import Scale

__all__ = [
    "ATTRIBUTES",
    "CHANGES",
    "OF_PACKETS",
    "SENSITIVITY",
    "changes_of",
    "check_network",
    "manager_settings",
    "packet_options",
    "scale_of",
    "variants_of",
]


ATTRIBUTES = {
    "timeout": ("ack_timeout", 1, 31, "the ACK timeout is 4.096 us * 2^n"),
    "retry_cnt": ("retries", 0, 7, "Retry Count has 3 bits"),
    "min_rnr_timer": ("rnr_timer", 0, 31, "the code of the RNR NAK timer has 5 bits (IBA table 45)"),
    "rnr_retry": ("rnr_retries", 0, 7, "RNR Retry Count has 3 bits, and 7 is no limit"),
}
"""Member of ``ibv_qp_attr`` → field of :class:`~softib.sim.packet.PacketOptions`, smallest and
largest value, meaning."""


def packet_options(given: Mapping[str, int], layer: str, network: str = "infiniband") -> dict[str, int]:
    """Return ``given`` (``{"timeout": 18}``) as options of the packet layer. Raises
    :class:`UnknownName` for another attribute, :class:`InputError` for an impossible value, and
    where ``layer`` or ``network`` has no such queue pairs."""
    options = {}
    for name, value in given.items():
        if name not in ATTRIBUTES:
            raise UnknownName("attribute of queue pairs", name, ATTRIBUTES)
        option, least, most, meaning = ATTRIBUTES[name]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise InputError(f"{name} {value} is out of range; {meaning} is a number from {least} to {most}")
        if layer != "packet":
            raise InputError(f"{name} {value} needs the packet layer, the only one with timeouts; add --layer packet")
        if network.partition(",")[0] == "tcp":
            raise InputError(f"{name} {value} has no effect on tcp, which has no queue pairs; leave it out")
        options[option] = value
    return options


CHANGES = ("engine", "ar", "cc", "vl", "network", "generation", "fabrics", "latency", "bandwidth", "congestion")
"""Possible changes: the routing engine; adaptive routing and congestion control on or off; a separate service level
for each job; the network (``roce``, ``tcp``); the generation of the links; all jobs of a file with several fabrics
on the first one; factors on latency, on the rate of all links, and on the narrowing of links between switches."""
OF_PACKETS = {"ar": "adaptive_routing", "cc": "congestion_control"}
"""Change → option of the packet layer."""
FACTORS = ("latency", "bandwidth", "congestion")
SENSITIVITY = tuple(f"{key}={factor}" for key in FACTORS for factor in ("0.5", "2"))
"""The changes for which ``sensitivity`` stands in a what-if."""
VALUES = {"ar": ("on", "off"), "cc": ("on", "off"), "vl": ("jobs",), "fabrics": ("one",)}


def changes_of(text: str | None, layer: str) -> dict[str, str]:
    """Return the changes in a text like ``engine=updn,ar=on``. Raises :class:`InputError`, one line, for an unknown
    change or one that ``layer`` does not support."""
    from softib.iba.rates import speed_named

    changes: dict[str, str] = {}
    # Since a list of engines contains commas too, a part that is not a change belongs to the value before it.
    for part in [] if text is None else text.split(","):
        key, equals, value = (p.strip() for p in part.partition("="))
        if not equals and changes and list(changes)[-1] == "engine" and key:
            changes["engine"] += f",{key}"
            continue
        of_network = key not in CHANGES or (key == "cc" and value not in VALUES["cc"])
        if equals and changes and list(changes)[-1] == "network" and of_network:
            changes["network"] += f",{key}={value}"
            continue
        if not equals or not value:
            raise InputError(f"what-if {text!r}: use a change, for example engine=updn or ar=on,cc=on")
        if key not in CHANGES:
            raise UnknownName("change of a what-if", key, CHANGES)
        if key in OF_PACKETS and layer != "packet":
            raise InputError(f"what-if {key}={value} needs the packet layer; add --layer packet")
        if key in FACTORS:
            check_factor(key, value, layer)
        if key in VALUES and value not in VALUES[key]:
            raise UnknownName(f"value of {key}", value, VALUES[key])
        changes[key] = value
    check_choice(changes.get("engine"), None)
    check_network(changes, layer)
    if "generation" in changes:
        speed_named(changes["generation"])
    return changes


def check_factor(key: str, value: str, layer: str) -> None:
    """Raise :class:`InputError` for an invalid factor, or a layer that does not support it."""
    try:
        factor = float(value)
    except ValueError:
        factor = 0.0
    if not 0.001 <= factor <= 1000:
        raise InputError(f"what-if {key}={value}: use a factor from 0.001 to 1000, for example {key}=2")
    if layer == "packet":
        raise InputError(f"what-if {key}={value} is not supported by the packet layer; leave out --layer packet")


def scale_of(changes: Mapping[str, str]) -> Scale:
    """Return the factors among ``changes``."""
    from softib.sim.paths import Scale

    return Scale(**{key: float(changes[key]) for key in FACTORS if key in changes})


def check_network(changes: Mapping[str, str], layer: str) -> None:
    """Raise :class:`UnknownName` or :class:`InputError` for an unknown network, or one that
    ``layer`` does not support."""
    from softib.sim.packet.options import network_of

    if "network" in changes:
        network_of(changes["network"])
        if layer != "packet":
            raise InputError(f"network {changes['network']} needs the packet layer; add --layer packet")


def variants_of(changes: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the runs that show the effect of ``changes``: all of them together, and if there are
    several each one alone."""
    alone = [{key: value} for key, value in changes.items()] if len(changes) > 1 else []
    return [dict(changes), *alone]


def text_of(changes: Mapping[str, str]) -> str:
    """Return the changes as text, for example ``engine=updn,ar=on``."""
    return ",".join(f"{key}={value}" for key, value in changes.items())


def manager_settings(changes: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of the subnet manager for the changes that turn a feature ``on``."""
    settings: dict[str, Any] = {}
    if changes.get("ar") == "on":
        settings["adaptive_routing"] = "free"
    if changes.get("cc") == "on":
        settings |= congestion_settings()
    return settings


def congestion_settings() -> dict[str, Any]:
    """Return settings of congestion control with which five senders along a chain share one sink fairly (Jain's
    index above 0.95, 0.9 of the link): OpenSM's options. Entry i of the sources' table is i / 8 packet times."""
    sls = range(16)
    return {
        "congestion_control": True,
        "cc_sw_cong_setting_control_map": "0x1f",
        "cc_sw_cong_setting_threshold": "8",
        "cc_sw_cong_setting_packet_size": "8",
        "cc_sw_cong_setting_marking_rate": "4",
        "cc_ca_cong_setting_control_map": "0xffff",
        "cc_ca_cong_setting_ccti_timer": ", ".join(f"{sl} 20" for sl in sls),
        "cc_ca_cong_setting_ccti_increase": ", ".join(f"{sl} 1" for sl in sls),
        "cc_cct": ",".join(f"3:{i}" for i in range(128)),
    }
