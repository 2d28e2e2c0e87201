"""What each job's hosts did in one interval, by the names of their nodes: no table is needed for
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from softib.analysis.jobs.files import ScheduledJob
from softib.diags.observations import ObservedPorts
from softib.diags.view import adapter_of
from softib.monitor.exporter.ratios import wait_ratio
from softib.monitor.increase import Interval
from softib.monitor.ranking import ERRORS
from softib.result import Result, key

__all__ = ["JobRow", "job_rows"]


@dataclass(frozen=True)
class JobRow(Result):
    """A job in the last interval."""

    name: str = field(metadata=key("job"))
    hosts: int
    seen: int
    """Hosts of it that were seen."""
    sent_gbps: float
    received_gbps: float
    waiting: float
    """The largest share of time in which data waited at a host or on the cables to it."""
    errors: int
    """What error counters of both ends of these cables rose by."""


def job_rows(ports: ObservedPorts, one: Interval, jobs: Sequence[ScheduledJob]) -> list[JobRow]:
    """One row a job, those that send most first. ``one`` is of just these ports."""
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
    found = []
    for job in jobs:
        names = [h if h in of_host else h.partition(".")[0] for h in job.hosts]
        mine = np.array(sorted({r for h in names for r in of_host.get(h, ())}), np.int64)
        peer = np.asarray(ports.peer, np.int64)[mine]
        both = np.unique(np.concatenate([mine, peer[peer >= 0]]))
        found.append(
            JobRow(
                job.name,
                len(job.hosts),
                sum(h in of_host for h in names),
                float(sent[mine].sum()),
                float(received[mine].sum()),
                float(waiting[both].max(initial=0.0)),
                int(errors[both].sum()),
            )
        )
    return sorted(found, key=lambda r: -r.sent_gbps)


def _ports_of_hosts(ports: ObservedPorts) -> dict[str, list[int]]:
    """Rows of ports by every name that a scheduler may have for their host."""
    found: dict[str, list[int]] = {}
    for row in np.flatnonzero(~ports.switch).tolist():
        name = ports.node[row]
        both = adapter_of(name)
        host = both[0] if both else name
        for known in dict.fromkeys((name, host, host.partition(".")[0])):
            found.setdefault(known, []).append(row)
    return found
