"""The messages of several jobs as one table, and the names of the jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.sim.messages import NO_LIMIT, PATH_SL, Messages, MulticastGroup, Opcode, Reduction, Transport, messages

if TYPE_CHECKING:
    from softib.workloads.hosts import Hosts
    from softib.workloads.jobs import Job
    from softib.workloads.pattern import JobMessages

__all__ = ["joined", "names_of"]


def joined(parts: list[tuple[Job, JobMessages]], hosts: Hosts) -> Messages:
    """Return all parts as one table. Queue pairs and dependencies of a part are numbered after those of earlier
    parts."""
    count = np.array([len(part.src) for _, part in parts])
    begin = np.concatenate([[0], np.cumsum(count)])
    lines = np.concatenate([[0], np.cumsum([int(part.qp.max(initial=-1)) + 1 for _, part in parts])])
    column = lambda values: np.concatenate([np.broadcast_to(v, n) for v, n in zip(values, count, strict=True)])
    waits = np.concatenate([part.waits + b for (_, part), b in zip(parts, begin, strict=False)])
    needs = np.concatenate([part.needs + b for (_, part), b in zip(parts, begin, strict=False)])
    order = np.argsort(waits, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(waits, minlength=int(begin[-1])))])
    groups_of_ends = [hosts.end[part.members] for _, part in parts if part.members is not None]
    groups = tuple(MulticastGroup(np.sort(members)) for members in groups_of_ends)
    number = np.cumsum([part.members is not None for _, part in parts])
    group = column([n if part.members is not None else 0 for n, (_, part) in zip(number, parts, strict=True)])
    reductions = tuple(
        Reduction(
            hosts.end[members],
            max(-(-job.size // len(np.atleast_2d(part.reduces))), 1),
            part.streams or getattr(job, "tree", "") == "streaming",
            job.start + int(np.max(part.start_ps)),
            PATH_SL if job.sl is None else job.sl,
            k,
            NO_LIMIT if part.rate_gbps is None else float(np.max(part.rate_gbps, initial=NO_LIMIT)),
        )
        for k, (job, part) in enumerate(parts)
        if part.reduces is not None
        for members in np.atleast_2d(part.reduces)
    )
    sl = lambda job, part: PATH_SL if (s := job.sl if part.sl is None else part.sl) is None else s
    return messages(
        hosts.end[column([part.src for _, part in parts])],
        hosts.end[column([part.dst for _, part in parts])],
        column([part.size for _, part in parts]),
        start_ps=column([np.asarray(part.start_ps, np.int64) + job.start for job, part in parts]),
        qp=_lines(
            column([part.serves for _, part in parts]),
            column([part.src for _, part in parts]),
            np.concatenate([part.qp + b for (_, part), b in zip(parts, lines, strict=False)]),
        ),
        opcode=column(
            [
                Opcode[job.opcode.upper().replace("-", "_")] if part.opcode is None else part.opcode
                for job, part in parts
            ]
        ),
        transport=column([Transport[job.transport.upper()] for job, _ in parts]),
        sl=column([sl(job, part) for job, part in parts]),
        rate_gbps=column([(job.rate or NO_LIMIT) if part.rate_gbps is None else part.rate_gbps for job, part in parts]),
        group=group,
        groups=groups,
        reductions=reductions,
        receives=column([job.receives for job, _ in parts]),
        repost_ps=column([job.repost for job, _ in parts]),
        requests=np.concatenate([part.requests + b for (_, part), b in zip(parts, begin, strict=False)]),
        delay_ps=column([part.delay_ps for _, part in parts]),
        job=column(np.arange(len(parts))),
        first=first,
        needs=needs[order],
    )


def _lines(serves: np.ndarray, host: np.ndarray, qp: np.ndarray) -> np.ndarray:
    """Return ``qp`` with one number for all computations on a resource that the jobs of a host share, so that they use
    the resource one after another."""
    shared = serves > 0
    if shared.any():
        key = host[shared].astype(np.int64) << 8 | serves[shared]
        qp = qp.copy()
        qp[shared] = int(qp.max()) + 1 + np.unique(key, return_inverse=True)[1]
    return qp


def names_of(parts: list[tuple[Job, JobMessages]]) -> tuple[str, ...]:
    """Return the names of the parts, with numbers if several have the same name."""
    names: list[str] = []
    for job, part in parts:
        both = f"{job.name} {part.name}".strip() if job.name and part.name else ""
        names.append(both or job.name or part.name or job.pattern_name)
    return tuple(f"{n} {names[: i + 1].count(n)}" if names.count(n) > 1 else n for i, n in enumerate(names))
