"""The catalogue of devices as documents hold it: each figure with its source, and what is unknown."""

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

    table_columns = ("name", "kind", "generation", "sourced", "unknown")

    name: str
    kind: str
    """adapter, switch, Ethernet switch or cable."""
    generation: str
    """Of Ethernet switches the speed of a port."""
    sourced: int
    """Figures with a source."""
    unknown: int
    """Figures without one."""
    figures: list[Figure]


@dataclass(frozen=True)
class DeviceCatalogue(Result):
    """The devices that reports, checks, simulation and planning read, and the numbers of their figures."""

    document = "plan-devices"

    devices: list[Device]

    @property
    @also()
    def sourced(self) -> int:
        """Figures with a source."""
        return sum(d.sourced for d in self.devices)

    @property
    @also()
    def assumed(self) -> int:
        """Figures whose source is an assumption of softib."""
        return self._from("assumed")

    @property
    @also()
    def fitted(self) -> int:
        """Figures that were fitted to measurements."""
        return self._from("fitted")

    @property
    @also()
    def unknown(self) -> int:
        """Figures without a source."""
        return sum(d.unknown for d in self.devices)

    def _from(self, word: str) -> int:
        return sum((f.source or "").startswith(word) for d in self.devices for f in d.figures)


def rows_of(name: str | None = None) -> list[Device]:
    """Return the rows of the catalogue, or those of the device ``name``. Raises :class:`UnknownName`."""
    rows = [_device(kind, part) for kind, parts in KINDS.items() for part in parts]
    if name is None:
        return rows
    matches = [row for row in rows if row.name.lower() == name.lower()]
    if not matches:
        raise UnknownName("device", name, [row.name for row in rows])
    return matches


def _device(kind: str, part: Any) -> Device:
    figures = [Figure(f, getattr(part, f) if f in part.sources else None, part.sources.get(f)) for f in part.FIGURES]
    generation = part.generation if hasattr(part, "generation") else f"{part.gbps:g} Gb/s"
    return Device(part.name, kind, generation, len(part.sources), len(part.unknown), figures)
