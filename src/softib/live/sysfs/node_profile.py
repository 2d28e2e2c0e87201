"""The profile of a node that is a modelled machine: its GPUs, the PCIe switches between them and the adapters, and
two NUMA nodes.

Each NUMA node has half of the real machine's processors and memory. Programs can bind themselves to these processors,
but not to this memory, because the kernel does not have the second NUMA node.
Sources: the kernel's ABI (Documentation/ABI/stable/sysfs-devices-node); 20 is the kernel's REMOTE_DISTANCE.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from softib.errors import InputError

__all__ = ["ADAPTERS_ONLY", "NUMA", "NodeProfile", "mask_of", "numa_files", "processors", "ranges_of"]

NUMA = "sys/devices/system/node"
SOCKETS = 2
"""Number of NUMA nodes of a modelled machine: each vendor's node has two processors."""
MOST_GPUS = 12
"""Maximum number of GPUs near one adapter: a root bus has fifteen buses below it, of which three are for the switch and
the adapter."""


@dataclass(frozen=True)
class NodeProfile:
    """``gpu``: PCI vendor and device of each GPU; ``slot``: its PCIe generation and lanes; ``nearest``: for each GPU
    the number of its nearest adapter; ``adapters``: number of adapters of the machine; ``path``: the path between a GPU
    and this adapter, ``pix`` (one PCIe switch), ``phb`` (one processor) or ``sys`` (adapters at one processor, GPUs at
    the other)."""

    gpu: tuple[int, int] = (0, 0)
    slot: tuple[int, int] = (1, 1)
    nearest: tuple[int, ...] = ()
    adapters: int = 0
    path: str = "pix"

    def __post_init__(self) -> None:
        most = max(map(self.nearest.count, set(self.nearest)), default=0)
        if most > MOST_GPUS:
            raise InputError(f"{most} GPUs share an adapter; a running fabric shows at most {MOST_GPUS} for each")

    @property
    def groups(self) -> range:
        """Return the number of root buses of the machine: one per adapter, and one more if the GPUs are at the other
        processor."""
        return range(self.adapters * (2 if self.path == "sys" else 1))

    def gpus_of(self, group: int) -> int:
        """Return the number of GPUs on a root bus."""
        return self.nearest.count(group - self.adapters if self.path == "sys" else group)

    def has_switch(self, group: int) -> bool:
        """Return whether a PCIe switch connects the GPUs and the adapter of a root bus."""
        return self.path == "pix" and self.gpus_of(group) > 0

    def numa_node(self, group: int) -> int:
        """Return the NUMA node of a root bus; -1 if the machine is not modelled. Additional
        adapters share the last PCIe switch."""
        groups = len(self.groups)
        return min(group * SOCKETS // groups, SOCKETS - 1) if groups else -1


ADAPTERS_ONLY = NodeProfile()
"""Profile of a node that is not a modelled machine."""


def processors(numa: int = -1) -> list[int]:
    """Return the processors of NUMA node ``numa`` of a modelled machine; with -1, all processors of this machine."""
    try:
        text = Path("/sys/devices/system/cpu/online").read_text().strip()
    except OSError:
        text = f"0-{(os.cpu_count() or 1) - 1}"
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus if numa < 0 else cpus[len(cpus) * numa // SOCKETS : len(cpus) * (numa + 1) // SOCKETS]


def ranges_of(cpus: list[int]) -> str:
    """Return a sorted list of processors as text, for example ``0-3,8``."""
    firsts = [cpu for cpu in cpus if cpu - 1 not in cpus]
    lasts = [cpu for cpu in cpus if cpu + 1 not in cpus]
    return ",".join(f"{a}-{b}" if a < b else f"{a}" for a, b in zip(firsts, lasts, strict=True))


def mask_of(cpus: list[int]) -> str:
    """Return the processors as a bit mask in groups of 32."""
    bits = sum(1 << cpu for cpu in cpus)
    groups = max(1, (max(processors(), default=0) + 32) // 32)
    return ",".join(f"{bits >> 32 * i & 0xFFFFFFFF:08x}" for i in reversed(range(groups)))


def _memory(numa: int) -> str:
    """Return the content of a NUMA node's ``meminfo``: its share of the machine's memory."""
    lines = []
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, value = line.split(":")
        if name in ("MemTotal", "MemFree"):
            lines.append(f"Node {numa} {name}: {int(value.split()[0]) // SOCKETS:15d} kB")
    return "\n".join(lines)


def numa_files() -> dict[str, Callable[[], str | bytes]]:
    """Return the contents of a modelled machine's NUMA node files, by path below ``/``."""
    nodes = list(range(SOCKETS))
    files: dict[str, Callable[[], str | bytes]] = {}
    with_cpus = [n for n in nodes if processors(n)]
    for name in ("online", "possible", "has_memory", "has_normal_memory", "has_cpu"):
        listed = with_cpus if name == "has_cpu" else nodes
        files[f"{NUMA}/{name}"] = lambda listed=listed: ranges_of(listed)  # type: ignore[misc]
    for n in nodes:
        files[f"{NUMA}/node{n}/cpulist"] = lambda n=n: ranges_of(processors(n))  # type: ignore[misc]
        files[f"{NUMA}/node{n}/cpumap"] = lambda n=n: mask_of(processors(n))  # type: ignore[misc]
        files[f"{NUMA}/node{n}/distance"] = lambda n=n: " ".join("10" if m == n else "20" for m in nodes)  # type: ignore[misc]
        files[f"{NUMA}/node{n}/meminfo"] = partial(_memory, n)
    return files
