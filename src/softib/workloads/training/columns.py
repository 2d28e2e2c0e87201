"""Builder of the rows of a step: computations and messages, and their dependencies."""

from __future__ import annotations

import numpy as np

from softib.sim.messages import Opcode

__all__ = ["Columns"]


class Columns:
    """Rows of a step under construction."""

    def __init__(self) -> None:
        self.rows: list[np.ndarray] = []
        self.rates: list[np.ndarray] = []
        self.numbers = 0
        self.waits: list[np.ndarray] = []
        self.needs: list[np.ndarray] = []
        self.count = 0

    def add(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        size: float | np.ndarray,
        qp: np.ndarray,
        delay_us: float,
        computes: bool,
        rate_gbps: float | np.ndarray = 0.0,
    ) -> np.ndarray:
        """Add rows of one kind."""
        n = len(src)
        fill = lambda value: np.full(n, value, np.int64)
        opcode = int(Opcode.COMPUTE if computes else Opcode.WRITE)
        octets = np.broadcast_to(np.maximum(np.round(size), 1).astype(np.int64), n)
        self.rows.append(np.stack([src, dst, octets, qp, fill(round(delay_us * 1e6)), fill(opcode)]))
        self.rates.append(np.broadcast_to(np.asarray(rate_gbps, np.float64), n))
        self.count += n
        return np.arange(self.count - n, self.count)

    def lines(self, count: int) -> np.ndarray:
        """Return the numbers of ``count`` new queue pairs."""
        self.numbers += count
        return np.arange(self.numbers - count, self.numbers)

    def need(self, rows: np.ndarray, on: np.ndarray) -> None:
        """Add dependencies, one for each row (-1: none)."""
        a, b = (side.reshape(-1) for side in np.broadcast_arrays(rows, on))
        self.waits.append(a[b >= 0])
        self.needs.append(b[b >= 0])
