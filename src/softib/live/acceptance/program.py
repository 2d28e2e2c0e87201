"""A program that a launcher started, and what became of it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from typing import IO

__all__ = ["MISSING", "TIMED_OUT", "Program"]

MISSING = (126, 127)
"""Exit codes of a shell, env(1) and timeout(1) for a program that is not there or not executable.
"""
TIMED_OUT = (124, 137)
"""Exit codes of timeout(1)."""


class Program:
    """A process whose output goes to a file (pipes of hundreds of programs fill up while nobody
    reads). Its standard input is a pipe that closes when :meth:`end` is called, or when this
    process dies."""

    def __init__(self, command: list[str]):
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.missing = ""
        self.process: subprocess.Popen[bytes] | None = None
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=self._file, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            self.missing = f"{command[0]}: {error.strerror or error}"

    @property
    def code(self) -> int | None:
        """Exit code; None while it runs, 127 where it could not begin."""
        return 127 if self.process is None else self.process.poll()

    @property
    def output(self) -> str:
        """What it has printed."""
        self._file.seek(0)
        return self.missing or self._file.read().decode("utf-8", "replace")

    def end(self) -> None:
        """Stop it and its children, if it still runs."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()
        if self.process is not None and self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self._file.close()
