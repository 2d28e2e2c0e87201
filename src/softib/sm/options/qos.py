"""QoS settings of the manager: for each kind of port, the VL of each SL, and the share of the link
that each VL gets (OpenSM's ``-Q``).

Option names are OpenSM's. ``qos_sl2vl`` applies to every port, ``qos_ca_sl2vl`` to CAs,
``qos_sw0_…`` to port 0 of switches, ``qos_swe_…`` to their external ports, ``qos_rtr_…`` to
routers. If the option for a kind is missing, the option for every port is used. (``…_max_vls`` does
not exist here because OpenSM ignores it and uses ``max_op_vls``.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softib.errors import InputError

__all__ = ["KINDS", "QOS_OPTIONS", "PortQos", "QosConfig", "QosTables", "qos_config"]

KINDS = ("ca", "sw0", "swe", "rtr")
MAX_DATA_VL, VL_ARB_ENTRIES = 14, 64
DROP = 15
DEFAULTS: dict[str, Any] = {
    "high_limit": 0,
    "vlarb_high": ((0, 4), *((vl, 0) for vl in range(1, 15))),
    "vlarb_low": ((0, 0), *((vl, 4) for vl in range(1, 15))),
    "sl2vl": (*range(15), 7),
}
"""OpenSM's defaults (osm_base.h, OSM_DEFAULT_QOS_…): only VL 0 has high priority; the other VLs
have low priority."""


@dataclass(frozen=True)
class PortQos:
    """A file's settings for one kind of port; None: not stated."""

    high_limit: int | None = None
    vlarb_high: tuple[tuple[int, int], ...] | None = None
    vlarb_low: tuple[tuple[int, int], ...] | None = None
    sl2vl: tuple[int, ...] | None = None


@dataclass(frozen=True)
class QosTables:
    """The tables for a kind of port. ``vlarb_…``: pairs (VL, weight in units of 64 bytes).
    ``high_limit``: PortInfo.VLHighLimit."""

    high_limit: int
    vlarb_high: tuple[tuple[int, int], ...]
    vlarb_low: tuple[tuple[int, int], ...]
    sl2vl: tuple[int, ...]


@dataclass(frozen=True)
class QosConfig:
    """The settings of all kinds of ports: ``every``, and the differences by kind."""

    every: PortQos = field(default_factory=PortQos)
    kinds: tuple[tuple[str, PortQos], ...] = ()

    def tables(self, kind: str) -> QosTables:
        """Return the tables of ``kind`` (one of KINDS)."""
        local = dict(self.kinds).get(kind, PortQos())
        stated = {n: value for port in (self.every, local) for n, value in vars(port).items() if value is not None}
        return QosTables(**{**DEFAULTS, **stated})


def _limit(text: str) -> int | None:
    """a number from 0 to 255, -1 = the default"""
    value = int(text, 0)
    if not -1 <= value <= 255:
        raise ValueError
    return value if value >= 0 else None


def _weights(text: str) -> tuple[tuple[int, int], ...]:
    """VL:weight, … with VLs 0 to 14 and weights 0 to 255, at most 64 of them"""
    pairs = []
    for entry in text.split(","):
        vl, _, weight = entry.partition(":")
        pairs.append((int(vl, 0), int(weight, 0)))
    if len(pairs) > VL_ARB_ENTRIES or any(not 0 <= vl <= MAX_DATA_VL or not 0 <= w <= 255 for vl, w in pairs):
        raise ValueError
    return tuple(pairs)


def _vls(text: str) -> tuple[int, ...]:
    """16 VLs, from SL 0 on; 15 drops"""
    vls = tuple(int(vl, 0) for vl in text.split(","))
    if len(vls) != 16 or any(not 0 <= vl <= DROP for vl in vls):
        raise ValueError
    return vls


_READERS: dict[str, Callable[[str], Any]] = {
    "high_limit": _limit,
    "vlarb_high": _weights,
    "vlarb_low": _weights,
    "sl2vl": _vls,
}
QOS_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    f"{prefix}_{name}": (f"{prefix}_{name}", read)
    for prefix in ("qos", *(f"qos_{kind}" for kind in KINDS))
    for name, read in _READERS.items()
}
"""OpenSM's name → (name of the setting, reader of its value)."""


def qos_config(fields: Mapping[str, Any]) -> QosConfig | None:
    """Return the QoS that the options configure (names as in QOS_OPTIONS, and ``qos``); None if ``qos`` is not set.

    Raises :class:`InputError` for an option if ``qos`` is FALSE or absent, because it would have no effect.
    """
    stated = {name: value for name, value in fields.items() if name in QOS_OPTIONS and value is not None}
    if not fields.get("qos"):
        if stated:
            raise InputError(f"{sorted(stated)[0]} has no effect without qos TRUE")
        return None

    def port(prefix: str) -> PortQos:
        return PortQos(**{name: stated.get(f"{prefix}_{name}") for name in _READERS})

    kinds = tuple((kind, port(f"qos_{kind}")) for kind in KINDS)
    return QosConfig(port("qos"), tuple((kind, local) for kind, local in kinds if local != PortQos()))
