"""Patterns as messages between hosts: who sends to whom, in what order, waiting for what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError, LimitError
from softib.plural import counted
from softib.ragged import spread
from softib.workloads import jobs, mpi_jobs, nccl_jobs
from softib.workloads.hosts import Hosts, rows_of

if TYPE_CHECKING:
    from softib.workloads.schedule.messages import Overheads

__all__ = ["MAX_MESSAGES", "Part", "Place", "check_count", "overheads_of", "parts_of"]

MAX_MESSAGES = 20_000_000
"""Messages of one workload: some 4 GB of columns and paths."""

NONE = np.zeros(0, np.int64)


@dataclass
class Part:
    """Messages between rows of :class:`~softib.workloads.hosts.Hosts`. ``waits[k]`` waits for ``needs[k]`` (rows of this part); ``start_ps`` is added to
    the job's, and so is ``sl`` and ``opcode`` where they are None; ``delay_ps`` as in :class:`~softib.sim.messages.Messages`, and ``rate_gbps``, where it is not the job's; ``members``: hosts of
    the multicast group that all of it goes to; ``reduces``: hosts of an all-reduce, whose messages follow from the trees of a fabric, or a row for
    each of several that share the job's octets evenly (rails); ``streams``: by streaming trees whatever the job says;
    ``requests`` int64[k, 2]: rows that ask and rows that answer; ``serves`` int64 by row: what of its host a computation takes that all jobs share, such as
    a target's devices (0: nothing, its processor is the job's own)."""

    src: np.ndarray
    dst: np.ndarray
    size: Any
    qp: np.ndarray
    waits: np.ndarray = field(default_factory=lambda: NONE)
    needs: np.ndarray = field(default_factory=lambda: NONE)
    start_ps: Any = 0
    name: str = ""
    sl: int | None = None
    opcode: Any = None
    delay_ps: Any = 0
    rate_gbps: Any = None
    members: np.ndarray | None = None
    reduces: np.ndarray | None = None
    streams: bool = False
    requests: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    serves: Any = 0


@dataclass(frozen=True)
class Place:
    """Where a job runs: all hosts, the rows of those that take part, a generator of random numbers."""

    hosts: Hosts
    rows: np.ndarray
    rng: np.random.Generator

    def target(self, text: jobs.HostName | None, default: int = 0) -> int:
        """The row of the host that ``text`` names, or the job's host number ``default``."""
        return int(self.rows[default]) if text is None else self.hosts.row(text)


def overheads_of(job: jobs.Trace) -> Overheads:
    """What a trace's messages cost beside the adapter."""
    from softib.workloads.schedule.messages import Overheads

    return Overheads(
        send_ns=job.send_overhead / 1000, receive_ns=job.receive_overhead / 1000, eager_limit=job.eager_limit
    )


def parts_of(job: jobs.Job, hosts: Hosts, seed: int) -> list[Part]:
    """The messages of ``job``. Raises :class:`InputError` where there are too few hosts, :class:`LimitError` for more messages than
    :data:`MAX_MESSAGES`."""
    rows = rows_of(job, hosts)
    pattern = str(getattr(job, "pattern", ""))
    if len(rows) < (1 if pattern in OF_TARGETS and job.targets is not None else 2):  # type: ignore[attr-defined]
        raise InputError(f"{pattern} on {counted(len(rows), 'host')}: it takes at least two")
    place = Place(hosts, rows, np.random.default_rng(seed if job.seed is None else job.seed))
    return MAKERS[pattern](job, place)


def check_count(n: int, what: str) -> None:
    """Raise :class:`LimitError` for more messages than :data:`MAX_MESSAGES`; ``what`` they are."""
    if n > MAX_MESSAGES:
        raise LimitError(f"{what} are {counted(n, 'message')}; a workload has at most {MAX_MESSAGES:,}")


def _pairs(src: np.ndarray, dst: np.ndarray, job: Any, name: str = "", sl: int | None = None) -> list[Part]:
    """``count`` messages of each pair on a queue pair of its own."""
    n, count = len(src), getattr(job, "count", 1)
    check_count(n * count, f"{counted(n, 'pair')} with {counted(count, 'message')} each")
    qp = np.tile(np.arange(n), count)
    return [Part(np.tile(src, count), np.tile(dst, count), job.size, qp, name=name, sl=sl)]


def _permutation(job: jobs.Permutation, at: Place) -> list[Part]:
    mixed = at.rng.permutation(len(at.rows))
    still = np.flatnonzero(mixed == np.arange(len(mixed)))
    if len(still) == 1:  # trade with any other
        other = (still[0] + 1) % len(mixed)
        mixed[[still[0], other]] = mixed[[other, still[0]]]
    elif len(still):
        mixed[still] = np.roll(mixed[still], 1)
    return _pairs(at.rows, at.rows[mixed], job)


def _shift(job: jobs.Shift, at: Place) -> list[Part]:
    if job.k % len(at.rows) == 0:
        raise InputError(f"shift {job.k} among {counted(len(at.rows), 'host')}: everybody would send to itself")
    return _pairs(at.rows, np.roll(at.rows, -job.k), job)


def _all_to_all(job: jobs.AllToAll, at: Place) -> list[Part]:
    n = len(at.rows)
    check_count(n * (n - 1), f"an all-to-all of {counted(n, 'host')} without barriers")
    shift, host = np.divmod(np.arange(n * (n - 1)), n)
    dst = (host + shift + 1) % n
    waits = np.arange(job.window * n, n * (n - 1)) if job.window else NONE
    return [Part(at.rows[host], at.rows[dst], job.size, np.arange(n * (n - 1)), waits, waits - job.window * n)]


def _random_pairs(job: jobs.RandomPairs, at: Place) -> list[Part]:
    n = job.messages or len(at.rows)
    check_count(n, f"{n:,} random pairs")
    src = at.rng.integers(0, len(at.rows), n)
    dst = (src + at.rng.integers(1, len(at.rows), n)) % len(at.rows)
    start = np.sort(at.rng.integers(0, job.over + 1, n))
    return [Part(at.rows[src], at.rows[dst], job.size, np.arange(n), start_ps=start)]


def _bisection(job: jobs.Bisection, at: Place) -> list[Part]:
    mixed = at.rng.permutation(at.rows)
    half = len(mixed) // 2
    a, b = mixed[:half], mixed[half : 2 * half]
    return _pairs(np.concatenate([a, b]), np.concatenate([b, a]), job)


def _incast(job: jobs.Incast, at: Place) -> list[Part]:
    target = at.target(job.target)
    senders = _senders(at, target, job.senders, 32)
    return _pairs(senders, np.full(len(senders), target), job)


def _senders(at: Place, target: int, wanted: int | None, default: int) -> np.ndarray:
    others = at.rows[at.rows != target]
    if wanted is not None and wanted > len(others):
        raise InputError(
            f"{wanted:,} senders to one of {counted(len(at.rows), 'host')}: there are {len(others):,} others"
        )
    return np.sort(at.rng.permutation(others)[: wanted or min(default, len(others))])


def _parking_lot(job: jobs.ParkingLot, at: Place) -> list[Part]:
    target = at.target(job.target)
    others = at.rows[at.rows != target]
    _, first = np.unique(at.hosts.switch[others], return_index=True)
    senders = np.sort(others[first])
    return _pairs(senders, np.full(len(senders), target), job)


def _hot_spot(job: jobs.HotSpot, at: Place) -> list[Part]:
    target = at.target(job.target)
    senders = _senders(at, target, job.senders, max(1, len(at.rows) // 4))
    hot = _pairs(senders, np.full(len(senders), target), job, "hot spot")
    victims = np.setdiff1d(at.rows, np.append(senders, target))
    if len(victims) < 2:
        raise InputError(
            f"{len(senders):,} senders leave {len(victims)} victims of {counted(len(at.rows), 'host')}; give fewer senders"
        )
    return hot + _pairs(victims, np.roll(victims, -(len(victims) // 2)), job, "victims", job.victim_sl)


def _multicast(job: jobs.Multicast, at: Place) -> list[Part]:
    source = at.target(job.source)
    others = at.rows[at.rows != source]
    if job.receivers is not None and job.receivers > len(others):
        raise InputError(f"{job.receivers:,} receivers of one host: there are {len(others):,} others")
    members = np.sort(at.rng.permutation(others)[: job.receivers or len(others)])
    n = job.count
    same = np.zeros(n, np.int64)
    return [Part(same + source, same + members[0], job.size, same, members=members)]


def _aggregation(job: jobs.Aggregation, at: Place) -> list[Part]:
    if {"opcode", "transport", "receives", "rate"} & job.model_fields_set:
        raise InputError("aggregation takes size, tree, hosts, start, sl and name: nodes and hosts send over RC")
    return [Part(NONE, NONE, NONE, NONE, reduces=at.rows)]


def _two(job: jobs.Pair, at: Place) -> tuple[int, int]:
    a, b = at.target(job.source), at.target(job.target, -1)
    if a == b:
        raise InputError(f"{at.hosts.name[a]} would send to itself; name two hosts")
    return a, b


def _latency(job: jobs.Latency, at: Place) -> list[Part]:
    a, b = _two(job, at)
    n = 2 * job.iterations
    check_count(n, f"{job.iterations:,} round trips")
    every = np.arange(n)
    back = every % 2 == 1
    return [Part(np.where(back, b, a), np.where(back, a, b), job.size, every % 2, every[1:], every[:-1])]


def _bandwidth(job: jobs.Bandwidth, at: Place) -> list[Part]:
    a, b = _two(job, at)
    lines = job.qps * (2 if job.bidirectional else 1)
    n = lines * job.iterations
    check_count(n, f"{lines} queue pairs with {counted(job.iterations, 'message')} each")
    every = np.arange(n)
    qp = every % lines
    back = qp >= job.qps
    waits = every[job.tx_depth * lines :]
    return [Part(np.where(back, b, a), np.where(back, a, b), job.size, qp, waits, waits - job.tx_depth * lines)]


def _matrix(job: jobs.Matrix, at: Place) -> list[Part]:
    from softib.workloads.traffic_matrix import read_traffic

    traffic = read_traffic(job.file) if job._data is None else job._data
    src, dst, octets = traffic.matrix(at.hosts.name).demand
    keep = (src != dst) & (octets >= 1)
    if not keep.any():
        raise InputError(f"{job.file}: no host sends a byte to another")
    src, dst, octets = src[keep], dst[keep], np.floor(octets[keep]).astype(np.int64)
    pieces = -(-octets // job.size)
    check_count(int(pieces.sum()), f"the entries of {job.file} in messages of {job.size:,} bytes")
    row, nth = spread(pieces)
    size = np.minimum(octets[row] - nth * job.size, job.size)
    return [Part(src[row], dst[row], size, row)]


def _trace(job: jobs.Trace, at: Place) -> list[Part]:
    from softib.workloads.schedule.messages import part_of, place
    from softib.workloads.traces.forms import program_of

    schedule = program_of(job, len(at.rows), job._data)
    host = place(schedule, at.rows, job.ranks_per_host)
    part, _ = part_of(schedule, host, overheads_of(job))
    check_count(len(part.src), f"the operations of {job.file}")
    return [part]


def _mpi(job: mpi_jobs.Mpi, at: Place) -> list[Part]:
    from softib.workloads.mpi.hosted import mpi_part

    part = mpi_part(job, at.rows)
    check_count(len(part.src), f"the messages of {part.name}")
    return [part]


def _storage(job: Any, at: Place) -> list[Part]:
    from softib.workloads.storage import storage

    return storage.storage(job, at) if job.pattern == "storage" else storage.checkpoint(job, at)


OF_TARGETS = ("storage", "checkpoint")
"""Patterns whose hosts may be one, as they name others."""


def _nccl(job: nccl_jobs.Nccl, at: Place) -> list[Part]:
    from softib.workloads.nccl.job import part_of_job

    part = part_of_job(job, at.hosts.name, at.rows, at.hosts.gbps)
    check_count(len(part.src), f"{job.pattern} on {counted(len(at.rows), 'adapter')}")  # type: ignore[attr-defined]
    return [part]


def _training_step(job: nccl_jobs.TrainingStep, at: Place) -> list[Part]:
    from softib.workloads.training.job import part_of_job

    part = part_of_job(job, at.hosts.name, at.rows)
    check_count(len(part.src), f"a training step on {counted(len(at.rows), 'adapter')}")
    return [part]


MAKERS: dict[str, Callable[[Any, Place], list[Part]]] = {
    "permutation": _permutation, "shift": _shift, "all-to-all": _all_to_all, "random-pairs": _random_pairs, "bisection": _bisection,
    "incast": _incast, "parking-lot": _parking_lot, "hot-spot": _hot_spot, "multicast": _multicast, "aggregation": _aggregation, "latency": _latency, "bandwidth": _bandwidth,
    "message-rate": _bandwidth, "matrix": _matrix, "trace": _trace, "nccl-all-reduce": _nccl, "nccl-all-gather": _nccl, "nccl-reduce-scatter": _nccl, "nccl-broadcast": _nccl,
    "nccl-all-to-all": _nccl, "nccl-send-recv": _nccl, "training-step": _training_step, "storage": _storage, "checkpoint": _storage,
    **{str(c.model_fields["pattern"].default): _mpi for c in mpi_jobs.MPI},
}  # fmt: skip
"""Maker of each pattern's messages."""
