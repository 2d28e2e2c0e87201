"""Documents (results as JSON) about the catalogue of devices: each figure with its source, and the unknown figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from softib.errors import UnknownName
from softib.iba.catalogue import ADAPTERS, CABLES, ETHERNET_SWITCHES, SWITCHES
from softib.result import Result, also

__all__ = ["Device", "DeviceCatalogue", "Figure", "rows_of"]

KINDS: dict[str, Any] = {
    "adapter": ADAPTERS,
    "switch": SWITCHES,
    "Ethernet switch": ETHERNET_SWITCHES,
    "cable": CABLES,
}


@dataclass(frozen=True)
class Figure(Result):
    """A figure of a device; ``value`` and ``source`` are None if no source states it."""

    figure: str
    value: float | bool | None
    source: str | None


@dataclass(frozen=True)
class Device(Result):
    """A device or kind of cable."""

    table_columns = ("name", "kind", "generation", "sourced", "assumed", "fitted", "unknown")

    name: str
    kind: str
    """``adapter``, ``switch``, ``Ethernet switch`` or ``cable``."""
    generation: str
    """Generation of its links; for Ethernet switches, the speed of the ports."""
    sourced: int
    """Figures published by others."""
    assumed: int
    """Figures that softib assumes, with the reason as their source."""
    fitted: int
    """Figures fitted to measurements, with the dataset as their source."""
    unknown: int
    """Figures without a value."""
    figures: list[Figure]


@dataclass(frozen=True)
class DeviceCatalogue(Result):
    """The devices that reports, checks, simulation and planning read, and the numbers of their figures."""

    document = "plan-devices"

    devices: list[Device]

    @property
    @also()
    def sourced(self) -> int:
        """Figures published by others."""
        return sum(d.sourced for d in self.devices)

    @property
    @also()
    def assumed(self) -> int:
        """Figures that softib assumes."""
        return sum(d.assumed for d in self.devices)

    @property
    @also()
    def fitted(self) -> int:
        """Figures fitted to measurements."""
        return sum(d.fitted for d in self.devices)

    @property
    @also()
    def unknown(self) -> int:
        """Figures without a value."""
        return sum(d.unknown for d in self.devices)


def rows_of(name: str | None = None) -> list[Device]:
    """Return the rows of the catalogue, or those of the device ``name``: a name in the catalogue, or a system or part
    number with a switch chip (``QM9700``, ``MQM9700-NS2F``). Raises :class:`UnknownName`."""
    rows = [_device(kind, part) for kind, parts in KINDS.items() for part in parts]
    if name is None:
        return rows
    matches = [row for row in rows if row.name.lower() == name.lower()]
    chips = [row.name for row in SWITCHES if any(system in name.upper() for system in row.systems)]
    matches = matches or [row for row in rows if row.name in chips and row.kind == "switch"]
    if not matches:
        raise UnknownName("device", name, [row.name for row in rows])
    return matches


def _device(kind: str, part: Any) -> Device:
    figures = [Figure(f, getattr(part, f) if f in part.sources else None, part.sources.get(f)) for f in part.FIGURES]
    generation = part.generation if hasattr(part, "generation") else f"{part.gbps:g} Gb/s"
    assumed, fitted = (sum(s.startswith(word) for s in part.sources.values()) for word in ("assumed", "fitted"))
    return Device(
        part.name,
        kind,
        generation,
        sourced=len(part.sources) - assumed - fitted,
        assumed=assumed,
        fitted=fitted,
        unknown=len(part.unknown),
        figures=figures,
    )
