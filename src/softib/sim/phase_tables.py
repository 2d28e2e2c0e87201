"""What shift phases need of a fabric, whatever their size and number: made once for a
:class:`~softib.sim.paths.Plane`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from softib.sim.paths import Plane

__all__ = ["PhaseTables", "tables_of"]


@dataclass(frozen=True)
class PhaseTables:
    """``hosts``: CA ports with an address. ``alike``: the first so many of them have a switch, and
    adapters of one speed, so loads may tell (0: they never do: links of several MTUs, several SLs,
    a what-if's latencies). ``edge``: rows of the switches that hosts have links to; ``links`` and
    ``ends`` as :data:`~softib.sim.phase_kernels.Links` and :data:`~softib.sim.phase_kernels.Hosts`;
    ``rates`` of the links to hosts (Gb/s), which ``ends.rate_of`` names."""

    hosts: int
    alike: int
    edge: np.ndarray
    links: Any
    ends: Any
    rates: tuple[float, ...]

    @property
    def switches(self) -> int:
        """How many switches have hosts."""
        return len(self.edge)


def tables_of(plane: Plane) -> PhaseTables:
    """The tables of ``plane``; raises :class:`~softib.errors.InputError` where no link has a known
    speed."""
    from softib.sim.phase_kernels import Hosts

    f, t = plane.fabric, plane.table
    hosts = int((f.switch_of_node[f.port_node[plane.ends]] < 0).sum())
    port, lid = (column[:hosts] for column in plane.end_columns[:2])
    peer = t.peer[port]
    switch = np.where(peer >= 0, t.switch[np.maximum(peer, 0)], -1)
    sl = _one_sl(plane, hosts)
    good = (switch >= 0) & (plane.half_ps[:hosts] == plane.half_ps[:1]) & _data_vl(t, port, max(sl, 0))
    alike = hosts if good.all() else int(np.argmin(good))
    if not plane.link_mtu or sl < 0 or plane.scale.latency != 1:
        alike = 0
    first, switch_of = np.unique(switch, return_inverse=True)
    rates, rate_of = np.unique(plane.gbps[np.maximum(peer, 0)], return_inverse=True)
    link = plane.hop_ps[port]
    ends = Hosts(
        port.astype(np.int32),
        lid,
        switch.astype(np.int32),
        switch_of.astype(np.int32),
        rate_of.astype(np.int32),
        link,
        plane.carried_gbps[port],
    )
    return PhaseTables(hosts, alike, first, _links(plane, max(sl, 0)), ends, tuple(rates.tolist()))


def _one_sl(plane: Plane, hosts: int) -> int:
    """The SL of all paths between two hosts, -1 where they have several."""
    if plane.path_sl is None or hosts < 2:
        return 0
    given = plane.path_sl[:hosts, :hosts] & 15
    one = int(given[0, 1])
    return one if int((given != one).sum()) == int((given.diagonal() != one).sum()) else -1


def _data_vl(t: Any, port: np.ndarray, sl: int) -> np.ndarray:
    """Which of the adapters' ``port`` send ``sl`` on a data VL (SL2VL: two SLs an octet, the even
    one in the high bits)."""
    pair = t.sl2vl[t.sl2vl_base[port], sl >> 1]
    return np.asarray((pair & 15 if sl & 1 else pair >> 4) < t.vls[port])


def _links(plane: Plane, sl: int) -> Any:
    from softib.sim.phase_kernels import LINK, SWITCH, Links, link_rows

    f, t = plane.fabric, plane.table
    node = np.flatnonzero(f.switch_of_node >= 0)
    switch = SWITCH.zeros(max(len(f.lft), 1))
    switch["port_0"][f.switch_of_node[node]] = f.node_base[node]
    switch["ports"][f.switch_of_node[node]] = f.node_nports[node] + 1
    rows = LINK.zeros(len(t.peer))
    link_rows(t, switch, sl, rows)
    used = plane.carried_gbps[rows["peer"] >= 0]
    return Links(rows, switch, t.lft, plane.carried_gbps, np.array([used.min(initial=np.inf)]))
