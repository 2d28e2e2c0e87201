"""Determines the fabric whose counters a source contains."""

from __future__ import annotations

from pathlib import Path

__all__ = ["observed_fabric"]


def observed_fabric(sources: tuple[str, ...], fabric: str | None) -> str | None:
    """Return ``fabric``, or the only source if it is a running fabric or ``umad:DEVICE``; None for
    files, a history or a Prometheus server, which are not fabrics."""
    if fabric is not None or len(sources) != 1 or sources[0].startswith("http") or Path(sources[0]).exists():
        return fabric
    return sources[0]
