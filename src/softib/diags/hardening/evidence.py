"""Evidence about the protection of a fabric, from requests that a host sends with or without the M_Key."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.diags.finding import Location

__all__ = ["DEFAULT_BASE", "FULL", "EndPort", "Evidence", "Manager", "Service"]

DEFAULT_BASE, FULL = 0x7FFF, 0x8000
"""P_Key of the default partition, and the bit of full membership (IBA 10.9.1, 10.9.3)."""


@dataclass(frozen=True)
class EndPort:
    """An end port that answered. ``shown``: it answered without the M_Key. ``mkey``, ``protect`` and ``lease`` are from
    this PortInfo, or from one that was read with the M_Key. ``pkeys``: its whole P_Key table (None: not read).
    ``leaf``: the switch port at the other end of its cable. ``enforces``: whether that switch port checks incoming
    P_Keys (None: the switch cannot). ``leaf_pkeys``: the P_Key table of that switch port.
    """

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
        """Return the port's valid P_Keys, including the membership bit."""
        return frozenset(k for k in self.pkeys or () if k & ~FULL)


@dataclass(frozen=True)
class Manager:
    """A subnet manager that answered Get(SMInfo). ``state``: its state, with the names that ``sminfo`` prints.
    ``sm_key``: the key in its answer.
    """

    where: Location
    guid: int
    state: str
    priority: int
    sm_key: int


@dataclass(frozen=True)
class Service:
    """A ServiceRecord that the subnet administration returned (IBA 15.2.5.14). ``guid``: PortGUID in the service's GID.
    ``pkey``: 0 if the record states no partition.
    """

    guid: int
    pkey: int
    title: str


@dataclass
class Evidence:
    """All evidence about a fabric. ``mkey``: the M_Key used in requests (0: none). ``trusts``: SM_Key → whether the
    subnet administration returns P_Key tables to requests with this key (None: not tested). ``mkey_records``: ports
    whose M_Key the subnet administration returned to a request without an SM_Key. ``allowed``: PortGUIDs of ports that
    may run a manager (None: not configured). ``unread``: lines that describe what could not be checked.
    """

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
        """Return the ports of hosts that do not run an allowed manager."""
        managing = {m.guid for m in self.managers if m.state != "not active"}
        if self.allowed is not None:
            managing &= self.allowed
        return [p for p in self.ports if p.host and p.where.guid not in managing]
