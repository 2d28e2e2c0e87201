"""A training step on more and more GPUs: a scaling curve."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from softib.api.fabric import Fabric, as_fabric
from softib.errors import InputError

if TYPE_CHECKING:
    pass

__all__ = ["scaling"]


def scaling(
    source: Fabric | str | os.PathLike[str],
    workload: Any,
    gpus: Sequence[int],
    *,
    weak: bool = True,
    layer: str = "fluid",
) -> list[dict[str, Any]]:
    """A training step (``training-step:1,tensor=8,…``) on the first so many GPUs of the fabric, one
    row each: ``gpus``, ``batch``, ``step_us``, ``efficiency`` (share of the GPUs' achieved rate),
    ``relative`` (throughput of a GPU over that of the first row), ``tokens_per_s``,
    ``gpu_hours_per_step``, ``gpu_hours_per_billion_tokens``.

    ``weak``: the workload's batch is that of the first row, and grows with the GPUs; else all have
    the same. Raises :class:`InputError`, one line, for another workload, for numbers that are no
    whole nodes, and for more GPUs than there are.

    >>> import softib
    >>> fabric = softib.generate("rail-optimized", nodes=4, rails=8, radix=32, ufm=False)
    >>> rows = softib.scaling(fabric, "training-step:1,tensor=8,batch=32", [8, 32])
    >>> [row["batch"] for row in rows]
    [32, 128]
    """
    from softib.api.operations import bring_up
    from softib.api.simulation.simulate import simulate
    from softib.workloads.hosts import hosts_of
    from softib.workloads.nccl_jobs import TrainingStep
    from softib.workloads.training.job import figures_of, nodes_of_job
    from softib.workloads.workload import Workload as Made
    from softib.workloads.workload import read

    work = read(workload)
    job = work.jobs[0]
    if len(work.jobs) != 1 or not isinstance(job, TrainingStep):
        raise InputError(f"{work.name}: a scaling curve takes one job of pattern training-step")
    if not gpus:
        raise InputError("a scaling curve takes numbers of GPUs, such as 64, 128, 256")
    fabric = as_fabric(source)
    if not len(hosts_of(fabric.arrays)):
        fabric = bring_up(fabric).fabric
    each, adapters = nodes_of_job(job, hosts_of(fabric.arrays))
    rows: list[dict[str, Any]] = []
    for count in gpus:
        nodes, left = divmod(count, each)
        if left or not 1 <= nodes <= len(adapters):
            raise InputError(f"{count:,} GPUs: nodes have {each} each, and there are {len(adapters):,}")
        batch = job.batch * count // gpus[0] if weak else job.batch
        chosen = [int(r) for r in adapters[:nodes].reshape(-1)]
        one = job.model_copy(update={"hosts": chosen, "batch": batch})
        run = simulate(fabric, Made(f"{work.name} on {count}", (one,)), layer=layer)
        if not run.good:
            raise InputError(f"{count:,} GPUs: the step did not complete; softib.simulate says why")
        hosts = hosts_of(fabric.arrays)
        found = figures_of(one, hosts.name, hosts.chosen(list(chosen)), hosts.gbps, run.simulated_us)
        rows.append({"gpus": count, "batch": batch, **{k: v for k, v in found.items() if k != "gpus"}})
        rows[-1]["relative"] = rows[-1]["tokens_per_s"] / count / (rows[0]["tokens_per_s"] / gpus[0])
    return rows
