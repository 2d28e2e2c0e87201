"""What an administrator knows between questions: the subnet of the last sweep, who is a member of
what, tables made of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.iba.sa import SaAttr
from softib.sm.inventory import Need
from softib.sm.notices import Subscriptions
from softib.sm.sa.alias_guids import AliasGuids
from softib.sm.sa.members import Members
from softib.sm.sa.one_path import OnePath
from softib.sm.sa.records.mcmember import Multicast
from softib.sm.sa.records.path import Paths
from softib.sm.sa.records.service import Services
from softib.sm.sa.subnet import Subnet
from softib.sm.sa.view import Views

__all__ = ["SaState"]


class SaState:
    """``subnet`` is that of :meth:`refresh`, None before the first one.

    ``sm_info`` (gives uint8[64]) and ``other_managers`` (port of the database → SMInfo) are what
    SMInfoRecord tells. ``tables`` are records by attribute that stay until the next sweep, ``read``
    what devices answered.
    """

    def __init__(self, sa_key: int, multicast: Multicast, subscriptions: Subscriptions, services: Services):
        self.sa_key = sa_key
        self.multicast, self.subscriptions, self.services = multicast, subscriptions, services
        self.aliases = AliasGuids()
        self.subnet: Subnet | None = None
        self.members = Members.everybody(0)
        self.paths: Paths | None = None
        self.one_path: OnePath | None = None
        self.views: Views | None = None
        self.sm_info: Callable[[], np.ndarray] = lambda: np.zeros(64, np.uint8)
        self.other_managers: dict[int, np.ndarray] = {}
        self.tables: dict[int, np.ndarray] = {}
        self.read: dict[Need, np.ndarray] = {}

    def close(self) -> None:
        """Nobody's administrator."""
        self.subnet = self.paths = self.one_path = self.views = None
        self.members = Members.everybody(0)

    def learn(self, need: Need, table: np.ndarray) -> None:
        """What devices answered, until the next sweep."""
        self.read[need] = table

    def refresh(self, subnet: Subnet, members: Members) -> None:
        """A sweep ended: from now on this is the subnet."""
        self.subnet, self.members = subnet, members
        self.paths = Paths(subnet, members)
        self.views = Views(subnet, members)
        self.one_path = OnePath(subnet, members, self.views.open)
        self.renamed()
        self.tables.clear()
        self.read.clear()

    def renamed(self) -> None:
        """Alias GUIDs are others than before."""
        self.administered.alias_guid, self.administered.alias_owner = self.aliases.columns()
        self.tables.pop(int(SaAttr.GUID_INFO_RECORD), None)

    @property
    def administered(self) -> Subnet:
        """``subnet``, where there is one."""
        assert self.subnet is not None
        return self.subnet
