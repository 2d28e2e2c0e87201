"""A collective as transfers between ranks. Each has a sender, a receiver, blocks of data and a place in the order; the
receiver adds the data or stores it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.errors import LimitError

__all__ = ["MAX_TRANSFERS", "Plan", "Rows"]

MAX_TRANSFERS = 20_000_000


@dataclass(frozen=True)
class Plan:
    """``n`` transfers. ``src`` and ``dst`` int64: ranks; numbers from ``ranks`` on are switches that reduce
    (NVSwitches, aggregation trees). ``octets`` int64, ``channel`` int64, ``loop`` int64 (index of the channel's chunk),
    ``adds`` bool: whether the receiver adds (otherwise it stores). Transfer ``i`` moves
    ``blocks[block_first[i]:block_first[i + 1]]`` and begins when ``needs[first[i]:first[i + 1]]`` have arrived;
    transfers of one channel from one rank to another are sent in the order of their rows. ``extra``: number of switches
    that reduce."""

    ranks: int
    extra: int
    src: np.ndarray
    dst: np.ndarray
    octets: np.ndarray
    channel: np.ndarray
    loop: np.ndarray
    adds: np.ndarray
    first: np.ndarray
    needs: np.ndarray
    block_first: np.ndarray
    blocks: np.ndarray

    def __len__(self) -> int:
        return len(self.src)


class Rows:
    """Builder of a plan. Each call adds several transfers, as columns."""

    def __init__(self, ranks: int, extra: int = 0):
        self.ranks, self.extra, self.count = ranks, extra, 0
        self._columns: list[tuple[np.ndarray, ...]] = []
        self._needs: list[tuple[np.ndarray, np.ndarray]] = []
        self._blocks: list[tuple[np.ndarray, np.ndarray]] = []

    def add(
        self, src: object, dst: object, octets: object, channel: object, loop: object, adds: object, block: object
    ) -> np.ndarray:
        """Add transfers of one block each; return their rows."""
        columns = np.broadcast_arrays(
            *(np.atleast_1d(np.asarray(c)) for c in (src, dst, octets, channel, loop, adds, block))
        )
        n = columns[0].size
        rows = np.arange(self.count, self.count + n)
        self.count += n
        if self.count > MAX_TRANSFERS:
            raise LimitError(f"the collective has more than {MAX_TRANSFERS:,} transfers; use detail=flows")
        flat = [np.ascontiguousarray(c).reshape(-1) for c in columns]
        self._columns.append(tuple(flat[:6]))
        self._blocks.append((rows, flat[6]))
        return rows

    def more_blocks(self, rows: np.ndarray, blocks: np.ndarray) -> None:
        """Add further blocks to transfers."""
        self._blocks.append((rows, blocks))

    def need(self, rows: object, on: object) -> None:
        """Let ``rows[k]`` begin when ``on[k]`` has arrived."""
        a, b = np.broadcast_arrays(np.atleast_1d(np.asarray(rows)), np.atleast_1d(np.asarray(on)))
        self._needs.append((a.reshape(-1), b.reshape(-1)))

    def plan(self) -> Plan:
        """Return the plan."""
        src, dst, octets, channel, loop, adds = (
            np.concatenate([c[k] for c in self._columns]) if self._columns else np.zeros(0, np.int64) for k in range(6)
        )
        first, needs = _csr(self._needs, self.count)
        block_first, blocks = _csr(self._blocks, self.count)
        whole = lambda c: c.astype(np.int64)
        return Plan(
            ranks=self.ranks,
            extra=self.extra,
            src=whole(src),
            dst=whole(dst),
            octets=whole(octets),
            channel=whole(channel),
            loop=whole(loop),
            adds=adds.astype(bool),
            first=first,
            needs=needs,
            block_first=block_first,
            blocks=blocks,
        )


def _csr(pairs: list[tuple[np.ndarray, np.ndarray]], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(first, values)`` of (row, value) pairs."""
    if not pairs:
        return np.zeros(n + 1, np.int64), np.zeros(0, np.int64)
    rows, values = (np.concatenate([p[k] for p in pairs]).astype(np.int64) for k in (0, 1))
    order = np.argsort(rows, kind="stable")
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64), values[order]
