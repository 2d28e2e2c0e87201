"""Results of storage commands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from softib.plural import counted
from softib.result import Result

__all__ = [
    "FileComparison",
    "NvmeBench",
    "NvmeDiscovery",
    "NvmeNamespace",
    "NvmePort",
    "NvmeSubsystem",
    "NvmeTransfer",
    "TargetDescription",
]


@dataclass
class NvmePort(Result):
    """A port of the fabric with a subsystem."""

    number: int
    address: str
    port: int
    nqn: str
    state: str | None
    """Asymmetric access state of its namespaces; null if not requested."""


@dataclass
class NvmeNamespace(Result):
    """A namespace."""

    number: int
    bytes: int
    block: int
    """Size of a block in bytes."""
    read_only: bool
    file: str | None
    """Path of the namespace's file on the target."""


@dataclass
class TargetDescription(Result):
    """Exports of a target."""

    document = "target"

    nqn: str
    ports: list[NvmePort]
    namespaces: list[NvmeNamespace]
    pid: int


@dataclass
class NvmeDiscovery(Result):
    """The subsystems of a target and the ports on which they are: its discovery log page."""

    document = "nvme-discover"

    address: str
    entries: list[NvmePort]

    def lines(self) -> list[str]:
        """Return one line per entry."""
        return [f"{e.nqn}  {e.address} port {e.port}" for e in self.entries]


@dataclass
class NvmeSubsystem(Result):
    """A connected subsystem."""

    document = "nvme-list"

    nqn: str
    model: str
    serial: str
    host_nqn: str
    paths: list[NvmePort]
    namespaces: list[NvmeNamespace]

    def lines(self) -> list[str]:
        """Return the subsystem, its paths and its namespaces."""
        paths = [f"  path {p.address} port {p.port}: {p.state}" for p in self.paths]
        spaces = [
            f"  namespace {n.number}: {n.bytes:,} bytes in blocks of {n.block:,}{', read only' if n.read_only else ''}"
            for n in self.namespaces
        ]
        return [f"{self.nqn}  {self.model} {self.serial}", *paths, *spaces]


@dataclass
class NvmeTransfer(Result):
    """Result of a read or write of a namespace."""

    document = "nvme-transfer"

    operation: Literal["read", "write", "compare", "zero", "flush"]
    offset: int
    bytes: int
    seconds: float
    equal: bool | None
    """Result of compare: the namespace holds the data."""

    def line(self) -> str:
        """Return the result in one line."""
        if self.operation == "flush":
            return f"flushed in {self.seconds:.3f} s"
        if self.equal is not None:
            return f"{self.bytes:,} bytes at {self.offset:,} are {'equal' if self.equal else 'different'}"
        done = {"read": "read", "write": "written", "zero": "zeroed"}[self.operation]
        return f"{self.bytes:,} bytes {done} at {self.offset:,} in {self.seconds:.3f} s"


@dataclass
class NvmeBench(Result):
    """Measured performance of a namespace."""

    document = "nvme-bench"

    size: int
    """Bytes of each command."""
    depth: int
    """Number of outstanding commands on each queue."""
    queues: int
    mix: Literal["read", "write", "mixed"]
    verified: bool
    """Whether all data matched the pattern that was written before."""
    seconds: float
    commands: int
    reads: int
    iops: float
    bytes_per_second: float
    latency_median_us: float
    latency_99_us: float
    latency_max_us: float

    def line(self) -> str:
        """Return the result in one line."""
        checked = "data verified" if self.verified else "data not verified"
        return (
            f"{self.mix} of {self.size:,} bytes, depth {self.depth} on {counted(self.queues, 'queue')}: "
            f"{self.iops:,.0f} commands/s, {self.bytes_per_second / 1e6:,.0f} MB/s, "
            f"latency {self.latency_median_us:,.0f} us (99 %: {self.latency_99_us:,.0f}, "
            f"largest {self.latency_max_us:,.0f}), {checked}"
        )


class FileComparison(NamedTuple):
    """A namespace compared with a file."""

    equal: bool
    size: int
    """Number of compared bytes."""


def state_text(state: int) -> str:
    """Return the name of an asymmetric access state as commands take it: ``non-optimized``."""
    from softib.ulp.nvmeof.codes import AnaState

    return AnaState(state).name.lower().replace("_", "-")
