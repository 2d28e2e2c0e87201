"""Traffic from Python objects: mappings, rows, DataFrames and arrays, as a traffic matrix."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.plural import counted
from softib.workloads.traffic_matrix import Flows, HostRows, TrafficMatrix
from softib.workloads.units import size_of

__all__ = ["NAME", "TrafficData", "traffic_data"]

NAME = "traffic"
"""Name of the traffic in error messages and results."""
FORMS = (
    "traffic is {(source, destination): bytes}, {source: {destination: bytes}}, rows of (source, "
    "destination, bytes), a DataFrame with columns source, destination, bytes, or a "
    "square array over all hosts"
)
SOURCE, DESTINATION, SIZE = ("source", "src", "from"), ("destination", "dst", "dest", "to"), ("bytes", "size")
"""Accepted names of each column; the first name that a table has is used."""
Entry = tuple[str, Any, Any, float]


@dataclass(frozen=True)
class TrafficData:
    """Either ``entries``: (location for error messages, source, destination, bytes), where hosts are names or rows; or
    ``square``: the bytes from each host to each other host."""

    entries: tuple[Entry, ...] = ()
    square: np.ndarray | None = None

    def matrix(self, names: Sequence[str], without_lid: Collection[str] = ()) -> TrafficMatrix:
        """Return the matrix over the hosts ``names``. Raises :class:`InputError` for an unknown name, and if the size
        of the array is not the number of hosts."""
        flows, hosts = Flows(), HostRows(names, without_lid)
        if self.square is not None:
            n = len(self.square)
            if n != len(names):
                raise InputError(
                    f"{NAME}: the array is {n:,} by {n:,}, but the fabric has {counted(len(names), 'host port')}; use "
                    f"a row and a column for each host port, or rows of (source, destination, bytes) with host names"
                )
            for s, d in np.argwhere(self.square > 0).tolist():
                flows.add([s], [d], float(self.square[s, d]))
        for place, source, destination, size in self.entries:
            flows.add(_host(hosts, source, place), _host(hosts, destination, place), size)
        return flows.matrix("your program")

    @property
    def digest(self) -> str:
        """Return a digest, which is equal for equal traffic."""
        parts = repr(self.entries).encode(), b"" if self.square is None else self.square.tobytes()
        return hashlib.sha256(b"".join(parts)).hexdigest()[:32]


def traffic_data(given: Any) -> TrafficData:
    """Return the traffic in one of :data:`FORMS`. Raises :class:`InputError`, one line with the
    location, for other data."""
    if isinstance(given, TrafficData):
        return given
    if hasattr(given, "columns") and not isinstance(given, Mapping):
        return _frame(given)
    if isinstance(given, Mapping):
        if _named(given, SOURCE) and _named(given, DESTINATION) and _named(given, SIZE):
            return _columns({str(k): list(v) for k, v in given.items() if isinstance(v, Iterable)})
        return _data(_mapping(given))
    rows = list(given) if isinstance(given, Iterable) and not isinstance(given, np.ndarray | str | bytes) else None
    if rows and all(isinstance(row, Mapping) for row in rows):
        names = list(rows[0])
        if all(list(row) == names for row in rows):
            return _columns({str(name): [row[name] for row in rows] for name in names})
    if rows and all(_is_row(row) for row in rows):
        return _data((f"{NAME}[{k}]", *row) for k, row in enumerate(rows))
    return _square(given)


def _is_row(row: Any) -> bool:
    """Return whether ``row`` is a flow (a tuple, or three values of which the first is a name), not a row of a square
    array."""
    return isinstance(row, tuple) or (isinstance(row, list) and len(row) == 3 and isinstance(row[0], str))


def _mapping(given: Mapping[Any, Any]) -> Iterator[tuple[Any, ...]]:
    for key, value in given.items():
        if isinstance(value, Mapping):
            for to, size in value.items():
                yield f"{NAME}[{key!r}][{to!r}]", key, to, size
        elif isinstance(key, tuple) and len(key) == 2:
            yield f"{NAME}[{key!r}]", *key, value
        else:
            raise InputError(f"{NAME}[{key!r}] is not a flow; {FORMS}")


def _frame(given: Any) -> TrafficData:
    """Read a DataFrame of pandas, polars or softib. It has a row for each flow, or a row for each source and a column
    for each destination."""
    names = list(given.columns)
    column = lambda name: _list(given[name])
    if _named(names, SOURCE) and _named(names, DESTINATION):
        return _columns({str(name): column(name) for name in names})
    sources = list(given.index) if hasattr(given, "index") else None
    if names and (sources is None or not any(isinstance(s, str) for s in sources)):
        first = column(names[0])
        if first and all(isinstance(v, str) for v in first):
            sources, names = first, names[1:]
    sizes = [next((v for v in column(to) if not _empty(v)), 0) for to in names]
    if not sources or not names or not all(map(_is_size, sizes)):
        raise InputError(f"{NAME}: columns {', '.join(map(str, given.columns)) or 'of no name'}; {FORMS}")
    return _data(
        (f"{NAME}[{source!r}][{to!r}]", source, to, size)
        for to in names
        for source, size in zip(sources, column(to), strict=True)
        if not _empty(size)
    )


def _list(column: Any) -> list[Any]:
    """Return the values of a column of any library."""
    for method in ("to_list", "tolist", "to_pylist"):
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def _columns(columns: Mapping[str, list[Any]]) -> TrafficData:
    keys = [_named(columns, names) for names in (SOURCE, DESTINATION, SIZE)]
    if None in keys:
        raise InputError(f"{NAME}: columns {', '.join(columns)}; {FORMS}")
    values = [columns[str(name)] for name in keys]
    if len({len(v) for v in values}) > 1:
        raise InputError(
            f"{NAME}: columns of {', '.join(str(len(v)) for v in values)} values; use columns of one length"
        )
    return _data((f"{NAME}, row {k}", *row) for k, row in enumerate(zip(*values, strict=True)))


def _named(names: Iterable[Any], wanted: Sequence[str]) -> str | None:
    there = {str(n) for n in names}
    return next((w for w in wanted if w in there), None)


def _empty(size: Any) -> bool:
    return size is None or size == "" or (isinstance(size, float) and math.isnan(size))


def _data(entries: Iterable[tuple[Any, ...]]) -> TrafficData:
    entries_read: list[Entry] = []
    for place, *row in entries:
        if len(row) != 3:
            raise InputError(f"{place}: {len(row)} values; use source, destination and bytes")
        source, destination, size = row
        entries_read.append((place, _name(source, place), _name(destination, place), _bytes(size, place)))
    if not entries_read:
        raise InputError(f"{NAME}: no flow; {FORMS}")
    return TrafficData(tuple(entries_read))


def _is_size(value: Any) -> bool:
    try:
        _bytes(value, NAME)
    except InputError:
        return False
    return True


def _name(value: Any, place: str) -> str | int:
    if isinstance(value, str):
        return value
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise InputError(f"{place}: {value!r} is not a host; use its name, or its row in the order of names")


def _bytes(value: Any, place: str) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    try:
        size = float(value) if number else size_of(value) if isinstance(value, str) else math.nan
    except (ValueError, OverflowError):
        size = math.nan
    if not math.isfinite(size) or size < 0:
        raise InputError(f"{place}: {value!r} is not a number of bytes; use 1048576, 1e6, '5MB' or '1GiB'")
    return size


def _host(hosts: HostRows, host: str | int, place: str) -> list[int]:
    if isinstance(host, str):
        return hosts.rows(host, place)
    if not 0 <= host < len(hosts.names):
        raise InputError(
            f"{place}: no host {host}; the fabric has {counted(len(hosts.names), 'host port')}, 0 to "
            f"{len(hosts.names) - 1}"
        )
    return [host]


def _square(given: Any) -> TrafficData:
    try:
        values = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{NAME}: {type(given).__name__} is not traffic; {FORMS}") from None
    if values.ndim == 0:
        raise InputError(f"{NAME}: {type(given).__name__} is not traffic; {FORMS}")
    if values.ndim != 2 or values.shape[0] != values.shape[1] or not len(values):
        raise InputError(f"{NAME}: {type(given).__name__} of shape {values.shape}; {FORMS}")
    wrong = np.argwhere(~np.isfinite(values) | (values < 0))
    if len(wrong):
        s, d = wrong[0].tolist()
        raise InputError(f"{NAME}[{s}, {d}]: {values[s, d]:g} is not a number of bytes")
    return TrafficData(square=np.array(values))
