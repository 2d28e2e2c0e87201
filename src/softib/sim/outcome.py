"""What every layer answers: when each message began, arrived and completed, and what each port
counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from softib.sim.samples import Samples

__all__ = ["NEVER", "Outcome"]

NEVER = -1
"""Of a time: it did not happen."""


@dataclass
class Outcome:
    """A run of one layer.

    ``began_ps``, ``arrived_ps`` (the last octet is in the destination's memory) and
    ``completed_ps`` (the sender knows) int64 by message, :data:`NEVER` where they did not happen.
    ``end_ps``: virtual time of the end. ``counters`` (:data:`softib.fabric.counters.COUNTERS`) by
    port of the fabric: what this run added. ``valid``: does the layer's model hold for this traffic
    (``why_not`` says what is against it)? ``deadlock``: (port, VL) of the cycle whose buffers wait
    for each other, empty without one. ``notes``: lines for people, such as an SL that nobody
    stated. ``wall_s`` and ``work`` (events, packets, packet hops, rate changes …): what the run
    took. ``sl_counters`` and ``vl_counters`` (:data:`~softib.fabric.counters.SL_COUNTERS`,
    :data:`~softib.fabric.counters.VL_COUNTERS`): only where an option of the packet layer asks for
    them. ``values`` int64 by message: what it carried, where switches reduce. ``network``:
    ``infiniband``, ``roce`` or ``tcp``, and ``port_figures``, of Ethernet only, what else each port
    counted (pause frames, drops, marks, queues, CPU of the host), by name. ``samples``: loads and
    queues over time, ``log``: what watched packets did (:class:`~softib.sim.packet.log.PacketLog`);
    None where nobody asked for them.
    """

    layer: str
    began_ps: np.ndarray
    arrived_ps: np.ndarray
    completed_ps: np.ndarray
    end_ps: int
    counters: np.ndarray
    valid: bool = True
    why_not: tuple[str, ...] = ()
    deadlock: tuple[tuple[int, int], ...] = ()
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

    @property
    def done(self) -> bool:
        """Did every message complete?"""
        return bool((self.completed_ps >= 0).all())

    def gbps(self, size: np.ndarray) -> np.ndarray:
        """Rate of each message of ``size`` octets from its begin to its arrival (float64; 0 where
        it did not arrive)."""
        took = (self.arrived_ps - self.began_ps).astype(np.float64)
        ok = (self.arrived_ps >= 0) & (took > 0)
        return np.divide(size * 8e3, took, out=np.zeros(len(took)), where=ok)
