"""Options of adaptive routing. Stock OpenSM has none; ``ar_sl_mask`` and ``ar_transport_mask`` are
NVIDIA's manager's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from softib.errors import InputError
from softib.iba.vendor.ar import BOUNDED, DC, FREE, RC, STATIC, UC, UD
from softib.sm.options.flap import truth

__all__ = ["AR_OPTIONS", "ArConfig", "ar_config", "check_ar"]

MODES = {"free": FREE, "bounded": BOUNDED}
ALL_SLS = 0xFFFF
TRANSPORTS = RC | DC
"""What NVIDIA's manager routes adaptively: not UD and UC, which lose what arrives out of order."""


@dataclass(frozen=True)
class ArConfig:
    """``state`` of LIDs with a choice (FREE or BOUNDED), SLs (bit n: SL n) and transports (1 UD, 2
    RC, 4 UC, 8 DC) that choose; STATIC: none does. ``repair``: where the port of the forwarding
    table is down another of the group is taken."""

    state: int = FREE
    sl_mask: int = ALL_SLS
    transport_mask: int = TRANSPORTS
    repair: bool = False


def _mode(text: str) -> int | None:
    """free, bounded or off"""
    if text.lower() in ("off", "false", "no"):
        return None
    if text.lower() not in MODES:
        raise ValueError
    return MODES[text.lower()]


def _mask(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text, 0)
        if not 0 <= value <= most:
            raise ValueError
        return value

    read.__doc__ = f"a mask from 0 to {most:#x}"
    return read


AR_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "adaptive_routing": ("adaptive_routing", _mode),
    "local_repair": ("local_repair", truth),
    "ar_sl_mask": ("ar_sl_mask", _mask(ALL_SLS)),
    "ar_transport_mask": ("ar_transport_mask", _mask(UD | RC | UC | DC)),
}
"""Name → (the same, what reads its value)."""


def ar_config(found: Mapping[str, Any]) -> ArConfig | None:
    """What options say; None where adaptive routing is off. Raises :class:`InputError` for an
    option that would have no effect."""
    masks = {name: found[name] for name in ("ar_sl_mask", "ar_transport_mask") if name in found}
    if found.get("adaptive_routing") is None:
        if masks:
            raise InputError(f"{sorted(masks)[0]} has no effect without adaptive_routing free or bounded")
        return ArConfig(STATIC, repair=True) if found.get("local_repair") else None
    return ArConfig(
        found["adaptive_routing"],
        masks.get("ar_sl_mask", ALL_SLS),
        masks.get("ar_transport_mask", TRANSPORTS),
        bool(found.get("local_repair")),
    )


def check_ar(section: Mapping[str, Any]) -> None:
    """Raise :class:`InputError` for a mask of a fabric.yaml without ``adaptive_routing``."""
    for key in section:
        if key in ("ar_sl_mask", "ar_transport_mask") and section.get("adaptive_routing") in (None, False, "off"):
            raise InputError(f"sm.{key}: has no effect without adaptive_routing: free or bounded")
