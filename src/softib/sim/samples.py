"""A run over time: what each port sent in intervals of virtual time, and what was queued at their
ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.errors import InputError

__all__ = ["Sampler", "Samples"]

MOST = 200
"""Intervals that a run is kept in; when there are more, pairs of them become one."""
BLOCK = 64


@dataclass(frozen=True)
class Samples:
    """``octets`` int64[intervals, ports]: what each port's link carried in each interval of
    ``interval_ps`` (a packet counts where it begins to leave); ``queued`` int64[intervals, ports,
    VLs]: octets that waited for the port in receive buffers of its switch at the end of the
    interval, in steps of 64 (None: the layer has no queues). Where intervals were joined it is the
    larger one. The last interval may be shorter."""

    interval_ps: int
    end_ps: int
    octets: np.ndarray
    queued: np.ndarray | None

    @property
    def lengths_ps(self) -> np.ndarray:
        """How long each interval is (int64)."""
        ends = np.minimum(np.arange(1, len(self.octets) + 1) * self.interval_ps, max(self.end_ps, 1))
        return np.diff(ends, prepend=0)

    def load(self, gbps: np.ndarray) -> np.ndarray:
        """Share of each interval in which links of these rates were busy (float64[intervals,
        ports], at most 1)."""
        can = self.lengths_ps[:, None] * gbps[None, :] / 8e3
        return np.minimum(np.divide(self.octets, can, out=np.zeros(self.octets.shape), where=can > 0), 1.0)


class Sampler:
    """Takes samples every ``interval_ps`` from 0 on, which becomes twice as long whenever there are
    ``most`` (an even number) of them.

    Raises :class:`InputError` for an interval below 1 ps.
    """

    def __init__(self, interval_ps: int, most: int = MOST):
        if interval_ps < 1:
            raise InputError(f"an interval of {interval_ps} ps between samples is not possible; it is at least 1 ps")
        self.interval_ps, self.most = int(interval_ps), most
        self._octets: list[np.ndarray] = []
        self._queued: list[np.ndarray] = []
        self._before: np.ndarray | None = None

    @property
    def next_ps(self) -> int:
        """When the next sample is due."""
        return (len(self._octets) + 1) * self.interval_ps

    def take(self, octets: np.ndarray, blocks: np.ndarray | None = None) -> None:
        """The sample that is due: octets that each port has sent since time 0, blocks of 64 octets
        queued by port VL."""
        self._add(octets, blocks)
        if len(self._octets) == self.most:
            self._join()

    def _add(self, octets: np.ndarray, blocks: np.ndarray | None) -> None:
        now = octets.astype(np.int64)
        before = np.zeros_like(now) if self._before is None else self._before
        now = np.maximum(now, before)  # sums of fractions may fall by one
        self._octets.append((now - before).astype(np.uint32))
        self._before = now
        if blocks is not None:
            self._queued.append(blocks.astype(np.uint32))

    def _join(self) -> None:
        pairs = lambda found, how: [how(a, b) for a, b in zip(found[::2], found[1::2], strict=True)]
        self._octets = pairs(self._octets, np.add)
        self._queued = pairs(self._queued, np.maximum)
        self.interval_ps *= 2

    def finish(self, end_ps: int, octets: np.ndarray, blocks: np.ndarray | None = None, vls: int = 1) -> Samples:
        """The run ended at ``end_ps``."""
        if end_ps > len(self._octets) * self.interval_ps or not self._octets:
            self._add(octets, blocks)
        ports = len(octets)
        queued = np.array(self._queued, np.int64).reshape(-1, ports, vls) * BLOCK if self._queued else None
        return Samples(self.interval_ps, end_ps, np.array(self._octets, np.int64).reshape(-1, ports), queued)
