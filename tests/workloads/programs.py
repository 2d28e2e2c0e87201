"""What tests of programs share: schedules on hosts, and whether two are the same."""

from __future__ import annotations

import numpy as np

from softib.sim.messages import messages
from softib.workloads.hosts import hosts_of
from softib.workloads.schedule.messages import part_of, place
from softib.workloads.schedule.overheads import Overheads


def on_hosts(s, fabric, rows, each=1, **cost):
    """(messages, row that ends each operation) with the ranks on hosts ``rows``."""
    hosts = hosts_of(fabric)
    part, ended = part_of(s, place(s, np.asarray(rows), each), Overheads(**cost))
    by = np.argsort(part.waits, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(part.waits, minlength=len(part.src)))])
    made = messages(
        hosts.end[part.src],
        hosts.end[part.dst],
        part.size,
        opcode=part.opcode,
        qp=part.qp,
        delay_ps=part.delay_ps,
        first=first,
        needs=part.needs[by],
    )
    return made, ended


def same(a, b) -> None:
    for column in ("rank", "kind", "peer", "size", "tag", "compute_ps", "processor", "first"):
        assert np.array_equal(getattr(a, column), getattr(b, column)), column
    for i in range(len(a)):
        part = slice(a.first[i], a.first[i + 1])
        assert sorted(a.needs[part]) == sorted(b.needs[part])
