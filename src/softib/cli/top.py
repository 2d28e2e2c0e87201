"""``softib top``: a fabric on one screen."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from softib.cli import completing
from softib.cli.output import Compiling, show_line

if TYPE_CHECKING:
    from softib import TopView


@click.command()
@click.argument("source", shell_complete=completing.fabrics)
@click.option(
    "--every", type=click.FloatRange(0.1), default=2.0, show_default=True, metavar="SECONDS", help="Between rounds."
)
@click.option(
    "--sort",
    type=click.Choice(["busy", "waiting", "errors"]),
    default="busy",
    show_default=True,
    help="Which ports come first.",
)
@click.option("--rounds", type=click.IntRange(2), metavar="N", help="Leave after N rounds (default: at 'q').")
def command(source: str, every: float, sort: str, rounds: int | None) -> int:
    """Show the busiest, most waiting and erring ports of SOURCE, and its subnet manager, full-screen.

    SOURCE is a running fabric or umad:DEVICE. Keys: b, w, e choose the order, q leaves. Where stdout is no terminal the last of --rounds N
    (default 2) is printed as text.
    """
    import softib

    softib.on_compiling(Compiling(show_line))
    with softib.TopView(source) as view:
        view.sort(sort)
        if not sys.stdout.isatty():
            _plain(view, every, rounds or 2)
        else:
            _full_screen(view, every, rounds)
    return 0


def _plain(view: TopView, every: float, rounds: int) -> None:
    for i in range(rounds):
        view.step()
        if i + 1 < rounds:
            time.sleep(every)
    click.echo(view.text(), nl=False)


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
                live.update(view.screen(console.height), refresh=True)
                key = pressed(max(0.0, until - time.monotonic()))
                if key in ("q", "\x03", "\x04"):
                    return
                for order in view.orders:
                    if key == order[0]:
                        view.sort(order)
                if not key and time.monotonic() >= until:
                    break


class _Keys:
    """The next key of stdin, waiting so many seconds at most ("": none)."""

    def __call__(self, seconds: float) -> str:
        import os
        import select

        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return os.read(sys.stdin.fileno(), 1).decode("latin-1") if ready else ""


class _NoKeys(_Keys):
    def __call__(self, seconds: float) -> str:
        time.sleep(seconds)
        return ""


@contextlib.contextmanager
def _keys() -> Iterator[_Keys]:
    """Keys as they are pressed, without Enter; the terminal is as before afterwards."""
    if not sys.stdin.isatty():
        yield _NoKeys()
        return
    import termios
    import tty

    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield _Keys()
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
