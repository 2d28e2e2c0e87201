"""The hosts on which a workload runs: end ports sorted by name, and the selection of some of them by name or number."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError, UnknownName
from softib.natural_order import natural_key
from softib.plural import counted

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.sim.packet.profiles import DeviceProfile
    from softib.workloads.job import Job
    from softib.workloads.trust import Dataset

__all__ = ["Hosts", "hosts_of", "names_without_lid", "rows_of"]

_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


@dataclass(frozen=True)
class Hosts:
    """The ports of hosts that have a LID. ``end``: rows of :func:`softib.fabric.end_ports.end_ports`; ``name``;
    ``switch``: the node at the other end of the cable; ``gbps``: data rate of each link (float64, 0: unknown; an empty
    array: all are unknown). :attr:`profile` is computed from ``fabric`` and ``costs``. ``measured``: measurements of
    these hosts, for :mod:`softib.workloads.trust`."""

    end: np.ndarray
    name: tuple[str, ...]
    switch: np.ndarray
    gbps: np.ndarray = field(default_factory=lambda: np.zeros(0))
    fabric: Fabric | None = None
    costs: Mapping[str, Any] = field(default_factory=dict)
    measured: tuple[Dataset, ...] = ()

    @cached_property
    def profile(self) -> DeviceProfile:
        """Return the costs of messages in the hosts: those of the adapters' generation (EDR without a fabric),
        overridden by ``costs``."""
        from softib.sim.packet.profiles import PROFILES, host_figures
        from softib.sim.timing import profile_of

        base = PROFILES["EDR"] if self.fabric is None else profile_of(self.fabric)
        return base.but(**host_figures(self.costs))

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        """Return the rows of each name."""
        rows: dict[str, list[int]] = {}
        for i, name in enumerate(self.name):
            rows.setdefault(name, []).append(i)
        return rows

    def __len__(self) -> int:
        return len(self.name)

    def chosen(self, texts: list[str | int]) -> np.ndarray:
        """Return the rows of the hosts selected by ``texts``: a name, a pattern (``node-1*``), a row
        or rows (``0-15``, ``3``). Raises :class:`InputError` for a text that selects no host."""
        rows: list[int] = []
        for text in texts:
            rows += self._rows(str(text))
        return np.array(list(dict.fromkeys(rows)), np.int64)

    def row(self, text: str | int) -> int:
        """Return the row of the only host named ``text``."""
        rows = self._rows(str(text))
        if len(rows) != 1:
            raise InputError(f"{text!r} names {counted(len(rows), 'host')}; use one")
        return rows[0]

    def _rows(self, text: str) -> list[int]:
        rows = self._by_name.get(text, [])
        if not rows and (hit := _RANGE.fullmatch(text)):
            low, high = int(hit[1]), int(hit[2] or hit[1])
            if low > high or high >= len(self):
                raise InputError(f"hosts {text}: the fabric has {counted(len(self), 'host')}, 0 to {len(self) - 1}")
            return list(range(low, high + 1))
        if not rows and any(c in text for c in "*?["):
            rows = [i for i, name in enumerate(self.name) if fnmatch.fnmatchcase(name, text)]
        if not rows and text in self.without_lid:
            raise InputError(f"host {text!r} has no LID, so no packet reaches it")
        if not rows:
            raise UnknownName("host", text, self.name)
        return rows

    @cached_property
    def without_lid(self) -> frozenset[str]:
        """The names of the hosts and adapters that have no LID, and so are not in :attr:`name`."""
        return frozenset() if self.fabric is None else names_without_lid(self.fabric)


def rows_of(job: Job, hosts: Hosts) -> np.ndarray:
    """Return the rows of the hosts on which ``job`` runs: those of its option ``hosts``, or all. Raises
    :class:`InputError` for unknown names."""
    if job.hosts is None:
        return np.arange(len(hosts))
    return hosts.chosen(job.hosts if isinstance(job.hosts, list) else [job.hosts])


def names_without_lid(fabric: Fabric) -> frozenset[str]:
    """Return the names of adapters that have no port with a LID, and of hosts that have only such adapters."""
    has_lid = np.bincount(fabric.port_node[fabric.lid > 0], minlength=fabric.sizes.nodes) > 0
    with_lid, without = (
        {fabric.node_name(n) for n in np.flatnonzero(fabric.is_host & chosen).tolist()}
        for chosen in (has_lid, ~has_lid)
    )
    hosts = [{re.split(r"[ /:]", name, maxsplit=1)[0] for name in names} for names in (with_lid, without)]
    return frozenset((without - with_lid) | (hosts[1] - hosts[0]))


def hosts_of(fabric: Fabric, costs: Mapping[str, Any] | None = None) -> Hosts:
    """Return the hosts of ``fabric``, which has LIDs; ``costs`` as in the section ``hosts`` of a
    fabric file. If several ports of a node have a LID, each is a host named ``name[port]``."""
    from softib.fabric.end_ports import end_ports, port_gbps

    ends = end_ports(fabric)
    node = fabric.port_node[ends]
    rows = np.flatnonzero((fabric.port_num[ends] > 0) & fabric.is_host[node])
    names = [fabric.node_name(int(n)) for n in node[rows]]
    several = {name for name, n in Counter(names).items() if n > 1}
    names = [fabric.port_name(int(ends[r])) if n in several else n for r, n in zip(rows, names, strict=True)]
    order = sorted(range(len(names)), key=lambda i: (natural_key(names[i]), int(rows[i])))
    rows = rows[order]
    peer = fabric.port_node[np.maximum(fabric.port_peer[ends[rows]], 0)]
    gbps = port_gbps(fabric, ends[rows])
    return Hosts(
        rows.astype(np.int64), tuple(names[i] for i in order), peer.astype(np.int64), gbps, fabric, costs or {}
    )
