"""A simulation for people at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softib.render.phrases import bytes_text, time_text
from softib.render.simulation_failures import print_failures
from softib.render.terminal import text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_simulation"]

SLOWEST = PORTS = 3
LEAST_GAIN = 0.8
"""Another engine is worth a line where its busiest link carries at most this share."""


def print_simulation(s: dict[str, Any], console: Console) -> None:
    """Print the figures of :meth:`softib.Simulation.to_json`."""
    line = lambda *parts: console.print(text(" ".join(parts)))
    console.print(text(f"{s['workload']} on {s['fabric'] or s['source']}", "bold"))
    took = f"{_us(s['simulated_us'])} of virtual time, computed in {s['wall_s']:.2f} s"
    done = text(f"{s['messages']:,} messages completed: {took}", "green")
    console.print(done if s["good"] else text(f"Not all of {s['messages']:,} messages completed: {took}", "bold red"))
    line(f"{s['layer']} layer, tables: {s['engine']}, seed {s['seed']}")
    for why in s["why_not"]:
        console.print(text(f"The {s['layer']} layer's model does not hold: {why}", "yellow"))
    for note in s["notes"]:
        line(f"Note: {note}")
    if s.get("latency_us"):
        console.print()
        line("latency:", ", ".join(f"{k} {_us(v)}" for k, v in s["latency_us"].items()))
    if "phases" in s:
        line(
            f"{s['phases']:,} phases, at most {s['most_flows']} flows on a link ({s['phases_by_message']} phases run message by message)"
        )
    print_failures(s, console)
    _jobs(s, console)
    _slowest(s, console)
    _ports(s, console)
    _other(s, console)


def _jobs(s: dict[str, Any], console: Console) -> None:
    for j in s.get("jobs", ()):
        end = (
            f"{_us(j['began_us'])} to {_us(j['ended_us'])}, {j['gbps']:,.1f} Gb/s"
            if j["ended_us"] is not None
            else "not completed"
        )
        console.print(text(f"job {j['job']}: {j['messages']:,} messages, {bytes_text(j['bytes'])}, {end}"))


def _slowest(s: dict[str, Any], console: Console) -> None:
    console.print()
    for m in s["slowest"][:SLOWEST]:
        if "shift" in m:
            console.print(
                text(f"slowest: shift {m['shift']}: {_us(m['took_us'])}, {m['most_flows']} flows on the fullest link")
            )
        else:
            console.print(text(
                f"slowest: {m['source']} to {m['destination']}, {bytes_text(m['size'])}: {_us(m['latency_us'])}, {m['gbps']:.1f} Gb/s"
            ))  # fmt: skip


def _ports(s: dict[str, Any], console: Console) -> None:
    for p in s.get("ports", ())[:PORTS]:
        pairs = ", ".join(f"{t['source']} to {t['destination']} {t['share']:.0%}" for t in p["top_pairs"])
        console.print()
        console.print(
            text(f"{p['port']} to {p['peer']}: busy {p['load']:.1%} of the run, {bytes_text(p['bytes'])}", "bold")
        )
        console.print(text(f"  {p['cause']}"))
        console.print(
            text(f"  {p['pairs']:,} pair{'' if p['pairs'] == 1 else 's'} (hop {p['hop']} of {p['hops']}): {pairs}")
        )
        console.print(text(f"  would help: {p['help']}"))


def _other(s: dict[str, Any], console: Console) -> None:
    better = {e: r for e, r in s.get("other_engines", {}).items() if r <= LEAST_GAIN}
    if better:
        console.print()
        console.print(text("other engines: " + ", ".join(
            f"{e}'s busiest link between switches has {r:.0%} of what it has now" for e, r in better.items()
        )))  # fmt: skip
    if "what_if" in s:
        other = s["what_if"]
        console.print()
        ratio = other["simulated_us"] / s["simulated_us"] if s["simulated_us"] else 1.0
        console.print(
            text(f"what if {other['change']}: {_us(other['simulated_us'])}, {ratio:.2f} times as long", "bold")
        )


def _us(us: float) -> str:
    return time_text(us * 1e6)
