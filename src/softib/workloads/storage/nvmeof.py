"""Storage over NVMe over Fabrics as messages: requests of clients to targets, and checkpoints.

A request of ``nvme-of`` follows the protocol of NVMe over Fabrics over RDMA (NVM Express, RDMA
Transport Specification 1.0, sections 2 and 3): the client SENDs a command capsule; for a read the
target's devices deliver the data, which the target WRITEs into the client's memory; for a write the target READs it
from there (small data is part of the command); the target SENDs a response capsule. With protocol ``rdma``, a request
is only the data: a WRITE or READ of the client. The devices of a target move the bytes of all clients and jobs one
after another, at their total rate. The latency of a request comes in addition, and overlaps with other requests. The
processors of a target may also have a rate: ``target_iops`` requests per second. READs and responses of a target use
separate queue pairs here, whereas a real target posts both to one queue pair in the order in which they become ready.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError
from softib.plural import counted, plural
from softib.sim.messages import Opcode
from softib.workloads.parameters import section
from softib.workloads.pattern import JobMessages, Place, check_count
from softib.workloads.storage.rows import Rows, barrier

if TYPE_CHECKING:
    from softib.workloads.storage.jobs import Checkpoint, OfStorage, Storage

__all__ = ["checkpoint", "storage"]

COMMAND, RESPONSE = 64, 16
"""Bytes of a command and a response capsule: a submission and a completion queue entry (NVM Express Base Specification
2.0, 3.3.3)."""
STAGES = 8
"""Largest number of rows that one request has."""


@dataclass(frozen=True)
class Cost:
    """Cost of a request in ps: on the devices (``device_ps`` plus ``ps_per_byte``) and on the
    processors of client and target; ``served_ps`` is the time between two requests that the
    target's processors serve."""

    device_ps: int
    ps_per_byte: float
    client_ps: int
    target_ps: int
    in_capsule: int
    served_ps: int


@dataclass(frozen=True)
class Shares:
    """Assignment of requests to targets. ``clients`` and ``targets``: rows of hosts. The n-th entry of ``octets`` is
    the size of each client's n-th request; the n-th entry of ``step`` gives its target, ``(client + step) mod
    targets``."""

    clients: np.ndarray
    targets: np.ndarray
    octets: np.ndarray
    step: np.ndarray


@dataclass(frozen=True)
class Requests:
    """Columns of requests. The first requests of all clients come before all second ones (``order``). ``src`` and
    ``dst``: hosts of client and target; ``octets``; ``pair`` and ``target``: number of the pair of hosts, and of the
    target.
    """

    order: np.ndarray
    src: np.ndarray
    dst: np.ndarray
    octets: np.ndarray
    pair: np.ndarray
    target: np.ndarray


def storage(job: Storage, at: Place) -> list[JobMessages]:
    """Return the messages of clients that read or write. Raises :class:`InputError` if all hosts are targets, and for
    an option that contradicts others."""
    shares, rows = _shares(job, at, job.bursts), Rows()
    begun = rows.compute(shares.clients, np.arange(len(shares.clients)), 0)
    for number in range(job.bursts):
        last = _requests(rows, job, shares, job.operation == "read", begun)
        if number + 1 < job.bursts:
            begun = _joined(rows, shares, last, job.pause)
    return [rows.part()]


def checkpoint(job: Checkpoint, at: Place) -> list[JobMessages]:
    """Return the messages of checkpoints. Raises the errors of :func:`storage`."""
    shares, rows = _shares(job, at, job.rounds), Rows()
    clients = shares.clients
    begun: np.ndarray | None = None
    for _ in range(job.rounds):
        rows.begin_phase()
        computed = rows.compute(clients, np.arange(len(clients)), job.compute)
        if begun is not None:
            rows.wait(computed, begun)
        last = _requests(rows, job, shares, False, barrier(rows, clients, computed))
        begun = barrier(rows, clients, _joined(rows, shares, last, 0))
    return [rows.part()]


def _shares(job: OfStorage, at: Place, times: int) -> Shares:
    _check(job)
    given = job.targets if isinstance(job.targets, list) or job.targets is None else [job.targets]
    targets = at.rows[-1:] if given is None else at.hosts.chosen(given)
    clients = at.rows[~np.isin(at.rows, targets)]
    pattern = job.pattern_name
    if not len(targets):
        raise InputError(
            f"{pattern}: no host is a target; add one, for example targets=0, or leave out targets for the last host"
        )
    if not len(clients):
        raise InputError(
            f"{pattern}: all {counted(len(at.rows), 'host')} {plural(len(at.rows), 'is', 'are')} targets; leave at "
            f"least one client"
        )
    wide = job.stripe_count or len(targets)
    if wide > len(targets):
        raise InputError(
            f"{pattern}: stripe-count {wide} on {counted(len(targets), 'target')}; use at most {len(targets)}"
        )
    each = sum(-(-job.size // octets) for octets in (job.block, job.stripe))
    each -= -(-job.size // math.lcm(job.block, job.stripe))
    check_count(
        each * len(clients) * times * 4,
        f"{counted(len(clients), 'client')} with {counted(each, 'request')} each, {counted(times, 'time')},",
        "raise block and stripe, or take fewer clients",
    )
    cut = np.union1d(np.arange(0, job.size, job.block), np.arange(0, job.size, job.stripe))
    return Shares(clients, targets, np.diff(np.append(cut, job.size)), cut // job.stripe % wide)


def _check(job: OfStorage) -> None:
    pattern = job.pattern_name
    if {"opcode", "transport", "receives", "repost"} & job.model_fields_set:
        raise InputError(
            f"{pattern} has no options opcode, transport, receives and repost: its protocol determines the "
            f"messages, over RC"
        )
    devices = {
        "in_capsule",
        "device",
        "device_time",
        "device_rate",
        "target_time",
        "target_iops",
    } & job.model_fields_set
    if job.protocol == "rdma" and devices:
        raise InputError(
            f"{pattern}: protocol=rdma has no target program, so leave {min(devices).replace('_', '-')} out"
        )
    timed = {"device_time", "device_rate"} & job.model_fields_set
    if job.device == "memory" and timed:
        raise InputError(f"{pattern}: device=memory takes no time, so leave {min(timed).replace('_', '-')} out")


def _cost(job: OfStorage, read: bool) -> Cost:
    constants, kind = section("storage"), "read" if read else "write"
    ps = lambda given, name: round(constants[name] * 1e6) if given is None else given
    gbps = job.device_rate or constants["drives"] * constants[f"drive_{kind}_gbps"]
    memory = job.device == "memory"
    return Cost(
        0 if memory else ps(job.device_time, f"drive_{kind}_us"),
        0.0 if memory else 8000.0 / gbps,
        ps(job.client_time, "client_us"),
        ps(job.target_time, "target_us"),
        round(constants["in_capsule"]) if job.in_capsule is None else job.in_capsule,
        round(1e12 / job.target_iops) if job.target_iops else 0,
    )


def _requests(rows: Rows, job: OfStorage, s: Shares, read: bool, begun: np.ndarray) -> dict[str, np.ndarray]:
    """Add the requests of one burst; the first of these wait for ``begun`` (one row per client).
    For each client and each of its targets, returns the ``client`` and the ``row`` that ends its last request."""
    rows.begin_phase()
    cost, n, each = _cost(job, read), len(s.clients), len(s.octets)
    number, client = np.divmod(np.arange(each * n), n)
    target = (client + s.step[number]) % len(s.targets)
    r = Requests(
        number * STAGES,
        s.clients[client],
        s.targets[target],
        s.octets[number],
        client * len(s.targets) + target,
        target,
    )
    if job.protocol == "rdma":
        ask = ended = rows.add(
            r.order, r.src, r.dst, ("ask", r.pair), r.octets, Opcode.READ if read else Opcode.WRITE, cost.client_ps
        )
    else:
        carried = 0 if read else np.where(r.octets <= cost.in_capsule, r.octets, 0)
        ask = rows.add(r.order, r.src, r.dst, ("ask", r.pair), COMMAND + carried, Opcode.SEND, cost.client_ps)
        ended = (_read if read else _write)(rows, cost, r, _served(rows, cost, r, ask))
    rows.request(ask, ended)
    depth = min(job.queue_depth, each)
    rows.wait(ask[: depth * n], begun[client[: depth * n]])
    rows.wait(ask[depth * n :], ended[: (each - depth) * n])
    last = len(r.pair) - 1 - np.unique(r.pair[::-1], return_index=True)[1]
    return {"client": client[last], "row": ended[last]}


def _served(rows: Rows, cost: Cost, r: Requests, ask: np.ndarray) -> np.ndarray:
    """Return the rows that end when the target's processors have accepted the requests ``ask``; without a rate of these
    processors, return ``ask``."""
    if not cost.served_ps:
        return ask
    taken = rows.add(r.order, r.dst, r.dst, ("processor", r.target), 1, Opcode.COMPUTE, cost.served_ps)
    rows.wait(taken, ask)
    return taken


def _read(rows: Rows, cost: Cost, r: Requests, ask: np.ndarray) -> np.ndarray:
    """Add devices, data and response of reads; return the rows of the responses."""
    ready = _device(rows, cost, r, ask)
    wait = cost.device_ps + cost.target_ps
    data = rows.add(r.order + 2, r.dst, r.src, ("answer", r.pair), r.octets, Opcode.WRITE, wait)
    answer = rows.add(r.order + 3, r.dst, r.src, ("answer", r.pair), RESPONSE, Opcode.SEND, wait)
    rows.wait(data, ready)
    rows.wait(answer, ready)
    return answer


def _write(rows: Rows, cost: Cost, r: Requests, ask: np.ndarray) -> np.ndarray:
    """Add data (if not part of the command), devices and response of writes; return the rows
    of the responses."""
    here, fetched = ask.copy(), r.octets > cost.in_capsule
    if fetched.any():
        order, src, dst, octets, pair = (column[fetched] for column in (r.order, r.src, r.dst, r.octets, r.pair))
        here[fetched] = rows.add(order + 1, dst, src, ("fetch", pair), octets, Opcode.READ, cost.target_ps)
        rows.wait(here[fetched], ask[fetched])
    wait = cost.device_ps + np.where(fetched, 0, cost.target_ps)
    answer = rows.add(r.order + 3, r.dst, r.src, ("answer", r.pair), RESPONSE, Opcode.SEND, wait)
    rows.wait(answer, _device(rows, cost, r, here))
    return answer


def _device(rows: Rows, cost: Cost, r: Requests, here: np.ndarray) -> np.ndarray:
    """Return the rows that end when the devices have moved the bytes of the requests ``here``; return ``here`` if that
    takes no time."""
    if not cost.ps_per_byte:
        return here
    moved = rows.add(
        r.order + 2, r.dst, r.dst, ("device", r.target), 1, Opcode.COMPUTE, np.round(r.octets * cost.ps_per_byte)
    )
    rows.wait(moved, here)
    return moved


def _joined(rows: Rows, s: Shares, last: dict[str, np.ndarray], pause_ps: int) -> np.ndarray:
    """Return a row for each client that waits until its requests have ended, and then for
    ``pause_ps``."""
    rows.begin_phase()
    join = rows.compute(s.clients, np.arange(len(s.clients)), pause_ps)
    rows.wait(join[last["client"]], last["row"])
    return join
