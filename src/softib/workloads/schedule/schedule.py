"""Programs of ranks: sends, receives and computations with their dependencies, as columns. GOAL
and Chakra traces and collectives are converted to this form, and
from it to :class:`~softib.sim.messages.Messages`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from softib.errors import InputError
from softib.ragged import inverted, spread

__all__ = ["ANY", "MOST_OCTETS", "MOST_PS", "PROCESSORS", "Kind", "Schedule", "matched", "meetings"]

ANY = -1
"""Value of ``peer`` and ``tag`` of a receive: any source, any tag (MPI_ANY_SOURCE, MPI_ANY_TAG)."""
MOST_OCTETS = 1 << 40
"""Largest size of a message."""
PROCESSORS = 256
"""Largest number of processors of a rank: GOAL's ``cpu`` is one byte."""
MOST_PS = 1 << 61
"""Maximum total computation of a rank (27 days), because times in ps are 64-bit integers."""


class Kind(IntEnum):
    """The kind of an operation."""

    SEND, RECV, COMPUTE = range(3)


@dataclass(frozen=True)
class Schedule:
    """``n`` operations of ``ranks`` ranks, sorted by rank, in the order of each rank's program.

    * ``rank`` int32.
    * ``kind`` uint8 (:class:`Kind`).
    * ``peer`` int32: the other rank (of a receive, it may be :data:`ANY`; of a computation, it is -1).
    * ``size`` int64 bytes (a computation: 0).
    * ``tag`` int64.
    * ``compute_ps`` int64 (of a computation).
    * ``processor`` int32: the processor of the rank that the operation occupies.
    * ``needs``: operation ``i`` begins when the operations ``needs[first[i]:first[i + 1]]`` have ended; ``on_start``
      (bool, parallel to ``needs``): the operation need only have begun.
    * ``labels``: locations of operations for error messages (None or empty: the number of the operation in its rank).
    * ``acknowledged``: a send ends with its acknowledgement, like completions of a queue pair, and not when it is
      passed to the adapter.
    * ``processors``: number of processors shared by all ranks (0: each has its own); rank r uses processor r modulo
      this.
    * ``blocking`` (bool[n]; None: no send is): after such a send, the program waits until the buffer is free (MPI_Send,
      not MPI_Isend). Some libraries transfer these messages differently.
    * ``rate_gbps`` (float64[n], or None): the static rate of a send's message (0: the rate of all the library's
      messages).
    """

    name: str
    ranks: int
    rank: np.ndarray
    kind: np.ndarray
    peer: np.ndarray
    size: np.ndarray
    tag: np.ndarray
    compute_ps: np.ndarray
    processor: np.ndarray
    first: np.ndarray
    needs: np.ndarray
    on_start: np.ndarray
    labels: Sequence[str] = field(default=(), repr=False)
    acknowledged: bool = False
    processors: int = 0
    blocking: np.ndarray | None = None
    rate_gbps: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rank)

    def where(self, i: int) -> str:
        """Return the location of operation ``i``, for example ``rank 3, l12``."""
        number = i - int(np.searchsorted(self.rank, self.rank[i]))
        label = self.labels[i] if self.labels else ""
        return f"rank {int(self.rank[i])}, {label or f'operation {number + 1}'}"

    def check(self) -> None:
        """Raise :class:`InputError` in the cases of :meth:`check_values`, and for a cycle of operations that wait for
        each other."""
        self.check_values()
        circle = _in_a_circle(self)
        if circle >= 0:
            raise InputError(
                f"{self.name}: {self.where(circle)}: the operation waits for itself, through its requirements"
            )

    def check_values(self) -> None:
        """Raise :class:`InputError`, one line with rank and operation, for a peer that does not
        exist, a rank that sends to itself, a negative size or time."""
        sends = self.kind != Kind.COMPUTE
        receives = self.kind == Kind.RECV
        anybody = receives & (self.peer == ANY)
        rules = (
            (
                sends & ~anybody & ((self.peer < 0) | (self.peer >= self.ranks)),
                f"names a rank that does not exist; there are {self.ranks:,}",
            ),
            (sends & (self.peer == self.rank), "sends to itself, or receives from itself"),
            (self.size < 0, "has a negative size"),
            (self.compute_ps < 0, "computes for a negative time"),
            (self.size > MOST_OCTETS, f"has more than {MOST_OCTETS:,} bytes"),
            (
                self._too_long(),
                f"brings the computation of its rank to more than {MOST_PS / 86400e12:.0f} days",
            ),
        )
        for wrong, problem in rules:
            if wrong.any():
                raise InputError(f"{self.name}: {self.where(int(np.argmax(wrong)))}: {problem}")

    def _too_long(self) -> np.ndarray:
        """Return the operations at whose end the total computation of their rank exceeds
        :data:`MOST_PS`."""
        if self.compute_ps.sum(dtype=np.float64) <= MOST_PS:
            return np.zeros(1, bool)
        total = np.cumsum(self.compute_ps, dtype=np.float64)
        before = np.concatenate([[0.0], total])[np.searchsorted(self.rank, self.rank)]
        return total - before > MOST_PS

    def on_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the operations that wait, and the operations whose end they wait for. An operation that waits for the
        start of another one waits for the dependencies of that operation."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.first))
        needs, start = self.needs, self.on_start
        while start.any():
            count = np.where(start, np.diff(self.first)[needs], 1)
            pair, step = spread(count)
            follows = start[pair]
            row = np.where(follows, self.first[needs[pair]] + step, pair)
            owner = owner[pair]
            needs, start = np.where(follows, self.needs[row], needs[pair]), follows & self.on_start[row]
        return owner, needs

    def processor_rows(self) -> np.ndarray:
        """Return the processor of each operation (int64[n]): rank times :data:`PROCESSORS`, plus
        its number in the rank. If ranks share ``processors``, each processor that computes is
        replaced by the first such processor of the lowest rank that shares it. A processor that
        only sends and receives, like an adapter that answers, stays separate."""
        rows = self.rank.astype(np.int64) * PROCESSORS + self.processor
        if not 0 < self.processors < self.ranks:
            return rows
        computes = np.unique(rows[(self.kind == Kind.COMPUTE) & (self.compute_ps > 0)])
        shared = computes // PROCESSORS % self.processors
        one, first = np.unique(shared, return_index=True)
        place = np.searchsorted(computes, rows)
        on = np.isin(rows, computes)
        rows[on] = computes[first][np.searchsorted(one, shared[place[on]])]
        return rows

    @property
    def octets(self) -> int:
        """Return the number of bytes that all ranks send."""
        return int(self.size[self.kind == Kind.SEND].sum())


def _in_a_circle(s: Schedule) -> int:
    """Return an operation that waits for itself through others; -1 if there is none."""
    from softib.sim.static_kernels import step_of

    n = len(s)
    left = np.diff(s.first).astype(np.int64)
    first, waits, _ = inverted(spread(left)[0], s.needs, n)
    step_of(first, waits, left, np.zeros(n, np.int64), np.empty(n, np.int64))
    return int(np.argmax(left > 0)) if (left > 0).any() else -1


def matched(s: Schedule) -> np.ndarray:
    """Return the receive of each send (int64[n], -1 for other operations), by source, destination
    and tag, in the order of both programs (MPI-4, 3.5). After all other matches, a receive from
    :data:`ANY` takes the first remaining send that it can match, because the order of arrival is unknown before a run.
    Raises :class:`InputError` for a send or receive without a match, and for a send that is larger than its receive.
    """
    return np.where(s.kind == Kind.SEND, meetings(s), -1)


def meetings(s: Schedule) -> np.ndarray:
    """Return the receive of each send, as :func:`matched` does, and the send of each receive (int64[n], -1 for
    computations)."""
    from softib.sim.loggops import matches

    wild = (s.kind == Kind.RECV) & ((s.peer == ANY) | (s.tag == ANY))
    kind = np.where(wild, Kind.COMPUTE, s.kind).astype(np.uint8)
    met = matches(kind, s.rank, s.peer, s.tag)
    if wild.any():
        _any_source(s, met, np.flatnonzero(s.kind == Kind.SEND), np.flatnonzero(wild))
    alone = (met < 0) & (s.kind != Kind.COMPUTE)
    lonely = alone & (s.kind == Kind.SEND)
    if lonely.any():
        i = int(np.argmax(lonely))
        raise InputError(
            f"{s.name}: {s.where(i)}: there is no receive for this message to rank {int(s.peer[i])} with tag "
            f"{int(s.tag[i])}"
        )
    if alone.any():
        i = int(np.argmax(alone))
        raise InputError(
            f"{s.name}: {s.where(i)}: the operation never ends: there is no send of a message with tag {int(s.tag[i])}"
        )
    short = (s.kind == Kind.SEND) & (s.size > s.size[met])
    if short.any():
        i = int(np.argmax(short))
        raise InputError(
            f"{s.name}: {s.where(i)}: {int(s.size[i]):,} bytes for a receive of {int(s.size[met[i]]):,} "
            f"({s.where(int(met[i]))})"
        )
    return met


def _any_source(s: Schedule, met: np.ndarray, sends: np.ndarray, wild: np.ndarray) -> None:
    left: dict[int, list[int]] = {}
    for i in sends[met[sends] < 0].tolist():
        left.setdefault(int(s.peer[i]), []).append(i)
    for r in wild.tolist():
        able = [
            i for i in left.get(int(s.rank[r]), ()) if s.peer[r] in (ANY, s.rank[i]) and s.tag[r] in (ANY, s.tag[i])
        ]
        fits = [i for i in able if s.size[i] <= s.size[r]]
        if able:
            i = (fits or able)[0]
            met[i], met[r] = r, i
            left[int(s.rank[r])].remove(i)
