"""The PCI bus that a program on a node sees: its adapters and, on a modelled machine, its GPUs, PCIe
switches and NUMA nodes, in addition to the machine's devices.

UCX, NCCL and hwloc follow ``/sys/class/infiniband/mlx5_0`` (a link, as on every kernel) to its PCI
function, and read its type, the speed of its slot and its nearest processors. Others start from
``/sys/bus/pci/devices``: libpciaccess (hwloc) and lspci read the configuration space, Kubernetes'
device plugins ``modalias`` and ``driver``; NCCL resolves addresses with ``/sys/class/pci_bus``.
Each adapter of a host has its own root bus: function ``0000:11:00.0`` behind ``0000:10:00.0`` of
root bus 10, then 20, and so on; from the sixteenth adapter on, in the next domain. With a
:class:`NodeProfile`, GPUs share the root bus of their adapter. Without a profile, no processor is
nearer to one adapter than to another: ``numa_node`` is -1, as a kernel writes in that case.

Sources: the kernel's ABI (Documentation/ABI/testing/sysfs-bus-pci); the PCI ID list (1b36:000c is QEMU's root port,
1000:c010 a PCIe switch of Broadcom); PCI Code and ID Assignment (classes 02 07, 03 02 and 06 04); PCI Express Base
Specification 7.5 (configuration space) and 7.5.3 (PCI Express capability).
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_speed_codes
from softib.iba.catalogue import ADAPTER_OF, Adapter
from softib.iba.constants import NodeType
from softib.iba.devices import DEVICES
from softib.iba.rates import SPEED_BY_NAME, SPEEDS
from softib.live.sysfs.node_profile import ADAPTERS_ONLY, NodeProfile, mask_of, processors, ranges_of

__all__ = ["adapter_folder", "functions_of", "machine_links", "pci_files", "pci_links"]

BUS, CLASS = "sys/bus/pci/devices", "sys/class/pci_bus"
VENDORS = {0x0002C9: 0x15B3, 0x001175: 0x1077}
"""PCI vendor for each VendorID of NodeInfo (an OUI): Mellanox, QLogic. Adapters of all other vendors are also called
mlx5."""
CLASS_INFINIBAND, CLASS_GPU, CLASS_BRIDGE = 0x020700, 0x030200, 0x060400
ROOT_PORT, SWITCH = (0x1B36, 0x000C), (0x1000, 0xC010)
ENDPOINT, ROOT, UPSTREAM, DOWNSTREAM = 0, 4, 5, 6
"""Device/port types of the PCI Express capability."""
ROOTS = 15
"""Number of root buses with adapters in a domain: 10, 20, … f0."""

GIGATRANSFERS = {1: "2.5", 2: "5.0", 3: "8.0", 4: "16.0", 5: "32.0", 6: "64.0"}
"""GT/s of a lane by PCIe generation (PCI Express Base Specification)."""


def _adapter(f: Fabric, node: int) -> Adapter:
    """Return the catalogue's part for the adapter of a node. If the catalogue does not have the adapter's interface,
    return the part for the speed that its first port supports (at least QDR)."""
    part = DEVICES.get(int(f.device_id[node]))
    if isinstance(part, Adapter) and part.pcie_generation and part.pcie_lanes:
        return part
    port = int(f.node_base[node]) + (f.node_type[node] != NodeType.SWITCH)
    code = max(int(supported_speed_codes(f, port)), SPEED_BY_NAME["QDR"].code)
    return next(ADAPTER_OF[s.name] for s in reversed(SPEEDS) if s.code <= code and ADAPTER_OF[s.name].pcie_generation)


def _vendor(f: Fabric, node: int) -> int:
    return VENDORS.get(int(f.vendor_id[node]), VENDORS[0x0002C9])


def _device(f: Fabric, node: int) -> int:
    return int(f.device_id[node]) or _adapter(f, node).device_ids[0]


def _slot(f: Fabric, node: int) -> tuple[int, int]:
    """Return the PCIe generation and the lanes of the adapter's slot."""
    part = _adapter(f, node)
    return part.pcie_generation or 1, part.pcie_lanes or 1


@dataclass(frozen=True)
class Function:
    """A PCI function in ``folder`` (below ``/``). ``part``: vendor and device; ``kind``: class code; ``slot``: PCIe
    generation and lanes; ``numa``: NUMA node (-1: none); ``port``: type of the PCI Express capability; ``buses``: for a
    bridge, the numbers of its primary, secondary and subordinate bus."""

    folder: str
    part: tuple[int, int]
    kind: int
    slot: tuple[int, int]
    numa: int = -1
    port: int = ENDPOINT
    buses: tuple[int, int, int] | None = None
    driver: str = ""
    revision: int = 0

    @property
    def name(self) -> str:
        """Return the address: domain, bus, device and function."""
        return os.path.basename(self.folder)

    @property
    def modalias(self) -> str:
        """Return the modalias, with which a kernel finds a driver."""
        vendor, device = self.part
        sub = self.part if self.buses is None else (0, 0)
        ids = f"v{vendor:08X}d{device:08X}sv{sub[0]:08X}sd{sub[1]:08X}"
        return f"pci:{ids}bc{self.kind >> 16:02X}sc{self.kind >> 8 & 0xFF:02X}i{self.kind & 0xFF:02X}"

    @property
    def config(self) -> bytes:
        """Return the 256 bytes of configuration space: the header and the PCI Express capability."""
        kind = self.kind
        header = struct.pack("<HHHHB", *self.part, 0x0006, 0x0010, self.revision)
        header += struct.pack("<BBBBBBB", kind & 0xFF, kind >> 8 & 0xFF, kind >> 16, 16, 0, self.buses is not None, 0)
        if self.buses is None:
            header += bytes(28) + struct.pack("<HH", *self.part)
        else:
            header += bytes(8) + struct.pack("<BBB", *self.buses)
        header = header.ljust(0x34, b"\0") + b"\x40"  # offset of the first capability
        link = self.slot[0] | self.slot[1] << 4
        capability = struct.pack("<BBHIHHIHH", 0x10, 0, 2 | self.port << 4, 0, 0, 0, link, 0, link)
        return (header.ljust(0x40, b"\0") + capability).ljust(256, b"\0")

    def files(self) -> dict[str, str | bytes]:
        """Return the contents of the device's files by name."""
        speed, lanes = f"{GIGATRANSFERS[self.slot[0]]} GT/s PCIe", str(self.slot[1])
        local = processors(self.numa)
        files: dict[str, str | bytes] = {
            "vendor": f"{self.part[0]:#06x}",
            "device": f"{self.part[1]:#06x}",
            "class": f"{self.kind:#08x}",
            "revision": f"{self.revision:#04x}",
            "numa_node": str(self.numa),
            "local_cpulist": ranges_of(local),
            "local_cpus": mask_of(local),
            "max_link_speed": speed,
            "current_link_speed": speed,
            "max_link_width": lanes,
            "current_link_width": lanes,
            "modalias": self.modalias,
            "config": self.config,
            "resource": "\n".join([" ".join(["0x" + "0" * 16] * 3)] * 7),
            "irq": "0",
            "uevent": f"DRIVER={self.driver}\nPCI_SLOT_NAME={self.name}"
            if self.driver
            else f"PCI_SLOT_NAME={self.name}",
        }
        if self.buses is None:
            files |= {"subsystem_vendor": files["vendor"], "subsystem_device": files["device"]}
        if self.kind == CLASS_INFINIBAND:
            # Network interface of its IP addresses: the loopback interface has all of 127.0.0.0/8.
            files["net/lo/address"] = "00:00:00:00:00:00"
        return files


def _root(group: int) -> tuple[str, str, int]:
    """Return the domain, the folder and the number of the root bus of ``group``."""
    domain, bus = f"{group // ROOTS:04x}", 16 * (group % ROOTS + 1)
    return domain, f"sys/devices/pci{domain}:{bus:02x}", bus


def _endpoint_folder(profile: NodeProfile, group: int, number: int) -> str:
    """Return the folder of endpoint ``number`` of a root bus (0: the adapter, then the GPUs): below the PCIe switch, or
    behind a root port."""
    domain, folder, bus = _root(group)
    if not profile.has_switch(group):
        return f"{folder}/{domain}:{bus:02x}:{number:02x}.0/{domain}:{bus + 1 + number:02x}:00.0"
    ports = f"{domain}:{bus:02x}:00.0/{domain}:{bus + 1:02x}:00.0/{domain}:{bus + 2:02x}:{number:02x}.0"
    return f"{folder}/{ports}/{domain}:{bus + 3 + number:02x}:00.0"


def adapter_folder(profile: NodeProfile | None, slot: int) -> str:
    """Return the directory, below ``/``, of a host's adapter number ``slot``."""
    return _endpoint_folder(profile or ADAPTERS_ONLY, slot, 0)


def functions_of(f: Fabric, adapters: Mapping[int, int], profile: NodeProfile | None) -> list[Function]:
    """Return the functions that a program sees on the bus: the ``adapters`` (node by slot of its
    host), GPUs, and bridges."""
    profile = profile or ADAPTERS_ONLY
    functions: list[Function] = []
    for group in sorted({*adapters, *profile.groups}):
        numa, endpoints = profile.numa_node(group), []
        if (node := adapters.get(group)) is not None:
            part, revision = (_vendor(f, node), _device(f, node)), int(f.revision[node]) & 0xFF
            endpoints.append((0, part, CLASS_INFINIBAND, _slot(f, node), "mlx5_core", revision))
        gpus = profile.gpus_of(group)
        endpoints += [(1 + i, profile.gpu, CLASS_GPU, profile.slot, "", 0) for i in range(gpus)]
        slot = max(one[3] for one in endpoints)
        bus = _root(group)[2]
        if profile.has_switch(group):
            root = f"{_root(group)[1]}/{_root(group)[0]}:{bus:02x}:00.0"
            last = bus + 3 + gpus
            functions.append(_bridge(root, numa, ROOT, slot, (bus, bus + 1, last)))
            up = os.path.dirname(os.path.dirname(_endpoint_folder(profile, group, 0)))
            functions.append(_bridge(up, numa, UPSTREAM, slot, (bus + 1, bus + 2, last)))
        for number, part, kind, of_slot, driver, revision in endpoints:
            folder = _endpoint_folder(profile, group, number)
            port = DOWNSTREAM if profile.has_switch(group) else ROOT
            first = bus + 2 if port == DOWNSTREAM else bus
            behind = first + 1 + number
            functions.append(_bridge(os.path.dirname(folder), numa, port, of_slot, (first, behind, behind)))
            functions.append(Function(folder, part, kind, of_slot, numa, driver=driver, revision=revision))
    return functions


def _bridge(folder: str, numa: int, port: int, slot: tuple[int, int], buses: tuple[int, int, int]) -> Function:
    part = ROOT_PORT if port == ROOT else SWITCH
    return Function(folder, part, CLASS_BRIDGE, slot, numa, port, buses, "pcieport")


def _buses(functions: list[Function]) -> dict[str, str]:
    """Return the directory of each bus below ``/``, by the bus (``0000:11``)."""
    buses = {}
    for one in functions:
        if one.port == ROOT:
            root = os.path.dirname(one.folder)
            name = os.path.basename(root).removeprefix("pci")
            buses[name] = f"{root}/pci_bus/{name}"
        if one.buses is not None:
            name = f"{one.name[:4]}:{one.buses[1]:02x}"
            buses[name] = f"{one.folder}/pci_bus/{name}"
    return buses


def pci_files(functions: list[Function]) -> dict[str, Callable[[], str | bytes]]:
    """Return the contents of the functions' files, by path below ``/``."""
    texts = {f"{one.folder}/{name}": text for one in functions for name, text in one.files().items()}
    numa = {os.path.dirname(one.folder): one.numa for one in functions}
    for folder in _buses(functions).values():
        at = numa.get(folder.rpartition("/pci_bus/")[0], -1)
        texts[f"{folder}/cpulistaffinity"] = ranges_of(processors(at))
    return {path: lambda text=text: text for path, text in texts.items()}  # type: ignore[misc]


def pci_links(functions: list[Function]) -> dict[str, str]:
    """Return the targets of the links to functions and buses, by path below ``/``."""
    links = {}
    for one in functions:
        up = "../" * one.folder.count("/")
        links[f"{BUS}/{one.name}"] = f"../../../{one.folder.removeprefix('sys/')}"
        links[f"{one.folder}/subsystem"] = f"{up}bus/pci"
        if one.driver:
            links[f"{one.folder}/driver"] = f"{up}bus/pci/drivers/{one.driver}"
    return links | {f"{CLASS}/{name}": f"../../{to.removeprefix('sys/')}" for name, to in _buses(functions).items()}


def machine_links() -> dict[str, str]:
    """Return links to the devices and buses of the real machine, which stay visible."""
    links: dict[str, str] = {}
    for folder in (BUS, CLASS):
        with contextlib.suppress(OSError):
            links |= {
                f"{folder}/{name}": os.path.realpath(f"/{folder}/{name}") for name in sorted(os.listdir(f"/{folder}"))
            }
    return links
