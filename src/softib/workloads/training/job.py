"""A job of a workload file as a training step, and its figures."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softib.errors import InputError
from softib.workloads.hosts import rows_of
from softib.workloads.nccl.job import fastest_link, machine_of_job, slower_adapters
from softib.workloads.parameters import section
from softib.workloads.training.compute import Processor, gradient_us, optimizer_us
from softib.workloads.training.model import ELEMENT, Layout, Network, Transformer
from softib.workloads.training.step import Step, part_of

if TYPE_CHECKING:
    from softib.workloads.hosts import Hosts
    from softib.workloads.nccl.machine import Gpu
    from softib.workloads.nccl_jobs import TrainingStep
    from softib.workloads.pattern import JobMessages

__all__ = ["JobNodes", "figures_of", "nodes_of_job", "notes_of", "part_of_job", "states_gb", "step_of"]

MOST_BUCKETS = 8
"""Default number of gradient buckets that are sent during the backward pass. There are fewer if they would be smaller
than the library's buckets. Without overlap there is one bucket, as in Megatron-LM.
"""
MEGATRON_BUCKET, MEGATRON_EACH = 40_000_000, 1_000_000
"""Number of gradients in a bucket of Megatron-LM: the first number, or the second one times the number of replicas,
whichever is larger (``bucket_size`` of its DistributedDataParallelConfig)."""
DDP_BUCKET = 25 << 20
"""Bytes of a bucket of PyTorch's DistributedDataParallel (``bucket_cap_mb``)."""
HEAD = 128
"""Size of an attention head, unless a job states the number of heads."""
ADAM = 12
"""Bytes that Adam stores per parameter: weight, momentum and variance in fp32."""
OTHERS_ACHIEVED = 0.5
"""Share of a data sheet's rate that models other than transformers achieve by default: an assumption."""
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
    "heads",
    "flash_attention",
    "interleave",
}
"""Options of a job that do not apply to other models."""


def model_of(job: TrainingStep) -> Transformer | Network:
    """Return the model of ``job``. Raises :class:`InputError` if it is described both by parameters
    and as a transformer."""
    if job.parameters is None and job.operations is None:
        heads = job.heads or max(1, job.hidden // HEAD)
        return Transformer(
            layers=job.layers,
            hidden=job.hidden,
            sequence=job.sequence,
            vocabulary=job.vocabulary,
            experts=job.experts,
            top_k=job.top_k,
            recompute=job.recompute,
            heads=heads,
            flash_attention=job.flash_attention,
        )
    if job.parameters is None or job.operations is None:
        raise InputError("a model other than a transformer needs both parameters and operations of a sample")
    given = sorted(OF_TRANSFORMERS & job.model_fields_set)
    if given:
        raise InputError(
            f"{given[0].replace('_', '-')} is for transformers; leave out either it or parameters and operations"
        )
    return Network(job.parameters, job.operations)


def step_of(job: TrainingStep, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray) -> Step:
    """Return the step of ``job`` on all GPUs of the adapters ``rows``. Raises :class:`InputError`
    for sizes that do not divide."""
    placed = machine_of_job(job, names, rows, link_gbps)
    machine, adapters = placed.machine, placed.adapters
    model = model_of(job)
    gpus = len(adapters) * machine.gpus
    plain = isinstance(model, Network)
    at_once = job.micro_batch or (max(1, job.batch // gpus) if plain else 1)
    layout = Layout.of(gpus, job.tensor, job.pipeline, job.expert, job.batch, at_once, model, job.interleave)
    least = DDP_BUCKET / job.gradient_bytes if plain else max(MEGATRON_BUCKET, MEGATRON_EACH * layout.data)
    buckets = min(MOST_BUCKETS, max(1, round(layout.gradients(model)[0] / least))) if job.overlap else 1
    return Step(
        model=model,
        layout=layout,
        micro_batch=at_once,
        processor=processor_of(job, machine.gpu),
        machine=machine,
        adapters=adapters,
        values=machine.values,
        buckets=-(-(job.buckets or buckets) // job.interleave) * job.interleave,
        overlap=job.overlap,
        zero=job.zero,
        sequence_parallel=job.sequence_parallel,
        gradient_octets=job.gradient_bytes,
        nccl=job.nccl,
        gather_lists=job.gather_lists,
    )


def processor_of(job: TrainingStep, gpu: Gpu) -> Processor:
    """Return the processor; its times follow from the size of products, or from the share of a
    GPU's rate that ``job`` states."""
    gpu = gpu if job.tflops is None else replace(gpu, tflops=job.tflops)
    share = job.achieved or (OTHERS_ACHIEVED if job.parameters is not None else 0.0)
    return Processor(gpu, section("gpu"), gpu.tflops * 1e12 * share)


def part_of_job(job: TrainingStep, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray) -> JobMessages:
    """Return the messages of ``job``."""
    return part_of(step_of(job, names, rows, link_gbps))


def figures_of(
    job: TrainingStep, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray, took_us: float
) -> dict[str, Any]:
    """Return the time of a step and its parts, tokens per second, share of computing, operations per
    second of a GPU, GPU-hours."""
    step = step_of(job, names, rows, link_gbps)
    lay, seconds = step.layout, took_us / 1e6
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
        **parts_of(step, took_us),
        "tflops_per_gpu": step.model.flops(job.batch) / lay.gpus / took_us / 1e6 if took_us > 0 else 0.0,
        "tokens_per_s": tokens / seconds if seconds > 0 else 0.0,
        "gpu_hours_per_step": lay.gpus * seconds / 3600,
        "gpu_hours_per_billion_tokens": lay.gpus * seconds / 3600 * 1e9 / tokens,
    }


def states_gb(step: Step) -> float:
    """Return GB of weights, gradients and Adam's states of one GPU. A parameter has 2 bytes of weights,
    the bytes of its gradient, and 12 of states. ZeRO's stages 1 to 3 divide first the states, then gradients, then
    weights among the replicas (Rajbhandari et al., SC 2020, sections 3.1 and 5)."""
    shared = [step.layout.data if step.zero >= stage else 1 for stage in (1, 2, 3)]
    octets = ADAM / shared[0] + step.gradient_octets / shared[1] + ELEMENT / shared[2]
    return step.weights * octets / 1e9


def notes_of(job: TrainingStep, names: tuple[str, ...], rows: np.ndarray, link_gbps: np.ndarray) -> list[str]:
    """Return notes on adapters slower than the links, and on memory of GPUs that is too small for the model,
    even without activations."""
    step = step_of(job, names, rows, link_gbps)
    slower = slower_adapters(job.pattern_name, step.machine, fastest_link(link_gbps, rows) or math.inf)
    gpu, needed = step.machine.gpu, states_gb(step)
    if needed <= gpu.memory_gb:
        return slower
    return [
        *slower,
        f"weights, gradients and Adam's states take {needed:,.0f} GB of each GPU, without activations; a {gpu.name} "
        f"has {gpu.memory_gb} GB: use more tensor or pipeline, or zero=1 to 3",
    ]


def parts_of(step: Step, took_us: float) -> dict[str, float]:
    """Return the parts of a step, in µs of the mean stage: computing and optimizer, collectives of tensor and of expert
    groups inside nodes, the bubble of the pipeline on an idle network ((p - 1) / v passes of a micro-batch), and the
    rest. The rest is messages that are not hidden, and waiting for the slowest stage."""
    lay = step.layout
    compute = step.layer.times(step.layers * lay.interleave) + step.head.times(1 / lay.pipeline)
    micro = lay.micro_batches
    both = lambda p: p.forward + p.backward
    added = gradient_us(step.weights, step.gradient_octets, step.processor)
    each = both(compute) + added
    tensors, experts = (both(p) * lay.interleave for p in (step.tensors_us, step.experts_us))
    tensors += 2 * step.handed_us * (lay.interleave - 1 / lay.pipeline)
    optimizer = optimizer_us(step.weights / (lay.data if step.zero else 1), step.gradient_octets, step.processor)
    parts = {
        "compute_us": micro * each + optimizer,
        "tensor_us": micro * tensors,
        "expert_us": micro * experts,
        "bubble_us": (lay.pipeline - 1) / lay.interleave * (each + tensors + experts),
    }
    rest = max(0.0, took_us - sum(parts.values()))
    return {**parts, "rest_us": rest, "efficiency": parts["compute_us"] / took_us if took_us > 0 else 0.0}


class JobNodes(NamedTuple):
    """The nodes of a job."""

    gpus: int
    """Number of GPUs in each node."""
    adapters: np.ndarray
    """int64[nodes, nics]"""


def nodes_of_job(job: TrainingStep, hosts: Hosts) -> JobNodes:
    """Return the nodes of the hosts chosen by ``job``."""
    placed = machine_of_job(job, hosts.name, rows_of(job, hosts), hosts.gbps)
    return JobNodes(placed.machine.gpus, placed.adapters)
