"""Exchanges between replicas: sums of gradients, and with ZeRO (Rajbhandari et al., SC 2020)
weights, with the collectives chosen by NCCL, as flows on the fabric. Stage 0 all-reduces each
bucket of the last backward pass. Stages 1 to 3 reduce-scatter the gradients; stages 2 and 3 do so after every
micro-batch, because no rank keeps whole gradients. Stages 1 and 2 all-gather the new weights at the end; with the
reduce-scatter, this moves the bytes of an all-reduce (section 7.2 of the paper). Stage 3 all-gathers them before each
pass, forward and backward, while the previous pass runs, and a third time if activations are recomputed. Stage 3 has
one collective for each matrix of weights, because DeepSpeed fetches and reduces parameters in this way
(``_allgather_param`` and ``_reduce_scatter_gradient``, deepspeed/runtime/zero/partition_parameters.py of 0.3.13).
Vectors below its ``stage3_param_persistence_threshold`` stay whole. With ``gather_lists``, the costs of :class:`Lists`
are added.

A replica runs one collective after another: first for parameters that all replicas share, then for
its experts. With ``overlap`` the weights of stage 3 use a separate stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.workloads.nccl.constants import Collective
from softib.workloads.training.compute import optimizer_us
from softib.workloads.training.groups import Groups
from softib.workloads.training.model import ELEMENT

if TYPE_CHECKING:
    from softib.workloads.training.columns import Columns
    from softib.workloads.training.pipeline import Done
    from softib.workloads.training.step import Step

__all__ = ["exchange"]


PERSISTENT = 100_000
"""``stage3_param_persistence_threshold`` of DeepSpeed: a weight with fewer elements stays whole during a step."""


@dataclass(frozen=True)
class Lists:
    """Costs in µs that stage 3 of DeepSpeed 0.3.13 adds to its collectives.

    An all-gather fills a buffer with zeros, makes a view of it for each rank in Python, and passes the list of these
    views. torch gathers into another buffer, and copies a piece of it into each view (``_allgather_param``;
    ``allgather`` of torch's ProcessGroupNCCL.cpp). Gradients are all-reduced, because ``contiguous_gradients`` is off
    by default: flattened, divided, summed, and copied back (``buffered_reduce_fallback``,
    deepspeed/runtime/zero/stage3.py). After the optimizer, the vectors below the threshold are gathered together, and
    copied piece by piece for each vector and rank (``_allgather_params``)."""

    gather_rank_us: float
    """µs of an all-gather for each rank: two views (one of Python, and one that torch makes of its buffer) and a
    copy."""
    gather_us: Callable[[float], float]
    """Bytes of an all-gather → µs to write zeros, and to copy."""
    sum_us: Callable[[float], float]
    """Bytes of an all-reduce → µs to read and write them three times."""
    vectors_rank_us: float
    """µs after the optimizer for each rank: three views and a copy for each vector."""

    @classmethod
    def of(cls, step: Step) -> Lists:
        """Return the times on the processors of ``step``."""
        on, lay = step.processor, step.layout
        view, copy = on.values["view_submit"], on.values["copy_submit"]
        vectors = step.model.vectors(PERSISTENT) / lay.pipeline
        return cls(
            2 * view + copy,
            lambda octets: on.memory_us(3 * octets),
            lambda octets: on.memory_us(6 * octets),
            vectors * (3 * view + copy),
        )


class Exchange:
    """The collectives over all replicas of one rank of a tensor group in one stage."""

    def __init__(
        self,
        rows: Columns,
        kinds: list[tuple[Groups, float]],
        at: tuple[int, int],
        replicas: int,
        lists: Lists | None = None,
    ):
        self.rows, self.kinds, self.at, self.lists = rows, kinds, at, lists
        self.none = np.full(replicas, -1)
        self.ended = {stream: self.none.copy() for stream in ("gradients", "weights")}

    def add(
        self, collective: Collective, element: float, parts: int, needs: np.ndarray, stream: str, matrices: int = 1
    ) -> None:
        """Add one of the ``parts`` equal parts of the exchange between replicas, as consecutive collectives with
        ``element`` bytes per parameter."""
        for groups, count in self.kinds:
            octets = count * element / parts / matrices
            rank_us = each_us = 0.0
            if self.lists is not None:
                gathers = collective == Collective.ALL_GATHER
                rank_us = self.lists.gather_rank_us if gathers else 0.0
                each_us = (self.lists.gather_us if gathers else self.lists.sum_us)(octets)
            groups.add(
                self.rows,
                collective,
                octets,
                self.at,
                needs,
                self.ended[stream],
                times=matrices,
                rank_us=rank_us,
                each_us=each_us,
            )


def exchange(step: Step, rows: Columns, gradients: list[list[np.ndarray]], done: Done) -> None:
    """Add all exchanges of a step, and the optimizer after them. ``gradients``: rows [data] of the
    buckets of backward passes, by stage."""
    lay = step.layout
    shared, experts = lay.gradients(step.model)
    kinds = [
        (Groups.of_replicas(step, members, apart), count)
        for count, members, apart in ((shared, lay.data, 1), (experts, lay.data // lay.expert, lay.expert))
        if members > 1 and count >= 1
    ]
    lists = Lists.of(step) if step.gather_lists else None
    for stage in range(lay.pipeline):
        ranks = [Exchange(rows, kinds, (stage, t), lay.data, lists) for t in range(lay.tensor)] if kinds else []
        for one in ranks:
            if step.zero == 3:
                _sharded(step, one, gradients[stage], done)
            else:
                for bucket in range(len(gradients[stage])):
                    _sum_up(step, one, gradients[stage], bucket)
        updated = _optimized(step, rows, stage, ranks, done)
        for one in ranks if step.zero in (1, 2) else ():
            one.add(Collective.ALL_GATHER, ELEMENT, 1, updated, "gradients")


def _optimized(step: Step, rows: Columns, stage: int, ranks: list[Exchange], done: Done) -> np.ndarray:
    """Add the optimizer of each replica, on all weights of a rank or, with ZeRO, on its share."""
    lay, src = step.layout, step.host[stage, :, 0]
    us = optimizer_us(step.weights / (lay.data if step.zero else 1), step.gradient_octets, step.processor)
    if step.gather_lists:
        us += lay.data * Lists.of(step).vectors_rank_us
    at = rows.add(src, src, 1, rows.lines(lay.data), us, True)
    rows.need(at, done[stage, 0, True, lay.micro_batches - 1][1])
    for one in ranks:
        rows.need(at, one.ended["gradients"])
    return at


def _sum_up(step: Step, one: Exchange, gradients: list[np.ndarray], bucket: int) -> None:
    """Sum a bucket of gradients over the replicas when it is complete; without ``overlap``, when all buckets of the
    backward pass are complete."""
    ready = gradients[bucket if step.overlap else bucket // step.buckets * step.buckets + step.buckets - 1]
    scatters = step.zero and one.lists is None
    collective = Collective.REDUCE_SCATTER if scatters else Collective.ALL_REDUCE
    matrices = max(1, round(step.model.matrices / step.layout.pipeline / step.buckets)) if step.zero == 3 else 1
    one.add(collective, step.gradient_octets, step.buckets, ready, "gradients", matrices)


def _sharded(step: Step, one: Exchange, gradients: list[np.ndarray], done: Done) -> None:
    """Add the exchanges of stage 3: each pass waits for its weights. They are fetched while the previous pass runs, or,
    without ``overlap``, after it."""
    stage, matrices = one.at[0], step.model.matrices // step.layout.pipeline
    passes = [(backward, k) for k in range(step.layout.micro_batches) for backward in (False, True)]
    behind, stream = (2, "weights") if step.overlap else (1, "gradients")
    for i, (backward, k) in enumerate(passes):
        needs = done[(stage, 0, *passes[i - behind])][1] if i >= behind else one.none
        for _ in range(1 + (backward and step.model.recompute)):
            one.add(Collective.ALL_GATHER, ELEMENT, 1, needs, stream, max(1, matrices))
        one.rows.need(done[stage, 0, backward, k][0], one.ended[stream].copy())
        for bucket in range(k * step.buckets, (k + 1) * step.buckets) if backward else ():
            _sum_up(step, one, gradients, bucket)
