"""Exporters of rounds: installed packages that forward the monitor's data to other systems (entry points of the group
``softib.exporters``).

The name of an entry point is that of the exporter, and its value is a subclass of :class:`RoundExporter`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from softib.diags.observations import ObservedPorts
from softib.errors import InputError, UnknownName
from softib.extensions import Extension, blamed_on, extensions
from softib.monitor.intervals import Interval
from softib.monitor.reading import Reading

__all__ = ["RoundExporter", "RoundSink", "exporters", "open_exporters"]

GROUP = "softib.exporters"
OF_SOFTIB = ("history", "prometheus")
"""Names of softib's own exporters, which packages cannot use."""


class RoundExporter(ABC):
    """Receives every round that ``softib exporter SOURCE --to NAME=TARGET`` reads.

    ``target`` is the text after ``NAME=``, for example a file or an address. Raise
    :class:`~softib.errors.InputError` for a target that cannot be used.
    """

    def __init__(self, source: str, target: str):
        self.source, self.target = source, target

    @abstractmethod
    def export(self, ports: ObservedPorts, reading: Reading, interval: Interval | None) -> None:
        """Export one round. ``reading`` has the counter values and levels of ``ports``, and ``interval`` the increase
        of each counter since the previous round (None in the first round). Both have one row per row of ``ports``. The
        next round begins when this returns."""

    def close(self) -> None:  # noqa: B027 (most exporters have nothing to close)
        """Close the exporter after the last round."""


@dataclass
class RoundSink:
    """One destination of every round. ``loss``: end of the error message, which states the effect of a failure on the
    user. ``failing``: whether the last round failed."""

    take: Callable[[ObservedPorts, Reading, Interval | None], None]
    close: Callable[[], None]
    loss: str
    failing: bool = False


@cache
def exporters() -> Mapping[str, Extension]:
    """Return the exporters of installed packages by name. Warns about entry points that cannot be
    used."""
    return extensions(GROUP, OF_SOFTIB, _check)


def _check(name: str, value: Any) -> None:
    """Raise :class:`InputError` for a ``value`` that is not a complete exporter."""
    if not (isinstance(value, type) and issubclass(value, RoundExporter)):
        raise InputError("the entry point is not a subclass of softib.monitor.exporter.round_exporter.RoundExporter")
    if "export" in value.__abstractmethods__:
        raise InputError("it has no method export(ports, reading, interval)")


def open_exporters(source: str, to: Sequence[str]) -> list[RoundSink]:
    """Open an exporter for each ``NAME=TARGET`` of ``to``. Raises :class:`InputError` if an exporter is unknown or
    cannot be opened; the others are then closed again."""
    sinks: list[RoundSink] = []
    try:
        for text in to:
            sinks.append(_opened(source, *_parsed(text)))
    except BaseException:
        for sink in sinks:
            sink.close()
        raise
    return sinks


def _parsed(text: str) -> tuple[Extension, str]:
    name, mark, target = text.partition("=")
    if not mark or not name:
        raise InputError(f"{text!r} does not name an exporter and a target; use NAME=TARGET")
    if not exporters():
        raise InputError(f"no exporter named {name!r}; no installed package declares one (docs/tutorial/exporter.md)")
    if name not in exporters():
        raise UnknownName("exporter", name, exporters())
    return exporters()[name], target


def _opened(source: str, extension: Extension, target: str) -> RoundSink:
    package, name = extension.package, f"round exporter {extension.name}"
    with blamed_on(package, name):
        exporter: RoundExporter = extension.value(source, target)

    def take(ports: ObservedPorts, reading: Reading, interval: Interval | None) -> None:
        with blamed_on(package, name):
            exporter.export(ports, reading, interval)

    def close() -> None:
        with blamed_on(package, name):
            exporter.close()

    return RoundSink(take, close, "these rounds are not exported")
