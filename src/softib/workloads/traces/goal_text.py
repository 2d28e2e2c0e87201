"""Reader of GOAL text: one pass over its bytes writes columns (:mod:`softib.workloads.traces.goal_text_kernels`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from softib.workloads.schedule.schedule import Schedule
from softib.workloads.traces import goal_text_kernels as kernels

__all__ = ["read_columns"]

PS_PER_NS = 1000
MOST_RANKS = 1 << 24
_RANKS = re.compile(rb"(?:[ \t\r]*(?://[^\n]*)?\n)*[ \t\r]*num_ranks[ \t]+(\d{1,9})[ \t]*;?[ \t\r]*(?=\n|//)")


class _Labels(Sequence[str]):
    """Names of operations, which are read from the text on demand."""

    def __init__(self, data: bytes, at: np.ndarray, length: np.ndarray):
        self._data, self._at, self._length = data, at, length

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, i: int) -> str: ...
    @overload
    def __getitem__(self, i: slice) -> Sequence[str]: ...
    def __getitem__(self, i: int | slice) -> str | Sequence[str]:
        if isinstance(i, slice):
            return _Labels(self._data, self._at[i], self._length[i])
        at, length = int(self._at[i]), int(self._length[i])
        return self._data[at : at + length].decode()


def read_columns(name: str, data: bytes, acknowledged: bool) -> Schedule | None:
    """Return the schedule in ``data``, a text without ``/* */``. Return None if a line is wrong or unusual; the caller
    must then use the line reader, which reads unusual lines and reports wrong ones."""
    head = _RANKS.match(data)
    if head is None or not 1 <= int(head[1]) <= MOST_RANKS:
        return None
    data = data if data.endswith(b"\n") else data + b"\n"
    octets = np.frombuffer(data, np.uint8)
    room = int(np.count_nonzero(octets == kernels.NL)) + 1
    ops = _room(room)
    keys = room
    labels = kernels.Labels(
        row=np.empty(room + keys, np.int64),
        stamp=np.zeros(room + keys, np.int32),
        key_at=np.empty(keys, np.int64),
        key_len=np.empty(keys, np.int32),
        key_rank=np.empty(keys, np.int32),
        chain=np.zeros(1 << (2 * keys - 1).bit_length(), np.int32),
        ids=np.zeros(1, np.int64),
    )
    where = np.zeros(4, np.int64)
    if not kernels.read_text(octets, head.end(), ops, labels, np.zeros(int(head[1]), bool), _keywords(), where):
        return None
    n, needs = int(where[kernels.OPERATIONS]), int(where[kernels.NEEDS])
    return _schedule(name, int(head[1]), data, ops, n, needs, acknowledged)


def _room(n: int) -> Any:
    """Return columns for ``n`` lines; unwritten pages take no memory."""
    wide, narrow = (lambda: np.empty(n, np.int64)), (lambda: np.empty(n, np.int32))
    return kernels.Ops(
        rank=narrow(),
        kind=np.empty(n, np.uint8),
        peer=narrow(),
        size=wide(),
        tag=wide(),
        ns=wide(),
        cpu=narrow(),
        label_at=wide(),
        label_len=narrow(),
        who=wide(),
        on=wide(),
        start=np.empty(n, bool),
    )


def _keywords() -> np.ndarray:
    """Return a row for each keyword of the grammar: its length, then its bytes."""
    rows = np.zeros((len(kernels.KEYWORDS), 1 + max(map(len, kernels.KEYWORDS))), np.uint8)
    for row, word in zip(rows, kernels.KEYWORDS, strict=True):
        row[0] = len(word)
        row[1 : 1 + len(word)] = np.frombuffer(word, np.uint8)
    return rows


def _schedule(name: str, ranks: int, data: bytes, ops: Any, n: int, needs: int, acknowledged: bool) -> Schedule:
    """Return the schedule, with operations sorted by rank, and requirements sorted by the operation that waits."""
    rank, who, on, start = ops.rank[:n], ops.who[:needs], ops.on[:needs], ops.start[:needs]
    columns = [c[:n] for c in (ops.kind, ops.peer, ops.size, ops.tag, ops.ns, ops.cpu, ops.label_at, ops.label_len)]
    if (rank[1:] < rank[:-1]).any():
        order = np.argsort(rank, kind="stable")
        row = np.empty(n, np.int64)
        row[order] = np.arange(n)
        rank, columns = rank[order], [c[order] for c in columns]
        who, on = row[who], row[on]
    if (who[1:] < who[:-1]).any():
        by = np.argsort(who, kind="stable")
        who, on, start = who[by], on[by], start[by]
    first = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(who, minlength=n), out=first[1:])
    kind, peer, size, tag, ns, cpu, label_at, label_len = columns
    labels = _Labels(data, label_at, label_len) if label_len.any() else ()
    return Schedule(
        name=name,
        ranks=ranks,
        rank=rank,
        kind=kind,
        peer=peer,
        size=size,
        tag=tag,
        compute_ps=ns * PS_PER_NS,
        processor=cpu,
        first=first,
        needs=on,
        on_start=start,
        labels=labels,
        acknowledged=acknowledged,
    )
