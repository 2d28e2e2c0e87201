"""Compares all P_Key tables with the database: at the start of the service, every minute, and after the master has
moved to another port. The manager then programs the tables that differ again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from softib.plural import counted
from softib.tenants.drift import Drift
from softib.tenants.mastership import MasterWatch
from softib.tenants.open_revisions import OpenRevisions
from softib.tenants.state import State
from softib.tenants.subnet import Held, SubnetView

if TYPE_CHECKING:
    from softib.tenants.programmer import Hooks

__all__ = ["Differences", "Reconciliation"]

LOG = logging.getLogger("softib.tenants")
Differences = tuple[set[int], set[int]]
"""P_Keys that are missing in a table, and P_Keys that should not be in it."""


class Reconciliation:
    """The comparison for a programmer. ``program`` passes all partitions to the manager. ``verify`` reads the tables of
    ports until they have the wanted P_Keys, and returns the remaining differences.
    """

    def __init__(
        self,
        view: SubnetView,
        hooks: Hooks,
        open_revisions: OpenRevisions,
        master: MasterWatch,
        program: Callable[[], None],
        verify: Callable[[set[int]], dict[int, Differences]],
    ):
        self.view, self.hooks, self.open, self.master = view, hooks, open_revisions, master
        self._program, self._verify = program, verify

    def run(self, first: bool, programmed: set[int]) -> None:
        """Compare every port's table with the state. A difference comes from another program if no waiting change
        explains it and its port is not one of ``programmed``, the ports that changed while the tables were read. The
        manager programs such tables again.
        """
        if first:
            self._first_file()
            if self.hooks.adopt():
                return
        state, tables = self.hooks.snapshot(), self.view.tables
        suspects = [
            g
            for g, held in tables.items()
            if g not in programmed and any(held.differs(state.wanted(g, self.view.manager)))
        ]
        drifts, busy = self._drifts(state, self.view.read(suspects))
        self.hooks.drifts.end(self.view.tables.keys() - busy - programmed, {d.difference for d in drifts})
        moved = [d for d in drifts if d.follows(self.view.managers)]
        if not first or len(state.partitions) > 1:  # otherwise no change has ever been programmed
            self.hooks.drifts.enter([d for d in drifts if d not in moved], self.master.rival)
        if self.master.problem:
            return
        if drifts:
            self._program()
            wrong = self._verify({d.guid for d in drifts})
            self.hooks.drifts.enter([d for d in moved if d.guid in wrong], self.master.rival)
        self.view.managers = {self.view.manager}

    def _first_file(self) -> None:
        """Log the switch ports that do not check P_Keys yet. softib's manager enables the check when it receives its
        first file; ports that still do not check P_Keys after that are a finding.
        """
        if self.view.unchecked:
            ports = counted(len(self.view.unchecked), "port")
            LOG.info("switches do not check the P_Keys of %s; the manager turns it on with its first file", ports)
            self.view.unchecked = frozenset()

    def _drifts(self, state: State, tables: dict[int, Held]) -> tuple[list[Drift], set[int]]:
        """Return the tables that differ from the state, and the ports with changes that are not programmed yet, whose
        tables are left out. A change is added to the state and to the unprogrammed changes at the same time, so a
        change during the comparison causes no difference.
        """
        with self.hooks.still:
            busy = self.open.unsettled()
            differ = {
                g: held.differs(state.wanted(g, self.view.manager)) for g, held in tables.items() if g not in busy
            }
        return [
            Drift(self.hooks.clock(), guid, self.view.ports[guid].name, tuple(sorted(missing)), tuple(sorted(extra)))
            for guid, (missing, extra) in differ.items()
            if missing or extra
        ], busy
