"""UFM telemetry in files: the JSON messages of its fluentd plug-in, and the CSV of its telemetry endpoint. A file has
one sample per port; two files give an interval.

The names in these tables come from samples of UFM's fluentd plug-in (``Infiniband_LinkDowned_u_Errors``) and of UFM's
telemetry CSV (``Link_Down_IB``). Times are in microseconds. ``Infiniband_MBOut_u_Gb`` is in bytes, despite its name: in
the published sample, a management datagram increases it by 288. Columns that are not in these tables are ignored.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from softib.errors import UnreadableFile
from softib.fabric.formats.base import Problem, Problems, read_lines
from softib.foreign_text import NAME, shown
from softib.input_files import head
from softib.plain_values import load_json

__all__ = ["Sample", "is_telemetry", "read_telemetry"]

_OCTETS = 4
COUNTERS: dict[str, tuple[str, int]] = {
    "Infiniband_MBOut_u_Gb": ("port_xmit_data", _OCTETS),
    "Infiniband_MBIn_u_Gb": ("port_rcv_data", _OCTETS),
    "Infiniband_PckOut_u_Packets": ("port_xmit_pkts", 1),
    "Infiniband_PckIn_u_Packets": ("port_rcv_pkts", 1),
    "Infiniband_SymbolErrors_u_Errors": ("symbol_error_counter", 1),
    "Infiniband_LinkRecovers_u_Errors": ("link_error_recovery_counter", 1),
    "Infiniband_LinkDowned_u_Errors": ("link_downed_counter", 1),
    "Infiniband_RcvErrors_u_Errors": ("port_rcv_errors", 1),
    "Infiniband_RcvRemotePhysErrors_u_Errors": ("port_rcv_remote_physical_errors", 1),
    "Infiniband_RcvSwRelayErrors_u_Errors": ("port_rcv_switch_relay_errors", 1),
    "Infiniband_XmtDiscards_u_Errors": ("port_xmit_discards", 1),
    "Infiniband_XmtConstraintErrors_u_Errors": ("port_xmit_constraint_errors", 1),
    "Infiniband_RcvConstraintErrors_u_Errors": ("port_rcv_constraint_errors", 1),
    "Infiniband_LinkIntegrityErrors_u_Errors": ("local_link_integrity_errors", 1),
    "Infiniband_ExcBufOverrunErrors_u_Errors": ("excessive_buffer_overrun_errors", 1),
    "Infiniband_VL15Dropped_u_Drops": ("vl15_dropped", 1),
    "Infiniband_XmitWait_u_Ticks": ("port_xmit_wait", 1),
    "PortXmitDataExtended": ("port_xmit_data", 1),
    "PortRcvDataExtended": ("port_rcv_data", 1),
    "PortXmitPktsExtended": ("port_xmit_pkts", 1),
    "PortRcvPktsExtended": ("port_rcv_pkts", 1),
    "Symbol_Errors": ("symbol_error_counter", 1),
    "Link_Down_IB": ("link_downed_counter", 1),
}
COUNTERS |= {f"hist{k}": (f"fec_codewords_{k}", 1) for k in range(16)}
"""UFM's name → (counter, number of UFM's units in one unit of PerfMgt). ``hist0`` … ``hist15``:
number of codewords in which RS(544,514) corrected 0 … 15 symbols (mstflint: pphcr, hist_type 1)."""
KP4_CORRECTS = 15.0
LEVELS = {
    "Total_Raw_BER": "pre_fec_ber",
    "Raw_BER": "pre_fec_ber",
    "Effective_BER": "effective_ber",
    "eff_ber": "effective_ber",
    "Symbol_BER": "symbol_ber",
    "Module_Temperature": "module_temperature_c",
    "Chip_Temp": "temperature_c",
}
"""UFM's name → level of :class:`~softib.diags.observations.Observations`."""
_GUID, _PORT, _TIME = ("node_guid", "Node_GUID", "guid"), ("port_num", "Port_Number", "Port"), ("timestamp",)
_NAME = ("node_description", "Node_Name")
_SPELLED = {
    re.sub(r"[^a-z0-9]", "", name.lower()): name for name in (*COUNTERS, *LEVELS, *_GUID, *_PORT, *_TIME, *_NAME)
}
"""Lower-case name without punctuation → column name, because tools write ``Node GUID`` or ``NodeGUID``, ``raw_ber`` or
``Raw BER``."""
_DELIMITERS = ",;\t|"
_LARGEST = 2**64 - 1


@dataclass
class Sample:
    """The sample of one port at one time (0: it states no time). ``node``: the NodeDescription ("": not stated)."""

    guid: int
    portnum: int
    time_ns: int
    node: str = ""
    counters: dict[str, int] = field(default_factory=dict)
    levels: dict[str, float] = field(default_factory=dict)


def is_telemetry(file: str) -> bool:
    """Return whether the file begins like one of the two formats."""
    try:
        start = head(file, 4096).decode("utf-8", "replace").lstrip("\ufeff \r\n")
    except UnreadableFile:
        return False
    names, _ = _header(start.split("\n", 1)[0])
    telemetry = any(n in COUNTERS or n in LEVELS for n in names)  # GUID and port columns are not enough
    as_csv = telemetry and any(n in names for n in _GUID) and any(n in names for n in _PORT)
    return as_csv or (start[:1] in ("{", "[") and '"values"' in start and '"node_guid"' in start)


def read_telemetry(file: str) -> tuple[list[Sample], list[Problem]]:
    """Return the newest sample of each port, sorted by (NodeGUID, portnum), and descriptions of unreadable data. Raises
    :class:`UnreadableFile` if the JSON or CSV has another format."""
    problems = Problems(file)
    newest: dict[tuple[int, int], Sample] = {}
    for number, row in enumerate(_rows(file, "\n".join(read_lines(Path(file), problems))), 1):
        sample = _sample(row)
        if sample is None:
            problems.add(number, "a sample without a node GUID and a port number")
        elif newest.get((sample.guid, sample.portnum), sample).time_ns <= sample.time_ns:
            newest[sample.guid, sample.portnum] = sample
    return [newest[key] for key in sorted(newest)], list(problems)


def _rows(file: str, text: str) -> Iterator[Mapping[str, Any]]:
    text = text.lstrip("\ufeff")
    if text.lstrip()[:1] not in ("{", "["):
        names, delimiter = _header(text.partition("\n")[0])
        rows = csv.reader(io.StringIO(text), delimiter=delimiter)
        next(rows, None)
        yield from (dict(zip(names, row, strict=False)) for row in rows if row)
        return
    try:
        got = load_json(text)
    except ValueError as error:
        raise UnreadableFile(f"{file}: no UFM telemetry: {error}") from None
    for message in got if isinstance(got, list) else [got]:
        values = message.get("values") if isinstance(message, dict) else None
        if not isinstance(values, list):
            raise UnreadableFile(f"{file}: no UFM telemetry: a message has no list of values")
        yield from (v if isinstance(v, dict) else {} for v in values)


def _header(line: str) -> tuple[list[str], str]:
    """Return the column names of a CSV, as this module's tables spell them, and its delimiter."""
    delimiter = max(_DELIMITERS, key=line.count)
    try:
        names = next(csv.reader([line.rstrip("\r")], delimiter=delimiter), [])
    except csv.Error:  # a binary file, or one very long line
        names = []
    return [_SPELLED.get(re.sub(r"[^a-z0-9]", "", n.lower()), n) for n in names], delimiter


def _sample(row: Mapping[str, Any]) -> Sample | None:
    guid, port, time_us = (_first(row, names) for names in (_GUID, _PORT, _TIME))
    try:
        sample = Sample(int(str(guid), 16), int(str(port)), int(float(str(time_us))) * 1000 if time_us else 0)
    except (ValueError, OverflowError):
        return None
    if not 0 < sample.guid <= _LARGEST or not 0 < sample.portnum < 255:
        return None
    sample.node = shown(str(_first(row, _NAME) or "").strip(), NAME)
    for name, (counter, unit) in COUNTERS.items():
        value = _number(row.get(name))
        if value is not None and 0 <= value <= _LARGEST:
            sample.counters[counter] = int(value) // unit
    for name, level in LEVELS.items():
        value = _number(row.get(name))
        if value is not None:
            sample.levels[level] = float(value)
    if "fec_codewords_15" in sample.counters:
        sample.levels["fec_corrects"] = KP4_CORRECTS
    return sample


def _first(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[n] for n in names if row.get(n) not in (None, "")), None)


def _number(value: Any) -> float | int | None:
    """Return a finite number; whole numbers are returned as integers."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        return int(str(value))
    except ValueError:
        pass
    try:
        real = float(str(value))
    except ValueError:
        return None
    return real if math.isfinite(real) else None
