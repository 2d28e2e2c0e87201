"""Find the faulty part from the logs of a failed job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from softib.api.fabric import Fabric, as_fabric, result_of
from softib.api.progress import Steps, unwatched
from softib.errors import InputError, UnknownFormat, UnreadableFile

if TYPE_CHECKING:
    from softib.analysis.jobs.why import Why
    from softib.api.running.running import RunningFabric
    from softib.diags.job_causes.readings import Window
    from softib.diags.observations import Observations
    from softib.fabric import model
    from softib.fabric.formats.base import ReadResult
    from softib.job_logs.events import JobLog
    from softib.monitor.history import History

__all__ = ["why"]


def why(
    *logs: str | os.PathLike[str],
    fabric: Fabric | RunningFabric | str | os.PathLike[str] | None = None,
    lfts: str | os.PathLike[str] | None = None,
    history: str | os.PathLike[str] | None = None,
    hosts: str | os.PathLike[str] | Sequence[str] = (),
    at: float | None = None,
    steps: Steps = unwatched,
) -> Why:
    """Return the ranked causes of a job's failure, each with probability, evidence and next action.
    ``logs``: output of the job, kernels, schedulers and managers (NCCL, PyTorch including dumps of
    its flight recorder, UCX, Open MPI, perftest, dmesg, Slurm, opensm.log, UFM's events). They may
    be mixed or compressed; ``-`` is standard input. ``fabric`` gives ports and paths: a running
    fabric or any file; ``lfts``: its forwarding tables, if the file has none. ``history``: the
    directory of ``softib exporter --history``. ``hosts``: names, a hostlist or a file, for logs
    that do not name ports. ``at``: time of the failure (seconds since 1970), for logs without
    times. Everything except the logs is optional. Raises :class:`UnreadableFile` and
    :class:`InputError` for unreadable input.
    """
    from softib.analysis.jobs.failure import explain_failure, window_of
    from softib.analysis.jobs.files import read_hosts
    from softib.analysis.observed_fabric import fabric_of_ports
    from softib.diags.job_causes.site import site_of
    from softib.job_logs.read import read_logs

    with steps("logs"):
        log = read_logs(logs)
        _refuse_others(logs, log)
    window = window_of(log, at)
    named = read_hosts(hosts) if hosts else []
    seen, moved = None, None
    if history is not None:
        with steps("history"):
            seen, moved = _history(history, window, log.problems)
    if lfts is not None and fabric is None:
        raise InputError("lfts needs the fabric of the tables; add fabric")
    if fabric is not None:
        with steps("fabric"):
            arrays, has_tables, has_pkeys = _tables(result_of(as_fabric(fabric)), lfts, log.problems, steps)
        source = getattr(fabric, "name", None) or os.fspath(fabric)
    elif seen is not None:
        arrays, source = fabric_of_ports(seen.ports), "FABRIC"
        has_tables = has_pkeys = False
    else:
        return explain_failure(log, None, window, named)
    with steps("causes"):
        site = site_of(arrays, seen, has_tables, has_pkeys)
        return explain_failure(log, site, window, named, moved, source)


_VERBS = {
    "fabric": "use it with --fabric next to the job's log, or check it with 'softib check'",
    "counters": "use 'softib diagnose'",
    "lfts": "use it with --lfts next to --fabric and the job's log",
}


def _refuse_others(logs: Sequence[str | os.PathLike[str]], log: JobLog) -> None:
    """Raise :class:`UnknownFormat` for binary data, or for a dump of a fabric among files in which
    no reader recognised a line."""
    from softib.fabric.formats.registry import detect, sniff
    from softib.input_files import nul_in, shown_name

    recognised = {event.file for event in log.events}
    for path in logs:
        name = shown_name(path)
        if log.ranks or name in recognised or not Path(path).is_file():
            continue
        if nul_in(sniff(Path(path))) >= 0:
            raise UnknownFormat(f"{name}: this is binary data, not a log; use the text output of the job")
        try:
            row = detect(Path(path), among=_VERBS)
        except InputError:
            continue
        raise UnknownFormat(f"{name}: this is {row.what}, not a log; {_VERBS[row.kind]}")


def _tables(
    result: ReadResult, lfts: str | os.PathLike[str] | None, problems: list[str], steps: Steps
) -> tuple[model.Fabric, bool, bool]:
    """Return the fabric with LIDs, and whether its forwarding tables and P_Keys are known. A source
    without LIDs (a design) is brought up."""
    from softib.fabric.formats.lft.dump import read_lfts

    f = result.fabric
    has_pkeys = result.format == "running" or "pkeys" in f.source.records
    problems += [str(p) for p in result.problems[:3]]
    if lfts is not None:
        f = f.copy()
        lft, unread = read_lfts(os.fspath(lfts), f)
        f.lft[:, : lft.shape[1]] = lft
        problems += [str(p) for p in unread[:3]]
        return f, True, has_pkeys
    if "lfts" in f.source.records:
        return f, True, has_pkeys
    if f.lid.any():
        return f, False, has_pkeys
    from softib.analysis.routing import programmed_copy

    return programmed_copy(result, None, steps).fabric, True, True


def _history(
    folder: str | os.PathLike[str], window: Window | None, problems: list[str]
) -> tuple[Observations, bool | None]:
    """Return the history of the window (or the last rounds, if it has none in the window), and whether LIDs changed
    in it."""
    from softib.api.monitor.observing import ROWS
    from softib.monitor.history import History

    kept = History(folder)
    begin, end = (0, 2**63 - 1) if window is None else (int(window.begin_s * 1e9), int(window.end_s * 1e9))
    try:
        first, fit, every = kept.last_rounds(ROWS, begin, end)
    except UnreadableFile:
        times = kept.times()
        problems.append(
            f"{folder}: no round was recorded at that time, so all rounds were used; if the clocks differ, use --at"
        )
        first, fit, every = kept.last_rounds(ROWS, int(times[0]))
        end = 2**63 - 1
    if fit < every:
        problems.append(f"{folder}: the last {fit:,} of {every:,} rounds of that time were used")
    problems += [cut] if (cut := kept.cut_files()) else []
    seen = kept.observations(first, end)
    return seen, _lids_moved(kept, first, end)


def _lids_moved(kept: History, begin_ns: int, end_ns: int) -> bool:
    """Return whether the LID of any port changed in that time."""
    times = kept.topologies().tolist()
    inside = [t for t in times if begin_ns <= t <= end_ns]
    before = [t for t in times if t < begin_ns][-1:]
    lids: dict[tuple[int, int], int] = {}
    for time_ns in before + inside:
        ports = kept.ports_of(time_ns)
        for guid, num, lid in zip(ports.node_guid.tolist(), ports.portnum.tolist(), ports.lid.tolist(), strict=True):
            if lid and lids.setdefault((guid, num), lid) != lid:
                return True
    return False
