"""Result of every layer: the times at which each message began, arrived and completed, and the
counters of each port."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from softib.errors import InputError
from softib.sim.agreement import ALL, Agreement

__all__ = ["NEVER", "Outcome", "Sampler", "Samples"]


MOST = 200
"""Largest number of intervals; when it is reached, neighbouring intervals are joined in pairs."""
BLOCK = 64


@dataclass(frozen=True)
class Samples:
    """``octets`` int64[intervals, ports]: bytes that each port's link carried in each interval of
    ``interval_ps`` (a packet counts when it begins to leave). ``queued`` int64[intervals, ports, VLs]: bytes, in steps
    of 64, that waited for the port in receive buffers of its switch at the end of the interval (None: the layer does
    not model queues). When two intervals are joined, the larger value of ``queued`` is kept. The last interval may be
    shorter."""

    interval_ps: int
    end_ps: int
    octets: np.ndarray
    queued: np.ndarray | None

    @property
    def lengths_ps(self) -> np.ndarray:
        """Return the length of each interval (int64)."""
        ends = np.minimum(np.arange(1, len(self.octets) + 1) * self.interval_ps, max(self.end_ps, 1))
        return np.diff(ends, prepend=0)

    def load(self, gbps: np.ndarray) -> np.ndarray:
        """Return the share of each interval in which the links were busy, given their rates
        (float64[intervals, ports], at most 1)."""
        can = self.lengths_ps[:, None] * gbps[None, :] / 8e3
        return np.minimum(np.divide(self.octets, can, out=np.zeros(self.octets.shape), where=can > 0), 1.0)


class Sampler:
    """Takes samples every ``interval_ps``, starting at 0. The interval is doubled when there are
    :data:`MOST` samples (an even number).

    Raises :class:`InputError` for an interval below 1 ps.
    """

    def __init__(self, interval_ps: int):
        if interval_ps < 1:
            raise InputError(f"an interval of {interval_ps} ps between samples is too short; use at least 1 ps")
        self.interval_ps = int(interval_ps)
        self._octets: list[np.ndarray] = []
        self._queued: list[np.ndarray] = []
        self._before: np.ndarray | None = None

    @property
    def next_ps(self) -> int:
        """Return the time of the next sample."""
        return (len(self._octets) + 1) * self.interval_ps

    def take(self, octets: np.ndarray, blocks: np.ndarray | None = None) -> None:
        """Take the sample that is due. ``octets``: bytes that each port has sent since time 0; ``blocks``: blocks of 64
        bytes that are queued, by port VL."""
        self._add(octets, blocks)
        if len(self._octets) == MOST:
            self._join()

    def _add(self, octets: np.ndarray, blocks: np.ndarray | None) -> None:
        now = octets.astype(np.int64)
        before = np.zeros_like(now) if self._before is None else self._before
        now = np.maximum(now, before)  # rounding may lower a sum by one
        self._octets.append((now - before).astype(np.uint32))
        self._before = now
        if blocks is not None:
            self._queued.append(blocks.astype(np.uint32))

    def _join(self) -> None:
        pairs = lambda rows, how: [how(a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        self._octets = pairs(self._octets, np.add)
        self._queued = pairs(self._queued, np.maximum)
        self.interval_ps *= 2

    def finish(self, end_ps: int, octets: np.ndarray, blocks: np.ndarray | None = None, vls: int = 1) -> Samples:
        """Return the samples of a run that ended at ``end_ps``."""
        if end_ps > len(self._octets) * self.interval_ps or not self._octets:
            self._add(octets, blocks)
        ports = len(octets)
        queued = np.array(self._queued, np.int64).reshape(-1, ports, vls) * BLOCK if self._queued else None
        return Samples(self.interval_ps, end_ps, np.array(self._octets, np.int64).reshape(-1, ports), queued)


NEVER = -1
"""Time of an event that did not happen."""


@dataclass
class Outcome:
    """A run of one layer.

    * ``began_ps``, ``arrived_ps`` (the last byte is in the destination's memory) and ``completed_ps`` (the sender's
      completion): int64 by message, :data:`NEVER` if it did not happen.
    * ``end_ps``: virtual time of the end.
    * ``counters`` (:data:`softib.fabric.counters.COUNTERS`) by port of the fabric: the increments of this run.
    * ``agreement``: the results that agree with the packet layer; ``why_not``: the reasons why others do not.
    * ``deadlock``: (port, VL) of a cycle of buffers that wait for each other, empty if there is none.
    * ``dissolved``: (port, VL) of such a cycle that ended because HOQLife or lifetimes discarded packets.
    * ``notes``: text lines, for example on an unspecified SL.
    * ``wall_s`` and ``work`` (events, packets, packet hops, rate changes …) give the effort of the run.
    * ``sl_counters`` and ``vl_counters`` (:data:`~softib.fabric.counters.SL_COUNTERS`,
      :data:`~softib.fabric.counters.VL_COUNTERS`) exist only if an option of the packet layer requests them.
    * ``values`` int64 by message: if switches reduce, the value that the message carried.
    * ``network``: ``infiniband``, ``roce`` or ``tcp``.
    * ``port_figures``, for Ethernet only: further figures by name, each an array by port (pause frames, drops, marks,
      queues, CPU time of the host).
    * ``samples``: loads and queues over time, ``log``: events of watched packets
      (:class:`~softib.sim.packet.log.PacketLog`); None unless requested.
    * ``interrupted``: Ctrl-C ended the run.
    """

    layer: str
    began_ps: np.ndarray
    arrived_ps: np.ndarray
    completed_ps: np.ndarray
    end_ps: int
    counters: np.ndarray
    agreement: Agreement = ALL
    why_not: tuple[str, ...] = ()
    deadlock: tuple[tuple[int, int], ...] = ()
    dissolved: tuple[tuple[int, int], ...] = ()
    notes: tuple[str, ...] = ()
    wall_s: float = 0.0
    work: dict[str, int] = field(default_factory=dict)
    sl_counters: np.ndarray | None = None
    vl_counters: np.ndarray | None = None
    values: np.ndarray | None = None
    samples: Samples | None = None
    log: Any = None
    network: str = "infiniband"
    port_figures: dict[str, np.ndarray] = field(default_factory=dict)
    interrupted: bool = False

    @property
    def done(self) -> bool:
        """Return whether every message has completed."""
        return bool((self.completed_ps >= 0).all())

    def gbps(self, size: np.ndarray) -> np.ndarray:
        """Return the rate of each message of ``size`` bytes from its start to its arrival (float64; 0 if it did not
        arrive)."""
        took = (self.arrived_ps - self.began_ps).astype(np.float64)
        ok = (self.arrived_ps >= 0) & (took > 0)
        return np.divide(size * 8e3, took, out=np.zeros(len(took)), where=ok)
