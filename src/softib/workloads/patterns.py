"""softib's patterns: the sources, destinations, order and dependencies of their messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.ragged import spread
from softib.workloads import jobs, mpi_jobs, nccl_jobs
from softib.workloads.pattern import NONE, JobMessages, Pattern, Place, check_count
from softib.workloads.storage.jobs import Checkpoint, Storage

__all__ = ["PATTERNS"]


def _pairs(src: np.ndarray, dst: np.ndarray, job: Any, name: str = "", sl: int | None = None) -> list[JobMessages]:
    """Return ``count`` messages of each pair, on one queue pair per pair."""
    n, count = len(src), getattr(job, "count", 1)
    check_count(n * count, f"{n:,} pairs with {count:,} messages each", "take fewer hosts or a lower count")
    qp = np.tile(np.arange(n), count)
    return [JobMessages(np.tile(src, count), np.tile(dst, count), job.size, qp, name=name, sl=sl)]


def _permutation(job: jobs.Permutation, at: Place) -> list[JobMessages]:
    mixed = at.rng.permutation(len(at.rows))
    still = np.flatnonzero(mixed == np.arange(len(mixed)))
    if len(still) == 1:  # exchange its destination with that of another host
        other = (still[0] + 1) % len(mixed)
        mixed[[still[0], other]] = mixed[[other, still[0]]]
    elif len(still):
        mixed[still] = np.roll(mixed[still], 1)
    return _pairs(at.rows, at.rows[mixed], job)


def _shift(job: jobs.Shift, at: Place) -> list[JobMessages]:
    if job.k % len(at.rows) == 0:
        raise InputError(f"shift {job.k} among {len(at.rows)} hosts: every host would send to itself")
    return _pairs(at.rows, np.roll(at.rows, -job.k), job)


def _all_to_all(job: jobs.AllToAll, at: Place) -> list[JobMessages]:
    n = len(at.rows)
    check_count(n * (n - 1), f"an all-to-all of {n:,} hosts without barriers")
    shift, host = np.divmod(np.arange(n * (n - 1)), n)
    dst = (host + shift + 1) % n
    waits = np.arange(job.window * n, n * (n - 1)) if job.window else NONE
    return [JobMessages(at.rows[host], at.rows[dst], job.size, np.arange(n * (n - 1)), waits, waits - job.window * n)]


def _random_pairs(job: jobs.RandomPairs, at: Place) -> list[JobMessages]:
    n = job.messages or len(at.rows)
    check_count(n, f"{n:,} random pairs", "lower messages")
    src = at.rng.integers(0, len(at.rows), n)
    dst = (src + at.rng.integers(1, len(at.rows), n)) % len(at.rows)
    start = np.sort(at.rng.integers(0, job.over + 1, n))
    return [JobMessages(at.rows[src], at.rows[dst], job.size, np.arange(n), start_ps=start)]


def _bisection(job: jobs.Bisection, at: Place) -> list[JobMessages]:
    mixed = at.rng.permutation(at.rows)
    half = len(mixed) // 2
    a, b = mixed[:half], mixed[half : 2 * half]
    return _pairs(np.concatenate([a, b]), np.concatenate([b, a]), job)


def _incast(job: jobs.Incast, at: Place) -> list[JobMessages]:
    target = at.target(job.target)
    senders = _senders(at, target, job.senders, 32)
    return _pairs(senders, np.full(len(senders), target), job)


def _senders(at: Place, target: int, wanted: int | None, default: int) -> np.ndarray:
    others = at.rows[at.rows != target]
    if wanted is not None and wanted > len(others):
        raise InputError(
            f"{wanted:,} senders to one of {len(at.rows):,} hosts are too many: there are only {len(others):,} others"
        )
    return np.sort(at.rng.permutation(others)[: wanted or min(default, len(others))])


def _parking_lot(job: jobs.ParkingLot, at: Place) -> list[JobMessages]:
    target = at.target(job.target)
    others = at.rows[at.rows != target]
    _, first = np.unique(at.hosts.switch[others], return_index=True)
    senders = np.sort(others[first])
    return _pairs(senders, np.full(len(senders), target), job)


def _hot_spot(job: jobs.HotSpot, at: Place) -> list[JobMessages]:
    target = at.target(job.target)
    senders = _senders(at, target, job.senders, max(1, len(at.rows) // 4))
    hot = _pairs(senders, np.full(len(senders), target), job, "hot spot")
    victims = np.setdiff1d(at.rows, np.append(senders, target))
    if len(victims) < 2:
        raise InputError(
            f"{len(senders):,} senders leave {len(victims)} victims of {len(at.rows):,} hosts; use fewer senders"
        )
    return hot + _pairs(victims, np.roll(victims, -(len(victims) // 2)), job, "victims", job.victim_sl)


def _multicast(job: jobs.Multicast, at: Place) -> list[JobMessages]:
    source = at.target(job.source)
    others = at.rows[at.rows != source]
    if job.receivers is not None and job.receivers > len(others):
        raise InputError(f"{job.receivers:,} receivers of one host are too many: there are only {len(others):,} others")
    members = np.sort(at.rng.permutation(others)[: job.receivers or len(others)])
    n = job.count
    same = np.zeros(n, np.int64)
    return [JobMessages(same + source, same + members[0], job.size, same, members=members)]


def _aggregation(job: jobs.Aggregation, at: Place) -> list[JobMessages]:
    if {"opcode", "transport", "receives", "rate"} & job.model_fields_set:
        raise InputError(
            "aggregation supports only size, tree, hosts, start, sl and name: nodes and hosts send over RC"
        )
    return [JobMessages(NONE, NONE, NONE, NONE, reduces=at.rows)]


def _two(job: jobs.Pair, at: Place) -> tuple[int, int]:
    a, b = at.target(job.source), at.target(job.target, -1)
    if a == b:
        raise InputError(f"{at.hosts.name[a]} would send to itself; name two hosts")
    return a, b


def _latency(job: jobs.Latency, at: Place) -> list[JobMessages]:
    """Return the messages of a ping-pong: a program posts a message when it has seen the previous one. READs and
    atomics need no answering message."""
    a, b = _two(job, at)
    n = job.iterations * job.directions
    check_count(n, f"{job.iterations:,} round trips", "lower iterations")
    every = np.arange(n)
    back = every % job.directions == 1
    src, dst = np.where(back, b, a), np.where(back, a, b)
    delay = np.full(n, round(at.hosts.profile.program_ns * 1000))
    return [JobMessages(src, dst, job.size, every % job.directions, every[1:], every[:-1], delay_ps=delay)]


def _bandwidth(job: jobs.Bandwidth, at: Place) -> list[JobMessages]:
    a, b = _two(job, at)
    lines = job.qps * (2 if job.bidirectional else 1)
    n = lines * job.iterations
    check_count(n, f"{counted(lines, 'queue pair')} with {counted(job.iterations, 'message')} each", "lower iterations")
    every = np.arange(n)
    qp = every % lines
    back = qp >= job.qps
    waits = every[job.tx_depth * lines :]
    posted = round(at.hosts.profile.post_ns * 1000) * (every // lines * job.qps + qp % job.qps)
    src, dst = np.where(back, b, a), np.where(back, a, b)
    return [JobMessages(src, dst, job.size, qp, waits, waits - job.tx_depth * lines, start_ps=posted)]


def _matrix(job: jobs.Matrix, at: Place) -> list[JobMessages]:
    from softib.workloads.traffic_matrix import read_traffic

    traffic = read_traffic(job.file) if job._data is None else job._data
    src, dst, octets = traffic.matrix(at.hosts.name, at.hosts.without_lid).demand
    keep = (src != dst) & (octets >= 1)
    if not keep.any():
        raise InputError(f"{job.file}: no host sends a byte to another")
    src, dst, octets = src[keep], dst[keep], np.floor(octets[keep]).astype(np.int64)
    pieces = -(-octets // job.size)
    check_count(int(pieces.sum()), f"the entries of {job.file} in messages of {job.size:,} bytes", "use a larger size")
    row, nth = spread(pieces)
    size = np.minimum(octets[row] - nth * job.size, job.size)
    return [JobMessages(src[row], dst[row], size, row)]


def _trace(job: jobs.Trace, at: Place) -> list[JobMessages]:
    from softib.workloads.schedule.messages import part_of
    from softib.workloads.traces.forms import program_of

    program = program_of(job, at.hosts, at.rows)
    part, _ = part_of(program.schedule, program.host, program.cost, program.ports[:, None])
    check_count(len(part.src), f"the operations of {job.file}", "take a shorter trace")
    return [part]


def _mpi(job: mpi_jobs.Mpi, at: Place) -> list[JobMessages]:
    from softib.workloads.mpi.job import mpi_part

    part = mpi_part(job, at.rows, at.hosts.profile)
    check_count(len(part.src), f"the messages of {part.name}", "take fewer hosts or ranks")
    return [part]


def _storage(job: Any, at: Place) -> list[JobMessages]:
    from softib.workloads.storage import nvmeof

    return nvmeof.storage(job, at) if job.pattern == "storage" else nvmeof.checkpoint(job, at)


def _nccl(job: nccl_jobs.Nccl, at: Place) -> list[JobMessages]:
    from softib.workloads.nccl.job import part_of_job

    part = part_of_job(job, at.hosts.name, at.rows, at.hosts.gbps)
    check_count(len(part.src), f"{job.pattern} on {len(at.rows):,} adapters")  # type: ignore[attr-defined]
    return [part]


def _training_step(job: nccl_jobs.TrainingStep, at: Place) -> list[JobMessages]:
    from softib.workloads.training.job import part_of_job

    part = part_of_job(job, at.hosts.name, at.rows, at.hosts.gbps)
    check_count(len(part.src), f"a training step on {len(at.rows):,} adapters")
    return [part]


PATTERNS = tuple(
    Pattern(job, messages)
    for messages, kinds in (
        (_permutation, (jobs.Permutation,)),
        (_shift, (jobs.Shift,)),
        (_all_to_all, (jobs.AllToAll,)),
        (_random_pairs, (jobs.RandomPairs,)),
        (_bisection, (jobs.Bisection,)),
        (_incast, (jobs.Incast,)),
        (_parking_lot, (jobs.ParkingLot,)),
        (_hot_spot, (jobs.HotSpot,)),
        (_multicast, (jobs.Multicast,)),
        (_aggregation, (jobs.Aggregation,)),
        (_latency, (jobs.Latency,)),
        (_bandwidth, (jobs.Bandwidth, jobs.MessageRate)),
        (_matrix, (jobs.Matrix,)),
        (_trace, (jobs.Trace,)),
        (_nccl, nccl_jobs.NCCL),
        (_training_step, (nccl_jobs.TrainingStep,)),
        (_storage, (Storage, Checkpoint)),
        (_mpi, mpi_jobs.MPI),
    )
    for job in kinds
)
"""All patterns, in the order of the JSON Schema."""
