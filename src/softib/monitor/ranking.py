"""The ports that matter now: busiest, most waiting, erring, from one interval."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.diags.observations import ObservedPorts
from softib.monitor.exporter.ratios import utilization, wait_ratio
from softib.monitor.increase import Interval
from softib.result import Result, key

__all__ = ["ERRORS", "ORDERS", "PortRow", "ranked"]

ERRORS = (
    "symbol_error_counter",
    "link_error_recovery_counter",
    "link_downed_counter",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "vl15_dropped",
    "port_fec_uncorrectable_block_ctr",
)
"""Counters whose rise is an error of the link or a lost packet."""
ORDERS = ("busy", "waiting", "errors")


@dataclass(frozen=True)
class PortRow(Result):
    """A port in the last interval."""

    name: str = field(metadata=key("port"))
    """``node[portnum]``."""
    peer: str
    """Empty: none."""
    sent_gbps: float
    received_gbps: float
    utilization: float
    """Share of what its link can carry; NaN unknown."""
    waiting: float
    """Share of the time in which data waited for credits; NaN unknown."""
    errors: tuple[tuple[str, int], ...] = field(metadata=key(json=dict, type=dict[str, int]))
    """Counters that rose, and by how much."""


def ranked(ports: ObservedPorts, one: Interval, order: str, most: int) -> list[PortRow]:
    """At most ``most`` ports that did something, the first by ``order`` first; ports with equal
    values in the order of their GUIDs. ``one`` is of just these ports."""
    busy, waiting, errors = np.nan_to_num(utilization(one)), np.nan_to_num(wait_ratio(one)), np.zeros(len(one.guid))
    for name in ERRORS:
        if name in one.increase:
            errors += one.increase[name]
    key = {"busy": busy, "waiting": waiting, "errors": errors}[order]
    rows = np.lexsort((np.arange(len(key)), -key))[:most]
    return [_row(ports, one, int(r), float(busy[r]), float(waiting[r])) for r in rows.tolist() if key[r] > 0]


def _row(ports: ObservedPorts, one: Interval, r: int, busy: float, waiting: float) -> PortRow:
    seconds = max(1e-9, (int(one.end_ns[r]) - int(one.begin_ns[r])) / 1e9)

    def gbps(name: str) -> float:
        return float(one.increase[name][r]) * 32 / 1e9 / seconds if name in one.increase else 0.0

    rose = tuple(
        (name, int(one.increase[name][r])) for name in ERRORS if name in one.increase and one.increase[name][r]
    )
    peer = int(ports.peer[r])
    remote = f"{ports.node[peer]}[{int(ports.portnum[peer])}]" if peer >= 0 else ""
    return PortRow(
        f"{ports.node[r]}[{int(ports.portnum[r])}]",
        remote,
        gbps("port_xmit_data"),
        gbps("port_rcv_data"),
        busy,
        waiting,
        rose,
    )
