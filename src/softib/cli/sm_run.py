"""``softib sm run``: our subnet manager on a umad device."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from softib.cli.manager_options import given_settings, manager_options
from softib.cli.output import Compiling, print_json, printable, show_line

if TYPE_CHECKING:
    from softib.live.umad_sm.manager import UmadManager
    from softib.sm.dry_run import Change

LINE_S = 0.5
GC_EVERY = 200_000
SHOWN_ROWS = 12
"""Lines of one node's changes on a terminal; JSON has all."""


@click.command()
@click.argument("device", required=False)
@click.option("--guid", "-g", metavar="GUID", help="The port with this PortGUID.")
@click.option("--once", "-o", is_flag=True, help="Leave when the subnet is up.")
@click.option("--dry-run", is_flag=True, help="Print what would change, by node, and send no Set.")
@click.option("--take-over", is_flag=True,
              help="Take the subnet from a live master: priority 15 makes it hand over (IBA 14.4.1).")  # fmt: skip
@click.option(
    "--maxsmps", "-n", type=click.IntRange(1, 1024), default=8, show_default=True, help="Requests on the wire."
)
@click.option(
    "--guid2lid",
    "lids",
    metavar="FILE",
    help="Where LIDs are kept (default: OSM_CACHE_DIR, the running fabric, or your cache).",
)
@click.option("--log-file", "-f", metavar="FILE", help="Log as lines of JSON.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--log-max-mb", type=click.IntRange(0, 10**5), default=100, show_default=True,
              help="Begin the log file anew at this size; five older ones are kept. 0: never.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="JSON alone on stdout: the sweep, or what would change.")
@manager_options
def command(
    device: str | None, guid: str | None, once: bool, dry_run: bool, take_over: bool, maxsmps: int, lids: str | None,
    log_file: str | None, log_level: str, log_max_mb: int, as_json: bool, manager: dict[str, Any],
) -> int:  # fmt: skip
    """Manage the subnet of DEVICE: umad0, mlx5_0, mlx5_0:1, /dev/infiniband/umad0 or a PortGUID; default: the first port that is up.

    \b
    softib run -- softib sm run --once         # a fabric of 'softib up --sm external'
    softib sm run mlx5_0 --dry-run             # hardware: what would this manager change?

    A live master is left alone, unless --priority N says to take part in the election, or --take-over. SIGHUP reads the
    files anew.
    """
    import gc
    from pathlib import Path

    from softib.jit import on_compiling
    from softib.live.internal_sm.settings import ManagerSettings
    from softib.live.umad_client.devices import find_device
    from softib.live.umad_sm import session
    from softib.live.umad_sm.log import set_up_log
    from softib.live.umad_sm.manager import Hooks

    gc.set_threshold(GC_EVERY)  # columns hold nearly all that there is; a bring-up makes no cycles to look for
    given, sm_config, partitions = given_settings(manager)
    settings = ManagerSettings(given, sm_config, partitions, {}, lambda text: click.echo(f"softib: {text}", err=True))
    config = settings.read()
    found = find_device(device, None if guid is None else _guid(guid))
    live = sys.stderr.isatty()
    log = set_up_log(log_level, log_file, log_max_mb, to_stderr=not live and not once and not dry_run)
    on_compiling(Compiling(show_line))
    line = Line(live)
    hooks = Hooks(line, reread=settings.read, lids=Path(lids) if lids else session.default_lids(found))
    plan = session.Plan(once, "priority" in given or bool(config.priority), take_over, maxsmps)
    log.info(
        "begin", extra={"port": str(found), "guid": f"{found.guid:#018x}", "engine": config.engine, "dry_run": dry_run}
    )
    try:
        if dry_run:
            of, changes, master = session.dry_run(found, config, plan, hooks)
            line.clear()
            _show_changes(of, changes, None if master is None else str(master), as_json)
            return 0
        of = session.serve(found, config, plan, hooks)
    finally:
        line.clear()
    log.info("end", extra={"state": of.sm.state.name})
    if as_json:
        print_json({"state": of.sm.state.name, "sweeps": of.sm.sweeps, "port": str(found), **of.sm.report.as_dict()})
    elif once:
        _summary(of)
    return 0


def _guid(text: str) -> int:
    from softib.errors import InputError

    try:
        return int(text, 16)
    except ValueError:
        raise InputError(f"-g {text}: a PortGUID is hexadecimal, e.g. 0x0002c90300001234") from None


class Line:
    """The live line on a terminal: phase, nodes found, MADs and MADs a second."""

    def __init__(self, live: bool):
        self.live, self.next_s, self.last = live, 0.0, (0, time.monotonic())
        self.shown = False

    def __call__(self, manager: UmadManager) -> None:
        """After a step."""
        now = time.monotonic()
        if not self.live or now < self.next_s:
            return
        self.next_s = now + LINE_S
        show_line(self.text(manager, now))
        self.shown = True

    def text(self, manager: UmadManager, now: float) -> str:
        """79 columns at most."""
        sm = manager.sm
        rate = (sm.transactor.sent - self.last[0]) / max(now - self.last[1], 1e-9)
        self.last = (sm.transactor.sent, now)
        doing = sm.phase or sm.state.name
        return f"{doing}: {sm.database.n_nodes} nodes, {sm.transactor.sent} MADs, {rate:.0f} MADs/s, sweep {sm.sweeps}"[
            :71
        ]

    def clear(self) -> None:
        """Leave the line empty."""
        if self.shown:
            click.echo("\r\033[K", nl=False, err=True)
            self.shown = False


def _summary(manager: UmadManager) -> None:
    report = manager.sm.report
    for problem in report.problems:
        click.echo(printable(f"softib: {problem}"), err=True)
    seconds = sum(report.phase_s.values())
    click.echo(
        f"softib: {report.switches} switches, {report.cas} CAs, {report.links} cables; {report.sent} MADs ({report.sets} Sets) in "
        f"{seconds:.2f} s; {manager.sm.state.name}",
        err=True,
    )


def _show_changes(manager: UmadManager, changes: list[Change], master: str | None, as_json: bool) -> None:
    if as_json:
        nodes = [{"node": c.name, "node_guid": f"{c.guid:#018x}", "attribute": c.attr, "modifier": c.modifier,
                 "changes": [{"what": w, "now": a, "then": b} for w, a, b in c.rows]} for c in changes]  # fmt: skip
        print_json({"master": master, "changes": nodes, "sweep": manager.sm.report.as_dict()})
        return
    if master is not None:
        click.echo(f"softib: this subnet has a master: {printable(master)}", err=True)
    lines: dict[tuple[str, int], list[str]] = {}
    for change in changes:
        lines.setdefault((change.name, change.guid), []).extend(_lines(change))
    for (name, guid), rows in lines.items():
        click.echo(printable(f"{name} ({guid:#018x})"))
        for row in rows[:SHOWN_ROWS]:
            click.echo(printable(row))
        if len(rows) > SHOWN_ROWS:
            click.echo(f"    … and {len(rows) - SHOWN_ROWS} more lines (--json has all)")
    for problem in manager.sm.report.problems:
        click.echo(printable(f"softib: {problem}"), err=True)
    click.echo(f"softib: {len(lines)} nodes and {len(changes)} attributes would change; nothing was set", err=True)


def _lines(change: Change) -> list[str]:
    """Two lines a field, as in a diff; runs of table entries with the same change are one."""
    out: list[str] = []
    where = f"{change.attr}[{change.modifier}]" if change.attr in ("PortInfo", "GUID_INFO") else change.attr
    run: list[tuple[str | int, int, int]] = []
    for row in (*change.rows, None):
        fits = (
            row is not None
            and run
            and isinstance(row[0], int)
            and (row[0], *row[1:]) == (int(run[-1][0]) + 1, *run[-1][1:])
        )
        if row is not None and (not run or fits):
            run.append(row)
            continue
        first, now, then = run[0]
        name = f".{first}" if isinstance(first, str) else f"[{first}]" if len(run) == 1 else f"[{first}-{run[-1][0]}]"
        out += [f"  - {where}{name}: {now}", f"  + {where}{name}: {then}"]
        run = [] if row is None else [row]
    return out
