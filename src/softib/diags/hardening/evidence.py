"""Protection of a fabric as seen in requests from a host, with or without its M_Key."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.diags.finding import Location

__all__ = ["DEFAULT_BASE", "FULL", "EndPort", "Evidence", "Manager", "Service"]

DEFAULT_BASE, FULL = 0x7FFF, 0x8000
"""The default partition, and the membership bit (IBA 10.9.1, 10.9.3)."""


@dataclass(frozen=True)
class EndPort:
    """An end port that answered. ``shown``: it answered without the M_Key; ``mkey``, ``protect``
    and ``lease`` from that PortInfo (or the one read with the key). ``pkeys``: its whole P_Key
    table, None if it was not read. ``leaf``: the switch port at the other end; ``enforces``:
    whether that port checks incoming P_Keys (None: the switch cannot); ``leaf_pkeys``: the table
    used for that."""

    where: Location
    host: bool
    shown: bool
    mkey: int
    protect: int
    lease: int
    pkeys: tuple[int, ...] | None = None
    leaf: Location | None = None
    enforces: bool | None = None
    leaf_pkeys: frozenset[int] | None = None

    @property
    def memberships(self) -> frozenset[int]:
        """Return its P_Keys with the membership bit, without invalid ones."""
        return frozenset(k for k in self.pkeys or () if k & ~FULL)


@dataclass(frozen=True)
class Manager:
    """A subnet manager that answered Get(SMInfo). ``state`` as named by ``sminfo``; ``sm_key``: the
    key in its answer."""

    where: Location
    guid: int
    state: str
    priority: int
    sm_key: int


@dataclass(frozen=True)
class Service:
    """A service that the subnet administration returned to a requester: its ServiceRecord (IBA 15.2.5.14). ``guid``:
    of the port in its GID; ``pkey`` 0: no partition is stated."""

    guid: int
    pkey: int
    title: str


@dataclass
class Evidence:
    """``mkey``: the key used in requests, 0 for none. ``trusts``: SM_Keys → whether the subnet
    administration returns P_Key tables for it (None: not tested); ``mkey_records``: ports whose
    M_Key was returned to a request without a key. ``allowed``: PortGUIDs that may run a manager
    (None: not configured). ``unread``: lines on what could not be checked."""

    ports: list[EndPort] = field(default_factory=list)
    managers: list[Manager] = field(default_factory=list)
    mkey: int = 0
    trusts: dict[int, bool] = field(default_factory=dict)
    mkey_records: list[Location] = field(default_factory=list)
    allowed: frozenset[int] | None = None
    unread: list[str] = field(default_factory=list)
    services: list[Service] = field(default_factory=list)

    @property
    def hosts(self) -> list[EndPort]:
        """Return ports of hosts, except those with an allowed manager."""
        managing = {m.guid for m in self.managers if m.state != "not active"}
        if self.allowed is not None:
            managing &= self.allowed
        return [p for p in self.ports if p.host and p.where.guid not in managing]
