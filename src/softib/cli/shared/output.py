"""Output of subcommands. With ``--json``, stdout has only JSON, and all other output goes to stderr. Steps that take
longer than a second show their progress.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import click

from softib.foreign_text import shown
from softib.result import Result, plain

if TYPE_CHECKING:
    from softib import Problem

__all__ = [
    "SHOWN_PROBLEMS",
    "Compiling",
    "Listening",
    "Steps",
    "given_options",
    "print_json",
    "print_line",
    "print_lines",
    "print_notice",
    "print_problems",
    "print_result",
    "show_line",
    "show_progress",
]

SHOWN_PROBLEMS = 20
LONG_S = 1.0
"""Time after which a step reports its duration."""
SHOW_S = 0.2
"""Seconds between updates of a progress line."""
SLOW_S = 10.0
"""Seconds between progress lines if stderr is not a terminal."""


def given_options(*left_out: str) -> dict[str, Any]:
    """Return the options on the command line, except ``left_out``, to run the same subcommand in another process. The
    keys are their long names without leading dashes.
    """
    context = click.get_current_context()
    values = {}
    for option in context.command.params:
        typed = context.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE
        if isinstance(option, click.Option) and typed:
            name = next(o for o in option.opts if o.startswith("--"))[2:].replace("-", "_")
            if name not in left_out:
                values[name] = context.params[str(option.name)]
    return values


def print_json(value: Any) -> None:
    """Print ``value`` as JSON on stdout. Keys keep their order, NumPy numbers become plain numbers, and NaN is not
    printed.
    """
    import json

    json.dump(plain(value), sys.stdout, indent=2, ensure_ascii=True, allow_nan=False)
    sys.stdout.write("\n")


def print_lines(lines: Iterable[str]) -> None:
    """Print lines of a result on stdout."""
    for line in lines:
        click.echo(shown(line))


def print_result(result: Any, as_json: bool) -> None:
    """Print the JSON of ``result``, or its text."""
    if as_json:
        print_json(result.to_json())
    elif hasattr(result, "print"):
        result.print()
    else:
        print_lines(result.lines())


@dataclass
class Listening(Result):
    """The result of a subcommand that serves clients: the subcommand prints this and keeps running."""

    document = "listening"

    verb: Literal["exporter", "serve"]
    source: str
    url: str
    """The URL, including the token if clients need one."""
    pid: int


def print_line(document: Result | dict[str, Any]) -> None:
    """Print a document on one line of stdout, unbuffered, for a subcommand that keeps running after it is ready."""
    import json

    click.echo(json.dumps(plain(document), ensure_ascii=True, allow_nan=False))
    sys.stdout.flush()


def print_problems(problems: Iterable[Problem]) -> None:
    """Print unreadable records on stderr, in at most :data:`SHOWN_PROBLEMS` lines and one with the number of further
    records."""
    from softib.render.problems import problem_lines

    for line in problem_lines(problems, SHOWN_PROBLEMS):
        click.echo(shown(f"softib: {line}"), err=True)


def print_notice(text: str) -> None:
    """Print a line on stderr; passed to :func:`softib.load` as ``notice``."""
    click.echo(shown(f"softib: {text}"), err=True)


class Steps:
    """Named steps of a long job. On a terminal a spinner shows the current one; a step of more than a second leaves a
    line with its duration.

    Calling it with a line shows the line as the state of the current step.
    """

    def __init__(self) -> None:
        import softib

        self.seconds: dict[str, float] = {}
        self._status: Any = None
        self._what = ""
        softib.on_compiling(Compiling(self._compiling if sys.stderr.isatty() else None))

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """``with steps("bring-up"): …``"""
        began = time.perf_counter()
        with self._spinner(what):
            yield
        took = self.seconds[what] = time.perf_counter() - began
        if took >= LONG_S:
            click.echo(f"softib: {what}: {took:.1f} s", err=True)

    @contextmanager
    def _spinner(self, label: str) -> Iterator[None]:
        if not sys.stderr.isatty():
            yield
            return
        from rich.console import Console

        with Console(stderr=True).status(f"{label} …") as status:
            self._what, self._status = label, status
            try:
                yield
            finally:
                self._status = None

    def _compiling(self, text: str) -> None:
        """Show the progress of kernel compilation in the spinner, or as a line between steps."""
        if self._status is not None:
            self._status.update(f"{self._what} … {text}")
        else:
            show_line(text)


class Compiling:
    """Listener of :func:`softib.on_compiling`. If compilation takes more than a second, it shows the number of compiled
    kernels. ``show``: prints the text (None: :func:`show_line`).
    """

    def __init__(self, show: Callable[[str], None] | None = None):
        self.show, self.began, self.next_s = show, math.inf, 0.0
        self.kernels: dict[str, int] = {}

    def __call__(self, unit: str, done: int, of: int) -> None:
        now = time.monotonic()
        self.began = min(self.began, now)
        if of >= 0:
            self.kernels[unit] = max(done, self.kernels.get(unit, 0))
        live = self.show is not None or sys.stderr.isatty()
        if now - self.began < (LONG_S if of >= 0 or live else SLOW_S) or now < self.next_s:
            return
        self.next_s = now + (SHOW_S if live else SLOW_S)
        count = sum(self.kernels.values())
        text = f"compiling kernels: {count} done in {now - self.began:.0f} s"
        if of < 0:
            text += f"; another process compiles {unit}"
        if self.show is not None:
            self.show(text)
        elif live:
            show_line(text)
        else:
            click.echo(f"softib: {text}", err=True)


_next_s = time.monotonic() + SLOW_S


def show_line(text: str) -> None:
    """Rewrite the same line on a terminal; elsewhere print a line every ten seconds, the first one ten
    seconds after the program began."""
    global _next_s
    if sys.stderr.isatty():
        click.echo(f"\r\033[Ksoftib: {shown(text)}", nl=False, err=True)
    elif text and time.monotonic() >= _next_s:
        _next_s = time.monotonic() + SLOW_S
        click.echo(f"softib: {shown(text)}", err=True)


_shown_s = 0.0


def show_progress(text: str) -> None:
    """Show progress of :func:`softib.source.load` with :func:`show_line`, but not at every call, because calls are too
    frequent for a terminal.
    """
    global _shown_s
    if time.monotonic() >= _shown_s:
        _shown_s = time.monotonic() + SHOW_S
        show_line(text)
