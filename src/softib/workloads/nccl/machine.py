"""Descriptions of GPU nodes: GPU model, number of GPUs and adapters, and the path between them,
as in NCCL's topology search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from softib.errors import InputError, UnknownName
from softib.plural import counted
from softib.workloads.nccl.gpudirect import GPUDIRECT, JOINED
from softib.workloads.parameters import Section, section
from softib.workloads.trust import Dataset

__all__ = ["CPUS", "GPUS", "MACHINES", "Gpu", "Machine", "machine_of", "machine_of_links"]

CPUS = ("amd", "intel", "arm")
"""Vendors of processors. (NCCL's tables distinguish only AMD from all others.)"""
SEARCHED_SPEEDS = (240, 180, 120, 96, 48, 40, 30, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2)
"""Rates of a channel in GB/s that NCCL's topology search tries, the fastest first (src/graph/search.cc)."""
DOUBLED_FROM = 48
"""From Hopper on, NCCL doubles the number of channels again if the rate of a channel is at least this (GB/s)."""
MAX_GPUS = 1024


@dataclass(frozen=True)
class Gpu:
    """One GPU model.

    * ``index``: row of NCCL's tables (Volta, Ampere, Hopper, Blackwell).
    * ``nvlink_gbytes``: GB/s of all NVLinks in one direction, as NCCL computes it: the number of links times
      SM70_NVLINK_BW etc. (src/graph/topo.h).
    * ``channels``: number of channels of a ring inside a node.
    * ``nvls``: whether NVSwitch can reduce.
    * ``pcie_gbytes``: GB/s of its 16 lanes of PCIe, as NCCL computes it: 12 for the third generation (PCI_WIDTH in
      src/graph/topo.h), and twice as much for each later generation.
    * ``tflops``: rate of dense bf16 (V100: fp16) in the vendor's data sheet.
    * ``multiprocessors``, ``memory_gbytes`` (memory bandwidth in GB/s; A100: that of the model with 80 GB) and
      ``memory_gb`` (size of the memory; V100: that of the later DGX-1) are also from the data sheet.
    * ``pci``: PCI IDs of vendor and device.
    * ``ll128``: whether the library uses LL128 by default.
    """

    name: str
    index: int
    nvlink_gbytes: float
    channels: int
    nvls: bool
    pcie_gbytes: float
    tflops: float
    multiprocessors: int
    memory_gbytes: float
    pci: tuple[int, int]
    memory_gb: int
    ll128: bool = True

    def but(self, **changes: Any) -> Gpu:
        """Return a copy with other fields."""
        return replace(self, **changes)


GPUS = {
    g.name: g
    for g in (
        Gpu("V100", 0, 120.0, 12, False, 12.0, 125.0, 80, 900.0, (0x10DE, 0x1DB1), 32),
        Gpu("A100", 1, 240.0, 24, False, 24.0, 312.0, 108, 2039.0, (0x10DE, 0x20B2), 80),
        Gpu("H100", 2, 370.8, 24, True, 48.0, 989.0, 132, 3350.0, (0x10DE, 0x2330), 80),
        Gpu("H200", 2, 370.8, 24, True, 48.0, 989.0, 132, 4800.0, (0x10DE, 0x2335), 141),
        Gpu("B200", 3, 721.8, 32, True, 48.0, 2250.0, 148, 8000.0, (0x10DE, 0x2901), 180),
        Gpu("GB200", 3, 721.8, 32, True, 48.0, 2500.0, 148, 8000.0, (0x10DE, 0x2941), 186),
        Gpu("B300", 3, 721.8, 32, True, 96.0, 2250.0, 148, 8000.0, (0x10DE, 0x3182), 288),
        Gpu("GB300", 3, 721.8, 32, True, 96.0, 2500.0, 148, 8000.0, (0x10DE, 0x31C2), 288),
        # Seven links of 64 GB/s to the other GPUs of a node (AMD's data sheet). RCCL's tables were not read, so
        # Ampere's row is used instead. RCCL of October 2024 has LL128 by default only on gfx90a
        # (src/graph/tuning.cc).
        Gpu("MI300X", 1, 448.0, 28, False, 48.0, 1307.0, 304, 5300.0, (0x1002, 0x74A1), 192, False),
    )
}


@dataclass(frozen=True)
class Machine:
    """One node.

    * ``gpus``: number of GPUs; all are of the model ``gpu``.
    * ``nics``: number of adapters, whose links have the data rate ``nic_gbps``.
    * ``cpu``: the processor's vendor.
    * ``gpudirect``: a key of :data:`GPUDIRECT`.
    * ``sharp``: whether the switches reduce.
    * ``gpu_nic_gbps``: measured rate between GPUs and one adapter in one direction (0: it follows from the
      link and ``gpudirect``).
    * ``per_process``: number of GPUs that one process drives (nccl-tests' ``-g``).
    * ``hosts``: number of hosts in one NVLink domain; NCCL treats the domain as a node.
    * ``constants``: parameters of section ``nccl`` that were fitted to measurements of this machine.
    * ``measured``: these measurements.
    """

    name: str
    gpu: Gpu
    gpus: int
    nics: int
    nic_gbps: float
    cpu: str = "intel"
    gpudirect: str = "pix"
    sharp: bool = False
    gpu_nic_gbps: float = 0.0
    per_process: int = 1
    hosts: int = 1
    constants: Mapping[str, float] = field(default_factory=dict)
    measured: tuple[Dataset, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.gpus <= MAX_GPUS or not 1 <= self.nics <= MAX_GPUS:
            raise InputError(
                f"{self.gpus} GPUs and {self.nics} NICs per node: out of range; use 1 to {MAX_GPUS:,} of each"
            )
        if not 1 <= self.per_process <= self.gpus:
            raise InputError(
                f"{self.per_process} GPUs per process do not fit a node with {self.gpus}; use 1 to {self.gpus}"
            )
        if not self.nic_gbps > 0:
            raise InputError(f"a NIC rate of {self.nic_gbps} Gb/s is not valid; use a rate above 0")
        if self.gpudirect not in GPUDIRECT:
            raise UnknownName("path between GPU and NIC", self.gpudirect, GPUDIRECT)

    def __str__(self) -> str:
        measured = f", {self.gpu_nic_gbps:g} Gb/s between GPUs and each" if self.gpu_nic_gbps else ""
        return (
            f"{counted(self.gpus, 'GPU')} {self.gpu.name}, NVLink {self.gpu.nvlink_gbytes:g} GB/s, "
            f"{counted(self.nics, 'adapter')} of {self.nic_gbps:g} Gb/s {JOINED[self.gpudirect]}{measured}, "
            f"processors of {self.cpu.upper() if self.cpu != 'intel' else 'Intel'}"
        )

    @property
    def values(self) -> Section:
        """Return the parameters of NCCL on this machine."""
        return section("nccl").but(**self.constants)

    @property
    def amd(self) -> bool:
        """Return whether the processors are AMD's."""
        return self.cpu == "amd"

    @property
    def ll128(self) -> bool:
        """Return whether NCCL allows LL128 between nodes: only if GPU and NIC are below one PCIe switch."""
        return self.gpudirect == "pix" and self.gpu.ll128

    @property
    def root_complex(self) -> bool:
        """Return whether GPUs and adapters are connected through the processor's root complex.
        NCCL multiplies GPU traffic through a root complex of Intel by 12/9."""
        return self.gpudirect in ("phb", "sys")

    def but(self, **changes: Any) -> Machine:
        """Return a copy with other fields."""
        return replace(self, **changes)

    def part(self, gpus: int, nics: int) -> Machine:
        """Return the part of a node that a communicator with fewer GPUs uses."""
        return self.but(gpus=gpus, nics=nics, per_process=min(self.per_process, gpus))

    def nic_of(self, gpu: int) -> int:
        """Return the NIC that GPU number ``gpu`` of the node uses. Each NIC is used by the same number of GPUs, which
        are the nearest ones."""
        return gpu * self.nics // self.gpus if self.gpus >= self.nics else gpu * (self.nics // self.gpus)

    def one_order(self, nodes: int) -> bool:
        """Return whether all channels pass the GPUs in the same order (sameChannels of NCCL's graph). Between nodes the
        channels of each NIC begin at its GPU; inside a node they have several orders."""
        return nodes > 1 and self.nics == 1

    def channels(self, nodes: int) -> int:
        """Return the number of channels of a communicator, at most 32: the rings that the search finds, doubled as in
        NCCL, and doubled again from Hopper on if a ring is faster than 45 GB/s (src/graph/connect.cc). A ring is that
        fast only with fewer than eight GPUs in a node, or with links faster than Hopper's."""
        if nodes == 1:
            return self.gpu.channels
        rings = min(self.nics, 16)
        share = min(self.nic_gbps / 8, self.gpu.nvlink_gbytes / rings if self.gpus > 1 else math.inf)
        return 4 * rings if self.gpu.index >= 2 and share >= DOUBLED_FROM and 4 * rings <= 32 else 2 * rings

    def channel_gbytes(self, nodes: int) -> float:
        """Return the GB/s of a channel according to NCCL's search: its share of the network, or of NVLink."""
        if nodes == 1:
            return self.gpu.nvlink_gbytes / self.gpu.channels
        nic = self.nic_gbps / 8
        speed = next((s for s in SEARCHED_SPEEDS if s <= nic), nic)
        speed = min(speed, self.gpu.nvlink_gbytes / min(self.nics, 16)) if self.gpus > 1 else speed
        return speed * min(self.nics, 16) / self.channels(nodes)


MACHINES = {
    m.name: m
    for m in (
        Machine("dgx-1", GPUS["V100"], 8, 4, 100.0),
        Machine("dgx-a100", GPUS["A100"], 8, 8, 200.0, cpu="amd"),
        Machine("dgx-h100", GPUS["H100"], 8, 8, 400.0),
        Machine("dgx-h200", GPUS["H200"], 8, 8, 400.0),
        Machine("dgx-b200", GPUS["B200"], 8, 8, 400.0),
        Machine("dgx-b300", GPUS["B300"], 8, 8, 800.0),
        Machine("gb200-nvl72", GPUS["GB200"], 72, 72, 400.0, cpu="arm", hosts=18),
        Machine("gb300-nvl72", GPUS["GB300"], 72, 72, 800.0, cpu="arm", hosts=18),
        Machine("mi300x", GPUS["MI300X"], 8, 8, 400.0, cpu="amd"),
    )
}
"""Name → machine, as in the vendor's data sheet."""
BY_GPU = {m.gpu.name.lower(): m for m in MACHINES.values()}
"""GPU name → the vendor's node with this GPU."""
BY_LINK = ((100.0, "dgx-1"), (200.0, "dgx-a100"), (400.0, "dgx-h100"))
"""(Gb/s, machine): the machine is assumed for links of up to this rate; it is the vendor's node with adapters of that
generation. For links faster than the last entry, dgx-b300 is assumed."""


def machine_of(name: str) -> Machine:
    """Return the machine called ``name``; ``name`` may also be a GPU or a machine file. Raises :class:`UnknownName`."""
    from softib.workloads.machine_file import is_machine_file, read_machine

    if is_machine_file(name):
        return read_machine(name).machine()
    machines = MACHINES | BY_GPU
    if name.lower() not in machines:
        raise UnknownName("machine", name, [*MACHINES, *BY_GPU])
    return machines[name.lower()]


def machine_of_links(gbps: float) -> Machine:
    """Return the machine that is assumed for links of ``gbps``; dgx-h100 if the rate is unknown (0)."""
    if gbps <= 0:
        return MACHINES["dgx-h100"]
    return MACHINES[next((name for most, name in BY_LINK if gbps <= most * 1.01), "dgx-b300")]
