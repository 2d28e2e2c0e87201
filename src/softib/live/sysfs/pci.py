"""Where an adapter sits on its host's PCI bus: the directory of ``/sys/devices`` that programs find
it by.

UCX, NCCL and hwloc follow ``/sys/class/infiniband/mlx5_0`` (a link, as on every kernel) to its PCI
function and read there what it is, how fast its instance is and which processors are near. Sources:
the kernel's ABI (Documentation/ABI/testing/sysfs-bus-pci, stable/sysfs-class-infiniband), the PCI
ID list, PCI Code and ID Assignment (class 02 07).

A host's adapters get a root port each: function ``0000:11:00.0`` behind ``0000:10:00.0`` of root
bus 10, then 20, and so on; from the sixteenth on in the next domain. No processor is nearer to one
than another: ``numa_node`` is -1, as a kernel says it then.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_speed_codes
from softib.iba.catalogue import ADAPTER_OF, Adapter
from softib.iba.constants import NodeType
from softib.iba.devices import DEVICES
from softib.iba.rates import SPEED_BY_NAME, SPEEDS

__all__ = ["PCI_FILES", "pci_folder", "pci_name"]

Text = Callable[[Fabric, int], str]

VENDORS = {0x0002C9: 0x15B3, 0x001175: 0x1077}
"""NodeInfo's VendorID (an OUI) → PCI vendor: Mellanox, QLogic. Of others nothing is known; adapters
are called mlx5 then, too."""
CLASS_INFINIBAND = 0x020700
ROOTS = 15
"""Root buses of a domain that have adapters: 10, 20, … f0."""

GIGATRANSFERS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
"""GT/s of a lane by PCIe generation (PCI Express Base Specification)."""


def _adapter(f: Fabric, node: int) -> Adapter:
    """The node's part, or the one that stands for what its first port supports (QDR at least) where
    the catalogue does not know its interface."""
    part = DEVICES.get(int(f.device_id[node]))
    if isinstance(part, Adapter) and part.pcie_generation and part.pcie_lanes:
        return part
    port = int(f.node_base[node]) + (f.node_type[node] != NodeType.SWITCH)
    code = max(int(supported_speed_codes(f, port)), SPEED_BY_NAME["QDR"].code)
    return next(ADAPTER_OF[s.name] for s in reversed(SPEEDS) if s.code <= code and ADAPTER_OF[s.name].pcie_generation)


def _slot_speed(f: Fabric, node: int) -> str:
    return f"{GIGATRANSFERS[_adapter(f, node).pcie_generation or 1]} GT/s PCIe"


def _slot_width(f: Fabric, node: int) -> str:
    return str(_adapter(f, node).pcie_lanes)


def _vendor(f: Fabric, node: int) -> int:
    return VENDORS.get(int(f.vendor_id[node]), VENDORS[0x0002C9])


def _device(f: Fabric, node: int) -> int:
    return int(f.device_id[node]) or _adapter(f, node).device_ids[0]


def _processors() -> str:
    """Of this machine, as ``0-7``."""
    try:
        return Path("/sys/devices/system/cpu/online").read_text().strip()
    except OSError:
        return f"0-{(os.cpu_count() or 1) - 1}"


def _mask() -> str:
    """The same as a bit mask in groups of 32."""
    bits = 0
    for part in _processors().split(","):
        first, _, last = part.partition("-")
        for cpu in range(int(first), int(last or first) + 1):
            bits |= 1 << cpu
    groups = max(1, (bits.bit_length() + 31) // 32)
    return ",".join(f"{bits >> 32 * i & 0xFFFFFFFF:08x}" for i in reversed(range(groups)))


PCI_FILES: dict[str, Text] = {
    "vendor": lambda f, n: f"{_vendor(f, n):#06x}",
    "device": lambda f, n: f"{_device(f, n):#06x}",
    "subsystem_vendor": lambda f, n: f"{_vendor(f, n):#06x}",
    "subsystem_device": lambda f, n: f"{_device(f, n):#06x}",
    "class": lambda f, n: f"{CLASS_INFINIBAND:#08x}",
    "revision": lambda f, n: f"{int(f.revision[n]) & 0xFF:#04x}",
    "numa_node": lambda f, n: "-1",
    "local_cpulist": lambda f, n: _processors(),
    "local_cpus": lambda f, n: _mask(),
    "max_link_speed": _slot_speed,
    "current_link_speed": _slot_speed,
    "max_link_width": _slot_width,
    "current_link_width": _slot_width,
}
"""File of a PCI function → its line for a node's row."""


def pci_name(slot: int) -> str:
    """Domain, bus, device and function of adapter number ``slot`` of its host."""
    return f"{slot // ROOTS:04x}:{16 * (slot % ROOTS + 1) + 1:02x}:00.0"


def pci_folder(slot: int) -> str:
    """Its directory, below ``/``: behind a root port of its own."""
    root = f"{slot // ROOTS:04x}:{16 * (slot % ROOTS + 1):02x}"
    return f"sys/devices/pci{root}/{root}:00.0/{pci_name(slot)}"
