"""Partitions as a service: changes that are durable when they return, programmed soon after, and queries about both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from softib.errors import InputError
from softib.live.umad_client.wire import MadWire
from softib.monitor.opening import Opened
from softib.tenants import changes
from softib.tenants.accounts import Accounts
from softib.tenants.changes import Change, NotThere, Options, Refused
from softib.tenants.intruders import IntruderWatch
from softib.tenants.managers import Manager
from softib.tenants.model import DEFAULT_BASE, Member, Partition, guid_text, pkey_text
from softib.tenants.programmer import Hooks, Programmer
from softib.tenants.state import Draft, Rows
from softib.tenants.store import Revision, Store
from softib.tenants.subnet import Held, SubnetView, partitions_of
from softib.tenants.writer import Done, Mark, Request, Writer, done_of

__all__ = ["Finding", "TenantService"]


@dataclass(frozen=True)
class Finding:
    """Information for the operator. ``kind``: ``drift``, ``intruder``, ``index0``, ``qos``, ``manager``."""

    kind: str
    where: str
    text: str


class TenantService:
    """The service of one subnet, its database in ``folder``. ``open_wire`` opens the wire for reading tables,
    ``manager`` programs them (None: changes are only stored).
    ``intruders`` monitors refused packets."""

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
        self.view = SubnetView(open_wire)
        self.writer = Writer(self.store, self.state, clock, self._committed)
        hooks = Hooks(clock, lambda: self.state, self._mark, self._take_back, self._adopt, self.writer.lock)
        self.programmer = None if manager is None else Programmer(self.view, manager, hooks)
        if self.programmer is not None:
            self.programmer.start([done_of(r.id, r.detail, r.rows) for r in self.store.unprogrammed()])

    def close(self) -> None:
        """End the threads and close the database."""
        if self.intruders is not None:
            self.intruders.close()
        if self.programmer is not None:
            self.programmer.close()
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
            changes.check_tenants(draft, self.store.accounts_of)
            return draft.rows()

    def take_back(self, number: int, actor: str) -> Done:
        """Undo a revision, except rows changed by later ones."""
        revision = self.store.revision(number)
        if revision is None:
            raise NotThere(f"there is no revision {number}")
        change = lambda draft: changes.undo(draft, revision.rows, self.view.room, self.store.after(number))
        return self.change(change, actor, f"undo revision {number}")

    def allot(self, draft: Draft, options: Options) -> int:
        """Create a partition with a free P_Key, the next one after the key assigned last, so that keys rest as long
        as possible. Of the writer's thread."""
        pkey = changes.allot(draft, options, self.clock(), self._next_key)
        self._next_key = pkey % (DEFAULT_BASE - 1) + 1
        return pkey

    def refuse_held_key(self, pkey: int) -> None:
        """Raise :class:`Refused` if a port still holds ``pkey`` without a partition: its members would reach the
        ports of its former partition."""
        if pkey in self.state.partitions or self.programmer is None:
            return
        keys = {pkey, pkey | 0x8000}
        suspects = [g for g, held in self.view.tables.items() if not keys.isdisjoint(held.port)]
        if not suspects:
            return
        self.programmer.call(lambda: self.view.read(suspects))
        still = [g for g in suspects if (held := self.view.tables.get(g)) is not None and keys & set(held.port)]
        if still:
            raise Refused(
                f"P_Key {pkey_text(pkey)} is still in the table of {self.view.ports[still[0]].name} "
                f"({guid_text(still[0])}); use another, or try again when it has been removed"
            )

    def hosts_members(self, names: Iterable[str]) -> dict[int, Member]:
        """Return the ports of hosts as members. Raises :class:`NotThere` for a name without a
        host."""
        out: dict[int, Member] = {}
        for name in names:
            guids = self.view.names.get(name)
            if not guids:
                raise NotThere(f"there is no host {name[:64]!r}")
            out.update({g: Member(host=name) for g in guids})
        return out

    # -- questions --

    @contextmanager
    def wire(self) -> Iterator[MadWire]:
        """Return another wire into the subnet, separate from the programmer's."""
        opened = self._open_wire()
        try:
            yield opened.wire
        finally:
            opened.close()

    def held(self, guid: int) -> Held | None:
        """Return the tables of a port as last read."""
        return self.view.tables.get(guid)

    def programmed(self, partition: Partition, guid: int) -> bool:
        """Do the tables in front of ``guid``, as last read, hold this membership?"""
        held, key = self.view.tables.get(guid), partition.membership(guid)
        return held is not None and key in held.port and (held.leaf is None or key in held.leaf)

    def settled(self, number: int, seconds: float) -> Revision | None:
        """Return the revision when its state has changed from durable, or after ``seconds``."""
        until = time.monotonic() + seconds
        while self.store.state_of(number) == "durable" and time.monotonic() < until:
            time.sleep(0.01)
        return self.store.revision(number)

    def findings(self) -> list[Finding]:
        """Return changes by others, and limits that members will meet."""
        out: list[Finding] = []
        if self.programmer is not None:
            if self.programmer.problem:
                out.append(Finding("manager", "", self.programmer.problem))
            out += [Finding("drift", guid_text(d.guid), str(d)) for d in self.programmer.drifts]
        return out + self._intrusions() + self._index0() + self._qos()

    def _intrusions(self) -> list[Finding]:
        if self.intruders is None:
            return []
        by_lid = {p.lid: p for p in self.view.ports.values()}
        name_of = lambda lid: by_lid[lid].name if lid in by_lid else f"LID {lid}"
        where = lambda lid: guid_text(by_lid[lid].guid) if lid in by_lid else ""
        return [Finding("intruder", where(i.lid), i.named(name_of)) for i in reversed(list(self.intruders.seen))]

    def _index0(self) -> list[Finding]:
        first: dict[int, list[int]] = {}
        for partition in list(self.state.partitions.values()):
            if partition.index0:
                for guid in partition.members:
                    first.setdefault(guid, []).append(partition.pkey)
        return [
            Finding(
                "index0",
                guid_text(guid),
                f"{guid_text(guid)} is in {len(pkeys)} partitions that want index 0 "
                f"({', '.join(map(pkey_text, sorted(pkeys)[:4]))}); {pkey_text(min(pkeys))} has it",
            )
            for guid, pkeys in sorted(first.items())
            if len(pkeys) > 1
        ]

    def _qos(self) -> list[Finding]:
        """Return partitions that need more than a member's port supports: no path or group has that
        MTU or rate."""
        out = []
        for partition in list(self.state.partitions.values()):
            mtu = partition.qos.codes[0]
            small = sorted(g for g in partition.members if 0 < (p.mtu if (p := self.view.ports.get(g)) else 0) < mtu)
            if small:
                text = (
                    f"{pkey_text(partition.pkey)} wants an MTU of {partition.qos.mtu}k and {len(small)} of its ports, "
                    f"{self.view.ports[small[0]].name} among them, have less; they cannot join its IPoIB group"
                )
                out.append(Finding("qos", pkey_text(partition.pkey), text))
        return out

    def isolation(self, guids: Iterable[int]) -> list[tuple[int, int, int]]:
        """Return pairs of ports whose tables, read now, let them exchange packets although no
        partition contains both: (PortGUID, PortGUID, P_Key), for each of ``guids`` and the ports
        that share a P_Key with it. Empty: isolated, as far as ports answered."""
        if self.programmer is None:
            raise InputError("no subnet is programmed here; start the service on a running fabric or a umad device")
        wanted = set(guids)
        self.programmer.call(lambda: self.view.read(wanted))
        holders: dict[int, set[int]] = {}
        for guid, held in self.view.tables.items():
            for key in held.port:
                holders.setdefault(key & DEFAULT_BASE, set()).add(guid)
        partners = {
            p for g in wanted if (h := self.view.tables.get(g)) for k in h.port for p in holders[k & DEFAULT_BASE]
        }
        self.programmer.call(lambda: self.view.read(partners))
        return [pair for guid in sorted(wanted & self.view.tables.keys()) for pair in self._meets(guid, partners)]

    def _meets(self, guid: int, partners: set[int]) -> Iterable[tuple[int, int, int]]:
        held = set(self.view.tables[guid].port)
        state, manager = self.state, self.view.manager
        wanted = state.wanted(guid, manager)
        for partner in sorted(partners - {guid}):
            theirs = self.view.tables.get(partner)
            if theirs is None:
                continue
            meet = _common(held, set(theirs.port)) - _common(wanted, state.wanted(partner, manager))
            if meet:
                yield guid, partner, min(meet)

    # -- called by the threads --

    def _committed(self, done: list[Done]) -> None:
        if self.programmer is not None:
            self.programmer.changed(done)

    def _mark(self, revisions: list[int], state: str, detail: str) -> None:
        self.writer.mark(Mark(revisions, state, self.clock(), detail))

    def _adopt(self) -> bool:
        """Take over the partitions of a subnet on the first start: those in ports' tables, with names,
        options and absent members from the manager's file."""
        if self.store.revisions(1):
            return False
        assert self.programmer is not None
        held = {p.pkey: p for p in partitions_of(self.view.tables, self.view.manager)}
        for stated in self.programmer.manager.stated():
            members = held[stated.pkey].members if stated.pkey in held else {}
            held[stated.pkey] = stated.with_members(
                {**stated.members, **(members if stated.pkey != DEFAULT_BASE else {})}
            )
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


def _common(a: set[int], b: set[int]) -> set[int]:
    """Return P_Keys, without the membership bit, with which two ports may exchange packets: one of
    the ports is a full member (IBA 10.9.3)."""
    full = {k & DEFAULT_BASE for k in a if k & 0x8000} & {k & DEFAULT_BASE for k in b}
    return full | ({k & DEFAULT_BASE for k in b if k & 0x8000} & {k & DEFAULT_BASE for k in a})
