"""Runs the command line in this process: exit code, stdout, stderr."""

from __future__ import annotations

import contextlib
import io
import json
import re
from dataclasses import dataclass
from typing import Any

from softib.cli.main import main

PROGRESS = re.compile(r"softib: [a-z ]+: [\d.]+ s$")


@dataclass(frozen=True)
class Ran:
    """What one call of ``softib`` gave."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """stdout, which must be JSON and nothing else."""
        return json.loads(self.out)

    @property
    def complaints(self) -> list[str]:
        """Lines of stderr, without those of progress, which a slow machine shows for what takes longer than a second."""
        return [line for line in self.err.splitlines() if not PROGRESS.match(line)]


def softib(*args: object) -> Ran:
    """Run ``softib ARGS``. An exception that is no exit is a traceback for the user: it is not caught here."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(a) for a in args])
        except SystemExit as leave:
            code = leave.code
    return Ran(code if isinstance(code, int) else 1, out.getvalue(), err.getvalue())


def one_line(ran) -> str:
    assert ran.code == 2, (ran.code, ran.out, ran.err)
    assert ran.out == ""
    lines = ran.err.splitlines()
    assert len(lines) == 1, ran.err
    assert lines[0].startswith("softib: ")
    assert "Traceback" not in ran.err
    return lines[0]
