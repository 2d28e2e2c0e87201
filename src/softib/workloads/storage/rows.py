"""Builder of a :class:`~softib.workloads.pattern.JobMessages`: rows are added by kind, and then sorted into the order
in which queue pairs send them. The builder also adds barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.sim.messages import Opcode
from softib.workloads.pattern import JobMessages

__all__ = ["BARRIER_OCTETS", "Rows", "barrier"]

BARRIER_OCTETS = 8
"""Bytes of a barrier's message."""
ID_BITS = 40
OF_HOST = {"device": 1, "processor": 2}
"""Numbers in ``JobMessages.serves`` of the resources that all jobs of a host share, and use one after another."""


class Rows:
    """Messages and computations, added as columns. The order in which a queue pair sends them: rows of a later *phase*
    come after those of all earlier phases, and rows of a phase are sorted by ``order``."""

    def __init__(self) -> None:
        self._columns: dict[str, list[np.ndarray]] = {
            name: [] for name in ("key", "src", "dst", "qp", "size", "opcode", "delay")
        }
        self._waits: list[np.ndarray] = []
        self._needs: list[np.ndarray] = []
        self._requests: list[np.ndarray] = [np.zeros((0, 2), np.int64)]
        self._kinds: dict[str, int] = {}
        self._count = self._phase = self._next_phase = 0

    def begin_phase(self) -> None:
        """Start a phase: rows added from here on follow all present ones."""
        self._phase = self._next_phase

    def add(
        self,
        order: Any,
        src: np.ndarray,
        dst: np.ndarray,
        line: tuple[str, Any],
        size: Any,
        opcode: Any,
        delay_ps: Any = 0,
    ) -> np.ndarray:
        """Add rows from ``src`` to ``dst`` on the queue pair ``line`` (for computations: the processor). ``line`` is a
        kind and a number of 40 bits. Returns the numbers of the rows."""
        n, (kind, number) = len(src), line
        qp = (self._kinds.setdefault(kind, len(self._kinds)) << ID_BITS) + np.asarray(number, np.int64)
        given = {
            "key": np.asarray(order) + self._phase,
            "src": src,
            "dst": dst,
            "qp": qp,
            "size": size,
            "opcode": int(opcode),
            "delay": delay_ps,
        }
        for name, value in given.items():
            self._columns[name].append(np.broadcast_to(np.asarray(value), n).astype(np.int64))
        if n:
            self._next_phase = max(self._next_phase, int(self._columns["key"][-1].max()) + 1)
        self._count += n
        return np.arange(self._count - n, self._count)

    def compute(self, hosts: np.ndarray, line: np.ndarray, delay_ps: Any) -> np.ndarray:
        """Add a computation on each of ``hosts``, on the programs' processor ``line``."""
        return self.add(0, hosts, hosts, ("program", line), 1, Opcode.COMPUTE, delay_ps)

    def wait(self, rows: np.ndarray, needed: np.ndarray) -> None:
        """Let ``rows[k]`` wait for ``needed[k]``."""
        self._waits.append(np.asarray(rows, np.int64))
        self._needs.append(np.asarray(needed, np.int64))

    def request(self, asks: np.ndarray, ends: np.ndarray) -> None:
        """Let request k begin with row ``asks[k]`` and end with the arrival of ``ends[k]``."""
        self._requests.append(np.stack([asks, ends], axis=1))

    def part(self) -> JobMessages:
        """Return all rows as messages of the job."""
        columns = {name: np.concatenate(arrays) for name, arrays in self._columns.items()}
        order = np.argsort(columns["key"], kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        sorted_columns = {name: column[order] for name, column in columns.items()}
        waits, needs = (np.concatenate([np.zeros(0, np.int64), *pieces]) for pieces in (self._waits, self._needs))
        qp = np.unique(sorted_columns["qp"], return_inverse=True)[1]
        shared = np.array([OF_HOST.get(kind, 0) for kind in self._kinds], np.int64)
        return JobMessages(
            sorted_columns["src"],
            sorted_columns["dst"],
            sorted_columns["size"],
            qp,
            place[waits],
            place[needs],
            opcode=sorted_columns["opcode"],
            delay_ps=sorted_columns["delay"],
            requests=place[np.concatenate(self._requests)],
            serves=shared[sorted_columns["qp"] >> ID_BITS],
        )


def barrier(rows: Rows, hosts: np.ndarray, entered: np.ndarray) -> np.ndarray:
    """Add a dissemination barrier (Hensgen, Finkel, Manber, 1988): in round k, each host sends to the host 2^k further
    on, after it has received the messages of all earlier rounds. ``entered``: for each host, the row after which it
    enters the barrier. Returns, for each host, the row with which it leaves."""
    n, here = len(hosts), np.arange(len(hosts))
    heard: list[np.ndarray] = []
    rows.begin_phase()
    for k in range(max(n - 1, 0).bit_length()):
        sent = rows.add(k, hosts, hosts[(here + (1 << k)) % n], (f"barrier {k}", here), BARRIER_OCTETS, Opcode.SEND)
        for before in (entered, *heard):
            rows.wait(sent, before)
        heard.append(sent[(here - (1 << k)) % n])
    rows.begin_phase()
    left = rows.compute(hosts, here, 0)
    for before in (entered, *heard):
        rows.wait(left, before)
    return left
