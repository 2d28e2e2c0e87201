"""Handles the signals and standard streams of a command's process, and the message if a signal ends it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import warnings
from types import FrameType
from typing import Any

from softib import __version__
from softib.errors import SoftibBug, SoftibError, SoftibWarning
from softib.foreign_text import shown

__all__ = [
    "closed_pipe_code",
    "drop_stdout",
    "end_like_ctrl_c",
    "open_closed_streams",
    "raise_dropped_interrupts",
    "report_bug",
    "report_interrupt",
    "warn_in_one_line",
]

REPEAT_S = 0.01
"""Seconds after which an interrupt dropped by Python is raised again."""
_signals: list[int] = []
"""The signal that ended this command, if it was not SIGINT."""


def end_like_ctrl_c() -> None:
    """Make SIGTERM and SIGHUP end a command like Ctrl-C, so that it removes its child processes and
    temporary files. The same signal again is ignored: under ``softib run``, the terminal and ``softib run`` both send
    it, and the second would interrupt the removal."""
    _signals.clear()

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        _signals.append(number)
        handler = signal.getsignal(signal.SIGINT)
        if not callable(handler):  # ignored, as in the background of a script
            raise KeyboardInterrupt
        handler(number, frame)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def raise_dropped_interrupts() -> None:
    """Raise interrupts again that Python dropped. Python ignores an interrupt that arrives in a callback (of a weak
    reference, as in imports, or of LLVM), so the command would continue.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def dropped(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            signal.signal(signal.SIGALRM, end)
            signal.setitimer(signal.ITIMER_REAL, REPEAT_S)
        else:
            sys.__unraisablehook__(unraisable)

    sys.unraisablehook = dropped


def warn_in_one_line() -> None:
    """Print each :class:`~softib.errors.SoftibWarning` as a notice, without the source line that issued it."""
    shown_by_python = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if issubclass(category, SoftibWarning):
            print(shown(f"softib: {message}"), file=sys.stderr)
        else:
            shown_by_python(message, category, *where, **more)

    warnings.showwarning = show


def open_closed_streams() -> None:
    """Replace a standard stream that the caller closed (``>&-``) by /dev/null, before a file
    or socket of softib gets its number."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def report_interrupt() -> int:
    """Report, in one line, the signal that ended the command. Return the exit code, 128 + its number."""
    number = _signals[-1] if _signals else signal.SIGINT
    cause = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    after_echo = "\n" if sys.stderr.isatty() else ""  # after the terminal's echo of ^C
    with contextlib.suppress(OSError):  # a closed terminal (SIGHUP)
        print(f"{after_echo}softib: {cause}", file=sys.stderr, flush=True)
    return 128 + number


def report_bug(error: Exception) -> int:
    """Report a bug in softib in one line, and write the traceback to a file that users can attach. Return exit code 70
    (EX_SOFTWARE).
    """
    import tempfile
    import traceback

    kind = f"{type(error).__name__}: " if not isinstance(error, SoftibError) else ""
    line = shown(f"softib: this is a bug in softib: {kind}{error}")
    if "please report" in line:  # an error of the daemon, which has the traceback in its log
        print(line, file=sys.stderr)
        return SoftibBug.exit_code
    try:
        with tempfile.NamedTemporaryFile("w", prefix="softib-bug-", suffix=".txt", delete=False) as file:
            file.write(f"{' '.join(sys.argv)}\nsoftib {__version__}, Python {sys.version}\n{traceback.format_exc()}")
        line += f"; please report; traceback in {file.name}"
    except OSError as problem:
        line += f"; please report (the traceback cannot be kept: {problem.strerror})"
    print(line, file=sys.stderr)
    return SoftibBug.exit_code


def closed_pipe_code() -> int:
    """Discard the rest of the output. Return the exit code of a program whose output pipe was closed (as by ``|
    head``).
    """
    drop_stdout()
    return 128 + signal.SIGPIPE


def drop_stdout() -> None:
    """Discard buffered output, so that Python's flush at exit does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
