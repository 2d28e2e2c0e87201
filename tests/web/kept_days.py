"""A history written by hand: rounds of a fabric at minutes, with cables pulled."""

from __future__ import annotations

import numpy as np

from softib.fabric.plugging import delete_cables
from softib.monitor.fabric_ports import ports_of, rows_of
from softib.monitor.history import HOUR_NS, History
from softib.monitor.intervals import Interval
from tests.monitor.lab import port_of

BEGIN = 480_000 * HOUR_NS
MINUTE = 60 * 10**9


def keep(
    history: History, fabric, minute: int, errors: dict[tuple[str, int], int] | None = None, seconds: int = 1
) -> float:
    """One round of ``fabric`` at a minute of the history, ``seconds`` after the one before; its clock time. ``errors``: symbol errors of ports by name and number (without it each port has one)."""
    ports = ports_of(fabric, rows_of(fabric))
    n, end = len(ports), BEGIN + minute * MINUTE
    rose = np.ones(n, np.uint64) if errors is None else np.zeros(n, np.uint64)
    for (name, number), count in (errors or {}).items():
        guid = fabric.node_guid[fabric.port_node[port_of(fabric, name, number)]]
        rose[(ports.node_guid == guid) & (ports.portnum == number)] = count
    history.append(
        ports,
        Interval(
            ports.node_guid,
            ports.portnum,
            np.full(n, end - seconds * 10**9),
            np.full(n, end),
            {"symbol_error_counter": rose},
            {"symbol_error_counter": np.ones(n, bool)},
            {"rate_gbps": ports.rate_gbps},
        ),
    )
    return end / 1e9


def without(fabric, *places):
    """A copy with these cables pulled."""
    f = fabric.copy()
    delete_cables(f, [int(f.port_cable[port_of(f, name, number)]) for name, number in places])
    return f
