"""The files of ``/sys/class/infiniband`` and of an adapter's PCI function, line by line as a kernel
writes them, read from the fabric's arrays.

Sources: the kernel's ABI (Documentation/ABI/stable/sysfs-class-infiniband, testing/sysfs-bus-pci),
the PCI ID list, PCI Code and ID Assignment (class 02 07). Rates follow the ABI's table from the active speed and
width; error counters end at the width of their PortCounters field (IBA 16.1.3.5), data and packets at 64 bits.

UCX, NCCL and hwloc follow ``/sys/class/infiniband/mlx5_0`` (a link, as on every kernel) to its PCI function and
read its type, the speed of its slot and which processors are near. A host's adapters have a
root port each: function ``0000:11:00.0`` behind ``0000:10:00.0`` of root bus 10, then 20, and so on; from the
sixteenth on in the next domain. No processor is nearer to one than another:
``numa_node`` is -1, as a kernel writes in that case.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from softib import __version__
from softib.agents.kernels.vendor import PSID
from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_speed_codes
from softib.fabric.power_up import active_speed_codes
from softib.iba.catalogue import ADAPTER_OF, Adapter
from softib.iba.constants import NodeType, PhysState, PortState
from softib.iba.devices import DEVICES
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE, SPEED_BY_NAME, SPEEDS, LinkSpeed
from softib.iba.smp import PortInfo

__all__ = [
    "COUNTER_FILES",
    "DEVICE_FILES",
    "PCI_FILES",
    "PORT_FILES",
    "active_speed",
    "gid_text",
    "pci_folder",
    "pci_name",
    "rate_text",
]

SPEED_NAMES = {NodeType.CA: "CA", NodeType.SWITCH: "switch", NodeType.ROUTER: "router"}
PHYS_NAMES = {
    PhysState.NO_CHANGE: "<unknown>",
    PhysState.SLEEP: "Sleep",
    PhysState.POLLING: "Polling",
    PhysState.DISABLED: "Disabled",
    PhysState.TRAINING: "PortConfigurationTraining",
    PhysState.LINK_UP: "LinkUp",
    PhysState.LINK_ERROR_RECOVERY: "LinkErrorRecovery",
    PhysState.PHY_TEST: "Phy Test",
}
STATE_NAMES = {
    PortState.NO_CHANGE: "NOP",
    PortState.DOWN: "DOWN",
    PortState.INIT: "INIT",
    PortState.ARMED: "ARMED",
    PortState.ACTIVE: "ACTIVE",
}
FIRMWARE = "{}.{}.{:04}".format(*(int(n) for n in __version__.split(".")[:3]))
"""The firmware version that the devices' vendor agent (General Info) reports: softib's own, in mlx5's format."""
PSID_TEXT = PSID.tobytes().rstrip(b"\0").decode()
"""The agent's PSID (General Info)."""
LIFESPAN_MS = "10"
"""The greatest age of a hardware counter: mlx5's default. It is the only file in ``hw_counters``: events of transports
are not counted yet, and a zero would be wrong. node_exporter needs the directory if a device is called mlx5_*."""

Text = Callable[[Fabric, int], str]


def hex_groups(value: int, count: int = 4) -> str:
    """``count`` groups of four hexadecimal digits, as in the GUIDs of sysfs."""
    digits = f"{value:0{4 * count}x}"
    return ":".join(digits[i : i + 4] for i in range(0, 4 * count, 4))


def active_speed(f: Fabric, port: int) -> LinkSpeed:
    """The generation at which ``port`` runs (SDR if PortInfo names none, as in the kernel)."""
    code = int(active_speed_codes(f.port_info[port : port + 1], f.port_mlnx_speed[port : port + 1])[0])
    return SPEED_BY_CODE.get(code, SPEEDS[0])


def rate_text(f: Fabric, port: int) -> str:
    """``400 Gb/sec (4X NDR)``; SDR is also named, as in every kernel that supports NDR (5.13 and later)."""
    speed = active_speed(f, port)
    lanes = LANES_BY_BIT.get(int(PortInfo.link_width_active.get(f.port_info[port])), 1)
    tenths = speed.kernel_rate * lanes
    return f"{tenths // 10}{'.5' if tenths % 10 else ''} Gb/sec ({lanes}X {speed.name})"


def gid_text(f: Fabric, port: int, index: int) -> str:
    """GID ``index``: the prefix and a GUID of the table, or zeros."""
    guid = int(f.guids[f.guid_base[port] + index])
    return hex_groups(int(PortInfo.gid_prefix.get(f.port_info[port])) << 64 | guid if guid else 0, 8)


def _field(name: str, pattern: str) -> Text:
    field = getattr(PortInfo, name)
    return lambda f, port: pattern.format(int(field.get(f.port_info[port])))


def _named(name: str, names: dict) -> Text:
    field = getattr(PortInfo, name)

    def text(f: Fabric, port: int) -> str:
        value = int(field.get(f.port_info[port]))
        return f"{value}: {names.get(value, '<unknown>')}"

    return text


def _counter(name: str, bits: int) -> Text:
    most = (1 << bits) - 1
    return lambda f, port: str(min(int(f.counters[name][port]), most))


DEVICE_FILES: dict[str, Text] = {
    "node_type": lambda f, n: f"{int(f.node_type[n])}: {SPEED_NAMES.get(NodeType(int(f.node_type[n])), '<unknown>')}",
    "node_guid": lambda f, n: hex_groups(int(f.node_guid[n])),
    "sys_image_guid": lambda f, n: hex_groups(int(f.sys_guid[n])),
    "node_desc": lambda f, n: bytes(f.node_desc[n]).split(b"\0")[0].decode("utf-8", "surrogateescape"),
    "fw_ver": lambda f, n: FIRMWARE,
    "hw_rev": lambda f, n: f"{int(f.revision[n]):x}",
    "hca_type": lambda f, n: f"MT{int(f.device_id[n])}",
    "board_id": lambda f, n: PSID_TEXT,
}
"""Maps each file of a device to its line for a node's row."""

COUNTER_FILES = (
    ("symbol_error", "symbol_error_counter", 16),
    ("link_error_recovery", "link_error_recovery_counter", 8),
    ("link_downed", "link_downed_counter", 8),
    ("port_rcv_errors", "port_rcv_errors", 16),
    ("port_rcv_remote_physical_errors", "port_rcv_remote_physical_errors", 16),
    ("port_rcv_switch_relay_errors", "port_rcv_switch_relay_errors", 16),
    ("port_xmit_discards", "port_xmit_discards", 16),
    ("port_xmit_constraint_errors", "port_xmit_constraint_errors", 8),
    ("port_rcv_constraint_errors", "port_rcv_constraint_errors", 8),
    ("local_link_integrity_errors", "local_link_integrity_errors", 4),
    ("excessive_buffer_overrun_errors", "excessive_buffer_overrun_errors", 4),
    ("VL15_dropped", "vl15_dropped", 16),
    ("port_xmit_data", "port_xmit_data", 64),
    ("port_rcv_data", "port_rcv_data", 64),
    ("port_xmit_packets", "port_xmit_pkts", 64),
    ("port_rcv_packets", "port_rcv_pkts", 64),
    ("port_xmit_wait", "port_xmit_wait", 32),
    ("unicast_xmit_packets", "port_unicast_xmit_pkts", 64),
    ("unicast_rcv_packets", "port_unicast_rcv_pkts", 64),
    ("multicast_xmit_packets", "port_multicast_xmit_pkts", 64),
    ("multicast_rcv_packets", "port_multicast_rcv_pkts", 64),
)
"""File below ``counters/``, column of ``Fabric.counters``, bits at whose largest value the file stops."""

PORT_FILES: dict[str, Text] = {
    "lid": _field("lid", "{:#x}"),
    "lid_mask_count": _field("lmc", "{}"),
    "sm_lid": _field("master_sm_lid", "{:#x}"),
    "sm_sl": _field("master_sm_sl", "{}"),
    "cap_mask": _field("cap_mask", "{:#010x}"),
    "state": _named("port_state", STATE_NAMES),
    "phys_state": _named("port_phys_state", PHYS_NAMES),
    "rate": rate_text,
    "link_layer": lambda f, port: "InfiniBand",
    "hw_counters/lifespan": lambda f, port: LIFESPAN_MS,
    **{f"counters/{name}": _counter(column, bits) for name, column, bits in COUNTER_FILES},
}
"""Maps each file of a port to its line for a port's row. ``gids`` and ``pkeys`` depend on the port's tables:
:func:`table_files`."""


def table_files(f: Fabric, port: int) -> dict[str, Text]:
    """``gids/N`` and ``pkeys/N`` of ``port``, as many as it has."""

    def pkey(i: int) -> Text:
        return lambda f, port: f"{int(f.pkeys[f.pkey_base[port] + i]):#06x}"

    def gid(i: int) -> Text:
        return lambda f, port: gid_text(f, port, i)

    kind = lambda f, port: "IB/RoCE v1"
    gids = int(np.asarray(PortInfo.guid_cap.get(f.port_info[port]))) or 1
    types = {f"gid_attrs/types/{i}": kind for i in range(gids)}
    none = {f"gid_attrs/ndevs/{i}": lambda f, port: "" for i in range(gids)}  # no network interface has the GID
    return (
        types
        | none
        | {f"gids/{i}": gid(i) for i in range(gids)}
        | {f"pkeys/{i}": pkey(i) for i in range(int(f.pkey_cap[port]))}
    )


VENDORS = {0x0002C9: 0x15B3, 0x001175: 0x1077}
"""NodeInfo's VendorID (an OUI) → PCI vendor: Mellanox, QLogic. Other vendors are unknown; adapters are called mlx5
then too."""
CLASS_INFINIBAND = 0x020700
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
    """Those of this machine, as ``0-7``."""
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
"""Maps each file of a PCI function to its line for a node's row."""


def pci_name(slot: int) -> str:
    """Domain, bus, device and function of adapter number ``slot`` of its host."""
    return f"{slot // ROOTS:04x}:{16 * (slot % ROOTS + 1) + 1:02x}:00.0"


def pci_folder(slot: int) -> str:
    """Its directory, below ``/``: behind its own root port."""
    root = f"{slot // ROOTS:04x}:{16 * (slot % ROOTS + 1):02x}"
    return f"sys/devices/pci{root}/{root}:00.0/{pci_name(slot)}"
