"""What a fabric shows of its protection to somebody who asks from a host, with or without its M_Key."""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.diags.finding import Location

__all__ = ["DEFAULT_BASE", "FULL", "EndPort", "Evidence", "Manager"]

DEFAULT_BASE, FULL = 0x7FFF, 0x8000
"""The default partition, and the membership bit (IBA 10.9.1, 10.9.3)."""


@dataclass(frozen=True)
class EndPort:
    """An end port that answered. ``shown``: it answered without the M_Key; ``mkey``, ``protect``
    and ``lease`` as its PortInfo said then (or with the key). ``pkeys``: its whole table, None where
    it was not read. ``leaf``: the switch port in front; ``enforces``: does that check what comes in
    (None: the switch cannot); ``leaf_pkeys``: the table it checks by."""

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
        """P_Keys that it holds, with the membership bit, without invalid ones."""
        return frozenset(k for k in self.pkeys or () if k & ~FULL)


@dataclass(frozen=True)
class Manager:
    """A subnet manager that answered Get(SMInfo). ``state`` as ``sminfo`` names it; ``sm_key``: as
    it showed it to us."""

    where: Location
    guid: int
    state: str
    priority: int
    sm_key: int


@dataclass
class Evidence:
    """``mkey``: the key that was asked with, 0 for none. ``trusts``: SM_Keys → does the subnet
    administration give P_Key tables to who sends it (None: not asked); ``mkey_records``: ports whose
    M_Key it showed without one. ``allowed``: PortGUIDs that may manage (None: no one said).
    ``unread``: what could not be judged, a line each."""

    ports: list[EndPort] = field(default_factory=list)
    managers: list[Manager] = field(default_factory=list)
    mkey: int = 0
    trusts: dict[int, bool] = field(default_factory=dict)
    mkey_records: list[Location] = field(default_factory=list)
    allowed: frozenset[int] | None = None
    unread: list[str] = field(default_factory=list)

    @property
    def hosts(self) -> list[EndPort]:
        """Ports of hosts without a manager that may be there."""
        managing = {m.guid for m in self.managers if m.state != "not active"}
        if self.allowed is not None:
            managing &= self.allowed
        return [p for p in self.ports if p.host and p.where.guid not in managing]
