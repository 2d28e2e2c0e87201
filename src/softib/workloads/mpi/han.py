"""Open MPI's hierarchical collectives (``coll/han``): coll/tuned runs a collective inside each host, libnbc one between
the first ranks (leaders) of the hosts, one segment after another.

Facts about ``ompi/mca/coll/han`` of 5.0.9: its priority is 35 in 5.0 (above tuned's 30, so it is used first) and 0 in
4.1 (it is never used); 4.0 does not have it. Segments have 64 KiB. HAN's simple algorithms are not used; as in its
tasks t0 to t3, the collectives of neighbouring segments overlap. All-gather, gather, scatter and barrier are sequences
of blocking collectives. They use tuned between the hosts too, because libnbc has no blocking collectives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from softib.workloads.mpi.allgather_alltoall import ALLGATHERS, GATHERS, SCATTERS
from softib.workloads.mpi.decision import choose
from softib.workloads.mpi.primitives import segments
from softib.workloads.mpi.program import Data, Program
from softib.workloads.mpi.rooted import BCASTS, REDUCES
from softib.workloads.mpi.scattering import BARRIERS

__all__ = ["HAN", "SEGMENT", "takes_han"]

SEGMENT = 65_536
"""Bytes of a segment (coll_han_bcast_segsize, …_reduce_segsize, …_allreduce_segsize)."""
LIBNBC_SMALL = 65_536
"""Minimum number of bytes for which libnbc uses chains."""
Table = dict[str, Callable[..., None]]
FEW = 4
"""Largest number of processes for which libnbc broadcasts linearly."""


def takes_han(collective: str, version: str, ranks: int, each: int) -> bool:
    """Return whether Open MPI ``version`` uses HAN for ``collective`` by default. It needs several hosts, each with the
    same number of ranks, and more than one rank on each."""
    return version == "5.0" and collective in HAN and each > 1 and ranks > each and ranks % each == 0


class _Last:
    """The last row of each member of a view: a part of ``Program.last``, indexed by the member's number in the view."""

    def __init__(self, whole: np.ndarray, members: np.ndarray):
        self._whole, self._members = whole, members

    def _at(self, key: Any) -> Any:
        return (self._members[key[0]], key[1]) if isinstance(key, tuple) else self._members[key]

    def __getitem__(self, key: Any) -> np.ndarray:
        return np.asarray(self._whole[self._at(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self._whole[self._at(key)] = value

    @property
    def T(self) -> np.ndarray:
        """Return the columns."""
        return np.asarray(self._whole[self._members].T)

    def copy(self) -> np.ndarray:
        """Return a copy as an array."""
        return self._whole[self._members].copy()


class View:
    """A communicator of ``members``, some of the ranks of a program, with those methods of :class:`Program` that an
    algorithm needs. An algorithm's element 0 is element ``offset`` of the program's buffers. ``libnbc``: all sends are
    MPI_Isend, as in nbc.c."""

    def __init__(self, program: Program, members: np.ndarray, offset: int, libnbc: bool = False):
        self.program, self.members, self.offset, self.libnbc = program, members, offset, libnbc
        self.ranks, self.every, self.element, self.version = (
            len(members),
            np.arange(len(members)),
            program.element,
            program.version,
        )
        self.last = _Last(program.last, members)

    def _moved(self, data: Data) -> Data:
        return Data(np.where(data.offset < 0, data.offset, data.offset + self.offset), data.count)

    def send(
        self, rank: np.ndarray, to: np.ndarray, data: Data, needs: Any = None, blocking: bool = True
    ) -> np.ndarray:
        """Do the same as :meth:`Program.send`."""
        by_send = blocking and not self.libnbc
        return self.program.send(self.members[rank], self.members[to], self._moved(data), needs, by_send)

    def receive(self, rank: np.ndarray, source: np.ndarray, data: Data, needs: Any = None) -> np.ndarray:
        """Do the same as :meth:`Program.receive`."""
        return self.program.receive(self.members[rank], self.members[source], self._moved(data), needs)

    def exchange(
        self, rank: np.ndarray, to: np.ndarray, out: Data, source: np.ndarray, into: Data
    ) -> tuple[np.ndarray, np.ndarray]:
        """Do the same as :meth:`Program.exchange`."""
        return self.program.exchange(
            self.members[rank], self.members[to], self._moved(out), self.members[source], self._moved(into)
        )

    def reduce(self, rank: np.ndarray, receives: np.ndarray, data: Data) -> np.ndarray:
        """Do the same as :meth:`Program.reduce`."""
        return self.program.reduce(self.members[rank], receives, self._moved(data))

    def copy(self, rank: np.ndarray, count: Any) -> None:
        """Do the same as :meth:`Program.copy`."""
        self.program.copy(self.members[rank], count)

    def wait(self, rank: np.ndarray, needs: list[np.ndarray]) -> None:
        """Do the same as :meth:`Program.wait`."""
        self.program.wait(self.members[rank], needs)


class _Levels:
    """The two levels of the program ``p``: inside hosts of ``each`` ranks, and between the leaders, the first rank of
    each host."""

    def __init__(self, p: Program, each: int, count: int):
        self.p, self.each = p, each
        self.hosts = np.arange(p.ranks).reshape(-1, each)
        self.leaders = self.hosts[:, 0].copy()
        self.pieces = segments(count, SEGMENT, p.element)

    def below(self, table: Table, collective: str, piece: int) -> None:
        """Add a collective in each host, with the algorithm that tuned chooses; the ranks wait for its end."""
        at, count = self.pieces[piece]
        for members in self.hosts:
            _by_tuned(table, collective, View(self.p, members, at), count)

    def reduce_up(self, piece: int) -> None:
        """Add libnbc's ireduce to the first leader (nbc_ireduce.c)."""
        at, count = self.pieces[piece]
        n = len(self.leaders)
        if n > 2 and count >= 1 << (n.bit_length() - 1):
            name = "rabenseifner"
        else:
            name = "binomial" if n > FEW or count * self.p.element < LIBNBC_SMALL else "chain"
        segment = 8192 if name == "chain" else 0
        REDUCES[name](View(self.p, self.leaders, at, libnbc=True), count, segment)  # type: ignore[arg-type]

    def broadcast_up(self, piece: int) -> None:
        """Add libnbc's ibcast from the first leader (nbc_ibcast.c)."""
        at, count = self.pieces[piece]
        octets = count * self.p.element
        name = "linear" if len(self.leaders) <= FEW else "binomial" if octets < LIBNBC_SMALL else "chain"
        segment = 8192 if name == "chain" else 0
        BCASTS[name](View(self.p, self.leaders, at, libnbc=True), count, segment)  # type: ignore[arg-type]

    def task(self, started: Sequence[Callable[[], None]], blocking: Sequence[Callable[[], None]]) -> None:
        """Add a task. The ``started`` parts begin with it. At its end, the leaders wait for these parts and for the
        ``blocking`` parts."""
        begin, ends = self.p.last[self.leaders].copy(), []
        for start in started:
            self.p.last[self.leaders] = begin
            start()
            ends += list(self.p.last[self.leaders].T.copy())
        self.p.last[self.leaders] = begin
        for run in blocking:
            run()
        if started:
            self.p.wait(self.leaders, [*ends, *self.p.last[self.leaders].T.copy()])


def _pipelined(
    levels: _Levels, started: dict[int, Callable[[int], None]], blocking: dict[int, Callable[[int], None]]
) -> None:
    """Add tasks t = 0, 1, …. In task t, the part with number k works on segment t - k."""
    n = len(levels.pieces)
    of = lambda parts, t: [partial(part, t - k) for k, part in parts.items() if 0 <= t - k < n]
    for t in range(n + max(*started, *blocking)):
        levels.task(of(started, t), of(blocking, t))


def allreduce(p: Program, count: int, each: int) -> None:
    """Reduce in each host, reduce to the first leader, broadcast to the leaders, broadcast in each
    host (mca_coll_han_allreduce_intra)."""
    at = _Levels(p, each, count)
    _pipelined(
        at,
        {2: at.broadcast_up, 1: at.reduce_up},
        {0: lambda s: at.below(REDUCES, "reduce", s), 3: lambda s: at.below(BCASTS, "bcast", s)},
    )


def reduce(p: Program, count: int, each: int) -> None:
    """Reduce in each host, and to the first leader (mca_coll_han_reduce_intra)."""
    at = _Levels(p, each, count)
    _pipelined(at, {1: at.reduce_up}, {0: lambda s: at.below(REDUCES, "reduce", s)})


def bcast(p: Program, count: int, each: int) -> None:
    """Broadcast to the leaders, and then in each host (mca_coll_han_bcast_intra)."""
    at = _Levels(p, each, count)
    _pipelined(at, {0: at.broadcast_up}, {1: lambda s: at.below(BCASTS, "bcast", s)})


def allgather(p: Program, count: int, each: int) -> None:
    """Gather in each host, all-gather of the leaders, broadcast of everything in each host
    (mca_coll_han_allgather_intra)."""
    inside(GATHERS, "gather", p, count, each)
    between(ALLGATHERS, "allgather", p, count, each)
    for members in _hosts(p, each):
        _by_tuned(BCASTS, "bcast", View(p, members, 0), p.ranks * count)


def gather(p: Program, count: int, each: int) -> None:
    """Gather in each host, then from the leaders (mca_coll_han_gather_intra_simple, which HAN uses)."""
    inside(GATHERS, "gather", p, count, each)
    between(GATHERS, "gather", p, count, each)


def scatter(p: Program, count: int, each: int) -> None:
    """Scatter to the leaders, and then in each host (mca_coll_han_scatter_intra)."""
    between(SCATTERS, "scatter", p, count, each)
    inside(SCATTERS, "scatter", p, count, each)


def barrier(p: Program, count: int, each: int) -> None:
    """Add a barrier in each host, then one between the leaders, then one in each host again
    (mca_coll_han_barrier_intra_simple)."""
    inside(BARRIERS, "barrier", p, 0, each)
    between(BARRIERS, "barrier", p, 0, each)
    inside(BARRIERS, "barrier", p, 0, each)


def inside(table: Table, collective: str, p: Program, count: int, each: int) -> None:
    """Add a collective of blocks of ``count`` elements inside every host."""
    for members in _hosts(p, each):
        _by_tuned(table, collective, View(p, members, int(members[0]) * count), count)


def between(table: Table, collective: str, p: Program, count: int, each: int) -> None:
    """Add a collective of the leaders, with the blocks of their hosts."""
    _by_tuned(table, collective, View(p, _hosts(p, each)[:, 0].copy(), 0), count * each)


def _hosts(p: Program, each: int) -> np.ndarray:
    return np.arange(p.ranks).reshape(-1, each)


def _by_tuned(table: Table, collective: str, view: View, count: int) -> None:
    by = choose(collective, count * view.element, view.ranks, view.version, view.element)
    table[by.algorithm](view, count, by.segment)


HAN: dict[str, Callable[[Program, int, int], None]] = {
    "allreduce": allreduce,
    "reduce": reduce,
    "bcast": bcast,
    "allgather": allgather,
    "gather": gather,
    "scatter": scatter,
    "barrier": barrier,
}
"""Collectives that HAN supports; all-to-all and reduce-scatter use tuned."""
