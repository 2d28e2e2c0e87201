"""Observations of the ports of a fabric from MADs, files and time series: the increase of each counter in each
interval, and the reported properties of each port. The collector (``softib.monitor``) writes this table; the rules that
find bad cables read only this table, so they cannot read the list of faults injected into a simulated fabric.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from softib.errors import InputError

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["ForwardingTables", "Observations", "ObservedPorts", "tables_of"]


@dataclass(frozen=True)
class ObservedPorts:
    """``n`` ports, one row each, sorted by (``node_guid``, ``portnum``).

    ``node_guid`` uint64; ``portnum`` int32; ``switch`` bool; ``node`` the NodeDescriptions; ``lid`` int32 (0: none);
    ``peer`` int32, the row of the port at the other end of the cable (-1: none, or not observed); ``rate_gbps``
    float64, the data rate from PortInfo's width and speed (0: link down). ``text`` maps the names of other facts to
    object arrays ("": unknown): ``firmware``, ``device`` (PSID, or part number of the board), ``vendor``,
    ``module_vendor``, ``module_part``, ``module_serial``, ``cable_length`` (metres), ``cable_kind`` (medium, or active,
    optical, copper), ``system`` (name of the node's system), ``fec``.
    """

    node_guid: np.ndarray
    portnum: np.ndarray
    switch: np.ndarray
    node: tuple[str, ...]
    lid: np.ndarray
    peer: np.ndarray
    rate_gbps: np.ndarray
    text: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.node_guid)


@dataclass(frozen=True)
class Observations:
    """``k`` intervals of ``n`` ports.

    ``begin_ns`` and ``end_ns``: int64[k, n], clock times of the two readings of each port (they are equal if a reading
    failed). ``increase`` maps the name of a counter, which is the name of a field of
    :class:`~softib.iba.perf_optional.PortCountersExtended`, :class:`~softib.iba.perf_optional.PortXmitDiscardDetails`,
    :class:`~softib.iba.perf_optional.PortRcvErrorDetails` or
    :class:`~softib.iba.perf_optional.PortExtendedSpeedsCounters`, to its increase, uint64[k, n], in the unit of that
    field (``port_xmit_data``: words of four bytes). ``known`` maps the same names to bool[k, n]. It is False where the
    increase is unknown: the device was unreachable or rebooted, the counter was saturated or cleared, or the device
    does not have the attribute; ``increase`` is 0 there. ``level`` maps the names of values that are not counters to
    float64[k, n] at the end of the interval, NaN if unknown: ``temperature_c``, ``module_temperature_c``, ``state`` and
    ``physical_state`` (IBA PortInfo), ``rate_gbps``, ``best_gbps`` (the rate that both ends support), ``pre_fec_ber``,
    ``tick_symbols`` (symbol times of a tick of PortXmitWait, IBA 16.1.3.2), ``stuck_NAME`` (1: the counter was
    saturated, that is, at its largest value; 2: it saturated in the interval; 0: it is not saturated), ``lanes`` and
    ``lane_gbps`` (number of active lanes, and the signalling rate of one lane), values that modules measure and their
    alarm thresholds (:data:`softib.monitor.module_levels.MODULE_LEVELS`), ``fec_corrects`` (number of symbols that the
    active code can correct in a codeword; the counters ``fec_codewords_0`` … ``fec_codewords_15`` are the histogram of
    corrected symbols).
    """

    ports: ObservedPorts
    begin_ns: np.ndarray
    end_ns: np.ndarray
    increase: Mapping[str, np.ndarray]
    known: Mapping[str, np.ndarray]
    level: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = (len(self.begin_ns), len(self.ports))
        for kind, columns in (("increase", self.increase), ("known", self.known), ("level", self.level)):
            for name, column in columns.items():
                if column.shape != shape:
                    raise InputError(
                        f"observations: {kind} of {name} is {column.shape}, should be {shape}: intervals by ports"
                    )
        if set(self.increase) != set(self.known):
            odd = sorted(set(self.increase) ^ set(self.known))[0]
            raise InputError(
                f"observations: {odd} has no counterpart; each counter needs an increase and a column of where it "
                f"is known"
            )

    @property
    def intervals(self) -> int:
        """Return the number of intervals."""
        return len(self.begin_ns)

    def seconds(self, counter: str) -> np.ndarray:
        """Return the seconds for which each port's increase of this counter is known (float64[n])."""
        if counter not in self.known:
            return np.zeros(len(self.ports))
        spans = np.where(self.known[counter], self.end_ns - self.begin_ns, 0)
        return np.asarray(spans.sum(axis=0) / 1e9, np.float64)

    def total(self, counter: str) -> np.ndarray:
        """Return the total increase of the counter over all known intervals (uint64[n]); 0 for an unknown counter."""
        if counter not in self.increase:
            return np.zeros(len(self.ports), np.uint64)
        return np.asarray(self.increase[counter].sum(axis=0, dtype=np.uint64))


NO_ROUTE = 255


@dataclass(frozen=True)
class ForwardingTables:
    """Forwarding tables of switches. ``switch_guid`` uint64[s], ascending. ``lft`` uint8[s, LIDs]: egress portnum by
    LID; 255: no route. ``lids`` int64: the LIDs of channel adapters' ports, to which applications send.
    """

    switch_guid: np.ndarray
    lft: np.ndarray
    lids: np.ndarray

    def row(self, guid: int) -> int:
        """Return the row of a switch; -1 if its table is unknown."""
        at = int(np.searchsorted(self.switch_guid, np.uint64(guid)))
        return at if at < len(self.switch_guid) and int(self.switch_guid[at]) == guid else -1

    @cached_property
    def _by_lid(self) -> np.ndarray:
        return self.lft[:, self.lids]

    def onwards(self, guid: int, portnum: int, next_guid: int) -> dict[int, int]:
        """Return the egress ports on the switch ``next_guid`` of traffic that leaves ``guid`` through ``portnum``, as
        portnum -> number of destinations. If ``guid`` is not a switch, all destinations count.
        """
        here, there = self.row(guid), self.row(next_guid)
        if there < 0:
            return {}
        out = self._by_lid[there]
        if here >= 0:
            out = out[self._by_lid[here] == portnum]
        count = np.bincount(out, minlength=256)
        return {int(p): int(count[p]) for p in np.flatnonzero(count).tolist() if p not in (0, NO_ROUTE)}


def tables_of(fabric: Fabric, ports: ObservedPorts) -> ForwardingTables | None:
    """Return the tables of ``fabric``, which was read from a subnet with MADs or from files. None if the source has no
    tables.
    """
    if not fabric.sizes.switches or not (fabric.lft != NO_ROUTE).any():
        return None
    guid = fabric.node_guid[fabric.switch_node]
    order = np.argsort(guid, kind="stable")
    hosts = np.unique(np.asarray(ports.lid, np.int64)[~np.asarray(ports.switch, bool)])
    hosts = hosts[(hosts > 0) & (hosts < fabric.lft.shape[1])]
    return ForwardingTables(guid[order], fabric.lft[order], hosts)
