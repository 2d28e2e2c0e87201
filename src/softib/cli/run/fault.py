"""``softib fault``: inject faults into a running fabric, and clear them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from softib.cli.shared import completing
from softib.cli.shared.options import fabric_option, json_option
from softib.cli.shared.output import print_json
from softib.foreign_text import shown
from softib.plural import counted
from softib.result import document

if TYPE_CHECKING:
    from softib import ActiveFault, ExpectedErrors, FaultedPlace, FaultReply

_KINDS = (
    "link-down",
    "link-up",
    "flap",
    "ber",
    "attenuation",
    "weak-laser",
    "hot-module",
    "downgrade",
    "slow-port",
    "flow-control",
    "switch-down",
    "switch-up",
    "sys-guid",
    "list",
    "clear",
)
_RATES = {
    "ber": "ber",
    "attenuation": "db",
    "weak-laser": "db",
    "hot-module": "celsius",
    "slow-port": "gbps",
    "flow-control": "share",
}
"""Kind → the option that RATE sets."""
_DONE = {
    "ber": ("bit error rate {:g}", "no bit errors"),
    "attenuation": ("{:g} dB optical loss", "no optical loss"),
    "weak-laser": ("its laser sends {:g} dB less", "its laser is well"),
    "hot-module": ("its module has {:g} °C", "its module has 0 °C"),
    "slow-port": ("it drains {:g} Gb/s", "it drains nothing"),
    "flow-control": ("leaves out {:.0%} of its flow-control packets", "sends all flow-control packets"),
}
"""Kind → text of the result for a RATE, and for RATE 0."""


SEEN_S = 86_400.0
"""If the mean interval between errors is longer than this (s), the errors are considered unobservable."""
MOST_YEARS = 1000
_SPANS = (("year", 3.156e7), ("day", 86_400.0), ("hour", 3600.0), ("second", 1.0))


@click.command()
@click.argument("kind", type=click.Choice(_KINDS))
@click.argument("locations", metavar="[NODE[PORT]]... [RATE]", nargs=-1, shell_complete=completing.nodes)
@click.option(
    "--period", "period_s", type=float, metavar="S", help=("flap: seconds between two link failures (default 2).")
)
@click.option(
    "--down",
    "down_s",
    type=float,
    metavar="S",
    help="flap: duration of each failure in seconds (default: half a period).",
)
@click.option("--count", type=int, metavar="N", help="flap: number of failures (default: until clear or link-up).")
@click.option(
    "--duration", "duration_s", type=float, metavar="S", help="flap: time in seconds after which no new failure starts."
)
@click.option("--width", type=int, metavar="LANES", help="downgrade: maximum lanes.")
@click.option("--speed", metavar="GEN", help="downgrade: maximum generation, for example EDR.")
@click.option(
    "--overrun",
    is_flag=True,
    default=None,
    help="slow-port: the port grants credits although it is slow, so its buffer overruns.",
)
@click.option("--guid", metavar="GUID", help="sys-guid: the SystemImageGUID, in hex.")
@fabric_option
@json_option
def command(kind: str, locations: tuple[str, ...], fabric: str | None, as_json: bool, **options: Any) -> int:
    """Inject a fault into a running fabric, or clear one. Both ends of a link change; switches send
    trap 128.

    \b
    link-down|link-up NODE[PORT]     no signal on the cable, or signal again
    flap NODE[PORT]                  goes down and up repeatedly
    ber NODE[PORT] RATE              bit error ratio, for example 1e-9; 0 clears
    attenuation NODE[PORT] DB        optical loss before the port; 0 clears
    weak-laser NODE[PORT] DB         its laser sends less light; 0 clears
    hot-module NODE[PORT] CELSIUS    temperature of its module
    downgrade NODE[PORT]             trains again at --width and --speed
    slow-port NODE[PORT] GBPS        drains slowly; 0 = nothing
    flow-control NODE[PORT] SHARE    omits flow-control packets; 0 clears
    switch-down|switch-up NODE       power off, or on again
    sys-guid NODE                    changes its SystemImageGUID to --guid (trap 145)
    list                             list all faults
    clear [NODE[PORT]|NODE]          clear its faults, or all faults

    Several ports or nodes can be given, by name or pattern: 'leaf-3[*]', 'leaf-*[1-4,9]', 'spine-?'.

    Example: softib fault flap 'leaf-3[40]' --period 1 --count 10
    """
    import softib
    from softib.errors import InputError

    where, rate = _locations(kind, locations)
    if rate is not None:
        name = _RATES.get(kind)
        if name is None:
            raise InputError(f"fault {kind} takes no RATE ({rate:g}); {', '.join(_RATES)} do")
        options[name] = rate
    if kind == "list" and where:
        raise InputError("fault list takes no location; it lists all faults")
    given = {k: v for k, v in options.items() if v is not None}
    reply = softib.RunningFabric(fabric).fault(kind, where[0] if len(where) == 1 else where or None, **given)
    if as_json:
        print_json(document("fault", reply))
        return 0
    for line in _lines(kind, reply, given):
        click.echo(shown(line), err=kind != "list")
    return 0


def _locations(kind: str, locations: tuple[str, ...]) -> tuple[list[str], float | None]:
    """Return (locations, RATE). RATE is the last argument, if it is a number and not the only argument."""
    from softib.errors import InputError

    try:
        rate = float(locations[-1]) if len(locations) > 1 else None
    except ValueError:
        rate = None
        if kind in _RATES and not any(sign in locations[-1] for sign in "[:/"):
            raise InputError(f"{locations[-1]!r} is not a number; fault {kind} takes NODE[PORT]... RATE") from None
    return list(locations if rate is None else locations[:-1]), rate


def _lines(kind: str, reply: FaultReply, given: dict[str, Any]) -> list[str]:
    """Return the reply as text."""
    if kind in ("list", "clear"):
        faults = reply.faults if kind == "list" else reply.cleared
        word = "" if kind == "list" else "softib: cleared "
        return [f"{word}{_fault(f)}" for f in faults or ()] or ["softib: no faults"]
    return [line for one in reply.locations or [reply] for line in _place_lines(kind, one, given)]


def _place_lines(kind: str, place: FaultedPlace, given: dict[str, Any]) -> list[str]:
    """Return the link or node as text."""
    if place.sys_guid is not None:
        return [f"softib: {place.node}: SystemImageGUID {place.sys_guid}"]
    if place.node is not None:
        return [f"softib: {place.node}: {'power is on' if place.power else 'no power'}"]
    link = f"softib: {' ↔ '.join(place.ports or ())}: "
    done = [f"{link}{_done(kind, given)}; state {place.state}"]
    return [*done, f"{link}{_effect(place.errors)}"] if place.errors is not None and place.errors.raw_ber else done


def _effect(errors: ExpectedErrors) -> str:
    """Return the effect of the bit errors of a link."""
    raw, lost = errors.raw_ber, errors.symbol_errors_per_s
    if not errors.fec:
        return f"raw BER {raw:.2g}; no FEC at this speed: symbol errors are expected {_often(lost)}"
    left = f"one that it cannot is expected {_often(lost)} (post-FEC BER {errors.post_fec_ber:.1g})"
    if lost * SEEN_S < 1:
        left += ": only counters of corrected codewords move"
    return f"raw BER {raw:.2g}; {errors.fec} corrects codewords {_often(errors.corrected_codewords_per_s)}; {left}"


def _often(per_s: float) -> str:
    """Return the expected frequency of errors as text."""
    if per_s >= 1:
        return f"{per_s:,.0f} times a second"
    unit, seconds = next(((u, s) for u, s in _SPANS if per_s * s <= 1), _SPANS[-1])
    if per_s * seconds * MOST_YEARS < 1 and unit == "year":
        return "not in a thousand years"
    return f"every {counted(round(1 / (per_s * seconds)), unit)}"


def _done(kind: str, given: dict[str, Any]) -> str:
    """Return the change of the link as text."""
    rate = given.get(_RATES.get(kind, ""), 0)
    if kind in _DONE:
        text = _DONE[kind][0 if rate else 1]
        return text.format(rate)
    if kind == "flap":
        often = f", {given['count']} times" if "count" in given else " until clear"
        return f"goes down every {given.get('period_s', 2):g} s{often}"
    if kind == "downgrade":
        most = [f"{given['width']}x" if "width" in given else "", str(given.get("speed", ""))]
        return f"trains again at {' '.join(m for m in most if m)} at most"
    return {"link-down": "no signal on the cable", "link-up": "signal on the cable again"}[kind]


def _fault(fault: ActiveFault) -> str:
    options = [
        f"{k.removesuffix('_s')} {v:g}" if isinstance(v, int | float) else f"{k} {v}"
        for k, v in fault.options().items()
    ]
    return f"{fault.kind} {fault.where} {', '.join(options)}{', ' if options else ''}since {fault.age_s:.0f} s"
