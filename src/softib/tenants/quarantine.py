"""P_Keys without a partition that are not assigned: P_Keys whose partition ended less than an hour ago, and P_Keys that
may still be in a port's table.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from softib.tenants.changes import Refused
from softib.tenants.model import DEFAULT_BASE, guid_text, pkey_text
from softib.tenants.programmer import Programmer
from softib.tenants.state import State
from softib.tenants.subnet import SubnetView

__all__ = ["Quarantine", "Resting"]

LEAVES_S = 5.0
"""Maximum wait for the tables of members that just left a P_Key."""


@dataclass(frozen=True)
class Resting:
    """A P_Key without a partition that is not assigned before the clock time ``until_s``, nor while one of ``ports``
    may have it. If these ports do not answer, an operator can confirm that they do not have it.
    """

    pkey: str
    until_s: float | None
    ports: list[str]


class Quarantine:
    """The quarantine of P_Keys in a service. ``programmer``: None if the service programs no subnet, so that no table
    is known.
    """

    def __init__(self, state: State, view: SubnetView, programmer: Programmer | None, clock: Callable[[], float]):
        self._state, self._view, self._programmer, self._clock = state, view, programmer, clock

    def occupied(self, pkey: int, members: Collection[int] = ()) -> str:
        """Return a message about a port other than ``members`` that may have ``pkey`` although no partition has it; ""
        if there is no such port. Members of a new partition with this P_Key could reach the port. Any thread may call
        this.
        """
        others = [guid for guid in self._holders(pkey) if guid not in members]
        if not others:
            return ""
        port = self._view.ports.get(others[0])
        where = f"{port.name} ({guid_text(others[0])})" if port else guid_text(others[0])
        if others[0] in self._view.tables and pkey in {k & DEFAULT_BASE for k in self._view.tables[others[0]].port}:
            why = f"is still in the table of {where}; use another, or try again when it has been removed"
        else:
            why = (
                f"may still be in the table of {where}, which was not read since it left; use another, or end the "
                f"quarantine: DELETE /tenants/v1/quarantine/{pkey_text(pkey)}"
            )
        return f"P_Key {pkey_text(pkey)} {why}"

    def _holders(self, pkey: int) -> list[int]:
        """Return the ports that may have ``pkey``. Ports whose last read table has it come first."""
        if self._programmer is None:
            return []
        held = sorted(self._view.holders(pkey), key=lambda guid: (guid not in self._view.tables, guid))
        if self._programmer.open.is_released(pkey):
            held = [guid for guid in held if guid in self._view.tables]
        return [*held, *sorted(self._programmer.open.unread(pkey).keys() - set(held))]

    def taken(self) -> set[int]:
        """Return the P_Keys that are not free, because a partition has them, they are in quarantine, or they are in a
        port's table.
        """
        return {*list(self._state.partitions), *(int(one.pkey, 16) for one in self.resting())}

    def refuse_held(self, pkey: int, members: Collection[int] = ()) -> None:
        """Raise :class:`Refused` if a port other than ``members`` may have ``pkey`` although no partition has it. To be
        sure, first wait for the waiting changes and read these ports again.
        """
        if pkey in self._state.partitions or self._programmer is None:
            return
        until = time.monotonic() + LEAVES_S
        while not all(self._programmer.open.unread(pkey).values()) and time.monotonic() < until:
            time.sleep(0.01)
        if self.occupied(pkey, members) and (holders := self._view.holders(pkey)):
            self._programmer.call(lambda: self._view.read(holders))
        if why := self.occupied(pkey, members):
            raise Refused(why)

    def resting(self) -> list[Resting]:
        """Return the P_Keys without a partition that are in quarantine, or that a port may still have."""
        now_s, state = self._clock(), self._state
        pkeys = {pkey for pkey, until_s in list(state.quarantine.items()) if until_s > now_s}
        pkeys |= self._programmer.open.leaving() | self._view.held_keys() if self._programmer is not None else set()
        out = []
        for pkey in sorted(pkeys - set(state.partitions)):
            until_s, ports = state.quarantined_until(pkey), self._holders(pkey)
            if until_s > now_s or ports:
                row = Resting(pkey_text(pkey), until_s if until_s > now_s else None, list(map(guid_text, ports)))
                out.append(row)
        return out
