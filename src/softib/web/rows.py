"""Rows of tables for the REST interface: filtered, in pages, as objects with the same names as in the tables of
``softib``; and the times with known data."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from softib.errors import SoftibError, UnknownName
from softib.fabric.counters import COUNTER_NAMES
from softib.fabric.model import Fabric
from softib.monitor.reading import Reading
from softib.natural_order import natural_key
from softib.web.rates import port_rows
from softib.web.served import Served

__all__ = ["LAST", "MOST", "all_times", "arranged", "counters_of", "page", "page_of", "port_history", "thinned"]


LAST = 9e9
"""A clock time that is later than all others, in seconds."""
T = TypeVar("T")


def all_times(served: Served, since_s: float, until_s: float) -> list[float]:
    """Return the times with data, oldest first. After the server's first round they are those of its rounds; if the
    history cannot be read, there are no earlier ones."""
    of_rounds, before = served.recent.times(), []
    if served.past is not None:
        with contextlib.suppress(SoftibError):
            before = [t for t in served.past.times() if not of_rounds or t < of_rounds[0]]
    return [t for t in (*before, *of_rounds) if since_s <= t <= until_s]


def thinned(values: Sequence[T], most: int) -> list[T]:
    """Return at most ``most`` of ``values``, at even intervals, including the first and the last."""
    if len(values) <= most:
        return list(values)
    return [values[i] for i in np.linspace(0, len(values) - 1, most).round().astype(int).tolist()]


def port_history(served: Served, guid: int, portnum: int, since_s: float, until_s: float, most: int) -> dict[str, Any]:
    """Return columns of one port over time."""
    samples = list(served.recent.samples)
    began = samples[0].time_s if samples else until_s
    points = (
        []
        if served.past is None
        else [
            s for s in served.past.of_port(guid, portnum, since_s, min(began, until_s)) if not samples or s[0] < began
        ]
    )
    for s in samples:
        at = np.flatnonzero((s.guid == np.uint64(guid)) & (s.portnum == portnum))
        if len(at) and since_s <= s.time_s <= until_s:
            points.append((s.time_s, float(s.load[at[0]]), float(s.wait[at[0]]), int(s.errors[at[0]])))
    points = thinned(points, most)
    return {
        "time": [f[0] for f in points],
        "load": [_rounded(f[1]) for f in points],
        "wait": [_rounded(f[2]) for f in points],
        "errors": [f[3] for f in points],
    }


def _rounded(share: float) -> float | None:
    return None if math.isnan(share) else round(share, 4)


MOST = 1000
"""Maximum number of rows of one page."""


def page(columns: Mapping[str, Any], rows: np.ndarray, offset: int, limit: int) -> dict[str, Any]:
    """Return ``{"total", "offset", "rows"}`` of the chosen ``rows`` of ``columns``, at most
    :data:`MOST`."""
    names = list(columns)
    lists = [c.tolist() if isinstance(c, np.ndarray) else c for c in columns.values()]
    return page_of(rows.tolist(), offset, limit, lambda i: dict(zip(names, (c[i] for c in lists), strict=True)))


def arranged(columns: Mapping[str, Sequence[Any]], q: str, sort: str) -> np.ndarray:
    """Return rows in which a text contains ``q``, sorted by the column ``sort`` (``-NAME``: the
    largest first; unknown values last), or in their original order ("").

    Raises :class:`UnknownName` for a column that does not exist or cannot be sorted.
    """
    n = len(next(iter(columns.values()), ()))
    rows = list(range(n))
    if q:
        wanted = q.casefold()
        texts = [c for c in columns.values() if any(isinstance(v, str) for v in c)]
        rows = [i for i in rows if any(isinstance(c[i], str) and wanted in c[i].casefold() for c in texts)]
    if sort and n:
        name = sort.removeprefix("-")
        ordered = [k for k, c in columns.items() if not isinstance(c[0], Mapping)]
        if name not in ordered:
            raise UnknownName("column to sort by", name, ordered)
        column = columns[name]
        valued = [i for i in rows if column[i] is not None]
        valued.sort(
            key=lambda i: natural_key(column[i]) if isinstance(column[i], str) else column[i], reverse=sort[0] == "-"
        )
        rows = [*valued, *(i for i in rows if column[i] is None)]
    return np.array(rows, np.int64)


def page_of(
    all_of: Sequence[Any], offset: int, limit: int, row: Callable[[Any], Any] = lambda one: one
) -> dict[str, Any]:
    """Return :func:`page` for a list; ``row`` makes an object from an element."""
    return {
        "total": len(all_of),
        "offset": offset,
        "rows": [row(one) for one in all_of[offset : offset + min(limit, MOST)]],
    }


def counters_of(f: Fabric, reading: Reading | None, rows: np.ndarray, offset: int, limit: int) -> dict[str, Any]:
    """Return counters of the port rows ``rows`` of ``f`` with the clock time at which they were
    read. ``reading``: the last round, null for unanswered counters; None: the counters of a file."""
    chosen = rows[offset : offset + min(limit, MOST)]
    table: dict[str, list[Any]] = {
        "node": [f.node_name(n) for n in f.port_node[chosen].tolist()],
        "port": f.port_num[chosen].tolist(),
    }
    if reading is None:
        table |= {"time": [None] * len(chosen)} | {name: f.counters[name][chosen].tolist() for name in COUNTER_NAMES}
    else:
        at = np.full(f.sizes.ports, -1, np.int64)
        place = port_rows(f, reading.guid, reading.portnum)
        at[place[place >= 0]] = np.flatnonzero(place >= 0)
        where = at[chosen].tolist()
        answered = [i >= 0 and bool(reading.answered[i]) for i in where]
        table["time"] = [int(reading.time_ns[i]) / 1e9 if ok else None for i, ok in zip(where, answered, strict=True)]
        for name in dict.fromkeys((*COUNTER_NAMES, *reading.value)):
            value, have = reading.value.get(name), reading.have.get(name)
            table[name] = [
                int(value[i]) if value is not None and have is not None and ok and have[i] else None
                for i, ok in zip(where, answered, strict=True)
            ]
    names = list(table)
    return {
        "total": len(rows),
        "offset": offset,
        "rows": [dict(zip(names, one, strict=True)) for one in zip(*table.values(), strict=True)],
    }
