"""Tables of ports with their errors, and of the modules and cables in them, from rounds or from a file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from softib.diags.cable_rules.thresholds import shipped
from softib.diags.observations import Observations, ObservedPorts
from softib.fabric.model import Fabric
from softib.fabric.node_finder import distinct_names
from softib.monitor.exporter.ratios import KINDS, ErrorRatios, bit_error_ratios
from softib.monitor.intervals import interval_at, same_ports
from softib.monitor.ranking import ERRORS
from softib.monitor.reading import Reading

__all__ = ["PortsSeen", "error_columns", "module_columns"]

RATE_S = 300.0
"""Minimum time in seconds for which a rate is computed: otherwise one event in three seconds would be a thousand
per hour."""
MODULE_TEXTS = {"vendor": "module_vendor", "part": "module_part", "serial": "module_serial", "kind": "cable_kind"}
MODULE_LEVELS = {
    "temperature_c": "module_temperature_c",
    "rx_power_dbm": "module_rx_power_dbm",
    "tx_power_dbm": "module_tx_power_dbm",
    "tx_bias_ma": "module_tx_bias_ma",
    "voltage_v": "module_voltage_v",
}
"""Maps each column of the table to its name in ``ObservedPorts.text`` and in the levels of a reading."""


@dataclass(frozen=True)
class PortsSeen:
    """``ports`` with their counts in the last ``reading`` (None: none), and the increases ``over`` the last twenty
    minutes (None: unknown)."""

    ports: ObservedPorts
    reading: Reading | None = None
    over: Observations | None = None

    def aligned(self) -> Reading:
        """Return the reading, with a row for each of ``ports``."""
        p, r = self.ports, self.reading
        aligned = Reading.empty(p.node_guid, p.portnum)
        if r is None or not len(r) or not len(p):
            return aligned
        at, there = same_ports(p.node_guid, p.portnum, r.guid, r.portnum)
        aligned.answered[:] = there & r.answered[at]
        aligned.value = {name: np.where(there, column[at], np.uint64(0)) for name, column in r.value.items()}
        aligned.have = {name: aligned.answered & column[at] for name, column in r.have.items()}
        aligned.level = {name: np.where(there, column[at], np.nan) for name, column in r.level.items()}
        return aligned


def error_columns(seen: PortsSeen, f: Fabric) -> dict[str, list[Any]]:
    """Return one row for each port with a cable, the worst first. They are sorted by these criteria in turn: bit error
    ratios beyond their limits, errors that increased in the last minutes, total errors, bit error ratios.

    ``errors``: sum of the error counters (:data:`softib.monitor.ranking.ERRORS`); ``rose``: their increase in
    ``observed_s`` seconds; ``per_hour``: the same as a rate, from
    :data:`RATE_S` on; ``counters`` and
    ``rises``: the counters one by one; ``symbol_ber``, ``raw_ber`` (before FEC) and
    ``effective_ber`` (after it). None where unknown.
    """
    p, reading, n = seen.ports, seen.aligned(), len(seen.ports)
    counted = [name for name in ERRORS if name in reading.have]
    total, have = np.zeros(n), np.zeros(n, bool)
    for name in counted:
        total += np.where(reading.have[name], reading.value[name].astype(np.float64), 0.0)
        have |= reading.have[name]
    rose, seconds, rises, ratios = _rises(seen.over, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_hour = np.where(seconds >= RATE_S, rose / seconds * 3600, np.nan)
    ber = bit_error_ratios(reading, ratios)
    worst = np.lexsort(
        (
            p.portnum,
            p.node_guid,
            *(-np.nan_to_num(ber[kind]) for kind in ("raw", "symbol", "effective")),
            -total,
            -rose,
            ~_beyond(ber, rose, seconds),
        )
    )
    columns = _locations(p, f, worst)
    columns |= {
        "errors": [int(v) if ok else None for v, ok in zip(total[worst].tolist(), have[worst].tolist(), strict=True)],
        "rose": [int(v) if s > 0 else None for v, s in zip(rose[worst].tolist(), seconds[worst].tolist(), strict=True)],
        "per_hour": _numbers(per_hour[worst]),
        "observed_s": [round(s, 1) if s > 0 else None for s in seconds[worst].tolist()],
    }
    columns |= {f"{kind}_ber": _numbers(ber[kind][worst]) for kind in KINDS}
    columns["counters"] = _by_name({name: reading.value[name] * reading.have[name] for name in counted}, worst)
    columns["rises"] = _by_name(rises, worst)
    return columns


def _beyond(ber: dict[str, np.ndarray], rose: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Return ports with a bit error ratio beyond its limit (bool[n]). The ratio before FEC counts immediately,
    because its errors are frequent. The others count only if they cover :data:`RATE_S`, come from a file, or result
    from several errors."""
    limits = shipped()
    sure = (seconds >= RATE_S) | (seconds == 0) | (rose >= limits["symbol_errors_least"])
    worst = np.fmax(np.nan_to_num(ber["symbol"]), np.nan_to_num(ber["effective"]))
    beyond = (worst > limits["ber_specification"]) & sure
    return np.asarray(beyond | (np.nan_to_num(ber["raw"]) > limits["pre_fec_ber"]))


class _Rises(NamedTuple):
    """Increases of the error counters of each port."""

    rose: np.ndarray
    """float64[ports]: the sum over all counters."""
    seconds: np.ndarray
    """float64[ports]: the time in which they were measured."""
    of: dict[str, np.ndarray]
    """Counter → uint64[ports]."""
    ratios: ErrorRatios
    """The sums from which ratios are computed."""


def _rises(over: Observations | None, p: ObservedPorts) -> _Rises:
    """Return the increases over ``over``; None: no increase was measured."""
    n = len(p)
    if over is None or not n or not len(over.ports) or not over.intervals:
        return _Rises(np.zeros(n), np.zeros(n), {}, ErrorRatios(n))
    at, there = same_ports(p.node_guid, p.portnum, over.ports.node_guid, over.ports.portnum)
    rises = {name: np.where(there, over.total(name)[at], np.uint64(0)) for name in ERRORS if name in over.increase}
    seconds = np.fmax.reduce([np.where(there, over.seconds(name)[at], 0.0) for name in rises]) if rises else np.zeros(n)
    ratios = ErrorRatios(len(over.ports))
    for k in range(over.intervals):
        ratios.add(interval_at(over, k))
    rose = sum((v.astype(np.float64) for v in rises.values()), np.zeros(n))
    return _Rises(rose, seconds, rises, ratios.carried(np.where(there, at, -1)))


def module_columns(seen: PortsSeen, f: Fabric) -> dict[str, list[Any]]:
    """Return one row for each port with known data of its module or cable: vendor, part and serial
    number, kind and length of the cable, the module's measurements (the lowest of its lanes). None
    where unknown."""
    p, level = seen.ports, seen.aligned().level
    empty, unknown = np.full(len(p), "", object), np.full(len(p), np.nan)
    texts = {name: p.text.get(of, empty) for name, of in MODULE_TEXTS.items()}
    length = p.text.get("cable_length", empty)
    levels = {name: level.get(of, unknown) for name, of in MODULE_LEVELS.items()}
    stated = length != ""
    for text in texts.values():
        stated = stated | (text != "")
    for values in levels.values():
        stated = stated | ~np.isnan(values)
    rows = np.flatnonzero(stated)
    columns = _locations(p, f, rows)
    columns |= {name: [t or None for t in text[rows].tolist()] for name, text in texts.items()}
    columns["length_m"] = [float(t) if t else None for t in length[rows].tolist()]
    return columns | {name: _numbers(values[rows]) for name, values in levels.items()}


def _locations(p: ObservedPorts, f: Fabric, rows: np.ndarray) -> dict[str, list[Any]]:
    """Return name, GUID and port number of ``rows``, and the port at the other end."""
    shown = dict(zip(f.node_guid.tolist(), distinct_names(f), strict=True))
    guid, number, peer = p.node_guid.tolist(), p.portnum.tolist(), p.peer.tolist()
    names = [shown.get(g, name) for g, name in zip(guid, p.node, strict=True)]
    rows_ = rows.tolist()
    return {
        "node": [names[r] for r in rows_],
        "guid": [f"{guid[r]:#018x}" for r in rows_],
        "port": [number[r] for r in rows_],
        "peer": [f"{names[peer[r]]}[{number[peer[r]]}]" if peer[r] >= 0 else None for r in rows_],
    }


def _numbers(values: np.ndarray) -> list[float | None]:
    """Return each number with four digits; None for a value that is not a number, or that JSON cannot express."""
    return [float(f"{v:.4g}") if math.isfinite(v) else None for v in values.tolist()]


def _by_name(values: dict[str, np.ndarray], rows: np.ndarray) -> list[dict[str, int]]:
    """Return counters that are not 0, by name, for each of ``rows``."""
    counts: list[dict[str, int]] = [{} for _ in rows]
    for name, column in values.items():
        chosen = column[rows]
        for i in np.flatnonzero(chosen).tolist():
            counts[i][name] = int(chosen[i])
    return counts
