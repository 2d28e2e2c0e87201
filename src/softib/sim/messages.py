"""Traffic as columns of messages. A workload creates one :class:`Messages`, which the static, fluid and packet layers
use directly.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np

from softib.errors import InputError

__all__ = [
    "NO_LIMIT",
    "PATH_SL",
    "REQUEST_OCTETS",
    "Messages",
    "MulticastGroup",
    "Opcode",
    "Reduction",
    "Transport",
    "joined",
    "messages",
    "without_reads",
]

PATH_SL = -1
"""Value of ``sl``: the SL of the path record if there is one, otherwise 0."""
NO_LIMIT = 0.0
"""Value of ``rate_gbps``: the rate of the port."""
MAX_MESSAGE = 1 << 31
"""Largest message of RC, UC and UD queue pairs (IBA chapter 9)."""
ATOMIC_OCTETS = 8
"""Bytes that an atomic reads and writes (IBA 9.4.5)."""


class Opcode(IntEnum):
    """Operation of a work request (IBA chapter 10). COMPUTE is not a work request: the program computes. In a
    WRITE_WITH_IMM the last packet takes a receive; in a SEND the first packet does."""

    WRITE, SEND, READ, ATOMIC, COMPUTE, WRITE_WITH_IMM = range(6)


class Transport(IntEnum):
    """Service of the queue pair (IBA chapter 9): reliable connection, unreliable connection,
    unreliable datagram."""

    RC, UC, UD = range(3)


@dataclass(frozen=True)
class MulticastGroup:
    """``members``: rows of the end ports that are full members. ``mlid``: its multicast LID, 0
    until a subnet manager has created the group."""

    members: np.ndarray
    mlid: int = 0


@dataclass(frozen=True)
class Reduction:
    """An all-reduce of ``size`` bytes by the aggregation nodes. ``hosts``: rows of the end ports;
    ``streaming``: the kind of tree; ``rate_gbps``: the largest rate at which a host sends to the
    tree."""

    hosts: np.ndarray
    size: int
    streaming: bool = False
    start_ps: int = 0
    sl: int = PATH_SL
    job: int = 0
    rate_gbps: float = NO_LIMIT


@dataclass(frozen=True)
class Messages:
    """``n`` messages. ``src`` and ``dst`` are rows of the end ports of
    :func:`softib.fabric.end_ports.end_ports` (CA ports ascending by LID, then port 0 of switches).

    * ``size`` int64: bytes of payload (of a READ: of its response).
    * ``start_ps`` int64: earliest start.
    * ``qp`` int32: messages with one ``qp`` share a queue pair of ``src`` and are sent in the order of their rows.
      All of them have the same ``dst`` (UD: any).
    * ``opcode`` (:class:`Opcode`) and ``transport`` (:class:`Transport`) uint8.
    * ``sl`` int8 (:data:`PATH_SL` or 0–15).
    * ``path_bits`` uint8: added to the base LIDs of both ends (modulo the LMC of the port).
    * ``rate_gbps`` float64: static rate of the path (:data:`NO_LIMIT`).
    * ``job`` int32: its job.
    * ``receives`` int32: number of receives that the destination's program keeps posted on the queue pair (0: always
      enough).
    * ``repost_ps`` int64: delay from the arrival of a SEND until its receive is posted again. The values of
      ``receives`` and ``repost_ps`` in the first message of a queue pair apply to the queue pair.
    * ``group`` int32: 0, or n: the datagram goes to all members of ``groups[n - 1]`` except its sender;
      ``dst`` is any of them.
    * ``reduces`` uint8: 1 if a switch sums arriving messages. A message that waits for arriving messages then carries
    *   the sum of their ``value`` (int64) and its own.
    * ``requests`` int64[k, 2]: for each request, the row of the message that starts it and the row of the message
      whose arrival ends it.
    * ``reductions``: all-reduces not yet converted to messages over the trees of a fabric.

    Dependencies are CSR: message ``i`` waits for ``needs[first[i]:first[i + 1]]``, and then for
    ``delay_ps[i]`` (for example, computation). It waits for the *completion* of a message that its own
    ``src`` sent, and for the *arrival* of any other.

    A row with :data:`Opcode.COMPUTE` is not a message: when its dependencies are complete, the
    program of ``src`` (and ``dst``) computes for ``delay_ps``. Its ``qp`` is the processor, of one
    ``src`` or shared by several: the computations of one processor run one after another, in the
    order in which they become ready. ``size`` is 1.
    """

    src: np.ndarray
    dst: np.ndarray
    size: np.ndarray
    start_ps: np.ndarray
    qp: np.ndarray
    opcode: np.ndarray
    transport: np.ndarray
    sl: np.ndarray
    path_bits: np.ndarray
    rate_gbps: np.ndarray
    job: np.ndarray
    delay_ps: np.ndarray
    receives: np.ndarray
    repost_ps: np.ndarray
    group: np.ndarray
    reduces: np.ndarray
    value: np.ndarray
    first: np.ndarray
    needs: np.ndarray
    groups: tuple[MulticastGroup, ...] = ()
    reductions: tuple[Reduction, ...] = ()
    requests: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    def __len__(self) -> int:
        return len(self.src)

    @property
    def computes(self) -> np.ndarray:
        """Return a mask of the rows that are computations (bool)."""
        return np.asarray(self.opcode == Opcode.COMPUTE)

    @property
    def wait_ps(self) -> np.ndarray:
        """Return the delay of each row from its last dependency to its start (ps)."""
        return np.where(self.computes, 0, self.delay_ps)

    def check(self, ends: int) -> None:
        """Raise :class:`InputError` for the first impossible message: an end port that does not
        exist, a size below 1 or beyond 2 GiB, an atomic not of 8 bytes, a time below 0, an SL
        over 15, an operation that its service does not support (the table of ibv_post_send(3)), a
        queue pair with two ends, a dependency on itself or on a row that does not exist."""
        rules = (
            ((self.src < 0) | (self.src >= ends), f"has a source that does not exist ({ends:,} end ports)"),
            ((self.dst < 0) | (self.dst >= ends), f"has a destination that does not exist ({ends:,} end ports)"),
            (self.size < 1, "has no byte; sizes are 1 and more"),
            (self.size > MAX_MESSAGE, "is larger than 2 GiB, the largest message of a queue pair"),
            (
                (self.opcode == Opcode.ATOMIC) & (self.size != ATOMIC_OCTETS),
                "is an atomic, which takes 8 bytes; use size 8",
            ),
            ((self.start_ps < 0) | (self.delay_ps < 0), "starts before time 0"),
            ((self.sl < PATH_SL) | (self.sl > 15), "has an invalid SL; use 0 to 15"),
            (~(self.rate_gbps >= 0), "has a negative rate"),
            ((self.receives < 0) | (self.repost_ps < 0), "has negative receives or a negative time to post them"),
            ((self.group < 0) | (self.group > len(self.groups)), "is for a multicast group that does not exist"),
            ((self.group > 0) & (self.transport != Transport.UD), "is for a multicast group, but not a datagram (UD)"),
            (self.computes & (self.src != self.dst), "is a computation with two ends; use one"),
            (
                (self.transport == Transport.UD) & (self.opcode != Opcode.SEND) & ~self.computes,
                "is an RDMA operation of UD, which only sends; use opcode send",
            ),
            (
                (self.transport == Transport.UC) & ((self.opcode == Opcode.READ) | (self.opcode == Opcode.ATOMIC)),
                "is a READ or an atomic of UC, which has no responses; use opcode write or send, or transport rc",
            ),
        )
        for wrong, problem in rules:
            if wrong.any():
                raise InputError(f"message {int(np.argmax(wrong))} {problem}")
        self._check_qps()
        self._check_needs()

    def only(self, keep: np.ndarray) -> Messages:
        """Return the messages in the mask ``keep``, without their dependencies on other messages."""
        row = np.cumsum(keep) - 1
        owner = np.repeat(np.arange(len(self)), np.diff(self.first))
        stays = keep[owner] & keep[self.needs] if len(owner) else np.zeros(0, bool)
        count = (
            np.bincount(row[owner[stays]], minlength=int(keep.sum())) if len(owner) else np.zeros(int(keep.sum()), int)
        )
        columns = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("first", "needs", "requests")}
        columns = {name: value[keep] if isinstance(value, np.ndarray) else value for name, value in columns.items()}
        first = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        whole = self.requests[keep[self.requests].all(axis=1)]
        return Messages(
            **columns, first=first, needs=row[self.needs[stays]].astype(np.int64), requests=row[whole].astype(np.int64)
        )

    def _check_qps(self) -> None:
        order = np.argsort(self.qp, kind="stable")
        one = (self.qp[order][1:] == self.qp[order][:-1]) if len(order) else np.zeros(0, bool)
        mixed = one & (self.computes[order][1:] != self.computes[order][:-1])
        if mixed.any():
            raise InputError(
                f"queue pair {int(self.qp[order][1:][mixed][0])} is a processor, too; use separate "
                "numbers for computations"
            )
        connected = self.transport[order][1:] != Transport.UD
        for column, sides in ((self.src, "two sources"), (self.dst, "two destinations")):
            differs = one & ~self.computes[order][1:] & (column[order][1:] != column[order][:-1])
            wrong = differs & (connected | (column is self.src))
            if wrong.any():
                raise InputError(f"queue pair {int(self.qp[order][1:][wrong][0])} has {sides}")

    def _check_needs(self) -> None:
        n = len(self)
        if len(self.first) != n + 1 or self.first[0] != 0 or self.first[-1] != len(self.needs):
            raise InputError("the dependencies do not fit the messages: first needs one row for each message, plus one")
        owner = np.repeat(np.arange(n), np.diff(self.first))
        wrong = (self.needs < 0) | (self.needs >= n) | (self.needs == owner)
        if wrong.any():
            raise InputError(
                f"message {int(owner[np.argmax(wrong)])} waits for itself or for a message that does not exist"
            )


def messages(src: Any, dst: Any, size: Any, **columns: Any) -> Messages:
    """Return :class:`Messages` from arrays or numbers (each becomes a column). Defaults: WRITEs of RC
    (SENDs of UD) from time 0 on, a queue pair for each pair of ends, no dependencies."""
    src, dst = np.broadcast_arrays(np.asarray(src, np.int32), np.asarray(dst, np.int32))
    n = len(src)
    if "qp" not in columns:
        pairs = src.astype(np.int64) << 32 | dst.astype(np.int64)
        columns["qp"] = np.unique(pairs, return_inverse=True)[1]
    defaults: dict[str, Any] = {
        "start_ps": 0,
        "transport": 0,
        "sl": PATH_SL,
        "path_bits": 0,
        "rate_gbps": NO_LIMIT,
        "job": 0,
        "delay_ps": 0,
        "receives": 0,
        "repost_ps": 0,
        "group": 0,
        "reduces": 0,
        "value": 0,
    }
    datagrams = np.asarray(columns.get("transport", Transport.RC)) == Transport.UD
    defaults["opcode"] = np.where(datagrams, Opcode.SEND, Opcode.WRITE)
    unknown = columns.keys() - Messages.__dataclass_fields__.keys()
    if unknown:
        raise InputError(f"messages have no column {min(unknown)!r}")
    made_columns = {
        name: _column(columns.get(name, defaults.get(name, size)), n, dtype) for name, dtype in _DTYPES.items()
    }
    groups, reductions = tuple(columns.pop("groups", ())), tuple(columns.pop("reductions", ()))
    requests = np.asarray(columns.get("requests", np.zeros((0, 2))), np.int64).reshape(-1, 2)
    first = columns.get("first", np.zeros(n + 1, np.int64))
    needs = columns.get("needs", np.zeros(0, np.int64))
    return Messages(
        src.copy(),
        dst.copy(),
        **made_columns,
        first=np.asarray(first, np.int64),
        needs=np.asarray(needs, np.int64),
        groups=groups,
        reductions=reductions,
        requests=requests,
    )


def _column(value: Any, n: int, dtype: Any) -> np.ndarray:
    """Return a column of ``n`` rows from an array or from one number."""
    if type(value) in (int, float):
        return np.full(n, value, dtype)
    return np.ascontiguousarray(np.broadcast_to(np.asarray(value), n), dtype)


def joined(a: Messages, b: Messages) -> Messages:
    """Return the messages of ``a`` and ``b``; queue pairs and dependencies of ``b``, which has no
    groups, are numbered after those of ``a``."""
    names = ("src", "dst", *(name for name in _DTYPES if name != "qp"))
    joined_columns = {name: np.concatenate([getattr(a, name), getattr(b, name)]) for name in names}
    return Messages(
        **joined_columns,
        qp=np.concatenate([a.qp, b.qp + int(a.qp.max(initial=-1)) + 1]),
        first=np.concatenate([a.first, b.first[1:] + a.first[-1]]),
        needs=np.concatenate([a.needs, b.needs + len(a)]),
        groups=a.groups,
        reductions=a.reductions,
        requests=np.concatenate([a.requests, b.requests + len(a)]),
    )


_DTYPES: dict[str, Any] = {
    "size": np.int64,
    "start_ps": np.int64,
    "qp": np.int32,
    "opcode": np.uint8,
    "transport": np.uint8,
    "sl": np.int8,
    "path_bits": np.uint8,
    "rate_gbps": np.float64,
    "job": np.int32,
    "delay_ps": np.int64,
    "receives": np.int32,
    "repost_ps": np.int64,
    "group": np.int32,
    "reduces": np.uint8,
    "value": np.int64,
}


REQUEST_OCTETS = 24
"""Bytes of the request: the size of a ready-to-transfer PDU of NVMe/TCP (NVM Express TCP Transport Specification 1.0,
3.6.2.8)."""


def without_reads(m: Messages) -> Messages:
    """Return ``m`` with each READ split in two: a request of the reader, in a new row after all
    others, and the data as a message from the other side, in the READ's row. Messages that wait for
    the READ wait for its data. The data and the requests of a queue pair then use separate queue pairs."""
    reads = np.flatnonzero(m.opcode == Opcode.READ)
    if not len(reads):
        return m
    n, qps = len(m), int(m.qp.max()) + 1
    columns = {f.name: getattr(m, f.name) for f in fields(m)}
    changed: dict[str, Any] = {
        name: np.concatenate([column, column[reads]])
        for name, column in columns.items()
        if isinstance(column, np.ndarray) and name not in ("first", "needs", "requests")
    }
    asks = np.arange(n, n + len(reads))
    changed["src"][reads], changed["dst"][reads] = m.dst[reads], m.src[reads]
    changed["opcode"][reads] = changed["opcode"][asks] = Opcode.SEND
    changed["size"][asks] = REQUEST_OCTETS
    changed["qp"][asks], changed["qp"][reads] = m.qp[reads] + qps, m.qp[reads] + 2 * qps
    changed["delay_ps"][reads] = changed["start_ps"][reads] = 0
    owner = np.repeat(np.arange(n), np.diff(m.first))
    ask_of = np.arange(n)
    ask_of[reads] = asks
    waits, needs = np.concatenate([ask_of[owner], reads]), np.concatenate([m.needs, asks])
    order = np.argsort(waits, kind="stable")
    first = np.concatenate([[0], np.cumsum(np.bincount(waits, minlength=n + len(reads)))]).astype(np.int64)
    return replace(m, **changed, first=first, needs=needs[order])
