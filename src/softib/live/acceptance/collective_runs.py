"""Runs of a collective benchmark, started from a command line on this machine, and their output."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from softib.live.acceptance.launchers import Program

__all__ = ["LIMIT_S", "BenchmarkRun", "run_benchmark"]

LIMIT_S = 1800.0
"""Time limit of a benchmark in seconds."""
OUTPUT_MOST = 16 << 20
"""Largest output in characters."""
LOOK_S = 0.1
REASON_LINES = 3
"""Number of lines of output that an error message quotes. It is more than one because mpirun wraps its messages."""


class BenchmarkRun(NamedTuple):
    """A finished run of a benchmark."""

    output: str
    failure: str
    """Reason of a failure; empty if the run succeeded."""
    seconds: float


def run_benchmark(command: Sequence[str], limit_s: float = LIMIT_S) -> BenchmarkRun:
    """Run ``command`` without a shell. The command is a launcher (mpirun, srun) that starts the benchmark on the hosts.
    It is ended after ``limit_s``."""
    began = time.monotonic()
    program = Program(list(command))
    try:
        while program.code is None:
            if time.monotonic() > began + limit_s:
                reason = f"not finished after {limit_s:.0f} s"
                return BenchmarkRun(program.output, reason, time.monotonic() - began)
            time.sleep(LOOK_S)
        output, code = program.output, program.code
    finally:
        program.end()
    seconds = time.monotonic() - began
    if len(output) > OUTPUT_MOST:
        return BenchmarkRun("", f"printed more than {OUTPUT_MOST >> 20} MiB", seconds)
    if code:
        text = _reason_of(output)
        return BenchmarkRun(output, f"ended with exit code {code}" + (f": {text}" if text else ""), seconds)
    return BenchmarkRun(output, "", seconds)


def _reason_of(output: str) -> str:
    """Return the first lines that are not part of a table, joined into one."""
    lines = [line.strip() for line in output.splitlines()]
    text = [line for line in lines if line.strip("-= ") and not line.startswith("#") and not line[0].isdecimal()]
    return " ".join(text[:REASON_LINES])[:200]
