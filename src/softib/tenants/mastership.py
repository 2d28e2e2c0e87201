"""Monitors whether the service's manager is the master of the subnet. While another manager is the master, changes are
stored but not programmed. They are not rolled back, because no port has refused them.
"""

from __future__ import annotations

import logging
import time

from softib.errors import PeerError
from softib.tenants.managers import Manager
from softib.tenants.model import guid_text
from softib.tenants.subnet import SubnetView

__all__ = ["MasterWatch"]

LOG = logging.getLogger("softib.tenants")
LOOK_S = 5.0
SILENT_LOOKS = 3
"""Number of consecutive checks without an answer after which the master counts as unreachable. Before that, it may be
restarting or busy with a sweep.
"""


class MasterWatch:
    """Checks which manager is the master. ``problem``: a message with advice if another manager is the master, or the
    master does not answer or is a standby; empty while the service's manager is the master. ``reached``: whether the
    master confirmed at the last check that it is the master (None: no check yet). Only one thread may use it.
    """

    def __init__(self, view: SubnetView, manager: Manager):
        self.view, self.manager = view, manager
        self.problem = ""
        self.reached: bool | None = None
        self.answered_s: float | None = None
        """Clock time of the master's last answer."""
        self.other = False
        """Whether the ports name another manager as the master."""
        self.rival = False
        """Whether another manager is the master and confirmed this at the last check."""
        self._master = 0
        """PortGUID of the last master that was the service's manager (0: none yet)."""
        self._due = 0.0
        self._silent = 0

    @property
    def doubt(self) -> str:
        """Return ``problem``, or a message if the master did not answer the last check. In the latter case changes are
        still passed to it, because it may be busy with a sweep.
        """
        return self.problem or ("" if self.reached is not False else f"{self._unanswered()}")

    def due_s(self) -> float:
        """Return the seconds until the next check."""
        return max(0.0, self._due - time.monotonic())

    def look(self) -> bool:
        """Check which port is the master's. Return whether the tables must be compared with the database: since the
        last check, the service's manager has become the master again, or the master has moved to another port whose
        manager reads the same file.
        """
        self._due = time.monotonic() + LOOK_S
        try:
            self.reached = self.view.look_for_master()
        except PeerError:
            self.reached = False
            raise
        self._silent = 0 if self.reached else self._silent + 1
        if self.reached:
            self.answered_s = time.time()
        before, self.problem = self.problem, self._rival() or self._silence()
        if self.problem and not before:
            LOG.warning("%s", self.problem)
        elif before and not self.problem:
            LOG.warning("%s is the master subnet manager, and answers", self.manager.title)
        former, master = self._master, self.view.manager
        if self.problem or not self.reached:
            return False
        self._master = master
        if former and former != master:
            LOG.warning("%s is the master subnet manager now, after %s", self._name(master), self._name(former))
        return bool(before) or former not in (0, master)

    def _rival(self) -> str:
        """Return the message that the ports name another manager as the master. That manager may have ended in the
        meantime.
        """
        master = self.view.manager
        self.other = not self.manager.is_master(master)
        self.rival = self.other and bool(self.reached)
        if not self.other:
            return ""
        where, title = self._name(master), self.manager.title
        if not self.reached:
            return (
                f"the ports name the manager at {where} as the master, which {self._reply()}; changes are durable, "
                f"and are programmed when the master is {title}: start it if it does not run"
            )
        if master == self._master and self._master:
            return (
                f"{title} is not the master any more, and the ports do not name another one yet; changes are durable, "
                f"and are programmed when it is the master again"
            )
        return (
            f"{where} is the master subnet manager, not {title}; changes are durable, and are programmed when it is "
            f"the master again: {self.manager.advice}"
        )

    def _name(self, guid: int) -> str:
        port = self.view.ports.get(guid)
        return "a switch or an unknown port" if port is None else f"{port.name} ({guid_text(guid)})"

    def _silence(self) -> str:
        if self._silent < SILENT_LOOKS:
            return ""
        until = "it is the master" if self.view.passive else "it answers"
        return (
            f"{self._unanswered()}; changes are durable, and are programmed when {until}: "
            f"start {self.manager.title} again"
        )

    def _reply(self) -> str:
        """Return what the manager that the ports name did at the last check."""
        passive = self.view.passive
        return f"answers, but is {passive}; no manager is master" if passive else "does not answer"

    def _unanswered(self) -> str:
        port = self.view.ports.get(self.view.manager)
        where = f"at {port.name} ({guid_text(port.guid)})" if port is not None else "that the ports name"
        title = "the subnet manager" if self.view.passive else "the master subnet manager"
        return f"{title} {where} {self._reply()}"
