"""Partitions as a service: changes, which are durable when the call returns and programmed soon after, and queries
about the stored and the programmed state.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from softib.errors import InputError, PeerError
from softib.live.umad_client.wire import MadWire
from softib.monitor.opening import Opened
from softib.tenants import changes
from softib.tenants.accounts import Accounts
from softib.tenants.changes import Change, NotThere, Options, Refused
from softib.tenants.findings import Finding
from softib.tenants.intruders import IntruderWatch
from softib.tenants.intrusions import Intrusions
from softib.tenants.isolation import Isolation, isolation_of
from softib.tenants.ledger import Ledger
from softib.tenants.managers import Manager
from softib.tenants.model import DEFAULT_BASE, Member, Partition, guid_text
from softib.tenants.programmer import Hooks, Programmer
from softib.tenants.quarantine import Quarantine
from softib.tenants.state import Draft, Rows
from softib.tenants.store import Revision, Store
from softib.tenants.subnet import Held, Port, SubnetView, partitions_of
from softib.tenants.writer import Done, Mark, Request, Writer, done_of

__all__ = ["RELEASE", "Health", "TenantService"]


RELEASE = "release P_Key"
"""Action of the revisions that end a quarantine."""
AWAY = "the subnet cannot be reached; send the request again when its fabric or device is back"
"""Error message if the fabric was stopped, or the device was removed, after the service had started."""
TRY_S = 1.0
"""Minimum time between two test writes to the database."""


@dataclass(frozen=True)
class Health:
    """State of the service. ``status``: ``ok``; ``degraded``: changes are durable and wait; ``failed``: the database
    accepts no change. ``problem``: the reason for any other status than ``ok``. Times are clock times, null if the
    event has not occurred.

    ``manager``: title of the service's subnet manager. ``manager_port``: its port; "" if the manager is not on a host,
    or while another manager is the master (``problem`` names it). ``manager_reached``: whether the master answered the
    last check, null before the first check. ``manager_answered_s``: time of its last answer. ``programmed_s``: time at
    which a change was last verified at its ports. ``compared_s``: time at which all tables were last compared with the
    database. ``waiting``: number of revisions that wait for the manager. ``pending``: number of revisions that wait for
    members' ports. ``database_writable``: whether a test write just succeeded.
    """

    status: Literal["ok", "degraded", "failed"]
    problem: str
    manager: str = ""
    manager_port: str = ""
    manager_reached: bool | None = None
    manager_answered_s: float | None = None
    programmed_s: float | None = None
    compared_s: float | None = None
    waiting: int = 0
    pending: int = 0
    database_writable: bool = True


class TenantService:
    """The service of one subnet. ``folder`` contains its database. ``open_wire`` opens the connection to the subnet
    over which tables are read. ``manager`` programs the tables (None: changes are only stored). ``intruders`` monitors
    refused packets.
    """

    def __init__(
        self,
        folder: Path,
        open_wire: Callable[[], Opened],
        manager: Manager | None,
        clock: Callable[[], float] = time.time,
        intruders: IntruderWatch | None = None,
    ):
        self.folder, self.clock, self.intruders = folder, clock, intruders
        self._open_wire = open_wire
        self._next_key = 1
        self.store = Store(folder)
        self.state = self.store.state()
        self.accounts = Accounts(self.store)
        self.view = SubnetView(open_wire) if manager is None else SubnetView(open_wire, manager.leaf_room)
        self.intrusions = Intrusions(self.store, self._guid_of_lid, self._name_of_lid)
        self._isolating, self._trying = threading.Lock(), threading.Lock()
        self._tried, self._tried_result = -TRY_S, ""
        self.writer = Writer(self.store, self.state, clock, self._committed, self._check)
        self.ledger = Ledger(self.store, clock, self.state, self.view, self.intrusions)
        hooks = Hooks(
            clock,
            lambda: self.state,
            self._mark,
            self._take_back,
            self._adopt,
            self.writer.lock,
            lambda: self.ledger.look(self._problem()),
            self.ledger.drifts,
        )
        self.programmer = None if manager is None else Programmer(self.view, manager, hooks)
        self.quarantine = Quarantine(self.state, self.view, self.programmer, clock)
        if self.intruders is not None:
            self.intruders.start(self.intrusions.take, self.intrusions.write)
        if self.programmer is not None:
            releases = [done_of(r.id, r.detail, r.rows) for r in self.store.of_action(RELEASE)]
            released = {k: one.revision for one in releases for k in one.released - self.state.quarantine.keys()}
            self.programmer.start([done_of(r.id, r.detail, r.rows) for r in self.store.unprogrammed()], released)

    def close(self) -> None:
        """End the threads and close the database."""
        if self.intruders is not None:
            self.intruders.close()
            self.intrusions.write()
        if self.programmer is not None:
            self.programmer.close()
        self.ledger.write()
        self.writer.close()
        self.view.close()
        self.store.close()

    # -- changes --

    def change(self, change: Change, actor: str, action: str, request_id: str | None = None, digest: str = "") -> Done:
        """Make ``change`` durable. A repeated ``request_id`` has no effect."""
        return self.submit(Request(change, actor, action, request_id, digest)).result()

    def submit(self, request: Request) -> Future[Done]:
        """Like :meth:`change`, without waiting for the result."""
        return self.writer.submit(request)

    def rehearse(self, change: Change) -> Rows:
        """Return the effect of ``change``, without making it."""
        with self.writer.lock:
            draft = Draft(self.state)
            change(draft)
            self._check(draft, False)
            return draft.rows()

    def _check(self, draft: Draft, returns: bool) -> None:
        """Raise an error if a change is not possible. ``returns``: whether the change is an undo, which assigns P_Keys
        to their former partitions again.
        """
        changes.check_tenants(draft, self.store.accounts_of)
        changes.check_owners(draft, self.physical)
        changes.check_manager(draft, self.view.manager)
        if not returns:
            changes.check_keys(draft, self.quarantine.occupied)

    @property
    def is_read(self) -> bool:
        """Return whether the subnet has been read, so that its manager's port is known."""
        return self.programmer is None or self.programmer.ready.is_set()

    def operators_port(self, guid: int) -> str:
        """Return a description of the port's device if only operators may add this port to a partition; "" for a port
        of a host. Raises :class:`PeerError` if the subnet has not been read yet.
        """
        if not self.is_read:
            raise PeerError(
                "the subnet has not been read yet, so the manager's port is unknown; send the request again"
            )
        port = self.view.ports.get(guid)
        if guid == self.view.manager:
            return "the subnet manager's"
        return "" if port is None else "a switch's" if port.switch else "a router's" if port.router else ""

    def physical(self, guid: int) -> int:
        """Return the PortGUID of the physical port to which the virtual port ``guid`` belongs; ``guid`` itself if it is
        not a virtual port.
        """
        port = self.view.ports.get(guid)
        if port is None or port.vport < 0:
            return guid
        return next(p.guid for p in self.view.ports.values() if p.row == port.row and p.vport < 0)

    def undo_of(self, number: int, whole: bool = False) -> Change:
        """Return the change that undoes a revision, except rows that later revisions changed. Raises :class:`Refused`
        if the revision isolated ports or put them back into use, or, without ``whole``, if no row remains to be undone.
        """
        revision = self.store.revision(number)
        if revision is None:
            raise NotThere(f"revision {number} does not exist")
        if "isolated_port" in revision.rows:
            raise Refused(
                f"revision {number} is an action on ports ({revision.action}) and cannot be undone; send the opposite "
                f"action"
            )
        if not revision.rows:
            raise Refused(f"revision {number} changed no partition or tenant; there is nothing to undo")

        def change(draft: Draft) -> str:
            text = changes.undo(draft, revision.rows, self.view.room, self.clock(), self.store.after(number))
            if not draft.rows() and not whole:
                raise Refused(f"revision {number}: {text}; nothing is left to undo")
            return text

        return change

    def take_back(self, number: int, actor: str) -> Done:
        """Undo a revision."""
        return self.submit(Request(self.undo_of(number, True), actor, f"undo revision {number}", returns=True)).result()

    def allot(self, draft: Draft, options: Options) -> int:
        """Create a partition with the next free P_Key after the last assigned one, so that P_Keys are reused as late as
        possible. Only the writer's thread calls this.
        """
        pkey = changes.allot(draft, options, self.clock(), self.quarantine.occupied, self._next_key)
        self._next_key = pkey % (DEFAULT_BASE - 1) + 1
        return pkey

    def hosts_members(self, names: Iterable[str]) -> dict[int, Member]:
        """Return the ports of the named hosts as members. Raises :class:`NotThere` for a name that no host has."""
        out: dict[int, Member] = {}
        for name in names:
            guids = self.view.names.get(name)
            if not guids:
                raise NotThere(f"host {name[:64]!r} does not exist")
            out.update({g: Member(host=name) for g in guids})
        return out

    # -- queries --

    @contextmanager
    def wire(self) -> Iterator[MadWire]:
        """Return another connection to the subnet, separate from the programmer's."""
        try:
            opened = self._open_wire()
        except InputError:
            raise PeerError(AWAY) from None
        try:
            yield opened.wire
        finally:
            opened.close()

    def held(self, guid: int) -> Held | None:
        """Return the P_Key tables of a port (its own and the switch port's) as last read."""
        return self.view.tables.get(guid)

    def programmed(self, partition: Partition, guid: int) -> bool:
        """Return whether the tables in front of ``guid``, as last read, contain this membership."""
        held, key = self.view.tables.get(guid), partition.key_of(guid, self.view.manager)
        return held is not None and key in held.port and (held.leaf is None or key in held.leaf)

    def settled(self, number: int, seconds: float) -> Revision | None:
        """Wait until the state of a revision is no longer durable, or for ``seconds``, and return the revision."""
        until = time.monotonic() + seconds
        while self.store.state_of(number) == "durable" and time.monotonic() < until:
            time.sleep(0.01)
        return self.store.revision(number)

    def health(self) -> Health:
        """Return the known state of the manager, its subnet and its database."""
        unwritable = self._unwritable()
        p = self.programmer
        if p is None:
            return Health("failed" if unwritable else "degraded", unwritable or "nothing is programmed")
        problem = p.problem or (p.master.doubt if p.ready.is_set() else "the subnet has not been read yet")
        problem = "; ".join(filter(None, (problem, self.store.scarce())))
        port = self.view.ports.get(self.view.manager)
        waiting, pending = p.open.counts()
        return Health(
            status="failed" if unwritable else "degraded" if problem else "ok",
            problem="; ".join(filter(None, (unwritable, problem))),
            manager=p.manager.title,
            manager_port="" if port is None or p.master.other else f"{port.name} ({guid_text(port.guid)})",
            manager_reached=p.master.reached,
            manager_answered_s=p.master.answered_s,
            programmed_s=p.programmed_s,
            compared_s=p.compared_s,
            waiting=waiting,
            pending=pending,
            database_writable=not unwritable,
        )

    def _unwritable(self) -> str:
        """Return the result of :meth:`Store.try_write`, which is called at most once a second."""
        with self._trying:
            if time.monotonic() >= self._tried + TRY_S:
                self._tried_result, self._tried = self.store.try_write(), time.monotonic()
            return self._tried_result

    def findings(self, resolved: bool = False) -> list[Finding]:
        """Return the findings about changes by other programs, refused packets, and partitions that do not isolate
        their members or do not work. ``resolved``: also return findings that have ended.
        """
        self.ledger.look(self._problem(), 0.0)
        return self.ledger.all(resolved)

    def _problem(self) -> str:
        return "" if self.programmer is None else self.programmer.problem

    def isolation(self, guids: Iterable[int]) -> Isolation:
        """Read the tables of the whole subnet, and return the ports that can exchange packets with
        ``guids`` although no partition contains both."""
        if self.programmer is None:
            raise InputError("this service programs no subnet; start it on a running fabric or a umad device")
        with self._isolating:
            view = self.view.sibling()
            try:
                view.discover()
                view.read(view.ports)
            except InputError:
                raise PeerError(AWAY) from None
            finally:
                view.close()
        with self.writer.lock:
            state = replace(self.state, partitions={**self.state.partitions}, pkeys_of={**self.state.pkeys_of})
        return isolation_of(guids, view.tables, view.ports.keys() - view.tables.keys(), state, view.manager)

    def _port_of_lid(self, lid: int) -> Port | None:
        return next((p for p in self.view.ports.values() if p.lid == lid), None)

    def _guid_of_lid(self, lid: int) -> str:
        port = self._port_of_lid(lid)
        return "" if port is None else guid_text(port.guid)

    def _name_of_lid(self, lid: int) -> str:
        port = self._port_of_lid(lid)
        return f"LID {lid}" if port is None else port.name

    # -- called by the threads --

    def _committed(self, done: list[Done]) -> None:
        if self.programmer is not None:
            self.programmer.open.add(done)

    def _mark(self, revisions: list[int], state: str, detail: str) -> None:
        self.writer.mark(Mark(revisions, state, self.clock(), detail))

    def _adopt(self) -> bool:
        """On the first start, take over the partitions in the tables of the subnet's ports. Their names and options,
        and members that do not answer, are taken from the manager's file.
        """
        if self.store.revisions(1):
            return False
        assert self.programmer is not None
        held = {p.pkey: p for p in partitions_of(self.view.tables, self.view.manager)}
        for stated in self.programmer.manager.stated():
            members = held[stated.pkey].members if stated.pkey in held else {}
            held[stated.pkey] = stated.with_members(
                {**stated.members, **(members if stated.pkey != DEFAULT_BASE else {})}
            )
        for pkey, one in held.items():
            if one.index0 and self.view.manager in one.members and pkey != DEFAULT_BASE:
                held[pkey] = replace(one, index0=False)  # see check_manager
        partitions = [held[pkey] for pkey in (DEFAULT_BASE, *sorted(held.keys() - {DEFAULT_BASE}))]
        if partitions == [self.state.partitions[DEFAULT_BASE]]:
            return False

        def change(draft: Draft) -> str:
            for partition in partitions:
                draft.put(partition)
            return f"{len(partitions)} partitions of the subnet"

        self.change(change, "softib", "adopt")
        return True

    def _take_back(self, number: int, where: str) -> None:
        try:
            done = self.take_back(number, "softib")
        except InputError as error:  # later changes depend on it
            self._mark([number], "refused", f"{where}; it cannot be rolled back: {error}")
            return
        assert self.programmer is not None
        self.programmer.undoes(done.revision)
        self._mark([number], "rolled-back", f"{where}; revision {done.revision} rolls it back")
