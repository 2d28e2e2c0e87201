"""``softib top``: a fabric on one screen."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import click

from softib.cli.shared import completing
from softib.cli.shared.named_files import InputFile
from softib.cli.shared.numbers import Number
from softib.cli.shared.output import Compiling, print_json
from softib.errors import PeerError

if TYPE_CHECKING:
    from softib import TopView


@click.command()
@click.argument("source", shell_complete=completing.fabrics)
@click.option("--every", type=Number(0.1), default=2.0, show_default=True, metavar="SECONDS", help="Between rounds.")
@click.option(
    "--sort",
    type=click.Choice(["busy", "waiting", "errors", "jobs"]),
    default="busy",
    show_default=True,
    help="Order of ports, or the jobs.",
)
@click.option("--rounds", type=click.IntRange(2), metavar="N", help="Exit after N rounds (default: at 'q').")
@click.option(
    "--jobs",
    type=InputFile(),
    metavar="FILE",
    help="Slurm's or Kubernetes' jobs, or YAML: traffic, waits and errors of their hosts.",
)
@click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout: the last of --rounds N (default 2).")
def command(source: str, every: float, sort: str, rounds: int | None, jobs: str | None, as_json: bool) -> int:
    """Show the busiest, most waiting and erring ports of SOURCE, its jobs and its subnet manager,
    full-screen.

    SOURCE is a running fabric or umad:DEVICE; if it goes down, softib top reconnects. Keys: b, w,
    e, j select the view, q exits. If stdout is not a full-screen terminal, the last of --rounds N
    (default 2) is printed as text.
    """
    import softib

    softib.on_compiling(Compiling())
    with softib.TopView(source, jobs=jobs) as view:
        view.sort(sort)
        if as_json:
            _step(view, every, rounds or 2)
            print_json(view.to_json())
        elif not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
            _step(view, every, rounds or 2)
            click.echo(view.text(), nl=False)
        else:
            _full_screen(view, every, rounds)
    return 0


def _step(view: TopView, every: float, rounds: int) -> None:
    for i in range(rounds):
        view.step()
        if view.problem:
            raise PeerError(view.problem)
        if i + 1 < rounds:
            time.sleep(every)


def _full_screen(view: TopView, every: float, rounds: int | None) -> None:
    from rich.console import Console
    from rich.live import Live

    console, done = Console(), 0
    with _keys() as pressed, Live(console=console, screen=True, auto_refresh=False) as live:
        while rounds is None or done < rounds:
            view.step()
            done += 1
            until = time.monotonic() + every
            while True:
                live.update(view.screen(console.height, console.width), refresh=True)
                key = pressed(max(0.0, until - time.monotonic()))
                if key in ("q", "\x03", "\x04"):
                    return
                for order in view.orders:
                    if key == order[0]:
                        view.sort(order)
                if time.monotonic() >= until:
                    break


class _Keys:
    """Reads the next key from stdin. A call waits at most ``seconds``, and returns "" if no key was pressed or the
    terminal's size changed.
    """

    def __init__(self) -> None:
        self.resized, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._before = signal.signal(signal.SIGWINCH, self._note)

    def _note(self, *_: object) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"!")

    def __call__(self, seconds: float) -> str:
        ready, _, _ = select.select([sys.stdin, self.resized], [], [], seconds)
        if self.resized in ready:
            os.read(self.resized, 64)
        return (os.read(sys.stdin.fileno(), 1).decode("latin-1") or "q") if sys.stdin in ready else ""

    def close(self) -> None:
        """Restore the terminal."""
        signal.signal(signal.SIGWINCH, self._before)
        os.close(self.resized)
        os.close(self._wake)


class _NoKeys:
    def __call__(self, seconds: float) -> str:
        time.sleep(seconds)
        return ""


@contextlib.contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that reads keys as they are pressed, without Enter; restore the terminal afterwards."""
    if not sys.stdin.isatty():
        yield _NoKeys()
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    keys = _Keys()
    try:
        tty.setcbreak(sys.stdin)
        yield keys
    finally:
        keys.close()
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
