"""P_Key tables that another program changed. A difference lasts from the first reading that shows it to the first
reading without it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from softib.tenants.model import DEFAULT_BASE, guid_text, pkey_text

__all__ = ["Difference", "Drift", "Drifts"]

LOG = logging.getLogger("softib.tenants")
LOGGED = 10
"""Maximum number of ports of one comparison that have a separate line in the log."""
KEPT = 1000
Difference = tuple[int, tuple[int, ...], tuple[int, ...]]
"""A port, and its missing and extra P_Keys."""


@dataclass(frozen=True)
class Drift:
    """A table that another program changed. ``missing``, ``extra``: P_Keys that the table lacks, and that it has in
    addition. ``ended_s``: time of the first reading without the difference (None: the difference persists).
    """

    at_s: float
    guid: int
    port: str
    missing: tuple[int, ...]
    extra: tuple[int, ...]
    rival: bool = False
    """Whether another manager was the master at that time."""
    ended_s: float | None = None

    @property
    def difference(self) -> Difference:
        """Return (PortGUID, missing P_Keys, extra P_Keys)."""
        return self.guid, self.missing, self.extra

    def follows(self, managers: Set[int]) -> bool:
        """Return whether a change of the master explains the difference, because only the port of the master is always
        a full member of the default partition. ``managers``: ports of the former and present masters.
        """
        keys = {*self.missing, *self.extra}
        return self.guid in managers and all(key & DEFAULT_BASE == DEFAULT_BASE for key in keys)

    def __str__(self) -> str:
        keys = lambda pkeys: ", ".join(map(pkey_text, pkeys))
        parts = [f"lacks {keys(self.missing)}, which this service programmed"] * bool(self.missing)
        parts += [f"holds {keys(self.extra)}, which this service did not program"] * bool(self.extra)
        rival = "; another subnet manager is the master" if self.rival else ""
        return f"{self.port} ({guid_text(self.guid)}) {' and '.join(parts)}{rival}"


class Drifts:
    """All differences, present and ended. ``kept``: list of them, the newest last. The list is replaced and never
    modified, so other threads may read it.
    """

    def __init__(self, clock: Callable[[], float], earlier: Sequence[Drift] = ()):
        """``earlier``: differences of an earlier process."""
        self.clock = clock
        self.kept: list[Drift] = list(earlier)

    def enter(self, drifts: list[Drift], rival: bool) -> None:
        """Store and log the new differences. A difference that is already present is ignored, because all tables are
        read every minute.
        """
        present = {d.difference for d in self.kept if d.ended_s is None}
        new = [replace(d, rival=rival) for d in drifts if d.difference not in present]
        for drift in new[:LOGGED]:
            LOG.warning("%s", drift)
        if len(new) > LOGGED:
            LOG.warning("%d more ports differ; GET /tenants/v1/findings lists them", len(new) - LOGGED)
        self.kept = (self.kept + new)[-KEPT:]

    def end(self, read: Set[int], present: Set[Difference]) -> None:
        """End the differences of ports that were ``read``, except those that are ``present``."""
        if all(d.ended_s is not None or d.guid not in read for d in self.kept):
            return
        now_s = self.clock()
        ends = lambda d: d.ended_s is None and d.guid in read and d.difference not in present
        self.kept = [replace(d, ended_s=now_s) if ends(d) else d for d in self.kept]
