"""Readings of ports from ibdiagnet's .db_csv: PM_INFO, ticks, FEC results, raw bit error ratios, and the time
stated in the file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import numpy as np

from softib.fabric.formats.base import Problems, read_lines
from softib.fabric.formats.ibdiagnet import db_csv_columns as names
from softib.fabric.formats.ibdiagnet.csv_sections import Section, read_sections
from softib.iba import perf, perf_optional
from softib.iba.perf_optional import PortExtendedSpeedsCounters
from softib.monitor.reading import BELOW_ZERO, Reading

__all__ = ["put_counter", "read_db_csv"]

PHY_BER, RAW_BER = "PHY_DB16", ("field12", "field13")
"""Section of ``--get_phy_info``. Its unnamed columns 12 to 17 are the mantissas and exponents of the raw, effective and
symbol bit error ratios, according to public readers of such files."""
_DATE = re.compile(r"(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}:\d{2})")
NARROW = {
    name: f.mask
    for struct in (
        perf_optional.PortRcvErrorDetails,
        perf_optional.PortXmitDiscardDetails,
        perf.PortCounters,
        PortExtendedSpeedsCounters,
    )
    for name, f in struct.fields.items()
    if 8 <= f.bits <= 32 or name.endswith(("integrity_errors", "overrun_errors"))
}
"""Counters with a narrow and a wide field → the largest value of the narrow field. A file shows the larger of the two
fields' values, so a counter with this value may be saturated."""


def put_counter(reading: Reading, name: str, rows: np.ndarray, values: np.ndarray) -> None:
    """Store the ``values`` that a file shows for counter ``name`` of the ports ``rows``."""
    reading.put(name, rows, values, 2**64 - 1)
    if name in NARROW:
        reading.stuck[name][rows] = values == np.uint64(NARROW[name])
    reading.answered[rows] = True


def read_db_csv(file: str, reading: Reading) -> int | None:
    """Read PM_INFO (and the ticks of PM_PORT_SAMPLES_CONTROL) into ``reading``; return the time in RUN_INFO."""
    wanted = ("PM_INFO", "PM_PORT_SAMPLES_CONTROL", "RUN_INFO", PHY_BER)
    quiet = Problems("")
    sections = read_sections(read_lines(Path(file), quiet), lambda name: name in wanted, quiet).wanted
    pm = sections.get("PM_INFO")
    if pm is not None and pm.has("NodeGUID", "PortNumber"):
        at, rows = _rows_in(pm, reading)
        for name, columns in {**names.COUNTERS, **names.DETAIL_COUNTERS}.items():
            best, there = _most(pm, columns, at)
            put_counter(reading, name, rows[there], best[there])
        _extended_speeds(pm, reading, at, rows)
    ticks = sections.get("PM_PORT_SAMPLES_CONTROL")
    if ticks is not None and ticks.has("NodeGUID", "PortNumber", "Tick"):
        at, rows = _rows_in(ticks, reading)
        level = np.full(len(reading), np.nan)
        level[rows] = ticks.column("Tick", quiet)[at] + 1.0
        reading.level["tick_symbols"] = level
    if PHY_BER in sections:
        _raw_ber(sections[PHY_BER], reading)
    run = sections.get("RUN_INFO")
    if run is None or not run.has("Date") or not run.rows:
        return None
    m = _DATE.search(run.text("Date")[0])
    try:
        return None if m is None else int(datetime.fromisoformat(f"{m[1]}T{m[2]}+00:00").timestamp()) * 10**9
    except ValueError:  # an impossible date, for example 31 April
        return None


def _raw_ber(s: Section, reading: Reading) -> None:
    """Read the bit error ratio before FEC: mantissa and exponent, as in register PPCNT."""
    mantissa, exponent = RAW_BER
    if not s.has("NodeGuid", "PortNum", mantissa, exponent):
        return
    quiet = Problems("")
    at, rows = _rows_in(s, reading, "NodeGuid", "PortNum")
    m, e = s.column(mantissa, quiet)[at], s.column(exponent, quiet)[at]
    good = (m >= 0) & (e >= 0) & (e < 256)
    ratio = np.where(good, m * 10.0 ** -np.where(good, e, 0).astype(np.float64), np.nan)
    level = np.full(len(reading), np.nan)
    level[rows] = np.where(ratio <= 1.0, ratio, np.nan)
    reading.level["pre_fec_ber"] = level


def _rows_in(
    s: Section, reading: Reading, guid_column: str = "NodeGUID", port_column: str = "PortNumber"
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the section whose ports are in ``reading``, and the rows of these ports in ``reading``."""
    quiet = Problems("")
    guid, number = s.column(guid_column, quiet, np.uint64), s.column(port_column, quiet)
    row = {(g, p): i for i, (g, p) in enumerate(zip(reading.guid.tolist(), reading.portnum.tolist(), strict=True))}
    place = np.array([row.get(key, -1) for key in zip(guid.tolist(), number.tolist(), strict=True)], np.int64)
    at = np.flatnonzero(place >= 0)
    return at, place[at]


def _extended_speeds(pm: Section, reading: Reading, at: np.ndarray, rows: np.ndarray) -> None:
    """Read the additions of ``ibdiagnet --extended_speeds all`` to PM_INFO: errors by lane,
    corrected and uncorrectable FEC errors (PortExtendedSpeedsCounters)."""
    for name, columns in names.EXTENDED_SPEEDS.items():
        values, there = _most(pm, columns, at)
        if there.any():
            put_counter(reading, name, rows[there], values[there])
    for name, stems in names.EXTENDED_SPEEDS_LANES.items():
        field = PortExtendedSpeedsCounters.fields[name]
        lanes = [_most(pm, [f.format(s, k) for s in stems for f in ("{}[{}]", "{}{}")], at) for k in range(field.count)]
        values, there = (np.stack([one[i] for one in lanes], axis=1) for i in (0, 1))
        there &= values <= np.uint64(field.mask)
        values = np.where(there, values, 0).astype(np.uint64)
        some = there.any(axis=1)
        if not some.any():
            continue
        reading.put(name, rows[some], values[some].sum(axis=1, dtype=np.uint64), 2**64 - 1)
        reading.stuck[name][rows[some]] = (values[some] >= np.uint64(field.mask)).any(axis=1)
        if name == "fec_correctable_block_ctr":
            reading.lanes = np.zeros((len(reading), field.count), np.uint64)
            reading.lanes[rows[some]] = values[some]


def _most(pm: Section, columns: Iterable[str], at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each of the section's rows ``at``, the largest value in those of ``columns`` that exist, and whether
    any of them has a value."""
    best, there = np.zeros(len(at), np.uint64), np.zeros(len(at), bool)
    for column in (c for c in columns if pm.has(c)):
        values, present = pm.counters(column)
        present = (present & (values < BELOW_ZERO))[at]
        best = np.where(present, np.maximum(best, values[at]), best)
        there |= present
    return best, there
