"""Converts intervals, ports and rounds of the manager to rows of the history's Parquet files, and back."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.diags.managers.manager_health import ManagerRound
from softib.diags.observations import ObservedPorts
from softib.monitor.intervals import Interval

if TYPE_CHECKING:
    import pyarrow

__all__ = ["interval_of", "is_whole", "manager_schema", "not_in", "ports_of_table", "table_of", "table_of_ports"]

_MAGIC = b"PAR1"
LEVEL = "level_"
TEXT = "text_"


def manager_schema() -> pyarrow.Schema:
    """Return the types of the columns of ``manager/``, which are the fields of :class:`ManagerRound`."""
    import pyarrow

    kinds = {
        "int": pyarrow.int64(),
        "str": pyarrow.string(),
        "bool": pyarrow.bool_(),
        "float": pyarrow.float64(),
        "bool | None": pyarrow.bool_(),
    }
    return pyarrow.schema(
        [(f.name, pyarrow.uint64() if f.name == "guid" else kinds[str(f.type)]) for f in fields(ManagerRound)]
    )


def table_of(one: Interval, now: int) -> pyarrow.Table:
    """Return the table for an interval whose round ended at ``now`` (clock, ns); unknown values are NULL."""
    import pyarrow

    columns: dict[str, Any] = {
        "round_ns": np.full(len(one.guid), now, np.int64),
        "guid": one.guid,
        "portnum": one.portnum.astype(np.int16),
        "begin_ns": one.begin_ns,
        "end_ns": one.end_ns,
    }
    for name, values in one.increase.items():
        columns[name] = pyarrow.array(values, mask=~one.known[name])
    for name, values in one.level.items():
        columns[LEVEL + name] = pyarrow.array(values.astype(np.float32), mask=np.isnan(values))
    return pyarrow.table(columns)


def interval_of(columns: dict[str, Any], part: slice) -> Interval:
    """Return the :class:`Interval` stored in the rows ``part``. ``columns`` are those that :func:`table_of` writes."""

    def plain(name: str) -> np.ndarray:
        return np.asarray(columns[name][part.start : part.stop].to_numpy(zero_copy_only=False))

    increase, known, level = {}, {}, {}
    for name, column in columns.items():
        if name in ("round_ns", "guid", "portnum", "begin_ns", "end_ns"):
            continue
        values = column[part.start : part.stop]
        there = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), bool)
        filled = np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False))
        if name.startswith(LEVEL):
            level[name.removeprefix(LEVEL)] = np.where(there, filled.astype(np.float64), np.nan)
        else:
            increase[name], known[name] = filled.astype(np.uint64), there
    return Interval(
        plain("guid").astype(np.uint64),
        plain("portnum").astype(np.int32),
        plain("begin_ns"),
        plain("end_ns"),
        increase,
        known,
        level,
    )


def table_of_ports(ports: ObservedPorts) -> pyarrow.Table:
    """Return a table with one port per row."""
    import pyarrow

    columns: dict[str, Any] = {
        "guid": ports.node_guid,
        "portnum": ports.portnum,
        "switch": ports.switch,
        "node": list(ports.node),
        "lid": ports.lid,
        "peer": ports.peer,
        "rate_gbps": ports.rate_gbps,
    }
    columns |= {TEXT + name: list(map(str, texts.tolist())) for name, texts in ports.text.items()}
    return pyarrow.table(columns)


def ports_of_table(table: pyarrow.Table) -> ObservedPorts:
    """Return the ports in a table of :func:`table_of_ports`."""

    def column(name: str, dtype: Any) -> np.ndarray:
        return np.asarray(table.column(name).to_numpy(), dtype)

    text = {
        n.removeprefix(TEXT): np.array(table.column(n).to_pylist(), object)
        for n in table.column_names
        if n.startswith(TEXT)
    }
    return ObservedPorts(
        column("guid", np.uint64),
        column("portnum", np.int32),
        column("switch", bool),
        tuple(table.column("node").to_pylist()),
        column("lid", np.int32),
        column("peer", np.int32),
        column("rate_gbps", np.float64),
        text,
    )


def is_whole(path: Path) -> bool:
    """Return whether a file exists and begins and ends like Parquet: a file truncated by a full disk or a crash
    does not."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        begins = file.read(4) == _MAGIC
        size = file.seek(0, 2)
        file.seek(max(0, size - 4))
        return begins and size > 2 * len(_MAGIC) and file.read(4) == _MAGIC


def not_in(whole: Path, parts: list[Path]) -> list[Path]:
    """Return those of ``parts`` that the file of their hour (``whole``) does not contain: all if that file does not
    exist, otherwise the rounds of a poller whose clock was set back into that hour."""
    import pyarrow.parquet as parquet

    if not is_whole(whole):
        return parts
    joined = set(parquet.read_table(whole, columns=["round_ns"]).column(0).unique().to_pylist())
    return [p for p in parts if int(p.stem) not in joined]
