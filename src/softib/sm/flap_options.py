"""Options of the isolation of flapping ports. They are softib's own: OpenSM's babbling_port_policy goes by traps, and never gives a port back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["FLAP_OPTIONS", "FlapConfig", "flap_config", "number"]

PS_PER_S = 10**12


@dataclass(frozen=True)
class FlapConfig:
    """A link that falls ``threshold`` times within ``window_ps`` is taken out for ``pause_ps``."""

    threshold: int
    window_ps: int = 60 * PS_PER_S
    pause_ps: int = 300 * PS_PER_S


def number(least: int, most: int) -> Callable[[str], int]:
    """Reads a number in this range, raises ValueError for another one."""

    def read(text: str) -> int:
        value = int(text, 0)
        if not least <= value <= most:
            raise ValueError
        return value

    read.__doc__ = f"a number from {least} to {most}"
    return read


FLAP_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "flap_threshold": ("flap_threshold", number(0, 1000)),
    "flap_window": ("flap_window", number(1, 86400)),
    "flap_pause": ("flap_pause", number(1, 86400)),
}
"""Falls of a link (0: no port is isolated), within so many seconds, and for how many seconds it is taken out."""


def flap_config(fields: Mapping[str, Any]) -> FlapConfig | None:
    """None where no threshold is given."""
    threshold = int(fields.get("flap_threshold") or 0)
    if not threshold:
        return None
    return FlapConfig(
        threshold, int(fields.get("flap_window") or 60) * PS_PER_S, int(fields.get("flap_pause") or 300) * PS_PER_S
    )
