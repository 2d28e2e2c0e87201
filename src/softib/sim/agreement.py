"""Agreement of a layer's results with the packet layer within 5 %, for the end of the run, the mean latency, and the
latencies of single messages. The rules are the same for every layer (docs/simulate.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["ALL", "NONE", "Agreement", "Doubts", "compared", "graded"]

LIMIT = 0.05
"""A single message agrees if the possible error of its latency is at most this share."""
OF_SUMS = 0.1
"""The mean latency and the end of the run agree if their possible error is at most this share. The limit is larger than
that of a single message, because possible errors are bounds: actual errors are smaller, and have different signs."""
UNLIKE = np.array([0.0, 0.3, 0.5, 1.0])
"""Largest possible error of a message whose rate may be wrong, as a share of its latency. The index is the reason: 0
(none), :data:`~softib.sim.fluid.validity_kernels.TWICE`, UNEVEN, BLOCKED."""


@dataclass(frozen=True)
class Agreement:
    """Which results agree with the packet layer within 5 %: ``end`` of the run, ``mean`` latency, latency of every
    single message (``messages``)."""

    end: bool = True
    mean: bool = True
    messages: bool = True

    def __and__(self, other: Agreement) -> Agreement:
        return Agreement(self.end and other.end, self.mean and other.mean, self.messages and other.messages)

    @property
    def missing(self) -> tuple[str, ...]:
        """Return the names of the results that may differ, as text."""
        named = (("the end of the run", self.end), ("the mean latency", self.mean), ("single messages", self.messages))
        return tuple(name for name, agrees in named if not agrees)


ALL, NONE = Agreement(), Agreement(False, False, False)


@dataclass(frozen=True)
class Doubts:
    """Possible errors by message. ``off_ps``: possible error of the message's latency; ``delay_ps``: possible delay of
    its arrival; ``first`` and ``needs``: its dependencies (CSR); ``before``: the previous message on its queue pair
    (-1: none)."""

    off_ps: np.ndarray
    delay_ps: np.ndarray
    first: np.ndarray
    needs: np.ndarray
    before: np.ndarray


def graded(began: np.ndarray, arrived: np.ndarray, doubts: Doubts) -> Agreement:
    """Return the agreement of a run in which messages began and arrived at these times. A message's possible error
    includes those of the messages that it waits for."""
    from softib.sim.fluid.validity_kernels import gather_doubts

    took = (arrived - began).astype(np.float64)
    counts = (began >= 0) & (took > 0)
    if not counts.any():
        return ALL
    off = np.where(counts, doubts.off_ps, 0.0)
    order = np.argsort(began, kind="stable")
    delay = np.where(counts, doubts.delay_ps, 0.0)
    delay = gather_doubts(order, doubts.first, doubts.needs, doubts.before, delay, np.zeros(len(off)))
    end = float(arrived.max())
    return Agreement(
        bool((arrived + delay)[counts].max() <= (1 + OF_SUMS) * end),
        bool(off.sum() <= OF_SUMS * took[counts].sum()),
        bool((off[counts] <= LIMIT * took[counts]).all()),
    )


def compared(agreement: Agreement, judged: Any, other: Any) -> Agreement:
    """Return ``agreement`` of the outcome ``judged``, reduced to the results that are confirmed by ``other``, another
    layer's outcome for the same messages."""
    took = [(o.arrived_ps - o.began_ps).astype(np.float64) for o in (judged, other)]
    counts = (took[0] > 0) & (took[1] > 0)
    if not counts.any():
        return agreement
    a, b = (t[counts] for t in took)
    share = LIMIT / 2  # the other half is left for the error of the other layer
    same = Agreement(
        bool(abs(other.arrived_ps.max() / judged.arrived_ps.max() - 1) <= share),
        bool(abs(b.mean() / a.mean() - 1) <= share),
        bool((np.abs(b / a - 1) <= share).all()),
    )
    return replace(agreement) & same
