"""``softib sm run``: softib's subnet manager on a umad device."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from softib.cli.shared.named_files import OutputFile
from softib.cli.shared.options import given_settings, manager_options
from softib.cli.shared.output import Compiling, print_json, print_notice, show_line
from softib.foreign_text import shown
from softib.plural import counted

if TYPE_CHECKING:
    from softib import AttributeChange, PlannedChanges, UmadManager, UmadManagers

LINE_S = 0.5
SHOWN_ROWS = 12
"""Maximum number of lines about the changes of one node on a terminal. JSON contains all changes."""
SHOWN_NOTES = 12


@click.command()
@click.argument("devices", metavar="[DEVICE[=CONF]]...", nargs=-1)
@click.option("--guid", "-g", metavar="GUID", help="Use the port with this PortGUID.")
@click.option("--once", "-o", is_flag=True, help="Exit when the subnet is up.")
@click.option("--dry-run", is_flag=True, help="Print each node's changes; send no Sets.")
@click.option(
    "--take-over", is_flag=True, help="Take the subnet from a live master: priority 15 makes it hand over (IBA 14.4.1)."
)
@click.option(
    "--maxsmps",
    "-n",
    type=click.IntRange(1, 1024),
    default=8,
    show_default=True,
    help="Maximum number of outstanding requests.",
)
@click.option(
    "--guid2lid",
    "lids",
    metavar="FILE",
    type=OutputFile(),
    help=(
        "File that keeps the LIDs between runs; the M_Keys are kept next to it (default: OSM_CACHE_DIR, the running "
        "fabric, or your cache)."
    ),
)
@click.option(
    "--sa-db",
    "database",
    metavar="FILE",
    type=OutputFile(),
    help=(
        "Keep multicast groups, subscriptions and services between runs in FILE, in the format of OpenSM's "
        "opensm-sa.dump."
    ),
)
@click.option("--log-file", "-f", metavar="FILE", type=OutputFile(), help="Log as lines of JSON.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option(
    "--log-max-mb",
    type=click.IntRange(0, 10**5),
    default=100,
    show_default=True,
    help="Restart the log file at this size; five older ones are kept. 0: never.",
)
@click.option(
    "--strict",
    is_flag=True,
    help=(
        "Exit with code 1 if the requested engine did not compute the tables, a pair has no path, a credit loop "
        "can form, or the first sweep left out a device or port."
    ),
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help=("Print only JSON on stdout: the result of the sweep, or the changes of a dry run."),
)
@manager_options
def command(
    devices: tuple[str, ...],
    guid: str | None,
    once: bool,
    dry_run: bool,
    take_over: bool,
    maxsmps: int,
    lids: str | None,
    database: str | None,
    log_file: str | None,
    log_level: str,
    log_max_mb: int,
    strict: bool,
    as_json: bool,
    manager: dict[str, Any],
) -> int:
    """Manage the subnet of DEVICE: umad0, mlx5_0, mlx5_0:1, /dev/infiniband/umad0 or a PortGUID;
    default: the first active port.

    \b
    softib run -- softib sm run --once         # a fabric of 'softib up --sm external'
    softib sm run mlx5_0 --dry-run             # hardware: what would this manager change?
    softib sm run mlx5_0=a.conf mlx5_1=b.conf  # two subnets, each with its own options

    With several DEVICEs, one process manages the subnet of each. CONF is a file of OpenSM's options for this DEVICE,
    instead of --sm-config. A live master keeps the subnet, unless --priority N (take part in the election) or
    --take-over is given. On SIGHUP, the manager reads its files again.
    """
    import softib

    given, sm_config, partitions = given_settings(manager)

    def of(device: str | None) -> UmadManager:
        name, _, conf = (device or "").partition("=")
        return softib.UmadManager(
            name or None,
            guid=None if guid is None else _guid(guid),
            manager=given,
            sm_config=conf or sm_config,
            partitions=partitions,
            lids=lids,
            database=database,
            window=maxsmps,
            notice=print_notice,
        )

    if len(devices) > 1 and guid is not None:
        raise softib.InputError("-g selects a single port; with several DEVICEs use PortGUIDs instead")
    if len(devices) > 1:
        several = softib.UmadManagers([of(d) for d in devices])
        planned = _go(several, once, dry_run, take_over, strict, not as_json, (log_file, log_level, log_max_mb))
        code = _show_several(several, planned, once, as_json)
        return code or int(strict and any(one.faults for one in several))
    one = of(devices[0] if devices else None)
    planned = _go(one, once, dry_run, take_over, strict, not as_json, (log_file, log_level, log_max_mb))
    _show(one, planned[0] if planned else None, once, as_json)
    return int(strict and bool(one.faults))


def _go(
    managers: UmadManager | UmadManagers,
    once: bool,
    dry_run: bool,
    take_over: bool,
    strict: bool,
    reports: bool,
    log: tuple[str | None, str, int],
) -> list[PlannedChanges]:
    """Run the managers until they end; return the planned changes of a dry run."""
    import softib

    line = Line(managers, sys.stderr.isatty(), reports and not once and not dry_run)
    path, level, max_mb = log
    managers.log_to(path, level=level, max_mb=max_mb, to_stderr=not line.live and not once and not dry_run)
    softib.on_compiling(Compiling())
    try:
        if dry_run:
            planned = managers.dry_run(on_step=line)
            return planned if isinstance(planned, list) else [planned]
        managers.serve(once=once, take_over=take_over, strict=strict, on_step=line)
        return []
    finally:
        line.clear()


def _show(one: UmadManager, planned: PlannedChanges | None, once: bool, as_json: bool) -> None:
    if as_json:
        print_json((planned if planned is not None else one).to_json())
    elif planned is not None:
        _show_changes(planned)
        _show_tables(one)
    elif once:
        _summary(one)


def _show_several(many: UmadManagers, planned: list[PlannedChanges], once: bool, as_json: bool) -> int:
    """Print the report of all managers, port by port. Return the exit code: 2 if a manager could not continue."""
    if as_json:
        print_json(many.to_json(planned))
    else:
        for i, one in enumerate(many):
            if planned:
                click.echo(shown(one.port))
            _show(one, planned[i] if planned else None, once, False)
    for why in many.failed:
        print_notice(why)
    return 2 if many.failed else 0


def _guid(text: str) -> int:
    from softib.errors import InputError

    try:
        return int(text, 16)
    except ValueError:
        raise InputError(f"-g {text}: a PortGUID is hexadecimal, e.g. 0x0002c90300001234") from None


class Line:
    """The status line on a terminal: phase, number of discovered nodes, number of MADs and MADs per second. With
    ``reports``, the tables of each manager are printed to stdout whenever they change.
    """

    def __init__(self, managers: UmadManager | UmadManagers, live: bool, reports: bool):
        self.managers, self.reports = managers, reports
        self.reported: dict[str, list[str]] = {}
        self.live, self.next_s, self.last = live, 0.0, (0, time.monotonic())
        self.shown = False

    def __call__(self, stepped: UmadManager) -> None:
        """Update the status line after a step of a manager."""
        if self.reports and not stepped.phase:
            self.report(stepped)
        now = time.monotonic()
        if not self.live or now < self.next_s:
            return
        self.next_s = now + LINE_S
        show_line(self.text(self.managers, now))
        self.shown = True

    def report(self, idle: UmadManager) -> None:
        """Print the quality and notes of a manager's tables if a sweep changed the tables or these notes."""
        lines = _about_tables(idle)
        if lines and lines != self.reported.get(idle.port):
            self.reported[idle.port] = lines
            self.clear()
            _show_tables(idle)

    def text(self, manager: UmadManager | UmadManagers, now: float) -> str:
        """Return the line, at most 79 columns."""
        counts = manager.counts
        rate = (counts["mads"] - self.last[0]) / max(now - self.last[1], 1e-9)
        self.last = (counts["mads"], now)
        text = f"{counted(counts['mads'], 'MAD')}, {rate:.0f} MADs/s"
        if manager.phase or manager.state != "STANDBY":  # a standby does not sweep
            text = f"{counted(counts['nodes'], 'node')}, {text}, sweep {counts['sweeps']}"
        return f"{manager.phase or manager.state}: {text}"[:71]

    def clear(self) -> None:
        """Clear the line."""
        if self.shown:
            click.echo("\r\033[K", nl=False, err=True)
            self.shown = False


def _about_tables(manager: UmadManager) -> list[str]:
    """Return lines about the quality of the tables, then further notes of the sweep that created them."""
    lines = [fault for fault in manager.faults if fault not in manager.problems] or [manager.verdict] * bool(
        manager.verdict
    )
    return [*lines, *(note for note in manager.notes if not any(note in line for line in lines))]


def _show_tables(manager: UmadManager) -> None:
    lines = _about_tables(manager)
    for line in lines[:SHOWN_NOTES]:
        click.echo(shown(f"{manager.port}: {line}"))
    if len(lines) > SHOWN_NOTES:
        click.echo(f"{manager.port}: … and {len(lines) - SHOWN_NOTES} more notes (--json has all)")


def _summary(manager: UmadManager) -> None:
    if manager.state == "NOTACTIVE":
        return  # this manager never started; the reason was printed
    document = manager.to_json()
    for problem in manager.problems:
        print_notice(problem)
    if manager.state == "STANDBY":
        print_notice(f"{document['port']}: STANDBY; another subnet manager manages this subnet")
        return
    _show_tables(manager)
    print_notice(
        f"{document['port']}: {counted(document['switches'], 'switch')}, {counted(document['cas'], 'CA')}, "
        f"{counted(document['links'], 'cable')}; {counted(document['sent'], 'MAD')} ({document['sets']} Sets) in "
        f"{sum(document['phase_s'].values()):.2f} s; {manager.state}"
    )


def _show_changes(planned: PlannedChanges) -> None:
    if planned.master is not None:
        print_notice(f"this subnet has a master: {planned.master}")
    lines: dict[tuple[str, int], list[str]] = {}
    for change in planned:
        lines.setdefault((change.name, change.guid), []).extend(_lines(change))
    for (name, guid), rows in lines.items():
        click.echo(shown(f"{name} ({guid:#018x})"))
        for row in rows[:SHOWN_ROWS]:
            click.echo(shown(row))
        if len(rows) > SHOWN_ROWS:
            click.echo(f"    … and {len(rows) - SHOWN_ROWS} more lines (--json has all)")
    for problem in planned.problems:
        print_notice(problem)
    print_notice(
        f"{counted(len(lines), 'node')} and {counted(len(planned), 'attribute')} would change; no change was made"
    )


def _lines(change: AttributeChange) -> list[str]:
    """Return two lines per field, as in a diff; consecutive table entries with the same change share them."""
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
