"""Jobs of workload files that run on GPUs: NCCL's collectives (:mod:`softib.workloads.nccl`) and training steps
(:mod:`softib.workloads.training`)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from softib.workloads.job import Job, Number, Yes
from softib.workloads.quantities import Count, Rate, Volume

if TYPE_CHECKING:
    from softib.workloads.hosts import Hosts

__all__ = [
    "NCCL",
    "Gpus",
    "Nccl",
    "NcclAllGather",
    "NcclAllReduce",
    "NcclAllToAll",
    "NcclBroadcast",
    "NcclReduceScatter",
    "NcclSendRecv",
    "TrainingStep",
]


def _whole(value: Any) -> Any:
    """Convert an option to an integer if it is text from the command line."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _version(value: Any) -> Any:
    """Return a version of NCCL, for example 2.19.3, as text. (YAML reads 2.8 as a number.)"""
    text = str(value)
    if not re.fullmatch(r"2\.\d{1,2}(\.\d{1,2})?", text):
        raise ValueError("use for example 2.19.3")
    return text


Version = Annotated[str, BeforeValidator(_version)]


class Gpus(Job):
    """Options of all GPU jobs."""

    machine: str | None = Field(
        None,
        description="the node: dgx-1, dgx-a100, dgx-h100, dgx-h200, dgx-b200, dgx-b300, gb200-nvl72, gb300-nvl72, "
        "mi300x, a GPU's name for the vendor's node of it, or a file of softib calibrate; default: by the links' rate "
        "(docs/collectives.md)",
    )
    gpus: Number | None = Field(None, description="GPUs of a node; default the machine's")
    cpu: Literal["intel", "amd", "arm"] | None = Field(
        None, description="the processors' vendor; default the machine's"
    )
    nics: Number | None = Field(
        None,
        description="adapters per node, as consecutive hosts; default: those whose names begin with the same words",
    )
    gpudirect: Literal["pix", "phb", "sys", "off"] | None = Field(
        None, description="path between GPU and adapter, as NCCL's levels distinguish; off: through host memory"
    )
    gpu_nic: Rate | None = Field(
        None,
        description="measured Gb/s between GPUs and one adapter (osu_mbw_mr between GPUs, "
        "ib_write_bw --use_cuda); default: by the link and gpudirect",
    )
    per_process: Number = Field(
        1, description="GPUs that one process drives (nccl-tests -g): it launches them one after another"
    )
    nccl: Version = Field(
        "2.30",
        description="version of NCCL for its tuning constants; those of 2.8 and 2.30 are known, the nearer one is used",
    )

    @property
    def assumes_machine(self) -> bool:
        """Return whether the job names no machine."""
        return self.machine is None

    def assumed_machine(self, hosts: Hosts) -> str:
        """Return the name of the node that is assumed for the links of ``hosts``."""
        from softib.workloads.hosts import rows_of
        from softib.workloads.nccl.job import assumed_machine

        return assumed_machine(hosts.gbps, rows_of(self, hosts)).name


class Nccl(Gpus):
    """Collectives of NCCL."""

    size: Volume = Field(
        1_000_000, description="bytes of the collective as nccl-tests counts it (all-gather: of the whole vector)"
    )
    algorithm: str = Field(
        "", description="ring, tree, collnet, nvls, nvls-tree, pat; default: NCCL's choice (NCCL_ALGO)"
    )
    protocol: str = Field("", description="ll, ll128, simple; default: NCCL's choice (NCCL_PROTO)")
    sharp: Yes = Field(False, description="whether the switches reduce (CollNet, NVLS between nodes)")
    detail: Literal["auto", "chunks", "flows"] = Field(
        "auto", description="auto, flows: one flow per connection; otherwise every chunk is a message"
    )

    @property
    def reduces(self) -> bool:
        """Return whether the job uses reductions in switches."""
        return self.sharp

    def notes(self, hosts: Hosts) -> list[str]:
        """Return a note if another algorithm and protocol would be much faster than NCCL's choice."""
        from softib.workloads.hosts import rows_of
        from softib.workloads.nccl.job import notes_of

        return notes_of(self, hosts.name, rows_of(self, hosts), hosts.gbps)

    def figures(self, hosts: Hosts, took_us: float) -> dict[str, Any]:
        """Return the figures of nccl-tests (bandwidths, algorithm, protocol), and the reliability of the predicted
        time."""
        from softib.workloads.hosts import rows_of
        from softib.workloads.nccl.job import figures_of, run_of
        from softib.workloads.trust import Case, trusted

        given = (self, hosts.name, rows_of(self, hosts), hosts.gbps)
        run = run_of(*given)
        case = Case(
            "nccl", str(run.collective), hosts.profile.name, run.nodes, self.size, run.machine.gpu.name, self.nccl
        )
        return {"nccl": figures_of(*given, took_us), **trusted(case, took_us, (*run.machine.measured, *hosts.measured))}


class NcclAllReduce(Nccl):
    """NCCL's all-reduce on the GPUs of the hosts, with NCCL's choice of algorithm, protocol,
    channels and chunks"""

    pattern: Literal["nccl-all-reduce"] = "nccl-all-reduce"


class NcclAllGather(Nccl):
    """NCCL's all-gather on the GPUs of the hosts"""

    pattern: Literal["nccl-all-gather"] = "nccl-all-gather"


class NcclReduceScatter(Nccl):
    """NCCL's reduce-scatter on the GPUs of the hosts"""

    pattern: Literal["nccl-reduce-scatter"] = "nccl-reduce-scatter"


class NcclBroadcast(Nccl):
    """NCCL's broadcast from the first GPU to all"""

    pattern: Literal["nccl-broadcast"] = "nccl-broadcast"


class NcclAllToAll(Nccl):
    """every GPU to every other with NCCL's sends and receives"""

    pattern: Literal["nccl-all-to-all"] = "nccl-all-to-all"


class NcclSendRecv(Nccl):
    """every GPU sends to the next one, as sendrecv_perf of nccl-tests"""

    pattern: Literal["nccl-send-recv"] = "nccl-send-recv"


NCCL = (NcclAllReduce, NcclAllGather, NcclReduceScatter, NcclBroadcast, NcclAllToAll, NcclSendRecv)
"""All collectives, in the order of the JSON Schema."""


class TrainingStep(Gpus):
    """one step of training a transformer on all GPUs of the hosts: data, tensor, pipeline and
    expert parallel"""

    pattern: Literal["training-step"] = "training-step"
    layers: Number = Field(32, description="layers of the transformer")
    hidden: Number = Field(4096, description="size of a hidden state")
    sequence: Number = Field(4096, description="tokens of a sequence")
    vocabulary: Number = Field(32_000, description="tokens in the vocabulary")
    batch: Number = Field(1024, description="sequences of a step, on all GPUs together")
    micro_batch: Number | None = Field(
        None,
        description="sequences that a stage handles at once; default: 1; other models: all of a GPU",
    )
    tensor: Number = Field(1, description="GPUs that share each layer")
    pipeline: Number = Field(1, description="stages of layers")
    experts: Annotated[int, Field(ge=0, le=100_000)] = Field(0, description="experts of each layer; 0: a dense model")
    top_k: Number = Field(2, description="experts of a token")
    expert: Number = Field(1, description="GPUs that share the experts")
    tflops: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="TFLOP/s of a GPU; default: its data sheet's value for bf16 without sparsity (H100: 989)"
    )
    achieved: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = Field(
        None,
        description="share of that rate that computation achieves, including memory; default: computed from "
        "the size of each matrix product and the bytes between products; for other models 0.5",
    )
    parameters: Count | None = Field(
        None, description="parameters of a model other than a transformer, for example a CNN; needs operations"
    )
    operations: Count | None = Field(None, description="operations of such a model on one sample, forward and backward")
    buckets: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None,
        description="number of buckets in which gradients are summed; default: up to 8 of the size that Megatron-LM "
        "or DistributedDataParallel has, without overlap 1",
    )
    gradient_bytes: Annotated[Literal[2, 4], BeforeValidator(_whole)] = Field(2, description="bytes of a gradient")
    overlap: Yes = Field(True, description="sum up gradients while the backward pass runs")
    recompute: Yes = Field(False, description="compute activations again in the backward pass")
    zero: Annotated[int, Field(ge=0, le=3)] = Field(
        0, description="stage of ZeRO: replicas share optimizer states (1), gradients (2), weights (3)"
    )
    interleave: Number = Field(
        1, description="chunks of layers of a stage, which a micro-batch passes one after another (Megatron-LM)"
    )
    heads: Number | None = Field(None, description="number of attention heads; default: heads of size 128")
    flash_attention: Yes = Field(True, description="one kernel computes attention, without writing its scores")
    megatron: dict[str, Any] | str | None = Field(
        None,
        description=(
            "settings of Megatron-LM (tensor-model-parallel-size or tp, num-layers, …) instead of the corresponding "
            "options, or the name of a YAML file with them"
        ),
    )
    deepspeed: dict[str, Any] | str | None = Field(
        None, description="DeepSpeed's configuration (batch sizes, zero_optimization), or the name of its file"
    )
    gather_lists: Yes = Field(
        False,
        description="ZeRO stage 3 of DeepSpeed 0.3.13: all-gathers take lists of tensors, with views and a copy for "
        "each rank, and gradients are all-reduced",
    )
    sequence_parallel: Yes = Field(False, description="a tensor group also shares activations between its layers")

    @model_validator(mode="before")
    @classmethod
    def _settings(cls, given: Any) -> Any:
        """Convert the settings of Megatron-LM and DeepSpeed to options."""
        from softib.workloads.training.settings import with_settings

        return with_settings(given) if isinstance(given, dict) else given

    def notes(self, hosts: Hosts) -> list[str]:
        """Return a note if the GPUs' memory is too small for the model."""
        from softib.workloads.hosts import rows_of
        from softib.workloads.training.job import notes_of

        return notes_of(self, hosts.name, rows_of(self, hosts), hosts.gbps)

    def figures(self, hosts: Hosts, took_us: float) -> dict[str, Any]:
        """Return the figures of a step: tokens a second, efficiency, GPU-hours."""
        from softib.workloads.hosts import rows_of
        from softib.workloads.training.job import figures_of

        return {"training": figures_of(self, hosts.name, rows_of(self, hosts), hosts.gbps, took_us)}
