"""Cover runs in virtual time. Rounds run on the fluid layer. If switches route adaptively or ports drain slowly, which
the fluid layer does not support, rounds run on the packet layer.
"""

from __future__ import annotations

import numpy as np

from softib.analysis.acceptance.cover.measured import MeasuredRound
from softib.analysis.acceptance.cover.routes import CoverRoutes
from softib.analysis.acceptance.cover.schedule import CoverRound
from softib.sim.messages import messages
from softib.sim.outcome import Samples

__all__ = ["measure_in_virtual_time"]

SPAN_PS = 300_000_000
"""Virtual time of a round: a link of 400 Gb/s sends 3,600 packets of 4 KiB in 300 us."""
INTERVALS = 10
"""Number of samples in a round; the first :data:`WARM` samples are skipped, because queues fill during them."""
WARM = 5


def measure_in_virtual_time(routes: CoverRoutes, one: CoverRound, row: np.ndarray) -> MeasuredRound:
    """Return the rate of each port while all flows of the round run. ``row``: the fabric's end port
    of each measuring port."""
    network = routes.network
    rate = network.host_gbps[one.source]
    size = np.maximum(rate * SPAN_PS * 1.5 / 8000, 4096).astype(np.int64)
    sent = messages(row[one.source], row[one.target], size)
    samples = _run(routes, sent)
    kept = slice(WARM, INTERVALS)
    seconds = float(samples.lengths_ps[kept].sum()) / 1e12
    gbps = samples.octets[kept].sum(axis=0) * 8e-9 / seconds if seconds else np.zeros(routes.fabric.sizes.ports)
    return MeasuredRound(one, gbps[routes.port])


def _run(routes: CoverRoutes, sent: object) -> Samples:
    from softib.sim import fluid
    from softib.sim.packet import engine
    from softib.sim.packet.options import PacketOptions

    fabric, every = routes.fabric, SPAN_PS // INTERVALS
    if routes.groups is None and not fabric.port_drain.any():
        outcome = fluid.run(fabric, sent, judge=False, sample_ps=every)  # type: ignore[arg-type]
    else:
        options = PacketOptions(until_ps=SPAN_PS, sample_ps=every, adaptive_routing=routes.groups is not None)
        outcome = engine.run(fabric, sent, options)  # type: ignore[arg-type]
    assert outcome.samples is not None
    return outcome.samples
