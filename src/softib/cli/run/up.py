"""``softib up`` and ``softib down``: start a fabric and keep it running, and stop it."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import OutputFile
from softib.cli.shared.options import Load, given_settings, json_option, manager_options, source_options
from softib.cli.shared.output import (
    Compiling,
    given_options,
    print_json,
    print_line,
    print_notice,
    print_problems,
    show_line,
)
from softib.errors import SoftibError
from softib.foreign_text import shown
from softib.plural import counted
from softib.result import Result, document

if TYPE_CHECKING:
    from softib import FabricStatus, RunningFabric, Server, Starter

LINE_S = 0.5
"""Seconds between updates of the status line."""


@click.command()
@click.argument("source", shell_complete=completing.sources)
@click.option(
    "--name",
    metavar="N",
    help="Name of the running fabric (default: name: of a fabric.yaml, else SOURCE's file name without suffix).",
)
@click.option(
    "--sm",
    type=click.Choice(["internal", "external", "none"]),
    default="internal",
    show_default=True,
    help=(
        "Subnet manager: internal (softib's brings the fabric up), external (you start another, for example OpenSM), "
        "or none (links stay down)."
    ),
)
@click.option(
    "--udp",
    type=click.IntRange(1, 65000),
    metavar="PORT",
    help=(
        "Serve clients on this UDP port of the loopback instead of Unix sockets. UDP identifies no user: every user "
        "of this machine can manage the fabric."
    ),
)
@click.option(
    "--pcap", metavar="FILE", type=OutputFile(), help="Capture every MAD as an InfiniBand packet, for Wireshark."
)
@click.option(
    "--pace",
    is_flag=True,
    help=("Delay messages of programs by their time on the wire: rates, cables and switches of the path."),
)
@click.option(
    "--machine",
    metavar="NAME|F",
    help=(
        "Show programs this machine in sysfs: GPUs, PCIe switches, NUMA nodes. dgx-h100 etc., or a machine file of "
        "softib calibrate."
    ),
)
@click.option(
    "--strict",
    is_flag=True,
    help=(
        "Fail if another engine than requested computed the tables, a pair has no path, a credit loop can form, or "
        "ports do not become ACTIVE."
    ),
)
@click.option("--detach", is_flag=True, help="Run in the background; return when the fabric is ready.")
@click.option(
    "--json", "as_json", is_flag=True, help="When ready, print a line of JSON on stdout, as in softib status."
)
@manager_options
@source_options
def command(
    source: str,
    name: str | None,
    sm: str,
    udp: int | None,
    pcap: str | None,
    pace: bool,
    machine: str | None,
    strict: bool,
    detach: bool,
    as_json: bool,
    load: Load,
    manager: dict[str, Any],
) -> int:
    """Run SOURCE until Ctrl-C (or ``softib down``): ports, switches and agents that stock tools can
    manage. With the internal manager, it is ready when the subnet is ACTIVE. ``softib run -- CMD``
    attaches a program.
    """
    import softib

    if detach:
        given = given_options("detach", "name", "json")
        started = softib.up(source, name=name, notice=print_notice, progress=show_line, **given)
        if as_json:
            print_line(document("status", fabrics=[started.status()]))
        return 0
    starter = softib.Starter()
    softib.on_compiling(Compiling(starter.announce if starter.detached else None))
    server = softib.Server(source, name)  # fail before the work
    settings = given_settings(manager)
    fabric = load(source)
    print_problems(fabric.problems)
    server.start(
        fabric,
        sm=sm,
        manager=settings.manager,
        sm_config=settings.sm_config,
        partitions=settings.partitions,
        udp=udp,
        pcap=pcap,
        pace=pace,
        machine=machine,
        notice=print_notice,
    )
    del fabric  # the shared fabric contains the same data; this halves the memory
    line = Line(starter, strict, as_json)
    server.run(line)
    if line.refused:
        raise softib.InputError(f"{server.name} is down because of --strict: {line.refused}")
    print_notice(f"{server.name} is down")
    return 0


class Line:
    """The live status line of a foreground fabric; if stderr is not a terminal, one line when it is ready."""

    def __init__(self, starter: Starter, strict: bool, as_json: bool):
        self.starter, self.strict, self.as_json = starter, strict, as_json
        self.announced, self.next_s, self.last = False, 0.0, (0, 0.0)
        self.refused = ""
        """Reason why a --strict start failed."""
        self.live = sys.stderr.isatty()

    def __call__(self, server: Server) -> None:
        """Update the line after a step of the server's loop."""
        if server.ready_s is not None and not self.announced:
            self.announced = True
            switches, cas, cables = server.sizes
            text = (
                f"{server.name}: {counted(switches, 'switch')}, {counted(cas, 'CA')}, {counted(cables, 'cable')}; "
                f"ready in {server.ready_s:.1f} s"
            )
            clear = "\r\033[K" if self.live else ""
            click.echo(clear, nl=False, err=True)
            faults, notes = server.faults()
            if faults and self.strict:
                self.refused = "; ".join(faults)
                server.stop()
                return
            for line in (*faults, *notes):
                print_notice(line)
            click.echo(f"softib: {shown(text)}", err=True)
            if self.as_json:
                print_line(document("status", fabrics=[server.status()]))
            self.starter.ready()
        now = time.monotonic()
        if self.live and now >= self.next_s:
            self.next_s = now + LINE_S
            status = server.status()
            click.echo(f"\r\033[K{self.text(status, now)}", nl=False, err=True)

    def text(self, status: FabricStatus, now: float) -> str:
        """Return one line, 79 columns at most."""
        mads = status.mads.answered + status.mads.forwarded
        rate = (mads - self.last[0]) / max(now - self.last[1], 1e-9)
        self.last = (mads, now)
        ports, manager = status.port_states, status.sm
        up = f"{ports.active}/{ports.down + ports.init + ports.armed + ports.active} ports active"
        doing = f"sm {manager.phase or (manager.state or manager.kind).lower()}"
        return f"{status.name}: {up} · {doing} · {counted(len(status.clients), 'client')} · {rate:.0f} MADs/s"[:79]


@dataclass
class NotStopped(Result):
    """A fabric that could not be stopped."""

    name: str
    problem: str
    """Reason."""


@dataclass
class Down(Result):
    """Running fabrics that were stopped."""

    document = "down"

    stopped: list[str]
    failed: list[NotStopped]


@click.command("down")
@click.argument("name", required=False, shell_complete=completing.fabrics)
@click.option("--all", "every", is_flag=True, help="Stop every running fabric of this user.")
@json_option
def down(name: str | None, every: bool, as_json: bool) -> int:
    """Stop the running fabric NAME (without NAME: the only one). The next send of its programs
    fails."""
    import softib

    if every and name is not None:
        raise click.UsageError(f"down --all stops every fabric; leave out {name!r}, or --all")
    fabrics = softib.running_fabrics() if every else [softib.RunningFabric(name)]
    if not fabrics:
        print_notice("no fabric is running")
    failed = {fabric.name: problem for fabric in fabrics if (problem := _stopped(fabric)) is not None}
    if as_json:
        stopped = [fabric.name for fabric in fabrics if fabric.name not in failed]
        print_json(Down(stopped, [NotStopped(name, str(problem)) for name, problem in failed.items()]).to_json())
    for problem in list(failed.values())[:-1]:
        print_notice(str(problem))
    if failed:
        raise list(failed.values())[-1]
    return 0


def _stopped(fabric: RunningFabric) -> SoftibError | None:
    """Stop one fabric and wait until it is down. Return an error instead of raising it, so that ``--all`` also stops
    the other fabrics.
    """
    try:
        fabric.down()
    except SoftibError as problem:
        return problem
    print_notice(f"{fabric.name} is down")
    return None
