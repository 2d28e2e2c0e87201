"""All kinds of fault of a running fabric in one table: their locations, options and legal values."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softib.agents.optical_faults import COLDEST_C, HOTTEST_C, MOST_DB
from softib.errors import InputError

__all__ = ["KINDS", "LiveFault", "flap_times", "options_of", "rate_option"]

PS = 10**12
RATES = ("ber", "gbps", "share", "db", "celsius")
"""Options that the argument RATE of ``softib fault`` sets."""
LEAST_PERIOD_S = 0.02
"""Shortest period of a flap in seconds. (The daemon reads its clock only once in each step of its loop.)"""


def _number(least: float, most: float) -> Callable[[Any], float]:
    """Return a parser of finite numbers from ``least`` to ``most``."""

    def parse(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError
        return float(value)

    return parse


_seconds, _decibels, _celsius = _number(LEAST_PERIOD_S, 1e6), _number(0, MOST_DB), _number(COLDEST_C, HOTTEST_C)
_ratio, _share, _rate = _number(0, math.nextafter(1, 0)), _number(0, 1), _number(0, sys.float_info.max)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 10**9:
        raise ValueError
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _guid(value: Any) -> str:
    """Return a GUID as in NodeInfo: 64 bits, not 0 (IBA 4.1.1)."""
    if not isinstance(value, str) or not re.fullmatch("(0x)?[0-9a-fA-F]{1,16}", value) or not int(value, 16):
        raise ValueError
    return f"{int(value, 16):#018x}"


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value.upper()


@dataclass(frozen=True)
class Option:
    """An option of a fault. ``parse`` raises ValueError for an invalid value; ``doc`` describes the legal values."""

    parse: Callable[[Any], Any]
    doc: str
    default: Any = None


@dataclass(frozen=True)
class LiveFault:
    """A kind of fault: its location (``of_node``: a node, otherwise a port), its options, and which of the options are
    required."""

    doc: str
    place: str = "a port, for example leaf-3[40]"
    of_node: bool = False
    options: Mapping[str, Option] = field(default_factory=dict)
    needed: tuple[str, ...] = ()


KINDS: dict[str, LiveFault] = {
    "link-down": LiveFault("the cable carries no signal; the link stays down until link-up"),
    "link-up": LiveFault("the cable carries a signal again; the link trains to INIT"),
    "flap": LiveFault(
        "the link goes down and comes up repeatedly",
        options={
            "period_s": Option(_seconds, f"seconds from one flap to the next, from {LEAST_PERIOD_S}", 2.0),
            "count": Option(_count, "number of flaps, from 1"),
            "duration_s": Option(_seconds, "time in seconds after which no new flap begins"),
            "down_s": Option(_seconds, "duration of each flap in seconds, less than the period (default: half of it)"),
        },
    ),
    "ber": LiveFault(
        "the cable makes bit errors; 0 removes the fault",
        needed=("ber",),
        options={"ber": Option(_ratio, "a raw bit error ratio, at least 0 and less than 1, for example 1e-9")},
    ),
    "attenuation": LiveFault(
        "light on the way to the port is lost (a dirty connector, a bend); 0 removes the fault",
        needed=("db",),
        options={"db": Option(_decibels, f"optical loss in dB, from 0 to {MOST_DB:g}")},
    ),
    "weak-laser": LiveFault(
        "the laser of the port sends less light; 0 removes the fault",
        needed=("db",),
        options={"db": Option(_decibels, f"optical loss in dB, from 0 to {MOST_DB:g}")},
    ),
    "hot-module": LiveFault(
        "the module in the port reports this temperature",
        needed=("celsius",),
        options={"celsius": Option(_celsius, "degrees Celsius, from -100 to 120")},
    ),
    "downgrade": LiveFault(
        "the link retrains, with at most this width and speed",
        options={
            "width": Option(_count, "lanes: 1, 2, 4, 8 or 12"),
            "speed": Option(_text, "a generation, for example EDR"),
        },
    ),
    "slow-port": LiveFault(
        "the port drains data VLs slowly; its peer waits, or discards after HOQLife",
        needed=("gbps",),
        options={
            "gbps": Option(_rate, "rate at which the port drains, in Gb/s; 0: not at all"),
            "overrun": Option(_flag, "true: the port grants credits although it is slow, so its buffer overruns"),
        },
    ),
    "flow-control": LiveFault(
        "the port omits flow-control packets, so its peer's watchdog expires; 0 removes the fault",
        needed=("share",),
        options={"share": Option(_share, "share of the flow-control packets that the port omits, from 0 to 1")},
    ),
    "switch-down": LiveFault("a switch loses power", place="a switch, for example leaf-3", of_node=True),
    "switch-up": LiveFault(
        "the switch has power again, with power-up values", place="a switch, for example leaf-3", of_node=True
    ),
    "sys-guid": LiveFault(
        "a node takes another SystemImageGUID (verb Modify HCA, IBA 11.2.1.3), which trap 145 reports",
        place="a node, for example leaf-3",
        of_node=True,
        needed=("guid",),
        options={"guid": Option(_guid, "64 bits in hex, not 0, for example 0x0002c90300a1b2c3")},
    ),
    "list": LiveFault("lists the faults of the fabric", place=""),
    "clear": LiveFault("clears all faults of a link or a switch, or of the whole fabric", place="a port or a node"),
}
"""All kinds of fault by name, as in ``softib fault`` and on the control socket."""


def rate_option(kind: str) -> str | None:
    """Return the option of ``kind`` that RATE sets; None if there is none."""
    return next((name for name in KINDS[kind].needed if name in RATES), None)


def _called(option: str) -> str:
    """Return the option's name on the command line (an option of ``softib fault``, or RATE), and its name on the
    control socket."""
    flag = "RATE" if option in RATES else f"--{option.removesuffix('_s')}"
    return flag if flag == f"--{option}" else f"{flag} ({option})"


def options_of(kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of ``kind``: the checked values in ``request``, and defaults for the others. Raises
    :class:`InputError`."""
    allowed = KINDS[kind].options
    given = {k: v for k, v in request.items() if k not in ("op", "kind", "where") and v is not None}
    out = {name: option.default for name, option in allowed.items() if option.default is not None}
    for name, value in given.items():
        if name not in allowed:
            takes = " and ".join(map(_called, allowed)) or "no options"
            raise InputError(f"fault {kind} does not take {_called(name)}; it takes {takes}")
        try:
            out[name] = allowed[name].parse(value)
        except ValueError:
            raise InputError(
                f"fault {kind}: {_called(name)}: {value!r} is not a valid value; it is {allowed[name].doc}"
            ) from None
    for name in KINDS[kind].needed:
        if name not in out:
            raise InputError(f"fault {kind} needs {_called(name)}: {allowed[name].doc}")
    if kind == "flap" and out.get("down_s", 0.0) >= out["period_s"]:
        raise InputError(
            f"fault flap: {_called('down_s')}: {out['down_s']} is not less than the period of {out['period_s']} s"
        )
    return out


def flap_times(options: Mapping[str, Any]) -> tuple[int | None, int, int]:
    """Return (number of flaps, None for an unlimited number; period in ps; duration of each flap in ps)."""
    period_s = float(options["period_s"])
    count = options.get("count")
    if "duration_s" in options:
        within = math.ceil(options["duration_s"] / period_s)
        count = within if count is None else min(count, within)
    return count, int(period_s * PS), int(options.get("down_s", period_s / 2) * PS)
