"""Input of checks. A check is a function from a :class:`Context` to findings; see
:data:`softib.diags.check.CHECKS`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from softib.diags.hosts.host_order import HostExchange, exchanged_hosts
from softib.diags.hosts.host_units import exchanged_in_units
from softib.diags.structure.exchanged.grid_swaps import judged_by_grid
from softib.diags.structure.exchanged.swaps import Suspects, find_suspects
from softib.diags.structure.pattern import Pattern, learn_pattern
from softib.diags.structure.recognise import Structure, recognise_view
from softib.diags.view import FabricView
from softib.iba.node_description import address_of

__all__ = ["Context", "SubnetTables"]


@dataclass(frozen=True)
class SubnetTables:
    """Analysed forwarding tables of a subnet. ``proof``: ``routing.verify.Proof``. ``quality``:
    ``routing.quality.Balance``. ``graph``: the routing graph whose switches are the rows of ``proof`` and ``quality``
    (None: the rows are the fabric's switches).
    """

    proof: Any = None
    quality: Any = None
    graph: Any = None


@dataclass
class Context:
    """Input of a check. Attributes that take long to compute are computed when they are first used."""

    view: FabricView
    problems: Sequence[Any] = ()
    proof: Any = None
    quality: Any = None
    graph: Any = None
    sms: Sequence[dict[str, Any]] | None = None
    remedy: Any = None
    seen: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def structure(self) -> Structure:
        """The recognised topology of the fabric."""
        return recognise_view(self.view)

    @cached_property
    def pattern(self) -> Pattern:
        """The cabling pattern learned from the fabric."""
        return learn_pattern(self.view, self.structure.labels)

    @cached_property
    def adapters_of(self) -> dict[str, list[int]]:
        """Return the adapters (nodes) of each host by its name."""
        out: dict[str, list[int]] = {}
        for n in np.flatnonzero(self.view.is_host).tolist():
            out.setdefault(address_of(self.view.names[n]).system, []).append(n)
        return out

    @cached_property
    def exchanged_hosts(self) -> dict[tuple[str, str], list[HostExchange]]:
        """Return exchanged adapters by pair of hosts. They are found from the order of host names along the switch
        ports, otherwise from the port numbers of rails.
        """
        out = self._by_hosts(exchanged_hosts(self.view))
        return self._by_hosts(exchanged_in_units(self.view)) | out

    def _by_hosts(self, exchanges: Iterable[HostExchange]) -> dict[tuple[str, str], list[HostExchange]]:
        names, node, peer = self.view.names, self.view.fabric.port_node, self.view.fabric.port_peer
        out: dict[tuple[str, str], list[HostExchange]] = {}
        for x in exchanges:
            first, second = sorted(address_of(names[int(node[peer[p]])]).system for p in (x.a, x.b))
            if first != second:  # for two adapters of one host, the rail checks report it
                out.setdefault((first, second), []).append(x)
        return out

    def host_ports(self, host: str) -> list[int]:
        """Return the cabled ports of the adapters of ``host``."""
        f = self.view.fabric
        return [p for n in self.adapters_of[host] for p in f.ports_of(n) if f.port_peer[p] >= 0]

    def exchanged_as_a_whole(self, hosts: tuple[str, str]) -> bool:
        """Return whether more than half of the cables of two hosts are exchanged; both must have several cables."""
        pairs = len(self.exchanged_hosts.get(hosts, ()))
        return pairs > 1 and 2 * pairs > max(len(self.host_ports(host)) for host in hosts)

    @cached_property
    def suspects(self) -> Suspects:
        """The cables that do not follow the pattern or the grid."""
        return judged_by_grid(self.view, self.structure, find_suspects(self.view, self.pattern, self.structure.rank))
