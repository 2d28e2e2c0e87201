"""Options of the isolation of flapping and babbling ports. They are softib's own, but for
``babbling_port_policy``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FLAP_OPTIONS", "FlapConfig", "flap_config", "number", "truth"]

PS_PER_S = 10**12
BABBLING = 250
"""Traps, as OpenSM counts them."""


@dataclass(frozen=True)
class FlapConfig:
    """A link that falls ``threshold`` times within ``window_ps`` is taken out for ``pause_ps``, and
    a port that sends ``babble_threshold`` traps within it (0: none is)."""

    threshold: int
    window_ps: int = 60 * PS_PER_S
    pause_ps: int = 300 * PS_PER_S
    babble_threshold: int = 0


def number(least: int, most: int) -> Callable[[str], int]:
    """Reads a number in this range, raises ValueError for another one."""

    def read(text: str) -> int:
        value = int(text, 0)
        if not least <= value <= most:
            raise ValueError
        return value

    read.__doc__ = f"a number from {least} to {most}"
    return read


def truth(text: str) -> bool:
    """TRUE or FALSE"""
    if text.lower() not in ("true", "false", "yes", "no", "1", "0", "on", "off"):
        raise ValueError
    return text.lower() in ("true", "yes", "1", "on")


FLAP_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "flap_threshold": ("flap_threshold", number(0, 1000)),
    "babbling_port_policy": ("babbling_port_policy", truth),
    "babbling_threshold": ("babbling_threshold", number(2, 1_000_000)),
    "flap_window": ("flap_window", number(1, 86400)),
    "flap_pause": ("flap_pause", number(1, 86400)),
}
"""Falls of a link (0: no port is isolated for that), whether ports that flood the manager with
traps are taken out (OpenSM's option) and at how many traps (250), within so many seconds, and for
how many seconds a port is taken out."""


def flap_config(fields: Mapping[str, Any]) -> FlapConfig | None:
    """None where neither policy is asked for."""
    threshold = int(fields.get("flap_threshold") or 0)
    traps = int(fields.get("babbling_threshold") or BABBLING) if fields.get("babbling_port_policy") else 0
    if not threshold and not traps:
        return None
    window_s, pause_s = int(fields.get("flap_window") or 60), int(fields.get("flap_pause") or 300)
    return FlapConfig(threshold, window_s * PS_PER_S, pause_s * PS_PER_S, traps)
