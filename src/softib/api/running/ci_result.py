"""The result of ``softib ci``: one line of text, a document, and JUnit XML."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from softib.api.running.attach import NO_RDMA
from softib.foreign_text import shown, shown_lines
from softib.plural import counted
from softib.result import Result

__all__ = ["INTERRUPTED", "INTERRUPTION", "NOTHING", "TIMED_OUT", "CiCommand", "CiFault", "CiRun", "interrupted"]

TIMED_OUT = 124
"""Exit code of a run that took too long, as in timeout(1)."""
INTERRUPTED = 130
"""Exit code of a run that Ctrl-C or a signal ended, as in a shell."""
INTERRUPTION = "interrupted by Ctrl-C or a signal"
NOTHING = 4096
"""If verbs moved fewer bytes than this, they moved no application data."""
TAIL = 20
"""Maximum number of output lines in a failure of the JUnit file."""


@dataclass
class CiCommand(Result):
    """A command on a node."""

    node: str
    command: str
    exit_code: int
    seconds: float


@dataclass
class CiFault(Result):
    """A fault of the schedule that was injected."""

    kind: str
    where: str
    at_s: float


@dataclass
class CiRun(Result):
    """A run of ``softib ci``."""

    document = "ci"

    ok: bool
    exit_code: int
    """Exit code of the first failed command; 3: all succeeded but verbs moved no data; 124: it took
    too long; 130: it was interrupted."""
    problem: str
    """Why it failed; empty if it did not."""
    commands: list[CiCommand]
    faults: list[CiFault]
    verbs_bytes: int
    """Bytes that verbs sent and received at all ports of hosts; a message between two hosts counts at both."""
    ip_bytes: int
    """Bytes that IP over InfiniBand sent and received, counted in the same way."""
    ready_s: float
    """Seconds until the fabric was up."""
    seconds: float
    artifacts: str | None
    """The folder with the evidence of a failure."""

    def line(self) -> str:
        """Return the result in one line."""
        verdict = "passed" if self.ok else f"failed: {self.problem}"
        faults = "".join(f"; {f.kind} {f.where} at {f.at_s:.1f} s" for f in self.faults)
        ip = f", IP {self.ip_bytes:,}" if self.ip_bytes else ""
        return (
            f"{verdict}; fabric up in {self.ready_s:.1f} s, {counted(len(self.commands), 'command')} in "
            f"{self.seconds:.1f} s; verbs moved {self.verbs_bytes:,} bytes{ip} (sent and received by hosts){faults}"
        )

    def to_junit(self) -> str:
        """Return JUnit XML: one test case per command, one for the use of verbs, and one if the run failed because
        of its faults or its time limit, or was interrupted."""
        failed = sum(c.exit_code != 0 for c in self.commands)
        other = not self.ok and (self.exit_code in (NO_RDMA, TIMED_OUT, INTERRUPTED) or not failed)
        of_run = other and self.exit_code != NO_RDMA
        counts = {"tests": str(len(self.commands) + 1 + of_run), "failures": str(failed + other), "errors": "0"}
        root = ElementTree.Element("testsuites", {"name": "softib ci", **counts})
        unused = not self.ok and self.verbs_bytes < NOTHING and self.exit_code != NO_RDMA
        suite = ElementTree.SubElement(root, "testsuite", {"name": "softib ci", "skipped": str(int(unused)), **counts})
        for c in self.commands:
            where = {"classname": f"softib.ci.{c.node}", "name": shown(c.command), "time": f"{c.seconds:.3f}"}
            case = ElementTree.SubElement(suite, "testcase", where)
            if c.exit_code:
                failure = {"type": "exit code", "message": f"exit code {c.exit_code}"}
                ElementTree.SubElement(case, "failure", failure).text = self._tail(c)
        case = ElementTree.SubElement(suite, "testcase", {"classname": "softib.ci", "name": "verbs moved data"})
        if self.exit_code == NO_RDMA:
            ElementTree.SubElement(case, "failure", {"type": "no RDMA", "message": shown(self.problem)})
        elif unused:
            ElementTree.SubElement(case, "skipped", {"message": "verbs moved no data before the run failed"})
        if of_run:
            case = ElementTree.SubElement(suite, "testcase", {"classname": "softib.ci", "name": "run as planned"})
            ElementTree.SubElement(case, "failure", {"type": "run", "message": shown(self.problem)})
        ElementTree.indent(root)
        return '<?xml version="1.0" encoding="us-ascii"?>\n' + ElementTree.tostring(root, "us-ascii").decode() + "\n"

    def _tail(self, command: CiCommand) -> str:
        if self.artifacts is None:
            return ""
        with contextlib.suppress(OSError):
            lines = (Path(self.artifacts) / f"{command.node}.log").read_text(errors="replace").splitlines()
            return shown_lines("\n".join(lines[-TAIL:]))
        return ""


def interrupted(commands: Mapping[str, Sequence[str]]) -> CiRun:
    """Return the result of a run that was interrupted before its commands began."""
    return CiRun(
        ok=False,
        exit_code=INTERRUPTED,
        problem=f"{INTERRUPTION} before {counted(len(commands), 'command')} began",
        commands=[],
        faults=[],
        verbs_bytes=0,
        ip_bytes=0,
        ready_s=0.0,
        seconds=0.0,
        artifacts=None,
    )
