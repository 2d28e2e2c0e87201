"""Directed-route SMPs (IBA 14.2.2), made from columns: routes, requests, and the queue of requests
that are not built yet.

Until it is sent, a request is only a few numbers. So a queue of a million requests takes tens of megabytes, not 256 MB,
and the 256-byte rows of one chunk stay in the CPU's cache between the sender and the agent.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.iba.constants import LID_PERMISSIVE, MAD_SIZE, MAX_HOPS, Method
from softib.jit import table
from softib.mad.batch import COLUMNS, MadBatch
from softib.mad.gmp_requests import GmpRequests
from softib.mad.kernels import fill_directed

__all__ = ["RequestQueue", "Routes", "SmpRequests", "build"]

PATH_SIZE = MAX_HOPS + 1
_NO_DATA = np.zeros((0, 8), np.uint64)
_FIRST_ROUTES = 1024
_FIRST_REQUESTS = 64
RouteTable: Any = table("RouteTable", ["path", "hops"])
"""Directed routes for kernels: see :class:`Routes`."""
SmpColumns: Any = table("SmpColumns", ["route", "out_port", "modifier", "data_row", "mkey"])
"""Columns of :class:`SmpRequests` for kernels: int32, uint8, uint32, int64, uint64[n]."""


class Routes:
    """Directed routes, one per row: ``path`` uint8[n, 64] (entry 0 is unused, as in the SMP) and
    ``hops`` uint8[n]. ``mkey`` uint64[n] is the M_Key of the port at the end of each route; 0 = use
    the sender's own key (IBA 14.2.4: a port without a key accepts any)."""

    def __init__(self) -> None:
        self.n = 0
        self._path = np.zeros((_FIRST_ROUTES, PATH_SIZE), np.uint8)
        self._hops = np.zeros(_FIRST_ROUTES, np.uint8)
        self._mkey = np.zeros(_FIRST_ROUTES, np.uint64)
        self.keyed = False
        """Whether any route has an M_Key."""
        self.table = RouteTable(self._path, self._hops)
        self._columns = _smp_columns(_FIRST_REQUESTS)

    def __len__(self) -> int:
        return self.n

    @property
    def path(self) -> np.ndarray:
        """Egress portnums, uint8[n, 64]; columns beyond ``hops`` are 0."""
        return self._path[: self.n]

    @property
    def hops(self) -> np.ndarray:
        """Number of hops of each route, uint8[n]."""
        return self._hops[: self.n]

    @property
    def mkey(self) -> np.ndarray:
        """M_Keys, uint64[n], read-only; :meth:`set_mkey` changes them."""
        return self._mkey[: self.n]

    def set_mkey(self, rows: np.ndarray, keys: np.ndarray) -> None:
        """Set the M_Keys (uint64) of the destination ports of ``rows``."""
        self._mkey[rows] = keys
        self.keyed |= bool(np.any(keys))

    def add_local(self) -> int:
        """Add the route without hops, to the sending port itself. Return its row."""
        return int(self._grow(1)[0])

    def extend(self, route: np.ndarray, out_port: np.ndarray) -> np.ndarray:
        """Add new routes: each is a copy of ``route`` with one more hop through ``out_port`` (0 =
        no further hop). Return their rows."""
        rows = self._grow(len(route))
        beyond = out_port > 0
        self._path[rows] = self._path[route]
        self._hops[rows] = self._hops[route] + beyond
        self._path[rows[beyond], self._hops[rows[beyond]]] = out_port[beyond]
        return rows

    def subset(self, rows: np.ndarray) -> Routes:
        """Return a new table with copies of ``rows``, in that order."""
        out = Routes()
        new = out._grow(len(rows))
        out._path[new], out._hops[new] = self._path[rows], self._hops[rows]
        out.set_mkey(new, self._mkey[rows])
        return out

    def text(self, route: int, out_port: int = 0) -> str:
        """Return the route in the form of ``smpquery -D``, for example ``0,1,17``."""
        ports = self._path[route, 1 : int(self._hops[route]) + 1].tolist()
        return ",".join(str(p) for p in [0, *ports, *([out_port] if out_port else [])])

    def columns(self, n: int) -> Any:
        """Return :data:`SmpColumns` with at least ``n`` rows, for building requests. The next call
        may return the same arrays."""
        if n > len(self._columns.route):
            self._columns = _smp_columns(max(n, 2 * len(self._columns.route)))
        return self._columns

    def _grow(self, count: int) -> np.ndarray:
        first, self.n = self.n, self.n + count
        if self.n > len(self._hops):
            size = max(2 * len(self._hops), self.n)
            path, hops = np.zeros((size, PATH_SIZE), np.uint8), np.zeros(size, np.uint8)
            path[:first], hops[:first] = self._path[:first], self._hops[:first]
            mkey = np.zeros(size, np.uint64)
            mkey[:first] = self._mkey[:first]
            self._path, self._hops, self._mkey = path, hops, mkey
            self.table = RouteTable(path, hops)
        return np.arange(first, self.n, dtype=np.int32)


@dataclass
class SmpRequests:
    """``n`` requests of one method and attribute, from which MADs are built later.

    ``route`` int32[n] are rows of a :class:`Routes`; ``tag`` int64[n] identifies each request for
    the caller. ``modifier`` is one number or a column. ``out_port`` uint8[n] is one more hop (0 or
    None = none), and ``mkey`` uint64[n] the M_Key of the device there (0 or None: the sender's
    own). ``data`` uint8[rows, 64] holds attributes, and ``data_row`` int64[n] the row with each
    request's attribute (None: request r uses row r). The data is read when the request is built, so
    do not change it until then.
    """

    method: int
    attr: int
    route: np.ndarray
    tag: np.ndarray
    modifier: Any = 0
    out_port: np.ndarray | None = None
    data: np.ndarray | None = None
    data_row: np.ndarray | None = None
    mkey: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.route)


def build(requests: SmpRequests, routes: Routes, mkey: int = 0, rows: slice = slice(None)) -> MadBatch:
    """Return the MADs of ``requests[rows]``, with TID 0. ``mkey`` is the sender's own M_Key, which
    is used if ``routes`` and ``requests`` state no other.

    Raises ``ValueError`` for a route of more than 63 hops (IBA 14.2.1.2).
    """
    route = requests.route[rows]
    n = len(route)
    c = routes.columns(n)
    c.route[:n] = route
    c.modifier[:n] = requests.modifier if np.ndim(requests.modifier) == 0 else requests.modifier[rows]
    c.out_port[:n] = 0 if requests.out_port is None else requests.out_port[rows]
    _fill_keys(c.mkey[:n], requests, routes, mkey, rows)
    data = _NO_DATA
    if requests.data is not None:
        data = np.ascontiguousarray(requests.data).view(np.uint64)
        first = rows.indices(len(requests))[0]
        c.data_row[:n] = np.arange(first, first + n) if requests.data_row is None else requests.data_row[rows]
    mad = np.empty((n, MAD_SIZE), np.uint8)
    hops = fill_directed(mad, mad.view(np.uint64), routes.table, c, data, int(requests.method), int(requests.attr))
    if hops > MAX_HOPS:
        raise ValueError(f"a directed route has at most {MAX_HOPS} hops (IBA 14.2.1.2)")
    columns: dict[str, Any] = {name: np.zeros(n, dtype) for name, dtype in COLUMNS.items()}
    columns["dlid"][:] = columns["slid"][:] = LID_PERMISSIVE
    return MadBatch(mad, **columns)


def _fill_keys(out: np.ndarray, requests: SmpRequests, routes: Routes, mkey: int, rows: slice) -> None:
    out[:] = mkey
    keys = None
    if requests.out_port is not None:
        keys = None if requests.mkey is None else requests.mkey[rows]
    elif routes.keyed:
        keys = routes.mkey[requests.route[rows]]
    if keys is not None:
        np.copyto(out, keys, where=keys != 0)


def _smp_columns(n: int) -> Any:
    types = (np.int32, np.uint8, np.uint32, np.int64, np.uint64)
    return SmpColumns(*(np.zeros(n, t) for t in types))


class RequestQueue:
    """Requests in sending order; :meth:`take` builds the next chunk."""

    def __init__(self, routes: Routes, mkey: int = 0):
        self.routes, self.mkey = routes, mkey
        self._groups: deque[SmpRequests | GmpRequests] = deque()
        self._done = 0
        self.waiting = 0
        self.built: dict[tuple[int, int], int] = {}
        """Number of requests that were built so far, by (method, attribute). For GMPs, the
        attribute is :func:`~softib.mad.gmp_requests.kind_of` class and attribute."""

    def __len__(self) -> int:
        return self.waiting

    def put(self, requests: SmpRequests | GmpRequests) -> None:
        """Append requests."""
        if len(requests):
            self._groups.append(requests)
            self.waiting += len(requests)

    def get(
        self,
        attr: int,
        route: np.ndarray,
        tag: np.ndarray,
        modifier: Any = 0,
        out_port: Any = None,
        mkey: np.ndarray | None = None,
    ) -> None:
        """Append Get requests."""
        self.put(SmpRequests(int(Method.GET), int(attr), route, tag, modifier, out_port, mkey=mkey))

    def set(
        self,
        attr: int,
        route: np.ndarray,
        tag: np.ndarray,
        modifier: Any,
        data: np.ndarray,
        data_row: np.ndarray | None = None,
    ) -> None:
        """Append Set requests."""
        self.put(SmpRequests(int(Method.SET), int(attr), route, tag, modifier, None, data, data_row))

    def take(self, most: int) -> tuple[MadBatch, np.ndarray]:
        """Build up to ``most`` requests of the oldest group, and remove them from the queue. Return
        (batch, tags)."""
        group = self._groups[0]
        rows = slice(self._done, min(self._done + most, len(group)))
        if isinstance(group, GmpRequests):
            batch, attr = group.build(rows), group.kind
        else:
            batch, attr = build(group, self.routes, self.mkey, rows), int(group.attr)
        self._done = rows.stop
        if self._done == len(group):
            self._groups.popleft()
            self._done = 0
        self.waiting -= len(batch)
        kind = (int(group.method), attr)
        self.built[kind] = self.built.get(kind, 0) + len(batch)
        return batch, group.tag[rows]
