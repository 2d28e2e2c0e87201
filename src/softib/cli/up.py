"""``softib up``: start a fabric and keep it running."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from softib.cli.manager_options import given_settings, manager_options
from softib.cli.output import (
    Compiling,
    print_notice,
    print_problems,
    printable,
    show_line,
    show_progress,
    source_options,
)

if TYPE_CHECKING:
    from softib.live.daemon import Daemon

READY_FD = "SOFTIB_READY_FD"
"""Descriptor on which a detached fabric tells the one who started it that it is ready."""
READY = b"ready\n"
LINE_S = 0.5
"""How often the status line changes."""


@click.command()
@click.argument("source")
@click.option("--name", metavar="N", help="Name of the running fabric (default: the file's).")
@click.option("--sm", type=click.Choice(["internal", "external", "none"]), default="internal", show_default=True,
              help="internal: our subnet manager brings it up; external: a stock one will attach; none: links stay down.")  # fmt: skip
@click.option("--udp", type=click.IntRange(1, 65000), metavar="PORT",
              help="Serve clients on this UDP port of the loopback instead of Unix sockets.")  # fmt: skip
@click.option("--pcap", metavar="FILE", help="Capture every MAD as an InfiniBand packet, for Wireshark.")
@click.option(
    "--pace", is_flag=True, help="What programs send takes the wire's time: rates, cables and switches of the path."
)
@click.option("--detach", is_flag=True, help="Run in the background; return when the fabric is ready.")
@manager_options
@source_options
def command(
    source: str, name: str | None, sm: str, udp: int | None, pcap: str | None, pace: bool, detach: bool, ibnl: tuple[str, ...],
    node_name_map: str | None, manager: dict[str, Any],
) -> int:  # fmt: skip
    """Run SOURCE until Ctrl-C (or ``softib down``): ports, switches and agents that stock tools manage.

    Ready means: the subnet is ACTIVE where the internal manager runs. ``softib run -- CMD`` attaches a program.
    """
    if sm != "internal" and any(v for k, v in manager.items() if k.endswith("_guid_file")):
        from softib.errors import InputError

        raise InputError(
            f"GUID files are for the internal manager; give them to the manager that you start (--sm {sm})"
        )
    from softib.live.instances import claim, free, name_of

    if detach:
        return _detached(sys.argv[1:], name_of(source) if name is None else name, source)
    began = time.monotonic()
    from softib.fabric.lids import common_lmc
    from softib.fabric.node_finder import port_named
    from softib.jit import on_compiling
    from softib.live.daemon import Daemon, Settings
    from softib.live.internal_sm.settings import ManagerSettings
    from softib.sm.config import SmConfig
    from softib.source import load

    starter = Starter(os.environ.pop(READY_FD, ""))
    on_compiling(Compiling(starter.announce))
    instance = free(name_of(source) if name is None else name)  # fail before the work
    result = load(source, ibnl, node_name_map, notice=print_notice, progress=show_progress)
    print_problems(result.problems)
    instance = claim(instance.name)
    try:
        given, sm_config, partitions = given_settings(manager)
        file_settings = {"lmc": common_lmc(result.fabric), **(result.extra.get("sm") or {})}
        settings = ManagerSettings(
            given, sm_config, partitions, file_settings, lambda text: click.echo(f"softib: {text}", err=True)
        )
        config = settings.read() if sm == "internal" else SmConfig()
        if sm != "internal" and result.extra.get("sm"):
            click.echo(f"softib: {source}: sm: is for the internal manager; not used with --sm {sm}", err=True)
        node = result.extra.get("sm", {}).get("node")
        port_named(result.fabric, node)  # fail before the work
        daemon = Daemon(
            instance, result.fabric, Settings(source, sm, node, config, udp, settings.read, pcap, pace), began
        )
        del result  # the board has it all: half the memory
    except BaseException:
        instance.release()
        raise
    daemon.run(Line(starter))
    click.echo(f"softib: {instance.name} is down", err=True)
    return 0


class Starter:
    """The one who started this fabric and waits: on the other end of a pipe (``fd``) where it is detached, or here."""

    def __init__(self, fd: str):
        self.detached, self.fd = fd.isdigit(), int(fd) if fd.isdigit() else None

    def announce(self, text: str) -> None:
        """A line of progress."""
        if not self.detached:
            show_line(text)
        elif self.fd is not None:
            self._write(text.encode() + b"\n")

    def ready(self) -> None:
        """That is all."""
        if self.fd is not None:
            self._write(READY)
            os.close(self.fd)
            self.fd = None

    def _write(self, line: bytes) -> None:
        with contextlib.suppress(OSError):  # it may have left
            if self.fd is not None:
                os.write(self.fd, line)


class Line:
    """The live status line of a foreground fabric (one line when it is ready, where stderr is no terminal)."""

    def __init__(self, starter: Starter):
        self.starter, self.announced, self.next_s, self.last = starter, False, 0.0, (0, 0.0)
        self.live = sys.stderr.isatty()

    def __call__(self, daemon: Daemon) -> None:
        """After a turn of the daemon's loop."""
        if daemon.ready_s is not None and not self.announced:
            self.announced = True
            f = daemon.fabric
            text = f"{daemon.instance.name}: {f.sizes.switches} switches, {len(f.cas)} CAs, {f.sizes.cables} cables; ready in {daemon.ready_s:.1f} s"
            clear = "\r\033[K" if self.live else ""
            click.echo(f"{clear}softib: {printable(text)}", err=True)
            self.starter.ready()
        now = time.monotonic()
        if self.live and now >= self.next_s:
            self.next_s = now + LINE_S
            status = daemon.status()
            click.echo(f"\r\033[K{self.text(status, now)}", nl=False, err=True)

    def text(self, status: dict[str, Any], now: float) -> str:
        """One line, 79 columns at most."""
        mads = status["mads"]["answered"] + status["mads"]["forwarded"]
        rate = (mads - self.last[0]) / max(now - self.last[1], 1e-9)
        self.last = (mads, now)
        ports, manager = status["port_states"], status["sm"]
        up = f"{ports['active']}/{sum(ports.values())} ports active"
        doing = f"sm {manager.get('phase') or manager.get('state', manager['kind']).lower()}"
        return f"{status['name']}: {up} · {doing} · {len(status['clients'])} clients · {rate:.0f} MADs/s"[:79]


def _detached(arguments: list[str], name: str, source: str) -> int:
    """Start this very command without ``--detach`` in a session of its own, and wait until it is ready."""
    from softib.fabric.formats.files import STDIN
    from softib.live.instances import free

    instance = free(name)
    instance.folder.mkdir(mode=0o700, exist_ok=True)
    read, write = os.pipe()
    foreground = [a for a in arguments if a != "--detach"]
    with open(instance.log, "wb") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "softib.cli.main", *foreground], env={**os.environ, READY_FD: str(write)},
            stdin=None if source == STDIN else subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(write,), start_new_session=True,
        )  # fmt: skip
    os.close(write)
    try:
        with os.fdopen(read, "rb") as pipe:
            ready = _wait(pipe)
    except KeyboardInterrupt:
        child.terminate()
        raise
    if sys.stderr.isatty():
        click.echo("\r\033[K", nl=False, err=True)
    output = instance.log.read_text(errors="replace").strip()
    if output:
        click.echo(output, err=True)
    return 0 if ready else child.wait() or 1


def _wait(pipe: BinaryIO) -> bool:
    """Show progress until the fabric is ready; False when it ended before."""
    for line in pipe:
        if line == READY:
            return True
        show_line(line.decode(errors="replace").strip())
    return False
