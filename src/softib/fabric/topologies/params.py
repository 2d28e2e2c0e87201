"""Parameters of a topology kind as a table: names, defaults, descriptions, and checks with error
messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softib.errors import TopologyError, UnknownName
from softib.iba.devices import DEVICES, SWITCH_BY_GENERATION
from softib.iba.rates import speed_named
from softib.result import HIDDEN, Result, also, key

__all__ = ["COMMON", "FORMS", "MOST_RATIO", "Kind", "Parameter", "adapters_parameter", "default_radix", "impossible"]


@dataclass(frozen=True)
class Parameter(Result):
    """A parameter of a kind of topology."""

    name: str
    form: str
    """``whole``, ``list`` (of whole numbers), ``whole or list``, ``ratio``, ``yes/no`` or ``text``.
    """
    doc: str
    default: Any = field(default=None, metadata=key(before="doc"))
    """Default value; None: computed from the other parameters."""
    required: bool = field(default=False, metadata=key(before="doc"))
    low: int = field(default=1, metadata=HIDDEN)
    """Smallest number that is allowed."""
    high: int = field(default=1_000_000, metadata=HIDDEN)

    def check(self, kind: str, value: Any) -> Any:
        """Return ``value`` converted to its type. Raises :class:`TopologyError` with the expected
        form."""
        if value is None:
            if self.required:
                raise impossible(kind, self.name, f"is missing: {self.doc}")
            return self.default
        return _CHECKS[self.form](self, kind, value)


def impossible(kind: str, parameter: str, reason: str) -> TopologyError:
    """Return an error for a wrong ``parameter``. The reader of the file finds the line through
    ``error.parameter``."""
    error = TopologyError(f"{kind}: {parameter}{'' if reason.startswith(':') else ' '}{reason}")
    error.parameter = parameter  # type: ignore[attr-defined]
    return error


def _doc(p: Parameter) -> str:
    """Return the description of a parameter for an error message; empty if it only repeats the
    parameter's name."""
    return f"; {p.doc}" if p.doc != p.name else ""


def _whole(p: Parameter, kind: str, value: Any) -> int:
    if isinstance(value, bool) or not (isinstance(value, int) or hasattr(value, "__index__")):
        raise impossible(kind, p.name, f": {value!r} is not a whole number{_doc(p)}")
    number = int(value)
    if not p.low <= number <= p.high:
        raise impossible(kind, p.name, f": {number} is out of range; use {p.low} to {p.high}")
    return number


def _wholes(p: Parameter, kind: str, value: Any) -> list[int]:
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
        raise impossible(kind, p.name, f": {value!r} is not a list of whole numbers, for example [4, 4, 4]")
    numbers = [_whole(p, kind, v) for v in value]
    if not numbers:
        raise impossible(kind, p.name, ": the list is empty; give at least one number")
    return numbers


def _whole_or_list(p: Parameter, kind: str, value: Any) -> Any:
    return _whole(p, kind, value) if isinstance(value, int | str | float) else _wholes(p, kind, value)


def _ratio(p: Parameter, kind: str, value: Any) -> float:
    """Return the ratio ``2``, ``1.5`` or ``"2:1"`` as a number."""
    try:
        if isinstance(value, bool):
            raise ValueError
        down, _, up = str(value).partition(":")
        number = float(down) / (float(up) if up else 1.0)
    except (ValueError, ZeroDivisionError):
        raise impossible(kind, p.name, f': {value!r} is not a ratio; use 2 or "2:1"') from None
    # YAML 1.1 reads numbers with colons in base 60: an unquoted 2:1 becomes 121, and 1:1 becomes
    # 61.
    if not 1 <= number <= MOST_RATIO:
        quote = '; quote it: "2:1" (unquoted, YAML reads 2:1 as 121)' if number > MOST_RATIO else ""
        raise impossible(kind, p.name, f": {value!r} must be between 1 and {MOST_RATIO}{quote}")
    return number


def _yes_no(p: Parameter, kind: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise impossible(kind, p.name, f": {value!r} is neither true nor false")
    return value


def _text(p: Parameter, kind: str, value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise impossible(kind, p.name, f": {value!r} is not a line of text")
    return value


_CHECKS: dict[str, Callable[[Parameter, str, Any], Any]] = {
    "whole": _whole,
    "list": _wholes,
    "whole or list": _whole_or_list,
    "ratio": _ratio,
    "yes/no": _yes_no,
    "text": _text,
}

MOST_RATIO = 60
"""Largest number of host ports per uplink."""
FORMS = tuple(_CHECKS)
COMMON: tuple[Parameter, ...] = (
    Parameter("name", "text", "name of the fabric; by default the kind"),
    Parameter("prefix", "text", "in front of the names of all switches and hosts, for example storage-", ""),
    Parameter("generation", "text", "link speed of all devices, for example EDR, HDR, NDR", "NDR"),
    Parameter("host_generation", "text", "link speed of the hosts' adapters; by default as generation"),
    Parameter(
        "aggregation_nodes",
        "yes/no",
        "a SHARP aggregation node in every switch, after its last external port (HDR, NDR, XDR)",
        False,
    ),
)
"""Parameters that every kind has."""

MAX_PORTS = 254
SHARP_GENERATIONS = ("HDR", "NDR", "XDR")
"""Generations whose switches can have an aggregation node."""


def radix_parameter() -> Parameter:
    """Return the parameter ``radix``, which most kinds have."""
    return Parameter(
        "radix",
        "whole",
        "ports per switch; by default those of the generation's switch (NDR 64, HDR 40, EDR 36)",
        low=2,
        high=MAX_PORTS,
    )


def adapters_parameter() -> Parameter:
    """Return the parameter ``adapters``, for kinds whose hosts may have several adapters on
    adjacent ports."""
    return Parameter("adapters", "whole", "adapters of a host, on neighbouring ports of a leaf", 1, high=64)


def default_radix(generation: str) -> int:
    """Return the number of ports that switches of this generation have."""
    return DEVICES[SWITCH_BY_GENERATION[speed_named(generation).name]].ports


@dataclass(frozen=True)
class Kind(Result):
    """A kind of topology that softib generates."""

    name: str = field(metadata=key("kind"))
    doc: str
    source: str
    """Publication that defines the kind."""
    parameters: tuple[Parameter, ...] = field(metadata=HIDDEN)
    """Parameters that only this kind has; ``all_parameters`` also contains those that every kind
    has."""
    build: Callable[..., Any] = field(metadata=HIDDEN)
    """Return the :class:`~softib.fabric.topologies.blueprint.Blueprint` for checked values, or a fabric."""
    package: str = field(default="", metadata=HIDDEN)
    """The installed package that provides the kind; empty for softib's kinds."""

    def __repr__(self) -> str:
        return f"<Kind {self.name!r}: {self.doc}>"

    @property
    @also("parameters")
    def all_parameters(self) -> tuple[Parameter, ...]:
        """Return the parameters of this kind, then those that every kind has."""
        return (*self.parameters, *COMMON)

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of every parameter by name. Given values are checked, and missing ones
        are defaults.

        Raises :class:`UnknownName` for a parameter that the kind does not have, and
        :class:`TopologyError` for a wrong value.
        """
        names = [p.name for p in self.all_parameters]
        for name in given:
            if name not in names:
                error = UnknownName(f"parameter of {self.name}", str(name), names)
                error.parameter = str(name)  # type: ignore[attr-defined]
                raise error
        values = {p.name: p.check(self.name, given.get(p.name)) for p in self.all_parameters}
        for name in ("generation", "host_generation"):
            if values[name] is not None:
                values[name] = speed_named(values[name]).name
        if values["aggregation_nodes"] and values["generation"] not in SHARP_GENERATIONS:
            raise impossible(
                self.name,
                "aggregation_nodes",
                f": {values['generation']} switches have no SHARP; use a generation of {', '.join(SHARP_GENERATIONS)}",
            )
        values["name"] = values["name"] or self.name
        return values
