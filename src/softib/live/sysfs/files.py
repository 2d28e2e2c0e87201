"""The files of ``/sys/class/infiniband``, line by line as a kernel writes them, read from the fabric's arrays.

Sources: the kernel's ABI (Documentation/ABI/stable/sysfs-class-infiniband). Rates follow the ABI's
table from the active speed and width. Error counters stop at the largest value of their PortCounters field (IBA
16.1.3.5); counters of data and packets have 64 bits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib import __version__
from softib.agents.kernels.vendor import PSID
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.constants import NodeType, PhysState, PortState
from softib.iba.rates import LANES_BY_BIT, SPEED_BY_CODE, SPEEDS, LinkSpeed
from softib.iba.smp import PortInfo
from softib.live.sysfs.roce import GIDS, is_ethernet, roce_gid, roce_type

__all__ = [
    "COUNTER_FILES",
    "DEVICE_FILES",
    "active_speed",
    "gid_text",
    "port_files",
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
"""The firmware version that the vendor agent of devices also reports (General Info): softib's version in mlx5's
format."""
PSID_TEXT = PSID.tobytes().rstrip(b"\0").decode()
"""The PSID that the devices' vendor agent reports."""
LIFESPAN_MS = "10"
"""The maximum age of a hardware counter: mlx5's default. This is the only file in ``hw_counters``:
transport events are not counted yet, and zeros would be wrong. node_exporter needs the directory if
a device is called mlx5_*."""

INTERFACE = "lo"
"""The network interface that has the address of an Ethernet port's GIDs."""

Text = Callable[[Fabric, int], str]


def hex_groups(value: int, count: int = 4) -> str:
    """Return ``count`` groups of four hexadecimal digits, as in the GUIDs of sysfs."""
    digits = f"{value:0{4 * count}x}"
    return ":".join(digits[i : i + 4] for i in range(0, 4 * count, 4))


def active_speed(f: Fabric, port: int) -> LinkSpeed:
    """Return the generation at which ``port`` runs (SDR if PortInfo has no active speed, as in the kernel)."""
    code = int(active_speed_codes(f.port_info[port : port + 1], f.port_mlnx_speed[port : port + 1])[0])
    return SPEED_BY_CODE.get(code, SPEEDS[0])


def rate_text(f: Fabric, port: int) -> str:
    """Return the rate as the kernel prints it, for example ``400 Gb/sec (4X NDR)``. The text also names SDR, as in
    every kernel that supports NDR (5.13 and later)."""
    speed = active_speed(f, port)
    lanes = LANES_BY_BIT.get(int(PortInfo.link_width_active.get(f.port_info[port])), 1)
    tenths = speed.kernel_rate * lanes
    return f"{tenths // 10}{'.5' if tenths % 10 else ''} Gb/sec ({lanes}X {speed.name})"


def gid_text(f: Fabric, port: int, index: int) -> str:
    """Return GID ``index`` of an InfiniBand port: the prefix and a GUID of its table, or zeros."""
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
"""For each file of a device, the function that returns its line for a node's row."""

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
"""File below ``counters/``, column of ``Fabric.counters``, and number of bits: the file stops at their largest
value."""

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
"""For each file of a port, the function that returns its line for a port's row. :func:`table_files` returns those of
``gids`` and ``pkeys``."""


ETHERNET_FILES: dict[str, Text] = {
    "lid": lambda f, port: "0x0",
    "lid_mask_count": lambda f, port: "0",
    "sm_lid": lambda f, port: "0x0",
    "sm_sl": lambda f, port: "0",
    "cap_mask": lambda f, port: "0x04010000",
    "link_layer": lambda f, port: "Ethernet",
}
"""The files whose lines differ for an Ethernet port: it has no LIDs, and its capability mask has only the bits that
Linux sets for RoCE (connection manager, GIDs from IP addresses)."""


def port_files(f: Fabric, port: int) -> dict[str, Text]:
    """Return the files of ``port`` (as :data:`PORT_FILES`)."""
    if not is_ethernet(f, port):
        return PORT_FILES | table_files(f, port)
    files = PORT_FILES | ETHERNET_FILES
    for i in range(GIDS):
        gid, kind = hex_groups(int.from_bytes(roce_gid(port, i), "big"), 8), roce_type(i)
        interface = INTERFACE if any(roce_gid(port, i)) else ""
        files |= {
            f"gids/{i}": lambda f, port, gid=gid: gid,  # type: ignore[misc]
            f"gid_attrs/types/{i}": lambda f, port, kind=kind: kind,  # type: ignore[misc]
            f"gid_attrs/ndevs/{i}": lambda f, port, interface=interface: interface,  # type: ignore[misc]
        }
    return files | {"pkeys/0": table_files(f, port)["pkeys/0"]}


def table_files(f: Fabric, port: int) -> dict[str, Text]:
    """Return the files ``gids/N`` and ``pkeys/N`` of ``port``, one for each entry of its tables."""

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
