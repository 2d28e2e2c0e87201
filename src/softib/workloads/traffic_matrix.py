"""A traffic matrix from a file: the bytes from each host to each other host. ``docs/prediction.md`` describes the two
forms of the file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softib.errors import InputError, nearest
from softib.input_files import FILE_LIMIT, read_text
from softib.plural import counted
from softib.workloads.units import size_of

__all__ = ["Flows", "HostRows", "TrafficFile", "TrafficMatrix", "read_traffic"]


@dataclass(frozen=True)
class TrafficMatrix:
    """``demand``: columns (source, destination, bytes) by row of the hosts, for
    :func:`softib.sim.static.matrix_loads`. ``entries``: the number of nonzero entries of the file,
    ``total``: the bytes of all flows between different hosts."""

    path: str
    demand: tuple[np.ndarray, np.ndarray, np.ndarray]
    entries: int
    total: float


Rows = list[tuple[int, list[str]]]


@dataclass(frozen=True)
class TrafficFile:
    """The file ``path``, read once: (line, cells) of each row."""

    path: str
    rows: Rows

    def matrix(self, names: Sequence[str], without_lid: Collection[str] = ()) -> TrafficMatrix:
        """Return the matrix over the hosts ``names``. Raises the errors of :func:`matrix_of`."""
        return matrix_of(self.path, self.rows, names, without_lid)


def read_traffic(path: str | Path) -> TrafficFile:
    """Read the traffic matrix in the file ``path``. Raises :class:`InputError` if it cannot be read,
    or has no row."""
    return TrafficFile(str(path), read_rows(path))


def matrix_of(path: str | Path, rows: Rows, names: Sequence[str], without_lid: Collection[str] = ()) -> TrafficMatrix:
    """Return the matrix in ``rows`` (from :func:`read_rows`) over the hosts ``names``. Raises
    :class:`InputError` in one line with file and line for an unknown host, a bad size, and a row
    with too many or too few cells. No row is skipped silently."""
    hosts = HostRows(names, without_lid)
    cells = rows[0][1]
    if not hosts.known(cells[0]) and (len(cells) > 3 or not cells[0].strip() or all(map(hosts.known, cells[1:]))):
        return _dense(path, rows, hosts)
    if len(cells) == 3 and not hosts.known(cells[0]) and not _is_size(cells[2]):
        rows = rows[1:]  # the first row has the names of the columns
    return _listed(path, rows, hosts)


def read_rows(path: str | Path) -> Rows:
    """Return (line, cells) of each row, without empty lines and those that begin with #;
    gzip is
    unpacked.
    Raises :class:`InputError` if the file cannot be read, or has no row.
    """
    path = Path(path)
    lines = read_text(path, "traffic matrix", FILE_LIMIT).splitlines()
    head = next((one for one in lines if one.strip() and not one.startswith("#")), "")
    comma = max(",;\t", key=head.count)
    rows: Rows = []
    for number, one in enumerate(lines, 1):
        if not one.strip() or one.lstrip().startswith("#"):
            continue
        try:
            rows.append((number, next(csv.reader([one], delimiter=comma))))
        except (csv.Error, StopIteration):
            raise InputError(
                f"{path}:{number}: {len(one):,} characters are not a row of CSV; use source,destination,bytes"
            ) from None
    if not rows:
        raise InputError(f"{path}: contains no row; use source,destination,bytes in each line")
    return rows


def _is_size(text: str) -> bool:
    try:
        size_of(text)
    except ValueError:
        return False
    return True


class HostRows:
    """Rows of hosts by name: the name of an adapter, or of a host with all its adapters. ``without_lid``: names of
    adapters and hosts of the fabric that have no LID."""

    def __init__(self, names: Sequence[str], without_lid: Collection[str] = ()):
        self.names, self.without_lid = names, without_lid
        self.by_name: dict[str, list[int]] = {}
        self.by_host: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            self.by_name.setdefault(name, []).append(row)
            self.by_host.setdefault(re.split(r"[ /:]", name, maxsplit=1)[0], []).append(row)

    def known(self, name: str) -> bool:
        """Return whether this is the name of a host or adapter."""
        return name.strip() in self.by_name or name.strip() in self.by_host

    def rows(self, name: str, place: str) -> list[int]:
        """Return the rows of the host or adapter ``name``. Raises :class:`InputError` with ``place`` (file and line of
        the name) and similar names if it is unknown."""
        name = name.strip()
        rows_of_name = self.by_name.get(name) or self.by_host.get(name)
        if rows_of_name:
            return rows_of_name
        if name in self.without_lid:
            raise InputError(f"{place}: host {name!r} has no LID, so no packet reaches it")
        similar = nearest(name, self.names) or nearest(name, self.by_host)
        hint = (
            f"did you mean {', '.join(similar)}?" if similar else f"hosts are for example {', '.join(self.names[:3])}"
        )
        raise InputError(f"{place}: no host {name!r}; {hint}")


def _bytes(path: object, line: int, text: str) -> float:
    try:
        return size_of(text)
    except ValueError:
        raise InputError(
            f"{path}:{line}: {text.strip()!r} is not a number of bytes; use for example 1048576, 1e6, 5MB or 1GiB"
        ) from None


def _listed(path: object, rows: Rows, hosts: HostRows) -> TrafficMatrix:
    """Read rows of ``source,destination,bytes``."""
    flows = Flows()
    for line, cells in rows:
        if len(cells) != 3:
            raise InputError(f"{path}:{line}: {counted(len(cells), 'cell')}; use source,destination,bytes")
        flows.add(
            hosts.rows(cells[0], f"{path}:{line}"), hosts.rows(cells[1], f"{path}:{line}"), _bytes(path, line, cells[2])
        )
    return flows.matrix(str(path))


def _dense(path: object, rows: Rows, hosts: HostRows) -> TrafficMatrix:
    """Return the matrix of a table with the destinations in the first row, the sources in the first column, and the
    bytes in the other cells. An empty cell means that there is no flow."""
    line, first = rows[0]
    if len(rows) < 2:
        raise InputError(
            f"{path}:{line}: a row of names without bytes; use source,destination,bytes, or a row for each source"
        )
    columns = [hosts.rows(name, f"{path}:{line}") for name in first[1:]]
    flows = Flows()
    for line, cells in rows[1:]:
        if len(cells) != len(first):
            raise InputError(f"{path}:{line}: {counted(len(cells), 'cell')}; the first row has {len(first)}")
        source = hosts.rows(cells[0], f"{path}:{line}")
        for to, text in zip(columns, cells[1:], strict=True):
            if text.strip():
                flows.add(source, to, _bytes(path, line, text))
    return flows.matrix(str(path))


MOST_BYTES = 1 << 60


class Flows:
    """Growing columns of flows."""

    def __init__(self) -> None:
        self.src: list[int] = []
        self.dst: list[int] = []
        self.size: list[float] = []
        self.entries = 0

    def add(self, src: list[int], dst: list[int], size: float) -> None:
        """Add ``size`` bytes from one host to another, divided equally among the sender's adapters.
        Each adapter sends to the adapter of its own rail, as collective libraries do; if the
        receiver has fewer adapters, they are used in turn."""
        self.entries += size > 0
        for i, s in enumerate(src):
            self.src.append(s)
            self.dst.append(dst[i % len(dst)])
            self.size.append(size / len(src))

    def matrix(self, path: str) -> TrafficMatrix:
        """Return the matrix. Raises :class:`InputError` if the sum of all bytes exceeds :data:`MOST_BYTES`."""
        demand = np.array(self.src, np.int64), np.array(self.dst, np.int64), np.array(self.size)
        total = math.fsum(self.size)
        if total > MOST_BYTES:
            raise InputError(f"{path}: {total:.4g} bytes in sum; a traffic matrix has at most {MOST_BYTES:,} (1 EiB)")
        moved = demand[0] != demand[1]
        return TrafficMatrix(path, demand, self.entries, float(demand[2][moved].sum()))
