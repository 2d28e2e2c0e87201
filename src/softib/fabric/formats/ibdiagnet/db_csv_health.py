"""The sections of a .db_csv that hold how the fabric fares: counters, temperatures, FEC, firmware, cables, and what
ibdiagnet itself complained of.

====================================  ==========================================================================
section                               place
====================================  ==========================================================================
PM_INFO                               ``counters``, ``detail_counters``; record ``counters``
PM_DELTA                              ``extra["counter_deltas"]``: what grew between the two readings of the run
TEMP_SENSING                          ``node_temperature``; record ``temperatures``
CABLE_INFO                            ``cable_length_m``, ``cable_medium``, ``module_temperature``,
                                      ``extra["cables"]``: port → {column: text}; record ``lengths``
FEC_MODE                              ``port_fec``; record ``fec``
PORT_INFO_EXTENDED                    ``port_info_ext``
NODES_INFO, GENERAL_INFO_SMP          ``node_firmware``, ``node_psid``; record ``firmware``
AR_INFO                               ``extra["adaptive_routing"]``: node → {column: number}
WARNINGS_*, ERRORS_*                  ``Source.reported``
====================================  ==========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np

from softib.fabric.columns import COUNTERS, DETAIL_COUNTERS, CableMedium
from softib.fabric.formats.base import Problems
from softib.fabric.formats.ibdiagnet import db_csv_columns as names
from softib.fabric.formats.ibdiagnet.csv_sections import Section
from softib.fabric.formats.ibdiagnet.db_csv_places import NodeFinder
from softib.fabric.model import Reported
from softib.iba.smp import PortInfoExtended

__all__ = [
    "adaptive_routing",
    "cables",
    "counters",
    "deltas",
    "fec",
    "fec_extended",
    "firmware",
    "reported",
    "temperatures",
]

_LENGTH = re.compile(r"\s*+(\d{1,6}(?:\.\d{1,6})?)\s*+(km|m|cm)\s*+\Z")
_METRES = {"km": 1000.0, "m": 1.0, "cm": 0.01}
_DEGREES = re.compile(r"\s*+(-?\d{1,3})\s*+C?\s*+\Z")
COLDEST, HOTTEST = -60, 200
"""Degrees Celsius between which a sensor's reading is one."""
_ABSENT = ("", "N/A", "NA", "N")


def _counters(places: NodeFinder, s: Section, table: Mapping[str, tuple[str, ...]], out: np.ndarray) -> int:
    """Counters of ``table`` into the structured column ``out``: of each row the largest number that its columns hold.

    A narrow counter stops at its maximum, so it is never too large; and ConnectX-7 adapters read 0 in the 64-bit
    SymbolErrorCounter while the 16-bit one has stopped at 65535. Returns how many counters were told.
    """
    rows, port = places.ports(s)
    taken = 0
    for name, columns in table.items():
        told = np.zeros(len(rows), bool)
        for column in (c for c in columns if s.has(c)):
            value, there = s.counters(column)
            use = there[rows]
            out[name][port[use]] = np.where(told, np.maximum(out[name][port], value[rows]), value[rows])[use]
            told |= use
        taken += int(told.sum())
    return taken


def counters(places: NodeFinder, s: Section) -> None:
    """PM_INFO: PortCounters, their extended forms, and the details of errors and discards."""
    if _counters(places, s, names.COUNTERS, places.f.counters):
        places.records.add("counters")
    if any(s.has(c) for columns in names.DETAIL_COUNTERS.values() for c in columns):
        detail = np.zeros(places.f.sizes.ports, DETAIL_COUNTERS)
        _counters(places, s, names.DETAIL_COUNTERS, detail)
        if detail.view(np.uint8).any():  # or pages that nobody wrote would come to life
            places.f.detail_counters[:] = detail


def deltas(places: NodeFinder, s: Section) -> None:
    """PM_DELTA: by port, how much each counter grew between the two readings of one run (dtype ``COUNTERS``)."""
    grown = np.zeros(places.f.sizes.ports, COUNTERS)
    if _counters(places, s, names.COUNTERS, grown):
        places.extra["counter_deltas"] = grown


def temperatures(places: NodeFinder, s: Section) -> None:
    """TEMP_SENSING: degrees Celsius of each device's chip."""
    if s.has("CurrentTemperature"):
        rows, node = places.nodes(s)
        _degrees(places, s, "CurrentTemperature", rows, node, places.f.node_temperature)
        places.records.add("temperatures")


def _degrees(places: NodeFinder, s: Section, name: str, rows: np.ndarray, at: np.ndarray, out: np.ndarray) -> None:
    texts = s.text(name)
    for i, place in zip(rows.tolist(), at.tolist(), strict=True):
        m = _DEGREES.match(texts[i])
        if m and COLDEST <= int(m[1]) <= HOTTEST:
            out[place] = int(m[1])
        elif texts[i].strip() not in _ABSENT:
            places.problems.add(s.lines[i], f"{s.name}: {name} is no temperature of {COLDEST} to {HOTTEST} C")


def cables(places: NodeFinder, s: Section) -> None:
    """CABLE_INFO: what the EEPROMs of cables and modules tell; a length without a unit says nothing."""
    rows, port = places.ports(s)
    f = places.f
    for column, medium in names.CABLE_LENGTHS.items():
        if not s.has(column):
            continue
        texts = s.text(column)
        for i, p in zip(rows.tolist(), port.tolist(), strict=True):
            m = _LENGTH.match(texts[i])
            if m and float(m[1]) > 0 and f.port_cable[p] >= 0:
                f.cable_length_m[f.port_cable[p]] = float(m[1]) * _METRES[m[2]]
                if medium != CableMedium.UNKNOWN:
                    f.cable_medium[f.port_cable[p]] = medium
                places.records.add("lengths")
    if s.has("Temperature"):
        _degrees(places, s, "Temperature", rows, port, f.module_temperature)
    told: dict[int, dict[str, str]] = {}
    for column in (c for c in names.CABLE_TEXTS if s.has(c)):
        texts = s.text(column)
        for i, p in zip(rows.tolist(), port.tolist(), strict=True):
            if texts[i].strip() not in _ABSENT:
                told.setdefault(p, {})[column] = texts[i].strip()
    if told:
        places.extra["cables"] = told


def fec(places: NodeFinder, s: Section) -> None:
    """FEC_MODE: the active mode, as ibdiagnet numbers it."""
    if s.has("FECActv"):
        rows, port = places.ports(s)
        value = s.column("FECActv", places.problems)[rows]
        good = (value >= 0) & (value < names.NO_FEC_TOLD)
        places.f.port_fec[port[good]] = value[good]
        if good.any():
            places.records.add("fec")


def fec_extended(places: NodeFinder, s: Section) -> None:
    """PORT_INFO_EXTENDED: the attribute itself (IBA 14.2.5.19)."""
    rows, port = places.ports(s)
    image = np.zeros((places.f.sizes.ports, PortInfoExtended.size), np.uint8)
    image[:, : places.f.port_info_ext.shape[1]] = places.f.port_info_ext
    for name, target in names.PORT_INFO_EXTENDED.items():
        if s.has(name):
            places.write(s, name, PortInfoExtended.fields[target], image, rows, port)
    if len(rows):
        places.f.port_info_ext[port] = image[port, : places.f.port_info_ext.shape[1]]


def firmware(places: NodeFinder, s: Section) -> None:
    """NODES_INFO and GENERAL_INFO_SMP: firmware version and PSID; the extended version where it is not 0.0.0."""
    rows, node = places.nodes(s)
    for version in names.FIRMWARE:
        if not s.has(*version):
            continue
        parts = np.stack([s.column(n, Problems(""))[rows] for n in version], axis=1)
        good = (parts >= 0).all(axis=1) & (parts < 1 << 32).all(axis=1) & (parts > 0).any(axis=1)
        good &= ~places.f.node_firmware[node].any(axis=1)
        places.f.node_firmware[node[good]] = parts[good]
        if good.any():
            places.records.add("firmware")
    if s.has("FWInfo_PSID"):
        texts = s.text("FWInfo_PSID")
        for i, n in zip(rows.tolist(), node.tolist(), strict=True):
            psid = texts[i].strip().encode("ascii", "ignore")
            if psid.decode() not in _ABSENT and len(psid) <= places.f.node_psid.shape[1]:
                places.f.node_psid[n, : len(psid)] = np.frombuffer(psid, np.uint8)


def adaptive_routing(places: NodeFinder, s: Section) -> None:
    """AR_INFO: what each switch can and does route adaptively, columns as ibdiagnet names them."""
    rows, node = places.nodes(s)
    if not len(rows):
        return
    columns = [n.strip() for n in s.header if n.strip().lower() != "nodeguid"]
    values = {n: s.column(n, Problems(""))[rows].tolist() for n in columns}
    places.extra["adaptive_routing"] = {
        n: {name: column[k] for name, column in values.items() if column[k] >= 0} for k, n in enumerate(node.tolist())
    }


def reported(places: NodeFinder, sections: Iterable[Section]) -> None:
    """WARNINGS_* and ERRORS_*: ibdiagnet's own complaints, in the order of the file."""
    for s in sections:
        severity, _, what = s.name.partition("_")
        if not s.has("EventName", "Summary"):
            continue
        guid, num = (
            s.column(n, Problems(""), np.uint64) if s.has(n) else np.zeros(len(s.rows), np.uint64)
            for n in ("NodeGUID", "PortNumber")
        )
        node = places.find(guid)
        scope = s.text("Scope") if s.has("Scope") else [""] * len(s.rows)
        for i, (event, summary) in enumerate(zip(s.text("EventName"), s.text("Summary"), strict=True)):
            of = int(node[i])
            at = (
                int(num[i]) if scope[i] == "PORT" and of >= 0 and int(num[i]) <= int(places.f.node_nports[of]) else None
            )
            places.f.source.reported.append(
                Reported(severity.lower().rstrip("s"), what, scope[i], of, at, event, summary, s.lines[i])
            )
