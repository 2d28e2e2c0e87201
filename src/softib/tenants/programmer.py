"""The programmer, the only thread that programs partitions: it passes durable changes to the subnet manager, reads the
tables of the changed ports again, and sets the state of each revision.

If a member's port does not answer, the revision is pending; the table is read when the port answers again. If a port
answers but its table does not have the wanted P_Keys, it has refused the change, and the change is rolled back.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from softib.errors import PeerError, SoftibError
from softib.tenants.drift import Drifts
from softib.tenants.managers import Manager
from softib.tenants.mastership import MasterWatch
from softib.tenants.model import DEFAULT_BASE, guid_text, pkey_text
from softib.tenants.open_revisions import OpenRevisions
from softib.tenants.reconciliation import Differences, Reconciliation
from softib.tenants.search import Search
from softib.tenants.state import State
from softib.tenants.store import waits_for
from softib.tenants.subnet import SubnetView
from softib.tenants.writer import Done

__all__ = ["Hooks", "Programmer"]

LOG = logging.getLogger("softib.tenants")
FIRST_LOOK_S, LOOK_S = 0.02, 0.2
BATCH_S = 0.05
"""Minimum time between the starts of two batches. A batch delays requests, and a batch of one change takes as long as a
batch of ten.
"""
RETRY_S = 5.0
"""Time between a failure of the manager or of the connection to the subnet and the next try."""
APPEAR_S = 2.0
"""Interval between searches of the subnet for members that did not answer; it is longer if a search takes long
(:data:`SHARE`).
"""
RECONCILE_S = 60.0
KEEP_S = 2.0
"""Minimum time between two writes of the manager's file, which contains all partitions."""
SHARE = 10
"""Ratio of the time between two searches to the duration of a search: searches take at most a tenth of the time."""


def _bases(wrong: Differences) -> set[int]:
    return {key & DEFAULT_BASE for key in (*wrong[0], *wrong[1])}


@dataclass
class Hooks:
    """Functions of the service that the programmer calls. ``mark`` sets the state of revisions: (revisions, state,
    detail). ``take_back`` undoes a revision and stores the reason. If the database is empty, ``adopt`` enters the
    partitions found in the tables that were read; it returns whether it did. ``still``: a lock; while it is held, no
    change is added to the state. ``observe`` enters findings; it is called in each round. ``drifts``: changes of other
    programs.
    """

    clock: Callable[[], float]
    snapshot: Callable[[], State]
    mark: Callable[[list[int], str, str], None]
    take_back: Callable[[int, str], None]
    adopt: Callable[[], bool]
    still: AbstractContextManager[object]
    observe: Callable[[], None]
    drifts: Drifts


class Programmer:
    """The programmer. ``open`` has the durable changes that are not programmed; any thread may add changes."""

    def __init__(self, view: SubnetView, manager: Manager, hooks: Hooks, reconcile_s: float = RECONCILE_S):
        self.view, self.manager, self.hooks, self.reconcile_s = view, manager, hooks, reconcile_s
        self.drifts = hooks.drifts
        self.problem = ""
        self.master = MasterWatch(view, manager)
        self.programmed_s: float | None = None
        """Clock time at which a change was last verified at its ports. ``compared_s``: clock time at which all tables
        were last compared with the database.
        """
        self.compared_s: float | None = None
        self.ready = threading.Event()
        """Set after the first reconciliation."""
        self._held: set[int] = set()
        """Revisions that become pending only if the next search does not find their ports."""
        self._search: Search | None = None
        self._searched, self._took = 0.0, 0.0
        """Time and duration of the last search."""
        self._due = 0.0
        """Time of the next reconciliation."""
        self._next = 0.0
        """Time of the next batch."""
        self._kept = 0.0
        """Time of the last write of the manager's file."""
        self._tasks: list[Callable[[], None]] = []
        self._undone: set[int] = set()
        self._lock, self._wake = threading.Lock(), threading.Event()
        self.open = OpenRevisions(view, self._wake.set)
        self._reconciliation = Reconciliation(view, hooks, self.open, self.master, self._hand_over, self._verify)
        self._stop = False
        self._thread = threading.Thread(target=self._run, name="softib-tenants-programmer", daemon=True)

    def start(self, unprogrammed: list[Done], released: dict[int, int]) -> None:
        """Start with the revisions that an earlier process did not program. ``released``: P_Key → the newest revision
        that ended its quarantine.
        """
        self.open.start(unprogrammed, released)
        self._thread.start()

    def call(self, task: Callable[[], object]) -> None:
        """Run ``task`` in the programmer's thread, which owns the connection to the subnet, and wait for its end."""
        over, failed = threading.Event(), list[BaseException]()

        def run() -> None:
            try:
                task()
            except BaseException as error:
                failed.append(error)
            finally:
                over.set()

        with self._lock:
            self._tasks.append(run)
        self._wake.set()
        while not over.wait(1.0):
            if not self._thread.is_alive():
                raise PeerError("the service is shutting down and no longer reads the subnet")
        if failed:
            raise failed[0]

    def close(self) -> None:
        """End after the current work."""
        self._stop = True
        self._wake.set()
        self._thread.join(10.0)

    # -- the thread --

    def _run(self) -> None:
        while not self._stop:
            try:
                self._step()
                if self._keep_s() <= 0:
                    self._keep()
                self.problem = self.master.problem
            except SoftibError as error:
                if str(error) != self.problem:
                    LOG.warning("%s", error)
                self.problem = str(error)
                self._wait(RETRY_S)
                continue
            except Exception as error:
                LOG.exception("this is a bug in softib")
                self.problem = f"a bug in softib: {type(error).__name__}: {error}"
                self._wait(RETRY_S)
                continue
            finally:
                self._observe()
            self._wait(min(self._rest_s(), self._keep_s(), self.master.due_s()))
        if self._search is not None:
            self._search.close()
        if self.manager.is_behind:
            with contextlib.suppress(SoftibError):
                self._keep()

    def _observe(self) -> None:
        try:
            self.hooks.observe()
        except Exception:  # this thread must not end
            LOG.exception("this is a bug in softib")

    def _keep_s(self) -> float:
        """Return the seconds until the manager's file is written again; infinity if it is up to date."""
        return max(0.0, self._kept + KEEP_S - time.monotonic()) if self.manager.is_behind else math.inf

    def _keep(self) -> None:
        self.manager.keep(self.hooks.snapshot())
        self._kept = time.monotonic()

    def _wait(self, seconds: float) -> None:
        self._wake.wait(seconds)
        self._wake.clear()

    def _step(self) -> None:
        """Process all work that is waiting. If changes arrive in the meantime, the next wait ends immediately."""
        time.sleep(max(0.0, self._next - time.monotonic()))
        batch = self.open.waiting()
        with self._lock:
            tasks, self._tasks = self._tasks, []
        for task in tasks:
            task()
        self._look_around()
        if self.ready.is_set() and not self.master.due_s() and self.master.look():
            self._due = 0.0  # immediately compare the tables that the other manager wrote
        if batch and self.ready.is_set() and self.view.is_open and not self.master.problem:
            self._program(batch)

    def _program(self, batch: list[Done]) -> None:
        """Program a batch and verify it. The batch stays among the waiting revisions until the manager has accepted
        it.
        """
        self._next = time.monotonic() + BATCH_S
        guids = self.open.guids(batch)
        if self._search is not None:
            self._search.programmed |= guids
        self._hand_over(set().union(*(one.pkeys for one in batch)))
        self.open.take(batch)
        try:
            self._read_back(batch, guids)
        except BaseException:
            self.open.add(batch)  # not verified, so it is programmed again
            raise
        finally:
            self.open.judged = []
        if any(one.left for one in batch):
            self._supersede()

    def _supersede(self) -> None:
        """Set the state of pending revisions that have nothing left to do."""
        for revision, added in self.open.superseded(self.hooks.snapshot(), self._held).items():
            if added:
                self.hooks.mark([revision], "superseded", "its absent ports never had the P_Key, and no longer get it")
            else:
                self.hooks.mark([revision], "programmed", "")

    def _hand_over(self, pkeys: set[int] | None = None) -> None:
        self.manager.port = self.view.manager
        self.manager.program(self.hooks.snapshot(), pkeys)

    def _read_back(self, batch: list[Done], guids: set[int]) -> None:
        wrong = self._verify(guids)
        if wrong and not self.open.newer(wrong):  # decide after a sweep that reads every table
            self.master.look()
            if self.master.problem:
                self.open.add(batch)
                return
            self._hand_over()
            wrong = self._verify(set(wrong))
        self._judge(batch, wrong)

    def _verify(self, guids: set[int]) -> dict[int, Differences]:
        """Read the tables of ``guids`` until they have the wanted P_Keys, or until the manager's time limit for writing
        them has passed. Return the remaining differences.
        """
        until = time.monotonic() + self.manager.settles_s
        look, wanted_of = FIRST_LOOK_S, guids & self.view.ports.keys()
        while True:
            held = self.view.read(wanted_of)
            state = self.hooks.snapshot()
            wrong = {}
            for guid, table in held.items():
                differs = table.differs(state.wanted(guid, self.view.manager))
                if any(differs):
                    wrong[guid] = differs
            self.drifts.end(held.keys() - wrong.keys(), set())
            if not wrong or time.monotonic() > until or self.open.newer(wrong.keys()):
                return wrong
            wanted_of = set(wrong)
            time.sleep(look)
            look = min(LOOK_S, 2 * look)

    def _judge(self, batch: list[Done], wrong: dict[int, Differences]) -> None:
        """Set the result of each revision."""
        programmed: list[int] = []
        for one in batch:
            refused = sorted(g for g in self.open.guids([one]) & wrong.keys() if one.pkeys & _bases(wrong[g]))
            if refused and self.open.newer(refused):  # judged after the newer changes
                self.open.add([one])
                continue
            if refused:
                self._refused(one.revision, refused[0], wrong[refused[0]])
                continue
            silent = frozenset(g for g in one.guids if g not in self.view.tables)
            before = self.open.pending.pop(one.revision, (one, None))[1]
            if not silent:
                self._held.discard(one.revision)
                programmed.append(one.revision)
                continue
            if silent - self.view.ports.keys() and one.revision not in self._held and self._may_search():
                self._held.add(one.revision)  # the port may have appeared since the last search
                self.open.pending[one.revision] = one, silent
                continue
            before = None if one.revision in self._held else before
            self._held.discard(one.revision)
            self.open.pending[one.revision] = one, silent
            if silent != before:
                self.hooks.mark([one.revision], "pending", waits_for(silent))
        if programmed:
            self.programmed_s = self.hooks.clock()
            self.hooks.mark(programmed, "programmed", "")

    def _refused(self, revision: int, guid: int, wrong: Differences) -> None:
        port, (missing, extra) = self.view.ports[guid], wrong
        keys = ", ".join(pkey_text(k) for k in sorted(missing or extra))
        problem = f"does not accept {keys}" if missing else f"still holds {keys}"
        where = f"{port.name} ({guid_text(port.guid)}) {problem}"
        self.open.pending.pop(revision, None)
        self._held.discard(revision)
        LOG.warning("revision %d is refused: %s", revision, where)
        if revision in self._undone:
            self.hooks.mark([revision], "refused", where)
            return
        self._undone.add(revision)
        self.hooks.take_back(revision, where)

    def undoes(self, revision: int) -> None:
        """Record that ``revision`` is a rollback, so that it is not rolled back itself."""
        self._undone.add(revision)

    # -- searches of the subnet --

    def _search_s(self) -> float:
        return max(APPEAR_S, SHARE * self._took)

    def _may_search(self) -> bool:
        return self._search is None and time.monotonic() >= self._searched + self._search_s()

    def _rest_s(self) -> float:
        """Return the seconds until the next scheduled task."""
        now = time.monotonic()
        due = self._searched + self._search_s() if self.open.pending else self._due
        return self.reconcile_s if self._search is not None else max(0.0, min(due, self._due) - now)

    def _look_around(self) -> None:
        """Use the result of a search that has ended, and start the next search when it is due."""
        search = self._search
        if search is not None and search.over:
            self._search = None
            if search.error is not None:
                raise search.error
            self._searched, self._took = time.monotonic(), search.took_s
            self.view.take(search.view, search.whole, search.programmed)
            if search.whole:
                self.master.look()
                self._reconciliation.run(not self.ready.is_set(), search.programmed)
                self.compared_s = self.hooks.clock()
                self._due = time.monotonic() + self.reconcile_s
                self.ready.set()
            self._appeared()
        if not self.view.is_open:  # the connection was lost, so tables cannot be read
            self._due = 0.0
        whole = time.monotonic() >= self._due
        if self._search is None and (whole or (self.open.pending and self._may_search())):
            self._search = Search(self.view.sibling(), whole, self._wake.set)

    def _appeared(self) -> None:
        """Check the tables of pending members that have appeared."""
        if self.master.problem:
            return
        hits = [(one, silent & self.view.ports.keys()) for one, silent in self.open.pending.values()]
        appeared = set().union(*(guids for _, guids in hits))
        wrong = self._verify(appeared) if appeared else {}
        if wrong:  # the manager has not discovered these ports yet, or read its file before
            self._hand_over()
            wrong = self._verify(appeared)
        self.open.judged = [one for one, guids in hits if guids or one.revision in self._held]
        judged = self.open.judged
        self._judge(judged, wrong)
        self.open.judged = []
        if any(one.left for one in judged):
            self._supersede()
