"""A job of a workload file as a training step, and its figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.workloads.hosts import rows_of
from softib.workloads.nccl.job import machine_of_job
from softib.workloads.parameters import section
from softib.workloads.training.model import Layout, Network, Transformer
from softib.workloads.training.step import Step, part_of

if TYPE_CHECKING:
    from softib.workloads.hosts import Hosts
    from softib.workloads.nccl_jobs import TrainingStep
    from softib.workloads.pattern import JobMessages

__all__ = ["figures_of", "nodes_of_job", "notes_of", "part_of_job", "step_of"]

MOST_BUCKETS = 8
"""Buckets of gradients that go while the backward pass runs, unless a job says how many: fewer
where they would be smaller than the library's. Without overlap there is one, as Megatron-LM has it.
"""
MEGATRON_BUCKET, MEGATRON_EACH = 40_000_000, 1_000_000
"""Gradients of a bucket of Megatron-LM: so many, or so many for each replica, whichever is more
(``bucket_size`` of its DistributedDataParallelConfig)."""
DDP_BUCKET = 25 << 20
"""Octets of a bucket of PyTorch's DistributedDataParallel (``bucket_cap_mb``)."""
OF_TRANSFORMERS = {
    "layers",
    "hidden",
    "sequence",
    "vocabulary",
    "experts",
    "top_k",
    "expert",
    "tensor",
    "pipeline",
    "recompute",
    "sequence_parallel",
}
"""Options of a job that say nothing of other models."""


def model_of(job: TrainingStep) -> Transformer | Network:
    """The model of ``job``. Raises :class:`InputError` where it is described by parameters and as a
    transformer."""
    if job.parameters is None and job.operations is None:
        return Transformer(job.layers, job.hidden, job.sequence, job.vocabulary, job.experts, job.top_k, job.recompute)
    if job.parameters is None or job.operations is None:
        raise InputError("a model that is no transformer takes both parameters and operations of a sample")
    given = sorted(OF_TRANSFORMERS & job.model_fields_set)
    if given:
        raise InputError(f"{given[0].replace('_', '-')} is of transformers; leave it out, or parameters and operations")
    return Network(job.parameters, job.operations)


def step_of(job: TrainingStep, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray) -> Step:
    """What ``job`` runs on the adapters ``rows``: all their GPUs. Raises :class:`InputError` for
    what does not divide."""
    placed = machine_of_job(job, names, rows, link_gbps)
    machine, adapters = placed.machine, placed.adapters
    model = model_of(job)
    gpus = len(adapters) * machine.gpus
    plain = isinstance(model, Network)
    at_once = job.micro_batch or (max(1, job.batch // gpus) if plain else 1)
    layout = Layout.of(gpus, job.tensor, job.pipeline, job.expert, job.batch, at_once, model)
    least = DDP_BUCKET / job.gradient_bytes if plain else max(MEGATRON_BUCKET, MEGATRON_EACH * layout.data)
    buckets = min(MOST_BUCKETS, max(1, round(layout.gradients(model)[0] / least))) if job.overlap else 1
    achieved = (job.tflops or machine.gpu.tflops) * 1e12 * job.achieved
    return Step(
        model,
        layout,
        at_once,
        achieved,
        machine,
        adapters,
        section("nccl"),
        job.buckets or buckets,
        job.overlap,
        job.zero,
        job.sequence_parallel,
        job.gradient_bytes,
        job.nccl,
    )


def part_of_job(job: TrainingStep, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray) -> JobMessages:
    """The messages of ``job``."""
    return part_of(step_of(job, names, rows, link_gbps))


def figures_of(
    job: TrainingStep, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray, took_us: float
) -> dict[str, Any]:
    """Time of a step, tokens a second, share of the GPUs' achieved rate that is left beside
    communication and bubbles, GPU-hours."""
    step = step_of(job, names, rows, link_gbps)
    lay = step.layout
    ideal = step.model.flops(job.batch) / lay.gpus / step.flops * 1e6
    seconds = took_us / 1e6
    tokens = job.batch * (job.sequence if job.parameters is None else 1)
    return {
        "machine": str(step.machine),
        "nccl": step.nccl,
        "gpus": lay.gpus,
        "data": lay.data,
        "tensor": lay.tensor,
        "pipeline": lay.pipeline,
        "expert": lay.expert,
        "parameters": step.model.parameters,
        "step_us": took_us,
        "compute_us": ideal,
        "efficiency": ideal / took_us if took_us > 0 else 0.0,
        "tokens_per_s": tokens / seconds if seconds > 0 else 0.0,
        "gpu_hours_per_step": lay.gpus * seconds / 3600,
        "gpu_hours_per_billion_tokens": lay.gpus * seconds / 3600 * 1e9 / tokens,
    }


def notes_of(job: TrainingStep, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray) -> list[str]:
    """What the step takes for granted: collectives of tensor and expert groups that go from node to
    node are no messages on the fabric."""
    step = step_of(job, names, rows, link_gbps)
    lay, machine = step.layout, step.machine
    groups = (("tensor", lay.tensor, 1, "all-reduces"), ("expert", lay.expert, lay.tensor, "all-to-alls"))
    rate = f"adapters of {machine.nic_gbps:g} Gb/s"
    return [
        f"{kind} groups of {size} GPUs do not fit into a node of {machine.gpus}: their {what} are time, by "
        f"{rate}, not messages on this fabric"
        for kind, size, apart, what in groups
        if size > 1 and size * apart > machine.gpus
    ]


def nodes_of_job(job: TrainingStep, hosts: Hosts) -> tuple[int, np.ndarray]:
    """(GPUs of a node, adapters int64[nodes, nics]) of the hosts that ``job`` chooses."""
    placed = machine_of_job(job, hosts.name, rows_of(job, hosts), hosts.gbps)
    return placed.machine.gpus, placed.adapters
