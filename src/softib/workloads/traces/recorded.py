"""Conversion of a program's recorded posts and polls to a :class:`~softib.workloads.schedule.schedule.Schedule`.

Each message is a send and a receive. A READ or an atomic is a request of 0 bytes, and a response that the adapter of
the other rank sends. Between calls, a thread computes for the CPU time that it used. A post waits for all completions
that the thread polled before it: receives of messages, responses to READs, and sends, which end with their
acknowledgement. A WRITE has no completion at its destination, where the program may have seen the data in memory.
Therefore later posts of that rank wait for the WRITE.

Events of all threads are read by time, because threads of one rank poll the same completion queue
(UCX's datagrams: the program's thread and the asynchronous one). The n-th receive of a queue pair
completes with its n-th message, whichever thread polls it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from softib.errors import InputError
from softib.sim.recorded_events import Event, RecordedThread
from softib.workloads.schedule.builder import Builder
from softib.workloads.schedule.schedule import Kind, Schedule
from softib.workloads.traces.recorded_posts import ANSWERED, Message, Posts, by_time

__all__ = ["Recorded", "recorded_schedule"]

MOST_THREADS = 200
PS_PER_NS = 1000
SEND, RECV = int(Kind.SEND), int(Kind.RECV)
POST, RECEIVED, SENT, BEGIN, END = (int(e) for e in (Event.POST, Event.RECEIVED, Event.SENT, Event.BEGIN, Event.END))
"""Members of :class:`Event` as plain numbers, because access to a member takes longer than the rest of the work for an
event."""


@dataclass(frozen=True)
class Recorded:
    """A schedule, and the numbers of messages that it does not contain: ``unknown`` messages to multicast groups or to
    QPs of programs that were not recorded, and ``local`` messages of a rank to itself. ``notes``: operation → the
    collectives of a library that its rank begins or ends before this operation, one per line."""

    schedule: Schedule
    messages: int
    unknown: int
    local: int
    notes: dict[int, str]


def recorded_schedule(name: str, threads: list[RecordedThread], collectives: tuple[str, ...] = ()) -> Recorded:
    """Return the program of ``threads``. ``collectives``: names of the collectives, by their number in BEGIN and END
    events. Raises :class:`InputError` if nothing was recorded."""
    ranks = _ranks(threads)
    if not ranks:
        raise InputError(f"{name}: nothing was recorded: no program created a queue pair")
    posts = Posts(threads, ranks)
    build = Builder(max(ranks.values()) + 1)
    of_process = Counter(t.pid for t in threads)
    adapter = min(1 + max(of_process.values()), MOST_THREADS)
    for m in posts.every:
        _arrival(build, m, adapter)
    notes: list[tuple[int, str]] = []
    for reader in _read(build, posts, threads, ranks):
        notes += [(row, _note(collectives, word, n, octets)) for row, word, n, octets in reader.notes]
    schedule = replace(build.schedule(name), acknowledged=True)
    lines: dict[int, list[str]] = {}
    for row, text in notes:
        lines.setdefault(int(build.place[row]), []).append(text)
    return Recorded(
        schedule, len(posts.every), posts.unknown, posts.local, {row: "\n".join(texts) for row, texts in lines.items()}
    )


def _read(build: Builder, posts: Posts, threads: list[RecordedThread], ranks: dict[int, int]) -> list[_Reader]:
    """Read the events of all ``threads`` in order of time, and add their operations to ``build``."""
    nth: Counter[int] = Counter()
    readers = []
    for t in threads:
        readers.append(_Reader(build, posts, ranks[t.pid], min(nth[t.pid], MOST_THREADS - 1)))
        nth[t.pid] += 1
    for k, *event in by_time(threads, ("type", "ns", "compute", "qpn", "peer", "octets")):
        readers[k].take(*event)
    for reader in readers:
        reader.end()
    return readers


def _note(collectives: tuple[str, ...], word: str, number: int, octets: int) -> str:
    """Return a note, for example ``begin MPI_Allreduce 64``; without the size if the call does not state it."""
    name = collectives[number] if number < len(collectives) else f"collective {number}"
    return f"{word} {name} {octets}" if octets else f"{word} {name}"


def _ranks(threads: list[RecordedThread]) -> dict[int, int]:
    """Return the rank of each process: the rank that the launcher assigned, or, if these ranks are not unique, the
    position in the order in which the processes created their first queue pairs."""
    rank_of: dict[int, int | None] = {}
    for t in threads:
        rank_of.setdefault(t.pid, t.rank)
    stated = [r for r in rank_of.values() if r is not None]
    if len(stated) == len(rank_of) == len(set(stated)):
        return {pid: r for pid, r in rank_of.items() if r is not None}
    return {pid: i for i, pid in enumerate(rank_of)}


def _arrival(build: Builder, m: Message, adapter: int) -> None:
    """Write the operation of message ``m`` at its target: a receive, or a response of the target's adapter."""
    if m.opcode not in ANSWERED:
        m.arrives = build.message(RECV, m.target, m.source, m.octets, m.tag)
        return
    request = build.message(RECV, m.target, m.source, 0, m.tag, processor=adapter)
    answer = build.message(SEND, m.target, m.source, m.octets, m.tag, processor=adapter)
    build.need(answer, request)
    m.answer = build.message(RECV, m.source, m.target, m.octets, m.tag)


class _Reader:
    """Builder of the operations of one thread. ``after``: rows for whose end the next operation waits; ``noted``: notes
    before the next operation."""

    def __init__(self, build: Builder, posts: Posts, rank: int, processor: int):
        self.build, self.posts, self.rank, self.processor = build, posts, rank, processor
        self.after: list[int] = []
        self.computed = self.seen = 0
        self.complete: dict[tuple[int, int], int] = {}
        self.notes: list[tuple[int, str, int, int]] = []
        self.noted: list[tuple[str, int, int]] = []

    def take(self, kind: int, ns: int, compute: int, qpn: int, peer: int, octets: int) -> None:
        """Handle the thread's next event."""
        self._compute(compute)
        if kind == POST:
            self._post(ns, self.posts.next())
        elif kind == RECEIVED:
            message = self.posts.received(ns, qpn, peer, octets)
            if message is not None:
                self.after.append(message.arrives)
        elif kind == SENT:
            self._sent(ns, qpn, octets)
        elif kind in (BEGIN, END):
            self.noted.append(("begin" if kind == BEGIN else "end", qpn, octets))

    def end(self) -> None:
        """End the thread: add an operation that has its last notes, and waits for its last dependencies."""
        if len(self.after) > 1 or self.noted:
            self._calculate(0)

    def _compute(self, ns: int) -> None:
        if ns > self.computed:
            self._calculate(ns - self.computed)
            self.computed = ns

    def _calculate(self, ns: int) -> None:
        row = self.build.compute(self.rank, ns * PS_PER_NS, processor=self.processor)
        self._made(row)
        self.after = [row]

    def _made(self, row: int) -> None:
        """Let ``row`` wait for all completions that the thread has seen, and attach the collected notes to it."""
        for on in self.after:
            self.build.need(row, on)
        if self.noted:
            self.notes += [(row, *note) for note in self.noted]
            self.noted = []

    def _post(self, ns: int, m: Message | None) -> None:
        if m is None:
            return
        self._written(ns)
        if len(self.after) > 1:
            self._calculate(0)
        octets = 0 if m.opcode in ANSWERED else m.octets
        m.row = self.build.message(SEND, self.rank, m.target, octets, m.tag, processor=self.processor)
        self._made(m.row)

    def _written(self, ns: int) -> None:
        """Let the next operation wait for earlier WRITEs to this rank: for the last one of each queue pair."""
        came = self.posts.written.get(self.rank)
        if not came:
            return
        last: dict[int, Message] = {}
        while self.seen < len(came) and came[self.seen].ns < ns:
            last[came[self.seen].tag] = came[self.seen]
            self.seen += 1
        self.after += [m.arrives for m in last.values()]

    def _sent(self, ns: int, qpn: int, count: int) -> None:
        """Record that requests of ``qpn`` up to the ``count``-th are complete: the completion of
        the last one covers all (IBA 9.7.5)."""
        key = (qpn, self.posts.maker(qpn, ns)[2])
        queue = self.posts.queues.get((self.rank, *key), [])
        for m in reversed(queue[self.complete.get(key, 0) : count]):
            if m is not None and m.row >= 0:
                self.after.append(m.answer if m.opcode in ANSWERED else m.row)
                break
        self.complete[key] = count
