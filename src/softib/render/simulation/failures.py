"""The faults of a simulation and the reaction of the subnet manager, as text lines for the terminal and
the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from softib.plural import counted
from softib.render.phrases import time_text

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["failure_lines", "print_failures"]

BREAK_NOTHING = ("ber", "slow-port")
"""Faults that leave the link up, so they break no path."""


def print_failures(s: dict[str, Any], console: Console) -> None:
    """Print the lines of :func:`failure_lines`, if there are any."""
    from softib.render.terminal import text

    lines = failure_lines(s)
    if lines:
        console.print()
    for line in lines:
        console.print(text(line))


def failure_lines(s: dict[str, Any]) -> list[str]:
    """Return lines about the faults in the document ``s`` of :meth:`softib.Simulation.to_json`; empty without
    faults."""
    if not s.get("faults"):
        return []
    lines = [line for f in s["faults"] for line in _fault(f, s["management"]["sm"] == "internal")]
    m, r = s["management"], s["retransmission"]
    if m["sm"] == "internal":
        dropped = f", {m['vl15_dropped']:,} dropped in VL15 buffers" if m["vl15_dropped"] else ""
        lines.append(
            f"subnet manager ({m['engine']}) on {m['node']}: {counted(m['sent'], 'MAD')} on the wire, {m['lost']:,} "
            f"lost{dropped}, "
            f"{counted(m['tables_written'], 'table block')} written in {counted(len(m['sweeps']), 'sweep')}"
        )
    else:
        lines.append("no subnet manager: nothing re-routes")
    damaged = f"{r['packets_damaged']:,} damaged by bit errors, " if r["packets_damaged"] else ""
    lines.append(
        f"packets: {damaged}{r['packets_lost_on_wire']:,} lost on the wire, {r['packets_discarded']:,} discarded at "
        f"ports that are down, {r['packets_resent']:,} sent again"
    )
    lines.append(
        f"messages: {r['messages_lost']:,} lost, {r['messages_resent']:,} sent again in part, "
        f"{r['messages_late']:,} of these arrived"
    )
    if s["unreachable"]:
        lines.append(f"No link leads to {', '.join(s['unreachable'][:10])}{' …' if len(s['unreachable']) > 10 else ''}")
    return lines


def _fault(f: dict[str, Any], managed: bool) -> list[str]:
    head = f"fault {f['kind']} {f['where']} at {_us(f['at_us'])}"
    if not f["happened"]:
        return [f"{head}: the run had already ended"]
    if f["kind"] in BREAK_NOTHING:
        return [head]
    lines = [
        f"{head}: {counted(f['lost_on_wire'], 'packet')} lost on the wire, {f['discarded']:,} discarded, "
        f"{counted(f['paths_broken'], 'path')} broken"
    ]
    if f["trap_us"] is not None:
        ended = "did not end" if f["sweep_ended_us"] is None else f"ended after {_us(f['sweep_ended_us'] - f['at_us'])}"
        began = (
            ""
            if f["sweep_began_us"] is None
            else f"; its sweep began after {_us(f['sweep_began_us'] - f['at_us'])} and {ended}"
        )
        lines.append(f"  trap at the manager after {_us(f['trap_us'] - f['at_us'])}{began}")
    elif managed and f["paths_broken"]:
        lines.append("  no trap reached the manager")
    if f["paths_broken"]:
        back = (
            "  its paths did not come back"
            if f["paths_back_us"] is None
            else f"  paths back after {_us(f['paths_back_us'] - f['at_us'])}"
        )
        lines.append(back)
    return lines


def _us(us: float) -> str:
    return time_text(us * 1e6)
