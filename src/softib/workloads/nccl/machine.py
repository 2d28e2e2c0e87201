"""Nodes with GPUs: how many, which NICs, what joins them; as NCCL's topology search sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from softib.errors import InputError, UnknownName

__all__ = ["GPUDIRECT", "GPUS", "MACHINES", "Gpu", "Machine", "machine_of"]

GPUDIRECT = ("pix", "phb", "sys", "off")
"""Between GPU and NIC: the same PCIe switch, the root complex of one processor, the link between
processors, no peer-to-peer DMA (NCCL's PATH_PIX, PATH_PHB, PATH_SYS; NCCL_NET_GDR_LEVEL)."""
SEARCHED_SPEEDS = (240, 180, 120, 96, 48, 40, 30, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2)
"""GB/s of a channel that NCCL's search tries, from the fastest on (src/graph/search.cc)."""
MAX_GPUS = 1024


@dataclass(frozen=True)
class Gpu:
    """``index``: row of NCCL's tables (Volta, Ampere, Hopper, Blackwell). ``nvlink_gbytes``: GB/s
    of all NVLinks in one direction, as NCCL counts them (links times SM70_NVLINK_BW …,
    src/graph/topo.h). ``channels``: of a ring inside a node. ``nvls``: can NVSwitch add up?
    ``pcie_gbytes``: GB/s of its 16 lanes of PCIe, as NCCL counts them (12 of the third generation,
    PCI_WIDTH in src/graph/topo.h, and twice as much of each later one)."""

    name: str
    index: int
    nvlink_gbytes: float
    channels: int
    nvls: bool
    pcie_gbytes: float


GPUS = {
    g.name: g
    for g in (
        Gpu("V100", 0, 120.0, 12, False, 12.0),
        Gpu("A100", 1, 240.0, 24, False, 24.0),
        Gpu("H100", 2, 370.8, 24, True, 48.0),
        Gpu("B200", 3, 721.8, 32, True, 48.0),
    )
}


@dataclass(frozen=True)
class Machine:
    """One node. ``gpus`` of model ``gpu``, ``nics`` adapters of ``nic_gbps`` (data rate of the
    link); ``amd``: the processor's vendor; ``gpudirect`` as in :data:`GPUDIRECT`; ``ll128``: does
    NCCL allow LL128 between nodes (GPU and NIC behind one PCIe switch); ``sharp``: do the switches
    reduce; ``nic_gbytes``: what GPUs and a NIC exchange, where it was measured (0: from the link
    and ``gpudirect``); ``launch``: name of the parameter of launch and host overhead;
    ``per_process``: GPUs that one process drives (nccl-tests' ``-g``); ``same_channels``: do all
    rings inside a node pass its GPUs in one order, as NCCL's search finds it with NVSwitches, but
    not with NVLinks between GPUs (sameChannels of a graph)? ``root_complex``: do GPUs and adapters
    meet in the processor's root complex, and not behind a PCIe switch? NCCL then has no LL128
    between nodes, and counts what GPUs send through one of Intel 12/9 times."""

    name: str
    gpu: Gpu
    gpus: int
    nics: int
    nic_gbps: float
    amd: bool = False
    gpudirect: str = "pix"
    ll128: bool = True
    sharp: bool = False
    nic_gbytes: str = ""
    launch: str = "launch"
    per_process: int = 1
    same_channels: bool = True
    root_complex: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.gpus <= MAX_GPUS or not 1 <= self.nics <= MAX_GPUS:
            raise InputError(f"{self.gpus} GPUs and {self.nics} NICs in a node; it has 1 to {MAX_GPUS:,} of each")
        if not 1 <= self.per_process <= self.gpus:
            raise InputError(
                f"{self.per_process} GPUs a process on nodes of {self.gpus}; a process drives 1 to all of a node"
            )
        if not self.nic_gbps > 0:
            raise InputError(f"a NIC of {self.nic_gbps} Gb/s; its rate is more than 0")
        if self.gpudirect not in GPUDIRECT:
            raise UnknownName("path between GPU and NIC", self.gpudirect, GPUDIRECT)

    def but(self, **changes: Any) -> Machine:
        """The same with other fields; without GPUDirect behind one PCIe switch there is no LL128,
        as in NCCL."""
        if changes.get("gpudirect", self.gpudirect) != "pix":
            changes.setdefault("ll128", False)
        return replace(self, **changes)

    def part(self, gpus: int, nics: int) -> Machine:
        """The share of a node that a communicator of fewer of its GPUs has."""
        return self.but(gpus=gpus, nics=nics, per_process=min(self.per_process, gpus))

    def nic_of(self, gpu: int) -> int:
        """The NIC that GPU number ``gpu`` of the node uses: the nearest, an even share of the GPUs
        for each."""
        return gpu * self.nics // self.gpus if self.gpus >= self.nics else gpu * (self.nics // self.gpus)

    def one_order(self, nodes: int) -> bool:
        """Do all channels pass the GPUs in one order? Between nodes those of each NIC begin at its
        own GPU."""
        return self.nics == 1 if nodes > 1 else self.same_channels

    def channels(self, nodes: int) -> int:
        """Channels of a communicator: rings of the search, doubled as NCCL does
        (src/graph/connect.cc), at most 32."""
        return self.gpu.channels if nodes == 1 else min(32, 2 * min(self.nics, 16))

    def channel_gbytes(self, nodes: int) -> float:
        """GB/s of a channel as NCCL's search finds it: the network's share, or NVLink's."""
        if nodes == 1:
            return self.gpu.nvlink_gbytes / self.gpu.channels
        nic = self.nic_gbps / 8
        speed = next((s for s in SEARCHED_SPEEDS if s <= nic), nic)
        speed = min(speed, self.gpu.nvlink_gbytes / min(self.nics, 16)) if self.gpus > 1 else speed
        return speed * min(self.nics, 16) / self.channels(nodes)


MACHINES = {
    m.name: m
    for m in (
        Machine("dgx-a100", GPUS["A100"], 8, 8, 200.0, amd=True),
        Machine("dgx-h100", GPUS["H100"], 8, 8, 400.0),
        Machine("dgx-b200", GPUS["B200"], 8, 8, 400.0),
        Machine("ndv4", GPUS["A100"], 8, 8, 200.0, amd=True),
        Machine(
            "abci-v",
            GPUS["V100"],
            4,
            2,
            100.0,
            ll128=False,
            nic_gbytes="abci_v_nic",
            launch="launch_v100",
            same_channels=False,
            root_complex=True,
        ),
        Machine("abci-a", GPUS["A100"], 8, 4, 200.0, nic_gbytes="abci_a_nic"),
    )
}
"""Machines by name. ``dgx-*``: NVIDIA's data sheets. ``ndv4``: Azure. ``abci-*``: nodes V and A of
ABCI 2.0 (ABCI's documents)."""


def machine_of(name: str) -> Machine:
    """The machine ``name``; raises :class:`UnknownName`."""
    if name not in MACHINES:
        raise UnknownName("machine", name, MACHINES)
    return MACHINES[name]
