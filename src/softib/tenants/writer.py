"""The writer, the only thread that writes changes to the database. It takes the waiting changes, checks each after the
changes before it are applied, commits them together, and then answers all of them. A commit waits some milliseconds for
the disk, so hundreds of changes per second must share commits. Programming results are written with these commits, too.
They need no sync of their own: if a result is lost in a power failure, its revision is programmed again at the next
start.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from softib.errors import SoftibError
from softib.tenants.changes import Change, Refused
from softib.tenants.state import Draft, Rows, State
from softib.tenants.store import Store, Unavailable

__all__ = ["Done", "Mark", "Request", "Writer", "done_of"]

LOG = logging.getLogger("softib.tenants")
MOST_TOGETHER = 512


@dataclass(frozen=True)
class Done:
    """A durable change: its revision, the P_Keys of its partitions, and the GUIDs of the ports whose tables it changes
    (``everyone``: all ports). ``joined``, ``left``: (P_Key, GUID) of new and of former members. ``released``: P_Keys
    whose quarantine an operator ended with this change. ``rested``: P_Keys whose quarantine began with this change.
    ``repeated``: the same request was received before, so it has no effect now.
    """

    revision: int
    text: str
    guids: frozenset[int] = frozenset()
    pkeys: frozenset[int] = frozenset()
    everyone: bool = False
    joined: frozenset[tuple[int, int]] = frozenset()
    left: frozenset[tuple[int, int]] = frozenset()
    released: frozenset[int] = frozenset()
    rested: frozenset[int] = frozenset()
    repeated: bool = False


def done_of(number: int, text: str, rows: Rows) -> Done:
    """Return the :class:`Done` of the revision ``number``, which changed these rows."""
    members = [(pkey, int(guid, 16), before, after) for (pkey, guid), before, after in rows.get("member", [])]
    heads, resting = rows.get("partition", []), rows.get("quarantine", [])
    everyone = any((before[4] if before else "") != (after[4] if after else "") for _, before, after in heads)
    return Done(
        revision=number,
        text=text,
        guids=frozenset(guid for _, guid, _, _ in members),
        pkeys=frozenset({pkey for pkey, *_ in members} | {pkey for pkey, _, _ in heads}),
        everyone=everyone,
        joined=frozenset((pkey, guid) for pkey, guid, before, _ in members if before is None),
        left=frozenset((pkey, guid) for pkey, guid, _, after in members if after is None),
        released=frozenset(
            pkey for pkey, _, after in resting if after is None and pkey not in {head[0] for head in heads}
        ),
        rested=frozenset(pkey for pkey, _, after in resting if after is not None),
    )


@dataclass
class Request:
    """A waiting change. ``digest``: digest of the content of the request ``request_id``, which ``owner`` sent.
    ``may_see`` raises :class:`Forbidden` if the sender repeats a request but may no longer see its result.
    """

    change: Change
    actor: str
    action: str
    request_id: str | None = None
    digest: str = ""
    owner: str = ""
    may_see: Callable[[Draft, Done], None] | None = None
    returns: bool = False
    """Whether the change is an undo, so that P_Keys return to their former partitions."""
    answer: Future[Done] = field(default_factory=Future)


@dataclass(frozen=True)
class Mark:
    """The result of programming these revisions."""

    revisions: list[int]
    state: str
    at_s: float
    detail: str


class Writer:
    """``committed`` is called, in the writer's thread and with ``lock`` held, with the changes of each commit.
    ``check`` raises an error if a draft violates a rule; its second argument is :attr:`Request.returns`."""

    def __init__(
        self,
        store: Store,
        state: State,
        clock: Callable[[], float],
        committed: Callable[[list[Done]], None],
        check: Callable[[Draft, bool], None],
    ):
        self.store, self.state, self.clock, self.committed, self.check = store, state, clock, committed, check
        self._queue: queue.SimpleQueue[Request | Mark | None] = queue.SimpleQueue()
        self._unmarked: list[Mark] = []
        self._thread = threading.Thread(target=self._run, name="softib-tenants-writer", daemon=True)
        self.lock = threading.Lock()
        """Held while the state changes and ``committed`` receives the changes. A reader acquires it if it needs a
        consistent view of several partitions, or of the state and the changes that are not programmed."""
        self._thread.start()

    def submit(self, request: Request) -> Future[Done]:
        """Make the change durable. The result raises the errors of the change, and :class:`Unavailable` if the
        database cannot be written."""
        self._queue.put(request)
        return request.answer

    def mark(self, mark: Mark) -> None:
        """Write a result with one of the next commits."""
        self._queue.put(mark)

    def close(self) -> None:
        """Process the waiting changes, then end the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ends = False
        while not ends:
            waiting = [self._queue.get()]
            while len(waiting) < MOST_TOGETHER and not self._queue.empty():
                waiting.append(self._queue.get())
            ends = None in waiting
            self._unmarked += [one for one in waiting if isinstance(one, Mark)]
            requests = [one for one in waiting if isinstance(one, Request)]
            self._commit([r for r in requests if r.answer.set_running_or_notify_cancel()])

    def _commit(self, together: list[Request]) -> None:
        """Commit the changes, then answer all of them. Errors are also answered after the commit, because a change may
        fail only because of an earlier one, which is not durable if the commit fails.
        """
        batch, results = Draft(self.state), list[tuple[Request, Done | Exception]]()
        try:
            with self.store.transaction(waits=bool(together)):
                results = [(request, self._one(batch, request)) for request in together]
                for mark in self._unmarked:
                    self.store.mark(mark.revisions, mark.state, mark.at_s, mark.detail)
        except SoftibError as error:
            for request in together:
                request.answer.set_exception(error)
            return
        except Exception as error:  # other changes are unaffected, and this thread must not end
            LOG.exception("this is a bug in softib")
            for request in together if len(together) > 1 else ():
                self._commit([request])
            if len(together) == 1:
                together[0].answer.set_exception(error)
            return
        self._unmarked.clear()
        committed = [result for _, result in results if isinstance(result, Done) and not result.repeated]
        with self.lock:
            self.state.take(batch)
            self.committed(committed)
        for request, result in results:
            if isinstance(result, Done):
                request.answer.set_result(result)
            else:
                request.answer.set_exception(result)

    def _one(self, batch: Draft, request: Request) -> Done | Exception:
        """Apply one change after the earlier ones of the batch. Return the durable change, or its error."""
        try:
            earlier = self._earlier(batch, request)
            if earlier is not None:
                return earlier
            draft = Draft(batch)
            text = request.change(draft)
            self.check(draft, request.returns)
        except Unavailable:
            raise
        except Exception as error:
            return error
        rows: Rows = draft.rows()
        self.store.write(rows)
        number = self.store.enter(
            self.clock(),
            request.actor,
            request.action,
            request.request_id,
            None if request.request_id is None else request.owner,
            request.digest,
            rows,
            text,
        )
        batch.take(draft)
        return done_of(number, text, rows)

    def _earlier(self, batch: Draft, request: Request) -> Done | None:
        if request.request_id is None:
            return None
        revision = self.store.of_request(request.owner, request.request_id)
        if revision is None:
            return None
        done = done_of(revision.id, revision.detail, revision.rows)
        if request.may_see is not None:
            request.may_see(batch, done)
        if revision.digest != request.digest:
            raise Refused(
                f"request {request.request_id[:64]!r} was already used with other content (revision {revision.id}); "
                f"use a new id"
            )
        return replace(done, repeated=True)
