"""Rankings of ports and jobs in one interval: the busiest ports, the ports where data waits most, and the ports with
errors. Jobs are matched to ports by the names of their hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from softib.analysis.jobs.files import ScheduledJob
from softib.diags.observations import ObservedPorts
from softib.diags.view import adapter_of
from softib.monitor.exporter.ratios import utilization, wait_ratio
from softib.monitor.intervals import Interval
from softib.result import Result, key

__all__ = ["ERRORS", "ORDERS", "JobRow", "PortRow", "job_rows", "ranked"]

ERRORS = (
    "symbol_error_counter",
    "link_error_recovery_counter",
    "link_downed_counter",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "vl15_dropped",
    "port_fec_uncorrectable_block_ctr",
)
"""Counters that count errors of the link or lost packets."""
ORDERS = ("busy", "waiting", "errors")


@dataclass(frozen=True)
class PortRow(Result):
    """Counters of a port in the last interval."""

    name: str = field(metadata=key("port"))
    """``node[portnum]``."""
    peer: str
    """The port at the other end of the cable; empty if it is unknown."""
    sent_gbps: float
    received_gbps: float
    utilization: float
    """Share of the link's capacity; NaN: unknown."""
    waiting: float
    """Share of the time in which data waited for credits; NaN: unknown."""
    errors: tuple[tuple[str, int], ...] = field(metadata=key(json=dict, type=dict[str, int]))
    """Counters that increased, with their increases."""


def ranked(ports: ObservedPorts, one: Interval, order: str, most: int) -> list[PortRow]:
    """Return at most ``most`` active ports, sorted by ``order``; ports with equal values are sorted by GUID. ``one``
    has exactly the rows of ``ports``."""
    busy, waiting, errors = np.nan_to_num(utilization(one)), np.nan_to_num(wait_ratio(one)), np.zeros(len(one.guid))
    for name in ERRORS:
        if name in one.increase:
            errors += one.increase[name]
    key = {"busy": busy, "waiting": waiting, "errors": errors}[order]
    rows = np.lexsort((np.arange(len(key)), -key))[:most]
    return [_row(ports, one, int(r), float(busy[r]), float(waiting[r])) for r in rows.tolist() if key[r] > 0]


def _row(ports: ObservedPorts, one: Interval, r: int, busy: float, waiting: float) -> PortRow:
    seconds = max(1e-9, (int(one.end_ns[r]) - int(one.begin_ns[r])) / 1e9)

    def gbps(name: str) -> float:
        return float(one.increase[name][r]) * 32 / 1e9 / seconds if name in one.increase else 0.0

    rose = tuple(
        (name, int(one.increase[name][r])) for name in ERRORS if name in one.increase and one.increase[name][r]
    )
    peer = int(ports.peer[r])
    remote = f"{ports.node[peer]}[{int(ports.portnum[peer])}]" if peer >= 0 else ""
    return PortRow(
        f"{ports.node[r]}[{int(ports.portnum[r])}]",
        remote,
        gbps("port_xmit_data"),
        gbps("port_rcv_data"),
        busy,
        waiting,
        rose,
    )


@dataclass(frozen=True)
class JobRow(Result):
    """A job in the last interval."""

    name: str = field(metadata=key("job"))
    hosts: int
    seen: int
    """Number of the job's hosts of which there is data."""
    sent_gbps: float
    received_gbps: float
    waiting: float
    """The largest share of time in which data waited at a host or on the cables to it."""
    errors: int
    """Sum of the increases of error counters at both ends of the cables to the job's hosts."""


def job_rows(ports: ObservedPorts, one: Interval, jobs: Sequence[ScheduledJob]) -> list[JobRow]:
    """Return one row per job; the jobs that send most come first. ``one`` has exactly the rows of ``ports``."""
    of_host = _ports_of_hosts(ports)
    seconds = np.maximum((one.end_ns - one.begin_ns) / 1e9, 1e-9)
    nothing = np.zeros(len(ports))
    sent, received = (
        one.increase[n] * 32 / 1e9 / seconds if n in one.increase else nothing
        for n in ("port_xmit_data", "port_rcv_data")
    )
    waiting = np.nan_to_num(wait_ratio(one))
    errors = sum(
        (one.increase[n].astype(np.int64) for n in ERRORS if n in one.increase), start=np.zeros(len(ports), np.int64)
    )
    jobs_seen = []
    for job in jobs:
        names = [h if h in of_host else h.partition(".")[0] for h in job.hosts]
        host_rows = np.array(sorted({r for h in names for r in of_host.get(h, ())}), np.int64)
        peer = np.asarray(ports.peer, np.int64)[host_rows]
        both = np.unique(np.concatenate([host_rows, peer[peer >= 0]]))
        jobs_seen.append(
            JobRow(
                job.name,
                len(job.hosts),
                sum(h in of_host for h in names),
                float(sent[host_rows].sum()),
                float(received[host_rows].sum()),
                float(waiting[both].max(initial=0.0)),
                int(errors[both].sum()),
            )
        )
    return sorted(jobs_seen, key=lambda r: -r.sent_gbps)


def _ports_of_hosts(ports: ObservedPorts) -> dict[str, list[int]]:
    """Return name of a host → rows of its ports, for each name that a scheduler may use for the host."""
    rows_of: dict[str, list[int]] = {}
    for row in np.flatnonzero(~ports.switch).tolist():
        name = ports.node[row]
        both = adapter_of(name)
        host = both[0] if both else name
        for name_of_host in dict.fromkeys((name, host, host.partition(".")[0])):
            rows_of.setdefault(name_of_host, []).append(row)
    return rows_of
