"""Congestion controls of RoCE: those of softib, and those of installed packages (entry points of the group
``softib.congestion_control``).

A congestion control consists of named columns (one row per flow), options with defaults, and
compiled kernels that work on these columns and replace the transport's hooks
(:mod:`softib.sim.packet.kernels.congestion.hooks`). The name of the entry point is the congestion
control's name, and its value is a :class:`CongestionControl`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from inspect import signature
from typing import Any

from softib.errors import InputError, UnknownName
from softib.extensions import blamed_on, extensions
from softib.jit import Kernel
from softib.jit.rows import Rows, f8

__all__ = ["GROUP", "Compiled", "CongestionControl", "Option", "congestion_control", "congestion_controls"]

GROUP = "softib.congestion_control"


@dataclass(frozen=True)
class Option:
    """An option that a user may set: ``--network roce,cc=swift,hop_us=2``. Values are numbers of the
    type of ``default``, from ``low`` to ``most``."""

    name: str
    default: float
    unit: str
    text: str
    low: float = 0.0
    most: float = float("inf")

    def checked(self, value: Any) -> float:
        """Return ``value`` as a number of the option's type. Raises :class:`InputError` for a value out of range."""
        kind = type(self.default)
        try:
            number = kind(value)
        except (TypeError, ValueError):
            raise InputError(f"{self.name}={value}: use a number, for example {self.name}={self.default:g}") from None
        if not self.low <= number <= self.most:
            limit = f"from {self.low:g} to {self.most:g}" if self.most < float("inf") else f"at least {self.low:g}"
            raise InputError(f"{self.name}={value}: use a number that is {limit}")
        return number


@dataclass(frozen=True, eq=False)
class Compiled:
    """Compiled replacements of transport kernels, by the kernel that each replaces, and the columns of ``State.cc`` and
    ``Net.cc`` that these replacements use."""

    name: str
    flow: Rows
    settings: Rows
    replaced: Mapping[Kernel, Kernel]


@dataclass(frozen=True, eq=False)
class CongestionControl:
    """A congestion control.

    ``flow``: columns of a flow, in kernels ``state.cc[stream]``. The stream is 2 × queue pair, + 1
    for its responses to READs. A column starts at zero, or, if ``first`` maps it to an option, at the value of this
    option. ``options`` become columns of ``net.cc`` (float64). If ``settings`` is given, ``derived`` computes its
    columns from the options and the hosts' rate in Gb/s.

    Kernels, each described by the hook of its name: ``window``, ``acknowledged``, ``lost``;
    ``paced_until(net, state, stream, start, end)``: when the stream may send again after a packet
    that was on the wire from ``start`` to ``end`` (0: at once; called again at acknowledgements);
    ``notice(net, state, port, k)``: marked packet ``k`` reached the receiver, which may answer with a CNP (returns
    ``port``, or -1 for no CNP); ``noticed(net, state, port, stream, now)``: a CNP reached the sender; ``path(net,
    state, k, switch, paths)``: return which of the ``paths`` equal-cost paths packet ``k`` takes at ``switch``.

    ``reorders``: the receiver takes packets in any order. ``marks``: switches mark packets (ECN).
    ``package``: the distribution that provides it, "" for those of softib. ``together``: code that is compiled once for
    several congestion controls; ``settings`` select one at run time.
    """

    name: str
    text: str
    flow: Rows
    options: tuple[Option, ...] = ()
    settings: Rows | None = None
    derived: Callable[[Mapping[str, float], float], Mapping[str, float]] | None = None
    first: Mapping[str, str] = field(default_factory=dict)
    window: Kernel | None = None
    acknowledged: Kernel | None = None
    lost: Kernel | None = None
    paced_until: Kernel | None = None
    notice: Kernel | None = None
    noticed: Kernel | None = None
    path: Kernel | None = None
    reorders: bool = False
    marks: bool = False
    package: str = ""
    together: Compiled | None = None

    @property
    def measures(self) -> bool:
        """Return whether every packet requests an acknowledgement that measures its round trip."""
        return self.reorders or any((self.window, self.acknowledged, self.lost))

    @cached_property
    def columns(self) -> Rows:
        """Return the columns of ``net.cc``."""
        columns = [f8(o.name, o.unit, o.text) for o in self.options] or [f8("unused", "flag", "Nothing.")]
        return self.settings or Rows(f"Settings of {self.name}.", *columns)

    def checked(self, given: Mapping[str, Any]) -> dict[str, float]:
        """Return all options with their values: those that are ``given``, and defaults for the
        rest. Raises :class:`InputError`."""
        return {o.name: o.checked(given.get(o.name, o.default)) for o in self.options}

    def net_row(self, given: Mapping[str, Any], gbps: float) -> Any:
        """Return ``Net.cc`` for hosts of ``gbps``."""
        row, values = self.compiled.settings.zeros(1), self.checked(given)
        if self.together:
            row["measures"] = self.measures
        with blamed_on(self.package, f"congestion control {self.name}"):
            for name, value in (self.derived(values, gbps) if self.derived else values).items():
                row[name] = value
        return row

    def flow_rows(self, streams: int, net: Any) -> Any:
        """Return ``State.cc`` of ``streams`` streams before the first event."""
        rows = self.compiled.flow.zeros(streams)
        for column, option in self.first.items():
            rows[column] = net.cc[option]
        return rows

    @cached_property
    def compiled(self) -> Compiled:
        """Return the compiled hooks of the congestion control."""
        return self.together or Compiled(f"roce_{self.name}", self.flow, self.columns, self.kernels())

    def kernels(self) -> dict[Kernel, Kernel]:
        """Return the replacement of each transport kernel, for this congestion control alone."""
        from softib.sim.packet.kernels.congestion import cct, fecn_becn, hooks, round_trips
        from softib.sim.packet.kernels.transport import retransmission

        nothing = {"paced_until": cct.no_pace, "notice": fecn_becn.no_notice, "noticed": cct.not_noticed}
        replaced = {}
        for name, place in _hooks().items():
            kernel = getattr(self, name) or nothing.get(name)
            if kernel is not None:
                replaced[place] = kernel
        if self.measures:
            replaced |= {
                hooks.within_window: round_trips.within_measured_window,
                hooks.packet_sent: round_trips.stamp,
                hooks.data_arrived: round_trips.note_arrival,
                hooks.ack_leaves: round_trips.echo,
                hooks.ack_arrived: round_trips.measure,
            }
        if self.reorders:
            replaced |= {
                hooks.is_overdue: round_trips.is_missing_long,
                retransmission.go_back: round_trips.repeat_missing,
            }
        return replaced


def _hooks() -> dict[str, Kernel]:
    """Return the transport kernel that each member of :class:`CongestionControl` replaces."""
    from softib.sim.packet.kernels.congestion import cct, fecn_becn, hooks
    from softib.sim.packet.kernels.ethernet import ecmp

    return {
        "window": hooks.window,
        "acknowledged": hooks.acknowledged,
        "lost": hooks.lost,
        "paced_until": cct.paced_until,
        "notice": fecn_becn.forward_notice,
        "noticed": cct.backward,
        "path": ecmp.chosen_path,
    }


@cache
def _built_in() -> Mapping[str, CongestionControl]:
    """Return softib's congestion controls by name."""
    from softib.sim.packet.kernels.congestion.built_in import FLOW, REPLACED, SETTINGS
    from softib.sim.packet.kernels.congestion.dcqcn import DCQCN
    from softib.sim.packet.kernels.congestion.packet_spraying import SPRAY
    from softib.sim.packet.kernels.congestion.swift import SWIFT

    none = replace(DCQCN, name="none", text="senders do not react to congestion", marks=False)
    together = Compiled("roce", FLOW, SETTINGS, REPLACED)
    return {control.name: replace(control, together=together) for control in (DCQCN, SWIFT, SPRAY, none)}


@cache
def congestion_controls() -> Mapping[str, CongestionControl]:
    """Return all congestion controls of RoCE by name, softib's first. Warns about entry points that cannot be used."""
    built_in = _built_in()
    installed = extensions(GROUP, built_in, _check)
    return {
        **built_in,
        **{name: replace(one.value, package=one.package, together=None) for name, one in installed.items()},
    }


def congestion_control(name: str) -> CongestionControl:
    """Return the congestion control ``name``. Raises :class:`UnknownName` with all names."""
    controls = _built_in()
    if name not in controls:
        controls = congestion_controls()
    if name not in controls:
        raise UnknownName("congestion control", name, controls)
    return controls[name]


def _check(name: str, value: Any) -> None:
    """Raise :class:`InputError` for a ``value`` that is not a congestion control called ``name``."""
    from softib.sim.packet.options import ETHERNET_NAMES

    if not isinstance(value, CongestionControl) or not isinstance(value.flow, Rows):
        raise InputError(
            "the entry point is not a softib.sim.packet.congestion_control.CongestionControl with Rows as its flow"
        )
    if value.name != name:
        raise InputError(f"its name is {value.name!r}; use the name of the entry point")
    for hook, place in _hooks().items():
        kernel = getattr(value, hook)
        if kernel is None:
            continue
        if not isinstance(kernel, Kernel):
            raise InputError(f"its {hook} is not a kernel; use softib.jit.inner")
        if len(signature(kernel.python).parameters) != len(signature(place.python).parameters):
            raise InputError(f"its {hook} has other arguments; use {hook}{signature(place.python)}")
    taken = sorted({option.name for option in value.options} & ETHERNET_NAMES)
    if taken:
        raise InputError(f"its option {taken[0]} is an option of Ethernet; use another name")
    value.checked({})
    columns = {column.name for column in value.flow}, {column.name for column in value.columns}
    for column, option in value.first.items():
        if column not in columns[0] or option not in columns[1]:
            raise InputError(f"its first values name {column}: {option}; use a column of flow and one of net.cc")
