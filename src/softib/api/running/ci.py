"""A fabric for the duration of one command, for continuous integration: ``softib ci``.

It starts a separate fabric, runs the command on each given node, and injects faults on a schedule.
The run fails if a command fails or if verbs moved no data. A failed run leaves a capture of all
MADs, counters, output and log.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO

from softib.api.fabric import Fabric, as_fabric, generate
from softib.api.progress import Notice
from softib.api.running.attach import NO_RDMA
from softib.api.running.ci_plan import PlannedFault, check_names, planned_fault, read_plan
from softib.api.running.ci_result import (
    INTERRUPTED,
    INTERRUPTION,
    NOTHING,
    TIMED_OUT,
    CiCommand,
    CiFault,
    CiRun,
    interrupted,
)
from softib.api.running.running import RunningFabric
from softib.api.running.serving import up
from softib.errors import InputError, SoftibError
from softib.fabric.node_finder import default_port
from softib.live.launch.child_watchdog import end_with_parent
from softib.live.status import Moved
from softib.scratch import scratch_folder
from softib.source import warn
from softib.whole_files import write_file, write_text

__all__ = ["CiRun", "ci"]

LOOK_S = 0.02
GRACE_S = 5.0
STOP_S = 2.0
"""Seconds in which the commands of a cancelled run must end, because a CI service kills a job some seconds after its
first signal."""
SHM = Path("/dev/shm")
RECORDS = ("junit.xml", "mads.pcap", "counters.csv", "fabric.log")
"""Files that a run writes beside the output of each node; the first one is always written."""


def ci(
    commands: Mapping[str, Sequence[str]] | Sequence[str] | str | os.PathLike[str],
    *,
    source: Fabric | str | os.PathLike[str] | None = None,
    nodes: Sequence[str] = (),
    faults: Sequence[str] = (),
    net: bool = False,
    allow_ip: bool = False,
    artifacts: str | os.PathLike[str] = "softib-ci",
    timeout: float | None = 3600,
    output: IO[bytes] | None = None,
    notice: Notice = warn,
) -> CiRun:
    """Run a command on a fabric that exists for the duration of the command.

    ``commands``: one command for each of ``nodes`` (default: the first host), a command by node, or the path of a file
    that contains them (``nodes:``, and optionally ``fabric:`` and ``faults:``). ``source``: the fabric (default: eight
    hosts on four leaves). ``faults``: texts like ``link-down@2s``. ``net``: run the commands in the networks of their
    nodes. ``allow_ip`` (with ``net``): pass even if only IP over InfiniBand moved data. ``artifacts``: the folder to
    which ``junit.xml`` is written, and after a failure ``mads.pcap``, ``counters.csv``, ``fabric.log`` and the output
    of each command. ``timeout``: seconds for the commands (None: no limit). ``output`` takes their output (default:
    stdout). Raises :class:`InputError` for an invalid fault, node or fabric, and :class:`KeyboardInterrupt` after an
    interruption, once the records are written.
    """
    if allow_ip and not net:
        raise InputError("allow_ip needs net: without it the commands have no IP over InfiniBand")
    if isinstance(commands, str | os.PathLike):
        plan = read_plan(commands)
        commands, source, faults = plan.commands, source or plan.source, [*plan.faults, *faults]
    schedule = sorted((planned_fault(text) for text in faults), key=lambda f: f.at_s)
    folder = Path(artifacts)
    fabric_source = generate("fat-tree", radix=4, levels=2) if source is None else source
    each = _by_node(as_fabric(fabric_source), commands, nodes, schedule)
    _make(folder)
    with _runtime_folder() as scratch:
        began = time.monotonic()
        result = interrupted(each)
        try:
            with up(fabric_source, name="ci", bound=True, pcap=scratch / "mads.pcap", notice=notice) as fabric:
                ready = time.monotonic() - began
                run = _Run(fabric, each, schedule, net, scratch, sys.stdout.buffer if output is None else output)
                run.to_its_end(timeout)
                result = run.result(ready, allow_ip)
                if not result.ok:
                    (scratch / "counters.csv").write_text(_counters(fabric))
        except KeyboardInterrupt:  # while the fabric starts or stops
            if result.commands:
                result.ok, result.exit_code, result.problem = False, INTERRUPTED, INTERRUPTION
        _keep(result, scratch, folder)
    if result.exit_code == INTERRUPTED:
        notice(result.line())
        raise KeyboardInterrupt
    return result


def _by_node(
    fabric: Fabric,
    commands: Mapping[str, Sequence[str]] | Sequence[str],
    nodes: Sequence[str],
    schedule: Sequence[PlannedFault],
) -> dict[str, list[str]]:
    """Return the command of each node. Nodes, locations of faults and programs are checked before
    the fabric is started."""
    from softib.live.launch.preload import find_program

    arrays = fabric.arrays
    if isinstance(commands, Mapping):
        each = {node: list(command) for node, command in commands.items()}
    else:
        first = arrays.node_name(int(arrays.port_node[default_port(arrays)]))
        repeated = sorted({node for node in nodes if list(nodes).count(node) > 1})
        if repeated:
            raise InputError(f"node {repeated[0]} is named twice; name each node once")
        each = {node: list(commands) for node in nodes or [first]}
    check_names(arrays, each, schedule)
    for command in each.values():
        find_program(command[0])
    return each


@contextlib.contextmanager
def _runtime_folder() -> Iterator[Path]:
    """Yield a runtime directory that only this run uses, so that programs find only its fabric."""
    base = SHM if os.access(SHM, os.W_OK) else None
    with scratch_folder("ci", base) as folder:
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = str(folder)
        try:
            yield folder
        finally:
            if before is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = before


class _Run:
    """The commands of a run."""

    def __init__(
        self,
        fabric: RunningFabric,
        commands: dict[str, list[str]],
        schedule: list[PlannedFault],
        net: bool,
        scratch: Path,
        output: IO[bytes],
    ):
        self.fabric, self.commands, self.schedule, self.scratch, self.output = (
            fabric,
            commands,
            list(schedule),
            scratch,
            output,
        )
        self.faults: list[CiFault] = []
        self.cable = "" if all(f.where for f in schedule) else self._between_ends()
        self.timed_out, self.limit_s, self.interrupted = False, 0.0, False
        self.began = time.monotonic()
        self.ended: dict[str, float] = {}
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        self.threads: list[threading.Thread] = []
        options = ["--net"] if net else []
        for rank, (node, command) in enumerate(commands.items()):
            arguments = [sys.executable, "-m", "softib", "run", *options, "--node", node, "--", *command]
            env = {**os.environ, "SOFTIB_CI_NODES": ",".join(commands), "SOFTIB_CI_RANK": str(rank)}
            child = subprocess.Popen(
                arguments,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )
            self.children[node] = child
            self.threads.append(threading.Thread(target=self._copy, args=(node, child), daemon=True))
            self.threads[-1].start()

    def _copy(self, node: str, child: subprocess.Popen[bytes]) -> None:
        """Print and log the command's output."""
        assert child.stdout is not None
        with open(self.scratch / f"{node}.log", "wb") as log:
            while data := os.read(child.stdout.fileno(), 1 << 16):
                log.write(data)
                self.output.write(data)
                self.output.flush()

    def to_its_end(self, timeout: float | None) -> None:
        """Wait for the commands or an interruption, and inject the faults meanwhile."""
        self.limit_s = timeout or 0.0
        try:
            while len(self.ended) < len(self.children):
                now = time.monotonic() - self.began
                self.ended |= {n: now for n, c in self.children.items() if n not in self.ended and c.poll() is not None}
                while self.schedule and self.schedule[0].at_s <= now:
                    self._break(self.schedule.pop(0), now)
                self.timed_out = timeout is not None and now > timeout and len(self.ended) < len(self.children)
                failed = any(c.returncode for c in self.children.values())
                if self.timed_out or (failed and len(self.ended) < len(self.children)):
                    break
                time.sleep(LOOK_S)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._end()
        for thread in self.threads:
            thread.join(GRACE_S)

    def _end(self) -> None:
        """End the commands that still run, after a failure of another command, a timeout, or Ctrl-C."""
        until = time.monotonic() + (STOP_S if self.interrupted else GRACE_S)
        for node, child in self.children.items():
            while child.poll() is None:
                how = signal.SIGTERM if time.monotonic() < until else signal.SIGKILL
                with contextlib.suppress(OSError):
                    os.killpg(child.pid, how)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(0.5)
            self.ended.setdefault(node, time.monotonic() - self.began)

    def _break(self, fault: PlannedFault, now: float) -> None:
        where = fault.where or self.cable
        self.fabric.fault(fault.kind, where, **fault.options)
        self.faults.append(CiFault(fault.kind, where, round(now, 3)))

    def _between_ends(self) -> str:
        """Return the first cable between switches on the path from the first node to the last, or the first node's
        cable if both are on one switch. It must be called before the first fault, because faults change routes."""
        names = [*self.commands]
        last = names[-1] if len(names) > 1 else self.fabric.nodes(type="ca")[-1]
        hops = self.fabric.explain(names[0], last).hops
        hop = hops[1] if len(hops) > 2 else hops[0]
        return f"{hop.node}[{hop.out_port}]"

    def result(self, ready: float, allow_ip: bool) -> CiRun:
        """Return the result; ``allow_ip``: it passes if only IP over InfiniBand moved data."""
        moved = self.fabric.moved()
        commands = [
            CiCommand(node, shlex.join(command), _code(self.children[node]), round(self.ended[node], 3))
            for node, command in self.commands.items()
        ]
        code, problem = self._verdict(commands, moved, allow_ip)
        return CiRun(
            ok=code == 0,
            exit_code=code,
            problem=problem,
            commands=commands,
            faults=self.faults,
            verbs_bytes=moved.verbs,
            ip_bytes=moved.ip,
            ready_s=round(ready, 3),
            seconds=round(max(self.ended.values()), 3),
            artifacts=None,
        )

    def _verdict(self, commands: list[CiCommand], moved: Moved, allow_ip: bool) -> tuple[int, str]:
        if self.interrupted:
            return INTERRUPTED, INTERRUPTION
        if self.timed_out:
            return TIMED_OUT, f"the commands did not end within {self.limit_s:g} s (--timeout)"
        failed = [c for c in commands if c.exit_code]
        if failed:
            first = min(failed, key=lambda c: c.seconds)
            return first.exit_code, f"{first.command} on {first.node} ended with {first.exit_code}"
        if self.schedule:
            names = ", ".join(f"{f.kind} at {f.at_s:g} s" for f in self.schedule)
            return 1, f"the commands ended before {names}, so the fault was not injected"
        if moved.verbs < NOTHING and not (allow_ip and moved.ip):
            return (
                NO_RDMA,
                f"the commands succeeded, but verbs moved no data: {self._causes(commands[0].node, moved.ip)}",
            )
        return 0, ""

    def _causes(self, node: str, ip: int) -> str:
        from softib.api.running.attach import attachment_of
        from softib.api.running.fallback import causes
        from softib.live.launch.preload import find_program

        with contextlib.suppress(SoftibError):
            place = attachment_of(self.fabric._instance, node, None)
            reasons = causes(self.fabric._instance, place, Path(find_program(self.commands[node][0])), os.environ)
            if reasons:
                return "; ".join(reasons)
        if ip:
            return f"they moved {ip:,} bytes by IP over InfiniBand; use --allow-ip if they are meant to"
        return "they used TCP or shared memory, or have no data"


def _code(child: subprocess.Popen[bytes]) -> int:
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _counters(fabric: RunningFabric) -> str:
    """Return every port's counters as CSV."""
    table, text = fabric.counters(), io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows())
    return text.getvalue()


def _make(folder: Path) -> None:
    """Create the folder for the artifacts before the fabric is started, and remove those of an earlier run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / RECORDS[0]).exists():
            for path in (*(folder / name for name in RECORDS), *folder.glob("*.log")):
                path.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(
            f"{error.filename or folder}: no artifacts can be written there: {error.strerror}; use --artifacts with "
            f"another folder"
        ) from None


def _keep(result: CiRun, scratch: Path, folder: Path) -> None:
    """Write the artifacts of the run to ``folder``."""
    if not result.ok:
        result.artifacts = str(folder)
        log = scratch / "softib/ci/log"
        for path in [*scratch.glob("*.log"), *scratch.glob("*.pcap"), *scratch.glob("*.csv"), log]:
            if path.is_file():
                write_file(folder / ("fabric.log" if path == log else path.name), partial(shutil.copyfile, path))
    write_text(folder / "junit.xml", result.to_junit())
