"""perftest's programs: their arguments, and their output.

The text table is parsed by the names of its columns. ``--out_json`` is not used: in Debian's
perftest 4.5 (6.06) its output cannot be read by any JSON parser (keys without quotation marks,
commas before brackets).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from softib.errors import PeerError

__all__ = ["PROGRAMS", "Run", "arguments", "parse", "reason_of"]

PROGRAMS = ("write", "send", "read")
"""``ib_write_bw`` and ``ib_write_lat``, and so on."""
COLUMN = {False: "BW average", True: "t_typical"}
"""Heading of the value's column; the key is whether latency is measured."""
LEAST_ITERATIONS, MOST_ITERATIONS = 5, 1_000_000
_NOISE = re.compile(
    r"^(-+\s*$|\s*$|.*(conflicting cpu frequency|relaxed|waiting for client|local address|remote address|gid:).*)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Run:
    """A run of a perftest program between two ports. ``latency``: measure latency instead of bandwidth. ``both``: send
    in both directions. ``size``: bytes of a message. ``iterations``: 0 if not given. ``port``: the TCP port over which
    both ends exchange addresses."""

    program: str
    latency: bool
    both: bool
    size: int
    iterations: int
    port: int
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Return the name of the program, for example ``ib_write_bw``."""
        return f"ib_{self.program}_{'lat' if self.latency else 'bw'}"


def arguments(run: Run, device: str, portnum: int, server: str | None) -> list[str]:
    """Return the command of one end; ``server``: address of the other end (None: this is the
    server)."""
    out = [
        run.name,
        "-F",
        "-s",
        str(run.size),
        *(["-n", str(run.iterations)] if run.iterations else []),
        "-p",
        str(run.port),
    ]
    out += ["-d", device] if device else []
    out += ["-i", str(portnum)] if portnum > 1 else []
    if not run.latency:
        out.append("--report_gbits")
        out += ["-b"] if run.both else []
    out += run.more
    return out if server is None else [*out, server]


def parse(output: str, latency: bool) -> float:
    """Return the value in the last row of the table: Gb/s of payload (with ``-b``, both directions
    together), or microseconds. Raises :class:`PeerError` if there is none."""
    head: list[str] = []
    value = None
    for line in output.splitlines():
        if line.lstrip().startswith("#bytes"):
            head = re.findall(
                r"#\w+|BW \w+|MsgRate|t_\w+|tps \w+|\d+(?:\.\d+)?% percentile|\d+(?:\.\d+)? percentile", line
            )
        elif head and re.match(r"^\s*\d+\s+\d+\s+[\d.]", line):
            numbers = line.split()
            wanted = COLUMN[latency]
            if wanted in head and head.index(wanted) < len(numbers):
                value = float(numbers[head.index(wanted)])
    if value is None or value <= 0:
        raise PeerError(f"the output of perftest has no table of results: {reason_of(output) or 'it printed nothing'}")
    return value


def reason_of(output: str) -> str:
    """Return the line of the output that best explains the failure: the last line that is not one
    of perftest's usual ones."""
    lines = [line.strip() for line in output.splitlines() if not _NOISE.match(line)]
    wanted = [
        x
        for x in lines
        if re.search(
            r"fail|couldn't|unable|error|no such|not found|refused|denied|no ib|timed out|invalid", x, re.IGNORECASE
        )
    ]
    if option := re.search(r"unrecognized option '--([a-z_]+)", output):
        why = " (it was built without CUDA)" if option[1] == "use_cuda" else ""
        return f"perftest of this host has no option --{option[1]}{why}"
    return (wanted or lines or [""])[-1][:200]
