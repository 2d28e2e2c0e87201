"""Sections of a .db_csv with the health of the fabric: counters, temperatures, FEC, firmware,
cables, and ibdiagnet's own findings.

====================================  ==========================================================================
section                               place
====================================  ==========================================================================
PM_INFO                               ``counters``, ``detail_counters``; record ``counters``
PM_DELTA                              ``extra["counter_deltas"]``: increase between the two readings of the run
TEMP_SENSING                          ``node_temperature``; record ``temperatures``
CABLE_INFO                            ``cable_length_m``, ``cable_medium``, ``module_temperature``,
                                      ``extra["cables"]``: port → {column: text}; record
                                      ``lengths``; ``module_info`` (:mod:`.db_csv_modules`); record
                                      ``modules``
FEC_MODE                              ``port_fec``; record ``fec``
PORT_INFO_EXTENDED                    ``port_info_ext``
NODES_INFO, GENERAL_INFO_SMP          ``node_firmware``, ``node_psid``; record ``firmware``
AR_INFO                               ``extra["adaptive_routing"]``: node → {column: number}
WARNINGS_*, ERRORS_*                  ``Source.reported``
====================================  ==========================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from softib.fabric.columns import CableMedium
from softib.fabric.counters import COUNTERS, DETAIL_COUNTERS
from softib.fabric.formats.base import Problems
from softib.fabric.formats.ibdiagnet import db_csv_columns as names
from softib.fabric.formats.ibdiagnet.csv_sections import Section, SectionWriter
from softib.fabric.model import Reported
from softib.iba.smp import PortInfoExtended
from softib.iba.vendor import mlnx as r
from softib.iba.vendor.mlnx import ModuleInfo

__all__ = [
    "adaptive_routing",
    "cables",
    "counters",
    "deltas",
    "fec",
    "fec_extended",
    "firmware",
    "modules",
    "reported",
    "temperatures",
]


_NUMBER = re.compile(r"\s*+\"?(-?(?:0x[0-9a-fA-F]{1,8}|\d{1,6}(?:\.\d{1,6})?))\s*+(dBm|mW|uW|mA|uA|mV|V|C)?\b")
_DBM = re.compile(r"(-?\d{1,4}(?:\.\d{1,6})?)\s*+dBm")
_NO_READING = ("", "N/A", "NA", "N", "None")
M = ModuleInfo


def _number(text: str) -> tuple[float, str]:
    m = _NUMBER.match(text)
    if not m:
        raise ValueError
    return float(int(m[1], 16)) if "x" in m[1] else float(m[1]), m[2] or ""


def _microwatts(text: str) -> float:
    both = _DBM.search(text)
    if both:
        return float(min(1e3 * 10 ** (float(both[1]) / 10), 0xFFFF))
    value, unit = _number(text)
    if unit == "mW" or (not unit and "." in text):
        return value * 1e3
    if unit == "uW":
        return value
    if unit:
        raise ValueError
    return value / 10.0


def _bias(text: str) -> float:
    value, unit = _number(text)
    return {"mA": 500.0, "": 500.0, "uA": 0.5}[unit] * value


def _voltage(text: str) -> float:
    value, unit = _number(text)
    return {"mV": 10.0, "V": 1e4, "": 10.0 if value >= 100 else 1e4}[unit] * value


def _celsius(text: str) -> float:
    value, unit = _number(text)
    if unit not in ("", "C") or not -128 <= value < 128:
        raise ValueError
    return value * 256.0


_ONE: tuple[tuple[str, str, Callable[[str], float], int], ...] = (
    ("Temperature", "temperature", _celsius, r.MEASURES_TEMPERATURE),
    ("SupplyVoltageReporting", "voltage", _voltage, r.MEASURES_VOLTAGE),
    ("AlarmTemperatureHighThresh", "temperature_high_th", _celsius, 0),
    ("AlarmTemperatureLowThresh", "temperature_low_th", _celsius, 0),
    ("AlarmVoltageHighThresh", "voltage_high_th", _voltage, 0),
    ("AlarmVoltageLowThresh", "voltage_low_th", _voltage, 0),
    ("RXPowerHighThresh", "rx_power_high_th", _microwatts, 0),
    ("RXPowerLowThresh", "rx_power_low_th", _microwatts, 0),
    ("TXPowerHighThresh", "tx_power_high_th", _microwatts, 0),
    ("TXPowerLowThresh", "tx_power_low_th", _microwatts, 0),
    ("TXBiasHighThresh", "tx_bias_high_th", _bias, 0),
    ("TXBiasLowThresh", "tx_bias_low_th", _bias, 0),
)
_LANES: tuple[tuple[str, str, Callable[[str], float], int], ...] = (
    ("RX{}Power", "rx_power", _microwatts, r.MEASURES_RX_POWER),
    ("TX{}Power", "tx_power", _microwatts, r.MEASURES_TX_POWER),
    ("TX{}Bias", "tx_bias", _bias, r.MEASURES_TX_BIAS),
)


def modules(writer: SectionWriter, s: Section, rows: np.ndarray, port: np.ndarray) -> None:
    """Fill ``module_info`` of the ports ``port`` from the rows ``rows``."""
    image = writer.f.module_info[port]
    able = M.monitor_cap_mask.get(image).astype(np.int64)
    for column, field, read, bit in _ONE:
        if s.has(column):
            values, there = _values(writer, s, column, rows, read)
            before = getattr(M, field).get(image).astype(np.int64)
            getattr(M, field).set(image, np.where(there, values & 0xFFFF, before))
            able |= np.where(there, bit, 0)
    for pattern, field, read, bit in _LANES:
        lanes = getattr(M, field).get(image).astype(np.int64)
        for k in range(r.MODULE_LANES):
            if s.has(pattern.format(k + 1)):
                values, there = _values(writer, s, pattern.format(k + 1), rows, read)
                lanes[:, k] = np.where(there, values, lanes[:, k])
                able |= np.where(there, bit, 0)
        getattr(M, field).set(image, lanes)
    # A passive cable reports zeros: it has no sensors.
    light = (
        (M.rx_power.get(image).any(axis=1)) | (M.tx_power.get(image).any(axis=1)) | (M.tx_bias.get(image).any(axis=1))
    )
    optical = r.MEASURES_RX_POWER | r.MEASURES_TX_POWER | r.MEASURES_TX_BIAS
    able = np.where(light, able, able & ~optical)
    M.monitor_cap_mask.set(image, able)
    if able.any():
        writer.f.module_info[port] = image
        writer.records.add("modules")


def _values(
    writer: SectionWriter, s: Section, name: str, rows: np.ndarray, read: Callable[[str], float]
) -> tuple[np.ndarray, np.ndarray]:
    """Return a column in the unit of the module's register (int64), and a mask of the rows that
    have a value."""
    texts = s.text(name)
    values, there = np.zeros(len(rows), np.int64), np.zeros(len(rows), bool)
    for i, row in enumerate(rows.tolist()):
        text = texts[row].strip().strip('"')
        if text in _NO_READING:
            continue
        try:
            value = round(read(text))
            if not (-0x8000 <= value < 0x8000 if read is _celsius else 0 <= value <= 0xFFFF):
                raise ValueError
            values[i], there[i] = value, True
        except (ValueError, KeyError):
            if name != "Temperature":  # an invalid temperature is already reported
                writer.problems.add(
                    s.lines[row],
                    (f"{s.name}: {name} is not a module reading; expected for example -1.2 dBm, 6.5 mA, 3.3 V, 45C"),
                )
    return values, there


_LENGTH = re.compile(r"\s*+(\d{1,6}(?:\.\d{1,6})?)\s*+(km|m|cm)\s*+\Z")
_METRES = {"km": 1000.0, "m": 1.0, "cm": 0.01}
_DEGREES = re.compile(r"\s*+(-?\d{1,3})\s*+C?\s*+\Z")
COLDEST, HOTTEST = -60, 200
"""Range of plausible sensor readings in degrees Celsius."""
_ABSENT = ("", "N/A", "NA", "N")


def _counters(writer: SectionWriter, s: Section, table: Mapping[str, tuple[str, ...]], out: np.ndarray) -> int:
    """Write the counters of ``table`` into the structured column ``out``. If several columns hold a
    counter, the largest value is used: a narrow counter stops at its maximum, so it is never too
    large, but the 64-bit SymbolErrorCounter of ConnectX-7 adapters reports 0 when the 16-bit one
    has stopped at 65535. Returns the number of counters in the section.
    """
    rows, port = writer.ports(s)
    taken = 0
    for name, columns in table.items():
        counted = np.zeros(len(rows), bool)
        for column in (c for c in columns if s.has(c)):
            value, there = s.counters(column)
            use = there[rows]
            out[name][port[use]] = np.where(counted, np.maximum(out[name][port], value[rows]), value[rows])[use]
            counted |= use
        taken += int(counted.sum())
    return taken


def counters(writer: SectionWriter, s: Section) -> None:
    """Read PM_INFO: PortCounters, PortCountersExtended, and the details of errors and discards."""
    if _counters(writer, s, names.COUNTERS, writer.f.counters):
        writer.records.add("counters")
    if any(s.has(c) for columns in names.DETAIL_COUNTERS.values() for c in columns):
        detail = np.zeros(writer.f.sizes.ports, DETAIL_COUNTERS)
        _counters(writer, s, names.DETAIL_COUNTERS, detail)
        if detail.view(np.uint8).any():  # a write of zeros would also allocate the pages
            writer.f.detail_counters[:] = detail


def deltas(writer: SectionWriter, s: Section) -> None:
    """Read PM_DELTA: for each port, the increase of each counter between the two readings of one
    run (dtype ``COUNTERS``)."""
    grown = np.zeros(writer.f.sizes.ports, COUNTERS)
    if _counters(writer, s, names.COUNTERS, grown):
        writer.extra["counter_deltas"] = grown


def temperatures(writer: SectionWriter, s: Section) -> None:
    """Read TEMP_SENSING: the chip temperature of each device in degrees Celsius."""
    if s.has("CurrentTemperature"):
        rows, node = writer.nodes(s)
        _degrees(writer, s, "CurrentTemperature", rows, node, writer.f.node_temperature)
        writer.records.add("temperatures")


def _degrees(writer: SectionWriter, s: Section, name: str, rows: np.ndarray, at: np.ndarray, out: np.ndarray) -> None:
    texts = s.text(name)
    for i, place in zip(rows.tolist(), at.tolist(), strict=True):
        m = _DEGREES.match(texts[i])
        if m and COLDEST <= int(m[1]) <= HOTTEST:
            out[place] = int(m[1])
        elif texts[i].strip() not in _ABSENT:
            writer.problems.add(s.lines[i], f"{s.name}: {name} is not a temperature from {COLDEST} to {HOTTEST} C")


def cables(writer: SectionWriter, s: Section) -> None:
    """Read CABLE_INFO: the EEPROM contents of cables and modules. A length without a unit is
    ignored."""
    rows, port = writer.ports(s)
    f = writer.f
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
                writer.records.add("lengths")
    if s.has("Temperature"):
        _degrees(writer, s, "Temperature", rows, port, f.module_temperature)
    modules(writer, s, rows, port)
    texts_of: dict[int, dict[str, str]] = {}
    for column in (c for c in names.CABLE_TEXTS if s.has(c)):
        texts = s.text(column)
        for i, p in zip(rows.tolist(), port.tolist(), strict=True):
            if texts[i].strip() not in _ABSENT:
                texts_of.setdefault(p, {})[column] = texts[i].strip()
    if texts_of:
        writer.extra["cables"] = texts_of


def fec(writer: SectionWriter, s: Section) -> None:
    """Read FEC_MODE: the number that ibdiagnet gives the active mode."""
    if s.has("FECActv"):
        rows, port = writer.ports(s)
        value = s.column("FECActv", writer.problems)[rows]
        good = (value >= 0) & (value < names.NO_FEC)
        writer.f.port_fec[port[good]] = value[good]
        if good.any():
            writer.records.add("fec")


def fec_extended(writer: SectionWriter, s: Section) -> None:
    """Read PORT_INFO_EXTENDED: PortInfoExtended itself (IBA 14.2.5.19)."""
    rows, port = writer.ports(s)
    image = np.zeros((writer.f.sizes.ports, PortInfoExtended.size), np.uint8)
    image[:, : writer.f.port_info_ext.shape[1]] = writer.f.port_info_ext
    for name, target in names.PORT_INFO_EXTENDED.items():
        if s.has(name):
            writer.write(s, name, PortInfoExtended.fields[target], image, rows, port)
    if len(rows):
        writer.f.port_info_ext[port] = image[port, : writer.f.port_info_ext.shape[1]]


def firmware(writer: SectionWriter, s: Section) -> None:
    """Read NODES_INFO and GENERAL_INFO_SMP: PSID and firmware version. The extended version is used
    unless it is 0.0.0."""
    rows, node = writer.nodes(s)
    for version in names.FIRMWARE:
        if not s.has(*version):
            continue
        parts = np.stack([s.column(n, Problems(""))[rows] for n in version], axis=1)
        good = (parts >= 0).all(axis=1) & (parts < 1 << 32).all(axis=1) & (parts > 0).any(axis=1)
        good &= ~writer.f.node_firmware[node].any(axis=1)
        writer.f.node_firmware[node[good]] = parts[good]
        if good.any():
            writer.records.add("firmware")
    if s.has("FWInfo_PSID"):
        texts = s.text("FWInfo_PSID")
        for i, n in zip(rows.tolist(), node.tolist(), strict=True):
            psid = texts[i].strip().encode("ascii", "ignore")
            if psid.decode() not in _ABSENT and len(psid) <= writer.f.node_psid.shape[1]:
                writer.f.node_psid[n, : len(psid)] = np.frombuffer(psid, np.uint8)


def adaptive_routing(writer: SectionWriter, s: Section) -> None:
    """Read AR_INFO: the capabilities and the state of adaptive routing on each switch. Column names
    are ibdiagnet's."""
    rows, node = writer.nodes(s)
    if not len(rows):
        return
    columns = [n.strip() for n in s.header if n.strip().lower() != "nodeguid"]
    values = {n: s.column(n, Problems(""))[rows].tolist() for n in columns}
    writer.extra["adaptive_routing"] = {
        n: {name: column[k] for name, column in values.items() if column[k] >= 0} for k, n in enumerate(node.tolist())
    }


def reported(writer: SectionWriter, sections: Iterable[Section]) -> None:
    """Read WARNINGS_* and ERRORS_*: ibdiagnet's own findings, in file order."""
    for s in sections:
        severity, _, complaint = s.name.partition("_")
        if not s.has("EventName", "Summary"):
            continue
        guid, num = (
            s.column(n, Problems(""), np.uint64) if s.has(n) else np.zeros(len(s.rows), np.uint64)
            for n in ("NodeGUID", "PortNumber")
        )
        node = writer.find(guid)
        scope = s.text("Scope") if s.has("Scope") else [""] * len(s.rows)
        for i, (event, summary) in enumerate(zip(s.text("EventName"), s.text("Summary"), strict=True)):
            of = int(node[i])
            at = (
                int(num[i]) if scope[i] == "PORT" and of >= 0 and int(num[i]) <= int(writer.f.node_nports[of]) else None
            )
            writer.f.source.reported.append(
                Reported(severity.lower().rstrip("s"), complaint, scope[i], of, at, event, summary, s.lines[i])
            )
