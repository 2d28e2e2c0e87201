"""Options of how forwarding tables change (:mod:`softib.routing.transition.transition`). They are
softib's own: OpenSM writes tables in whatever order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from softib.sm.options.flap import number, truth

__all__ = ["CHANGE_OPTIONS", "ChangeConfig", "change_config"]

PS_PER_MS = 10**9


@dataclass(frozen=True)
class ChangeConfig:
    """``drain_ps`` passes between two stages of a change; ``discard``: destinations that find no
    stage are without a path meanwhile."""

    drain_ps: int = 50 * PS_PER_MS
    discard: bool = False


CHANGE_OPTIONS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "lft_drain_time": ("lft_drain_time", number(0, 60_000)),
    "lft_discard": ("lft_discard", truth),
}
"""Milliseconds in which packets of old entries drain between two stages (50), and whether packets
are discarded where no order of changes is free of credit loops."""


def change_config(fields: Mapping[str, Any]) -> ChangeConfig:
    """What ``fields`` say; the rest is as usual."""
    drain_ms = fields.get("lft_drain_time")
    drain_ps = ChangeConfig.drain_ps if drain_ms is None else int(drain_ms) * PS_PER_MS
    return ChangeConfig(drain_ps, bool(fields.get("lft_discard")))
