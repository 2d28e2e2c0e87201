"""What ``softib top`` shows: the last interval of a fabric on one screen."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from softib.monitor.ranking import ORDERS, PortRow, ranked
from softib.monitor.watch import Watch

__all__ = ["top_screen"]

TITLES = {"busy": "busiest", "waiting": "most waiting", "errors": "erring"}
FRAME = 7
"""Lines that are no ports: header, manager, title, head of the table, help."""
SHORT = {
    "symbol_error_counter": "symbol", "link_error_recovery_counter": "recovery", "link_downed_counter": "down", "port_rcv_errors": "rcv",
    "port_rcv_remote_physical_errors": "remote", "port_xmit_discards": "discard", "port_xmit_constraint_errors": "xmit-constraint",
    "port_rcv_constraint_errors": "rcv-constraint", "local_link_integrity_errors": "integrity", "excessive_buffer_overrun_errors": "overrun",
    "vl15_dropped": "vl15", "port_fec_uncorrectable_block_ctr": "fec-lost",
}  # fmt: skip


def top_screen(watch: Watch, order: str = "busy", lines: int = 24) -> RenderableType:
    """One screen of ``lines`` lines, ports by ``order``."""
    one, interval = watch.round, watch.interval
    if one is None:
        return Text("reading the first round …")
    head = Text(f"{watch.opened.name}: {int(one.reading.answered.sum())} of {len(one.reading)} ports read in {one.duration_s:.2f} s, {one.mads} MADs, "
                f"{len(one.silent)} devices silent")  # fmt: skip
    body: RenderableType
    if interval is None:
        body = Text("one more round, and rates can be told")
    elif len(interval.guid) != len(one.targets.ports):
        body = Text("the fabric has changed; one more round, and rates can be told")
    else:
        body = _table(ranked(one.targets.ports, interval, order, max(1, lines - FRAME)), order)
    keys = "  ".join(f"{o[0]} {TITLES[o]}" for o in ORDERS)
    return Group(
        head,
        _manager(watch),
        Panel(body, title=f"{TITLES[order]} ports", padding=(0, 1)),
        Text(f"{keys}  q quit", style="dim"),
    )


def _manager(watch: Watch) -> Text:
    reported = watch.manager.reported.get("sm", {})
    parts = []
    for m in watch.manager.managers.values():
        state = "does not answer" if not m.answers else "STALLED" if m.stalled else m.state
        parts.append(f"{m.guid:#018x} {state}, priority {m.priority}")
    text = "; ".join(parts) or "none seen"
    if "sweeps" in reported:
        text += f"; {reported['sweeps']} sweeps, the last in {sum(watch.manager.sweep_s.values()):.2f} s"
    return Text(
        f"subnet manager: {text}", style="bold red" if not parts or "STALLED" in text or "not answer" in text else ""
    )


def _table(rows: list[PortRow], order: str) -> RenderableType:
    if not rows:
        return Text({"busy": "nothing is sent", "waiting": "nothing waits", "errors": "no error counter rose"}[order])
    table = Table(box=None, expand=True, pad_edge=False)
    for name in ("port", "to", "sent Gb/s", "received", "load", "waits", "errors"):
        table.add_column(
            name, justify="right" if name in ("sent Gb/s", "received", "load", "waits") else "left", no_wrap=True
        )
    for r in rows:
        errors = " ".join(f"{SHORT[name]}+{n}" for name, n in r.errors)
        table.add_row(Text(r.name), Text(r.peer), f"{r.sent_gbps:.2f}", f"{r.received_gbps:.2f}", f"{r.utilization:.0%}", f"{r.waiting:.0%}",
                      Text(errors, style="red" if errors else ""))  # fmt: skip
    return table
