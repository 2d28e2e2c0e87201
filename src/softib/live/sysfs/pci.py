"""The PCI bus that a program on a node sees: each adapter behind a root port, in addition to the
machine's devices.

UCX, NCCL and hwloc follow ``/sys/class/infiniband/mlx5_0`` (a link, as on every kernel) to its PCI function and
read its type, the speed of its slot and which processors are near. Others start from ``/sys/bus/pci/devices``:
libpciaccess (hwloc) and lspci read the configuration space, Kubernetes' device plugins ``modalias`` and ``driver``.
A host's adapters have a root port each: function ``0000:11:00.0`` behind ``0000:10:00.0`` of root bus 10, then 20,
and so on; from the sixteenth on in the next domain. No processor is nearer to one than another: ``numa_node`` is -1,
as a kernel writes in that case.

Sources: the kernel's ABI (Documentation/ABI/testing/sysfs-bus-pci); the PCI ID list (1b36:000c is QEMU's root port);
PCI Code and ID Assignment (classes 02 07 and 06 04); PCI Express Base Specification 7.5 (configuration space) and
7.5.3 (PCI Express capability).
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_speed_codes
from softib.iba.catalogue import ADAPTER_OF, Adapter
from softib.iba.constants import NodeType
from softib.iba.devices import DEVICES
from softib.iba.rates import SPEED_BY_NAME, SPEEDS

__all__ = ["BUS", "machine_links", "pci_files", "pci_folder", "pci_links", "pci_name"]

Text = Callable[[Fabric, int], str | bytes]
BUS = "sys/bus/pci/devices"
VENDORS = {0x0002C9: 0x15B3, 0x001175: 0x1077}
"""NodeInfo's VendorID (an OUI) → PCI vendor: Mellanox, QLogic. Other vendors are unknown; adapters are called mlx5
then too."""
CLASS_INFINIBAND, CLASS_BRIDGE = 0x020700, 0x060400
ROOT_PORT = (0x1B36, 0x000C)
ENDPOINT, ROOT = 0, 4
"""Device/port types of the PCI Express capability."""
ROOTS = 15
"""Root buses of a domain that have adapters: 10, 20, … f0."""

GIGATRANSFERS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
"""GT/s of a lane by PCIe generation (PCI Express Base Specification)."""


def _adapter(f: Fabric, node: int) -> Adapter:
    """The node's part, or, if the catalogue does not have its interface, the one for the speed that its first port
    supports (QDR at least)."""
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
    """Return the processors of this machine, as ``0-7``."""
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


def _slot(f: Fabric, node: int) -> tuple[int, int]:
    """Generation and lanes of its slot."""
    part = _adapter(f, node)
    return part.pcie_generation or 1, part.pcie_lanes or 1


def _modalias(vendor: int, device: int, kind: int, same_subsystem: bool) -> str:
    sub = (vendor, device) if same_subsystem else (0, 0)
    ids = f"v{vendor:08X}d{device:08X}sv{sub[0]:08X}sd{sub[1]:08X}"
    return f"pci:{ids}bc{kind >> 16:02X}sc{kind >> 8 & 0xFF:02X}i{kind & 0xFF:02X}"


def _config(
    vendor: int,
    device: int,
    kind: int,
    slot: tuple[int, int],
    revision: int = 0,
    buses: tuple[int, int] | None = None,
) -> bytes:
    """Return the 256 bytes of configuration space: the header and the PCI Express capability.

    ``buses`` are those of a bridge: the bus that it is on and the bus behind it."""
    header = struct.pack("<HHHHB", vendor, device, 0x0006, 0x0010, revision)
    header += struct.pack("<BBBBBBB", kind & 0xFF, kind >> 8 & 0xFF, kind >> 16, 16, 0, buses is not None, 0)
    if buses is None:
        header += bytes(28) + struct.pack("<HH", vendor, device)
    else:
        header += bytes(8) + struct.pack("<BBB", buses[0], buses[1], buses[1])
    header = header.ljust(0x34, b"\0") + b"\x40"  # offset of the first capability
    link, kind_of_port = slot[0] | slot[1] << 4, ENDPOINT if buses is None else ROOT
    capability = struct.pack("<BBHIHHIHH", 0x10, 0, 2 | kind_of_port << 4, 0, 0, 0, link, 0, link)
    return (header.ljust(0x40, b"\0") + capability).ljust(256, b"\0")


FUNCTION_FILES: dict[str, Text] = {
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
    "modalias": lambda f, n: _modalias(_vendor(f, n), _device(f, n), CLASS_INFINIBAND, True),
    "config": lambda f, n: _config(
        _vendor(f, n), _device(f, n), CLASS_INFINIBAND, _slot(f, n), revision=int(f.revision[n]) & 0xFF
    ),
}
"""Maps each file of an adapter's PCI function to its contents for a node's row."""


def pci_name(slot: int) -> str:
    """Domain, bus, device and function of adapter number ``slot`` of its host."""
    return f"{slot // ROOTS:04x}:{16 * (slot % ROOTS + 1) + 1:02x}:00.0"


def pci_folder(slot: int) -> str:
    """Its directory, below ``/``: behind its own root port."""
    root = f"{slot // ROOTS:04x}:{16 * (slot % ROOTS + 1):02x}"
    return f"sys/devices/pci{root}/{root}:00.0/{pci_name(slot)}"


def pci_files(f: Fabric, node: int, slot: int) -> dict[str, Callable[[], str | bytes]]:
    """Map paths below ``/`` to contents: the function of ``node``'s adapter in ``slot``, and its root port."""
    folder = pci_folder(slot)
    port, bus = os.path.dirname(folder), 16 * (slot % ROOTS + 1)
    files: dict[str, Callable[[], str | bytes]] = {
        f"{folder}/{name}": partial(text, f, node) for name, text in FUNCTION_FILES.items()
    }
    files[f"{folder}/uevent"] = lambda: f"DRIVER=mlx5_core\nPCI_SLOT_NAME={pci_name(slot)}"
    # Network interface of its IP addresses: the loopback interface has all of 127.0.0.0/8.
    files[f"{folder}/net/lo/address"] = lambda: "00:00:00:00:00:00"
    files |= {f"{port}/{name}": files[f"{folder}/{name}"] for name in SHARED}
    files[f"{port}/vendor"] = lambda: f"{ROOT_PORT[0]:#06x}"
    files[f"{port}/device"] = lambda: f"{ROOT_PORT[1]:#06x}"
    files[f"{port}/class"] = lambda: f"{CLASS_BRIDGE:#08x}"
    files[f"{port}/modalias"] = lambda: _modalias(*ROOT_PORT, CLASS_BRIDGE, False)
    files[f"{port}/config"] = lambda: _config(*ROOT_PORT, CLASS_BRIDGE, _slot(f, node), buses=(bus, bus + 1))
    for place in (folder, port):
        files[f"{place}/resource"] = lambda: "\n".join([" ".join(["0x" + "0" * 16] * 3)] * 7)
        files[f"{place}/irq"] = lambda: "0"
    return files


SHARED = (
    "numa_node",
    "local_cpulist",
    "local_cpus",
    "max_link_speed",
    "current_link_speed",
    "max_link_width",
    "current_link_width",
)
"""Files that a root port shares with the adapter behind it."""


def pci_links(slot: int) -> dict[str, str]:
    """Map paths below ``/`` to where these links lead: those of the function in ``slot`` and of its root port."""
    links = {}
    for place, driver in ((pci_folder(slot), "mlx5_core"), (os.path.dirname(pci_folder(slot)), "pcieport")):
        up = "../" * place.count("/")
        links[f"{BUS}/{os.path.basename(place)}"] = f"../../../{place.removeprefix('sys/')}"
        links[f"{place}/driver"] = f"{up}bus/pci/drivers/{driver}"
        links[f"{place}/subsystem"] = f"{up}bus/pci"
    return links


def machine_links() -> dict[str, str]:
    """Return links to the devices of the machine itself, which stay visible on the bus."""
    links: dict[str, str] = {}
    with contextlib.suppress(OSError):
        links = {f"{BUS}/{name}": os.path.realpath(f"/{BUS}/{name}") for name in sorted(os.listdir(f"/{BUS}"))}
    return links
