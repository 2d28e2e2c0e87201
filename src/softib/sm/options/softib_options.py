"""Options that stock OpenSM 3.3.23 does not have: adaptive routing, isolation of flapping and
babbling ports, the order in which forwarding tables change, and aggregation.

``ar_sl_mask`` and ``ar_transport_mask`` are names of NVIDIA's manager. ``babbling_port_policy`` is
OpenSM's name, and traps are counted as in OpenSM.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from softib.errors import InputError
from softib.iba.vendor.ar import BOUNDED, DC, FREE, RC, STATIC, UC, UD
from softib.iba.vendor.sharp import SHARP_TREES
from softib.sm.options.values import number, truth

__all__ = [
    "SOFTIB_OPTIONS",
    "AggregationConfig",
    "ArConfig",
    "ChangeConfig",
    "FlapConfig",
    "aggregation_config",
    "ar_config",
    "change_config",
    "flap_config",
]

PS_PER_S, PS_PER_MS = 10**12, 10**9
BABBLING = 250
"""Number of traps after which OpenSM disables a port."""
MODES = {"free": FREE, "bounded": BOUNDED}
ALL_SLS = 0xFFFF
TRANSPORTS = RC | DC
"""Transports for which NVIDIA's manager uses adaptive routing. UD and UC are excluded, because they
lose messages that arrive out of order."""


def _mode(value: str) -> int | None:
    """free, bounded or off"""
    if value.lower() in ("off", "false", "no"):
        return None
    if value.lower() not in MODES:
        raise ValueError
    return MODES[value.lower()]


SOFTIB_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    name: (name, read)
    for name, read in {
        "flap_threshold": number(0, 1000),
        "babbling_port_policy": truth,
        "babbling_threshold": number(2, 1_000_000),
        "flap_window": number(1, 86400),
        "flap_pause": number(1, 86400),
        "lft_drain_time": number(0, 60_000),
        "lft_discard": truth,
        "adaptive_routing": _mode,
        "local_repair": truth,
        "ar_sl_mask": number(0, ALL_SLS),
        "ar_transport_mask": number(0, UD | RC | UC | DC),
        "aggregation_trees": number(1, SHARP_TREES - 1),
        "aggregation_streaming_trees": number(0, SHARP_TREES - 1),
    }.items()
}
"""Name → (name of the setting, reader of its value). Units of ``flap_…`` are link failures (0:
ports are not disabled for them) and seconds; of ``babbling_threshold`` traps; of ``lft_drain_time``
milliseconds."""


@dataclass(frozen=True)
class FlapConfig:
    """A port is disabled for ``pause_ps`` if its link fails ``threshold`` times within
    ``window_ps``, or if it sends ``babble_threshold`` traps within that time (0: traps do not
    count)."""

    threshold: int
    window_ps: int = 60 * PS_PER_S
    pause_ps: int = 300 * PS_PER_S
    babble_threshold: int = 0


def flap_config(fields: Mapping[str, Any]) -> FlapConfig | None:
    """Return the settings in ``fields`` for the isolation of ports; None if neither policy is
    on."""
    threshold = int(fields.get("flap_threshold") or 0)
    traps = int(fields.get("babbling_threshold") or BABBLING) if fields.get("babbling_port_policy") else 0
    if not threshold and not traps:
        return None
    window_s, pause_s = int(fields.get("flap_window") or 60), int(fields.get("flap_pause") or 300)
    return FlapConfig(threshold, window_s * PS_PER_S, pause_s * PS_PER_S, traps)


@dataclass(frozen=True)
class ChangeConfig:
    """``drain_ps`` is the time between two stages of a change
    (:mod:`softib.routing.transition.transition`), in which packets routed with old entries drain.
    ``discard``: if no stage is possible for a destination, its packets are discarded during the
    change."""

    drain_ps: int = 50 * PS_PER_MS
    discard: bool = False


def change_config(fields: Mapping[str, Any]) -> ChangeConfig:
    """Return the order of table changes that ``fields`` configure, with defaults for the rest."""
    drain_ms = fields.get("lft_drain_time")
    drain_ps = ChangeConfig.drain_ps if drain_ms is None else int(drain_ms) * PS_PER_MS
    return ChangeConfig(drain_ps, bool(fields.get("lft_discard")))


@dataclass(frozen=True)
class ArConfig:
    """``state``: mode of LIDs for which a switch has a choice of ports, FREE or BOUNDED (STATIC: no
    choice). It applies to packets with these SLs (bit n: SL n) and transports (1 UD, 2 RC, 4 UC, 8
    DC). ``repair``: if the port of the forwarding table is down, another port of the group is
    used."""

    state: int = FREE
    sl_mask: int = ALL_SLS
    transport_mask: int = TRANSPORTS
    repair: bool = False


def ar_config(fields: Mapping[str, Any]) -> ArConfig | None:
    """Return the adaptive routing configured by ``fields``, None if it is off.

    Raises :class:`InputError` for an option that would have no effect.
    """
    masks = {name: fields[name] for name in ("ar_sl_mask", "ar_transport_mask") if name in fields}
    if fields.get("adaptive_routing") is None:
        if masks:
            raise InputError(f"{sorted(masks)[0]} has no effect without adaptive_routing free or bounded")
        return ArConfig(STATIC, repair=True) if fields.get("local_repair") else None
    return ArConfig(
        fields["adaptive_routing"],
        masks.get("ar_sl_mask", ALL_SLS),
        masks.get("ar_transport_mask", TRANSPORTS),
        bool(fields.get("local_repair")),
    )


@dataclass(frozen=True)
class AggregationConfig:
    """``trees`` are for small operations, ``streaming_trees`` for large ones; the nodes limit both."""

    trees: int = 1
    streaming_trees: int = 1


def aggregation_config(fields: Mapping[str, Any]) -> AggregationConfig | None:
    """Return the trees that ``fields`` configure; None without ``aggregation``.

    Raises :class:`InputError` for an option that would have no effect.
    """
    stated = {name: value for name, value in fields.items() if name.startswith("aggregation_")}
    if not fields.get("aggregation"):
        if stated:
            raise InputError(f"{sorted(stated)[0]} has no effect without aggregation TRUE")
        return None
    return AggregationConfig(stated.get("aggregation_trees", 1), stated.get("aggregation_streaming_trees", 1))
