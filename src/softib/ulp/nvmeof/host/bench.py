"""Measurement of a namespace with random commands at a given queue depth, with verification of the data."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.ulp.nvmeof.codes import Io
from softib.ulp.nvmeof.host import queue_layout as layout
from softib.ulp.nvmeof.host.command_queue import CommandError
from softib.ulp.nvmeof.host.disk import Disk

__all__ = ["Measurement", "fill", "measure"]

BATCH = 4096
"""Number of requests between two reads of the clock."""


def first_word(units: np.ndarray, size: int, generation: np.ndarray | int) -> np.ndarray:
    """Return the first word of each unit's pattern in ``generation``. A unit is ``size`` bytes. Within a generation,
    all words on a disk differ."""
    index = np.asarray(units, np.int64) * (size // 8) + 1
    return index * layout.STEP + np.asarray(generation, np.int64) * 0x5851F42D4C957F2D


@dataclass
class Measurement:
    """The results of a measurement."""

    seconds: float
    commands: int
    size: int
    reads: int
    latency_us: tuple[float, float, float]
    """Median, 99th percentile and maximum of the latency."""


class _Worker(threading.Thread):
    """A worker that runs random commands on one queue; no other worker accesses its units of the disk."""

    def __init__(
        self, disk: Disk, queue: int, units: np.ndarray, size: int, reads: float, verified: bool, until_s: float
    ):
        super().__init__(daemon=True)
        self.disk, self.queue, self.units, self.size = disk, queue, units, size
        self.read_share, self.verified, self.until_s = reads, verified, until_s
        self.generation = np.zeros(len(units), np.int64)
        self.commands = self.reads = 0
        self.latencies: list[np.ndarray] = []
        self.problem: BaseException | None = None

    def run(self) -> None:
        """Run until the time limit."""
        try:
            random = np.random.default_rng(self.queue)
            order = random.permutation(len(self.units))
            at = 0
            while time.monotonic() < self.until_s:
                if at >= len(order):
                    order, at = random.permutation(len(self.units)), 0
                rows = order[at : at + BATCH]
                at += BATCH
                self._batch(rows, random.random(len(rows)) < self.read_share)
        except BaseException as error:
            self.problem = error

    def _batch(self, rows: np.ndarray, reads: np.ndarray) -> None:
        self.generation[rows[~reads]] += 1
        blocks = self.size >> self.disk.shift
        requests = layout.requests(
            len(rows),
            opcode=np.where(reads, int(Io.READ), int(Io.WRITE)),
            lba=self.units[rows] * blocks,
            blocks=blocks,
            flags=layout.PATTERN if self.verified else 0,
            pattern=first_word(self.units[rows], self.size, self.generation[rows]),
        )
        self.disk.run(requests, self.queue)
        _check(requests)
        self.commands += len(rows)
        self.reads += int(reads.sum())
        self.latencies.append(requests.ns)


def _check(requests: Any) -> None:
    wrong = np.flatnonzero(requests.status & 0x7FF)
    if len(wrong):
        name = "read" if requests.opcode[wrong[0]] == Io.READ else "write"
        raise CommandError(f"{name} of block {int(requests.lba[wrong[0]])}", int(requests.status[wrong[0]]))


def fill(disk: Disk, size: int) -> None:
    """Write generation 0 of the pattern over the whole disk."""
    units, blocks = np.arange(disk.size // size), size >> disk.shift
    for begin in range(0, len(units), BATCH):
        part = units[begin : begin + BATCH]
        requests = layout.requests(
            len(part),
            opcode=int(Io.WRITE),
            lba=part * blocks,
            blocks=blocks,
            flags=layout.PATTERN,
            pattern=first_word(part, size, 0),
        )
        disk.run(requests)
        _check(requests)


def measure(disk: Disk, size: int, seconds: float, reads: float, verified: bool) -> Measurement:
    """Run random commands of ``size`` bytes on all queues. ``reads``: the share of reads (0 to 1). ``verified``: write
    the pattern, and compare the data read with it. Raises :class:`InputError` if the size is not a multiple of the
    block size, or is too large."""
    block = 1 << disk.shift
    if size % block or not block <= size <= disk.piece or size > disk.size:
        raise InputError(f"size {size:,}: use a multiple of {block:,} up to {min(disk.piece, disk.size):,}")
    units = np.arange(disk.size // size)
    count = min(disk.queue_count, len(units))
    began = time.monotonic()
    workers = [
        _Worker(disk, queue, units[queue::count], size, reads, verified, began + seconds) for queue in range(count)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    elapsed = time.monotonic() - began
    for worker in workers:
        if worker.problem is not None:
            raise worker.problem
    ns = np.concatenate([ns for worker in workers for ns in worker.latencies])
    median, high, largest = (float(v) / 1e3 for v in (*np.percentile(ns, [50, 99]), ns.max()))
    return Measurement(
        elapsed,
        sum(worker.commands for worker in workers),
        size,
        sum(worker.reads for worker in workers),
        (median, high, largest),
    )
