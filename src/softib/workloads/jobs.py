"""The jobs of a workload by pattern, checked by pydantic: one class a pattern, its fields are its options.

Imported only where a workload is read (pydantic takes 0.1 s).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from softib.workloads.faults import AnyFault, Management
from softib.workloads.job import HostName, Job, Number, Repeated, Yes
from softib.workloads.quantities import MAX_SIZE, Size, Time, Volume
from softib.workloads.storage_jobs import Checkpoint, Storage

__all__ = ["PATTERNS", "Job", "WorkloadFile", "doc_of"]


class Permutation(Repeated):
    """every host sends to another one, each receives from one; drawn at random"""

    pattern: Literal["permutation"] = "permutation"


class Shift(Repeated):
    """host i sends to host i + k"""

    pattern: Literal["shift"] = "shift"
    k: Annotated[int, Field(ge=1)] = Field(1, description="how far")


class AllToAll(Job):
    """every host to every other, by shifts 1, 2, …"""

    pattern: Literal["all-to-all"] = "all-to-all"
    window: Annotated[int, Field(ge=0)] = Field(1, description="messages of a host that are under way at once; 0: all")
    barrier: Yes = Field(False, description="all wait for all after each shift (fluid layer)")


class RandomPairs(Job):
    """messages between hosts drawn at random, beginning within a span of time"""

    pattern: Literal["random-pairs"] = "random-pairs"
    messages: Number | None = Field(None, description="how many; default: one for each host")
    over: Time = Field(0, description="begin at random times within this span")


class Bisection(Repeated):
    """a random matching between two random halves of the hosts, both directions (effective bisection bandwidth)"""

    pattern: Literal["bisection"] = "bisection"


class Incast(Repeated):
    """many hosts to one"""

    pattern: Literal["incast"] = "incast"
    senders: Number | None = Field(
        None, description="how many, drawn at random; default 32, or all others where there are fewer"
    )
    target: HostName | None = Field(None, description="who receives; default the first host")


class ParkingLot(Repeated):
    """one host of every switch sends to one sink: flows join on their way, one at each switch"""

    pattern: Literal["parking-lot"] = "parking-lot"
    target: HostName | None = Field(None, description="the sink; default the first host")


class HotSpot(Repeated):
    """an incast, and victims: the other hosts send to each other (a shift), in part over the same links"""

    pattern: Literal["hot-spot"] = "hot-spot"
    senders: Number | None = Field(None, description="senders of the incast; default a quarter of the hosts")
    target: HostName | None = Field(None, description="the hot host; default the first")
    victim_sl: Annotated[int, Field(ge=0, le=15)] | None = Field(
        None, description="service level of the victims; default: as the others"
    )


class Pair(Job):
    """Patterns between two hosts."""

    source: HostName | None = Field(None, description="the client; default the first host")
    target: HostName | None = Field(None, description="the server; default the last host")
    iterations: Number = Field(1000, description="messages, as perftest's -n")


class Multicast(Repeated):
    """datagrams of one host to a multicast group, which the subnet manager makes (packet layer)"""

    pattern: Literal["multicast"] = "multicast"
    size: Size = Field(2048, description="bytes of a datagram, at most the path MTU")
    source: HostName | None = Field(None, description="who sends; default the first host")
    receivers: Number | None = Field(None, description="members, drawn at random; default all others")
    opcode: Literal["write", "write-with-imm", "send", "read", "atomic"] = Field(
        "send", description="datagrams are sent"
    )
    transport: Literal["rc", "uc", "ud"] = Field("ud", description="groups are of datagrams")


class Aggregation(Job):
    """an all-reduce by the switches' aggregation nodes: every host gets the sum of all vectors (packet layer)"""

    pattern: Literal["aggregation"] = "aggregation"
    size: Size = Field(4096, description="bytes of each host's vector")
    tree: Literal["latency", "streaming"] = Field(
        "latency", description="small operations, many at a time, or a stream of packets"
    )


class Latency(Pair):
    """ping-pong as ib_write_lat: the answer to each message is the next"""

    pattern: Literal["latency"] = "latency"
    size: Size = Field(2, description="bytes of a message")


class Bandwidth(Pair):
    """as ib_write_bw: so many messages under way on each queue pair"""

    pattern: Literal["bandwidth"] = "bandwidth"
    size: Size = Field(65536, description="bytes of a message")
    tx_depth: Number = Field(128, description="messages under way, as perftest's -t")
    qps: Number = Field(1, description="queue pairs, as perftest's -q")
    bidirectional: Yes = Field(False, description="both send, as perftest's -b")


class MessageRate(Bandwidth):
    """as ib_write_bw with small messages on several queue pairs"""

    pattern: Literal["message-rate"] = "message-rate"  # type: ignore[assignment]
    size: Size = Field(8, description="bytes of a message")
    qps: Number = Field(4, description="queue pairs, as perftest's -q")


class Matrix(Job):
    """a traffic matrix from a file: who sends how many bytes to whom, all at once"""

    pattern: Literal["matrix"] = "matrix"
    file: str = Field(description="CSV of source,destination,bytes, or names along both sides")
    size: Size = Field(MAX_SIZE, description="entries with more bytes become several messages of at most this size")


class Trace(Job):
    """a program that was recorded or generated: a GOAL schedule or Chakra traces; what each rank sends, receives and computes"""

    pattern: Literal["trace"] = "trace"
    file: str = Field(description="the schedule, or the trace of one rank: those of the others stand beside it")
    ranks: Number | None = Field(
        None, description="of a Chakra trace of one rank alone: ranks that run it; default: as many as the hosts take"
    )
    ranks_per_host: Number = Field(1, description="ranks on each host, in order")
    send_overhead: Time = Field(0, description="of the processor for each message sent")
    receive_overhead: Time = Field(0, description="of the processor for each message received")
    eager_limit: Size = Field(
        MAX_SIZE, description="largest message that is sent without asking; larger ones are READ by the receiver"
    )


class Mpi(Job):
    """What all patterns of MPI take."""

    algorithm: str = Field("", description="algorithm, such as ring; default: the one that Open MPI takes")
    version: Literal["4.0", "4.1", "5.0"] = Field(
        "4.1", description="version of Open MPI whose rules choose the algorithm"
    )
    segment: Size | None = Field(None, description="bytes of a segment, of algorithms that send in segments")
    ranks: Number | None = Field(None, description="how many; default: as many as the hosts take")
    ranks_per_host: Number = Field(1, description="ranks on each host, in order; they share its memory")
    rails: Annotated[int, Field(ge=1, le=16)] = Field(
        1, description="ports of each host: so many hosts of the fabric in a row are one host's ports"
    )
    machine: str = Field("default", description="whose costs: a section openmpi-NAME of the parameters")
    iterations: Number = Field(1, description="how often, one after another")


class MpiAllreduce(Mpi):
    """MPI_Allreduce of a vector of floats of this size"""

    pattern: Literal["mpi-allreduce"] = "mpi-allreduce"


class MpiReduce(Mpi):
    """MPI_Reduce to rank 0"""

    pattern: Literal["mpi-reduce"] = "mpi-reduce"


class MpiBcast(Mpi):
    """MPI_Bcast from rank 0"""

    pattern: Literal["mpi-bcast"] = "mpi-bcast"


class MpiReduceScatter(Mpi):
    """MPI_Reduce_scatter of a vector of this size"""

    pattern: Literal["mpi-reduce-scatter"] = "mpi-reduce-scatter"


class MpiAllgather(Mpi):
    """MPI_Allgather: the size is that of a rank's block"""

    pattern: Literal["mpi-allgather"] = "mpi-allgather"


class MpiAlltoall(Mpi):
    """MPI_Alltoall: the size is what a rank sends to each other one"""

    pattern: Literal["mpi-alltoall"] = "mpi-alltoall"


class MpiGather(Mpi):
    """MPI_Gather to rank 0: the size is that of a rank's block"""

    pattern: Literal["mpi-gather"] = "mpi-gather"


class MpiScatter(Mpi):
    """MPI_Scatter from rank 0: the size is that of a rank's block"""

    pattern: Literal["mpi-scatter"] = "mpi-scatter"


class MpiBarrier(Mpi):
    """MPI_Barrier"""

    pattern: Literal["mpi-barrier"] = "mpi-barrier"


class MpiLatency(Mpi):
    """MPI_Send and MPI_Recv between two ranks in turn, as osu_latency"""

    pattern: Literal["mpi-latency"] = "mpi-latency"


class MpiBandwidth(Mpi):
    """64 MPI_Isend at once and an answer, as osu_bw"""

    pattern: Literal["mpi-bandwidth"] = "mpi-bandwidth"


MPI = (
    MpiAllreduce,
    MpiReduce,
    MpiBcast,
    MpiReduceScatter,
    MpiAllgather,
    MpiAlltoall,
    MpiGather,
    MpiScatter,
    MpiBarrier,
    MpiLatency,
    MpiBandwidth,
)


class Gpus(Job):
    """What all jobs of GPUs take."""

    machine: str = Field(
        "dgx-h100", description="the node: dgx-a100, dgx-h100, dgx-b200, ndv4, abci-v, abci-a (docs/collectives.md)"
    )
    gpus: Number | None = Field(None, description="GPUs of a node; default the machine's")
    nics: Number | None = Field(
        None, description="adapters of a node, so many hosts in a row; default: those whose names begin alike"
    )
    gpudirect: Literal["pix", "phb", "sys", "off"] | None = Field(
        None, description="path between GPU and adapter, as NCCL's levels distinguish; off: through host memory"
    )
    release: Literal["2.8", "2.30"] = Field("2.30", description="of NCCL, whose constants choose")


class Nccl(Gpus):
    """Collectives of NCCL."""

    size: Volume = Field(
        1_000_000, description="bytes of the collective as nccl-tests counts it (all-gather: of the whole vector)"
    )
    algorithm: str = Field(
        "", description="ring, tree, collnet, nvls, nvls-tree, pat; default: what NCCL's model takes (NCCL_ALGO)"
    )
    protocol: str = Field("", description="ll, ll128, simple; default: what NCCL's model takes (NCCL_PROTO)")
    sharp: Yes = Field(False, description="do the switches reduce (CollNet, NVLS between nodes)")
    detail: Literal["auto", "chunks", "flows"] = Field(
        "auto", description="every chunk as a message, or one flow a connection; auto: chunks up to 200,000 transfers"
    )


class NcclAllReduce(Nccl):
    """NCCL's all-reduce on the GPUs of the hosts: algorithm, protocol, channels and chunks as NCCL takes them"""

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
    """every GPU to every other by NCCL's sends and receives"""

    pattern: Literal["nccl-all-to-all"] = "nccl-all-to-all"


class NcclSendRecv(Nccl):
    """every GPU sends to the next one, as sendrecv_perf of nccl-tests"""

    pattern: Literal["nccl-send-recv"] = "nccl-send-recv"


class TrainingStep(Gpus):
    """one step of training a transformer on all GPUs of the hosts: data, tensor, pipeline and expert parallel"""

    pattern: Literal["training-step"] = "training-step"
    layers: Number = Field(32, description="layers of the transformer")
    hidden: Number = Field(4096, description="size of a hidden state")
    sequence: Number = Field(4096, description="tokens of a sequence")
    vocabulary: Number = Field(32_000, description="tokens that there are")
    batch: Number = Field(1024, description="sequences of a step, on all GPUs together")
    micro_batch: Number = Field(1, description="sequences that a stage handles at once")
    tensor: Number = Field(8, description="GPUs that share each layer")
    pipeline: Number = Field(1, description="stages of layers")
    experts: Annotated[int, Field(ge=0, le=100_000)] = Field(0, description="experts of each layer; 0: a dense model")
    top_k: Number = Field(2, description="experts of a token")
    expert: Number = Field(1, description="GPUs that share the experts")
    tflops: Annotated[float, Field(gt=0)] = Field(989.0, description="TFLOP/s of a GPU (H100: 989 with bf16)")
    achieved: Annotated[float, Field(gt=0, le=1)] = Field(0.5, description="share of it that computing alone achieves")
    buckets: Annotated[int, Field(ge=1, le=1000)] = Field(8, description="pieces in which gradients are summed up")
    overlap: Yes = Field(True, description="sum up gradients while the backward pass runs")
    recompute: Yes = Field(False, description="compute activations again in the backward pass")


AnyJob = Annotated[
    Permutation | Shift | AllToAll | RandomPairs | Bisection | Incast | ParkingLot | HotSpot | Multicast | Aggregation | Latency | Bandwidth | MessageRate | Matrix | Trace
    | NcclAllReduce | NcclAllGather | NcclReduceScatter | NcclBroadcast | NcclAllToAll | NcclSendRecv | TrainingStep | Storage | Checkpoint
    | MpiAllreduce | MpiReduce | MpiBcast | MpiReduceScatter | MpiAllgather | MpiAlltoall | MpiGather | MpiScatter | MpiBarrier | MpiLatency | MpiBandwidth,
    Field(discriminator="pattern"),
]  # fmt: skip

PATTERNS: dict[str, type[Job]] = {
    str(c.model_fields["pattern"].default): c
    for c in (Permutation, Shift, AllToAll, RandomPairs, Bisection, Incast, ParkingLot, HotSpot, Multicast, Aggregation, Latency, Bandwidth, MessageRate,
              Matrix, Trace, NcclAllReduce, NcclAllGather, NcclReduceScatter, NcclBroadcast, NcclAllToAll, NcclSendRecv, TrainingStep,
              Storage, Checkpoint, *MPI)
}  # fmt: skip
"""Class of each pattern by its name."""


class OtherFabric(BaseModel):
    """A fabric beside SOURCE that jobs of the file run on."""

    model_config = ConfigDict(extra="forbid")
    source: str = Field(description="a fabric, as SOURCE; a file is relative to the workload file")
    network: str = Field("infiniband", description="or roce or tcp, with options as in roce,gbps=100 (packet layer)")
    engine: str | None = Field(None, description="routing engine; default: that of the run")


class WorkloadFile(BaseModel):
    """A workload file: jobs that run together."""

    model_config = ConfigDict(extra="forbid")
    name: str | None = Field(None, description="the workload's name; default: the file's")
    jobs: Annotated[list[AnyJob], Field(min_length=1)]
    fabrics: dict[str, OtherFabric] = Field({}, description="other fabrics that jobs run on, by name")
    faults: list[AnyFault] = Field([], description="what fails at which time (packet layer)")
    management: Management | None = Field(None, description="the subnet manager and the agents while faults happen")


def doc_of(pattern: str) -> str:
    """One line on a pattern."""
    return " ".join((PATTERNS[pattern].__doc__ or "").split())
