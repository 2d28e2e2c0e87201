"""The layout of a fabric, declared once: every array with its dtype, shape, writer and meaning.

Rows are addressed by dense indices. These terms are used everywhere:

* ``node`` = row of the node arrays; ``switch`` = row of the switch arrays (``switch_of_node``);
* ``portnum`` = number of a port on its node (0 = management port of a switch);
* ``port`` = row of the port arrays: ``port = node_base[node] + portnum``. A switch has rows for
  0…NumPorts, a CA for 1…NumPorts (its ``node_base`` is one less than its first row, so the same sum
  holds).

Attributes that MADs write as a whole (PortInfo, SwitchInfo, NodeDescription, SL2VL, VLArb, LFT) are
stored as their **wire image**, so an agent answers a Get with a copy, and no bit is lost. Single
fields are read and written through the declaration of the attribute:
``PortInfo.lid.get(fabric.port_info)``. Properties of the hardware (GUIDs, peers, cables) are
columns with native types.

``writer`` names the part that may change a column while a fabric runs: ``hardware`` (the builder
and faults), ``mad`` (the SMA), ``engine`` (the data path, and the PMA when it clears counters).

A CA port takes about 1 KB, and a port of a 64-port switch about 1.6 KB plus its share of the LFT (48 KiB per switch).
The :data:`LAZY_COLUMNS` add at most 2.9 KB per port: 1744 bytes of optional PerfMgt counters, 219 of sampling and other
PerfMgt settings, 636 of congestion control, and 336 of modules and FEC. Adaptive routing adds 128 KiB per switch; an
aggregation node takes 368 KiB. A page of these columns takes memory only after a write to it, for
example when a counter of one VL increases or a congestion manager sets a value.

``sharp`` = row of the arrays of aggregation nodes (``sharp_of_node``). The QPs of an aggregation
node are numbered from 1. Each edge of a SHARP tree uses one QP, and ``sharp_qp`` holds the LID of
that QP's peer (:mod:`softib.fabric.sharp_trees` follows these LIDs through the tree).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.fabric.counters import COUNTERS, DETAIL_COUNTERS, LANE_COUNTERS, SL_COUNTERS, VL_COUNTERS
from softib.iba.vendor.ar import AR_GROUPS
from softib.iba.vendor.mlnx import BINS
from softib.iba.vendor.sharp import SHARP_CHILDREN, SHARP_QPS, SHARP_TREES
from softib.iba.vendor.vports import VPORT_GUIDS, VPORT_PKEYS

CCT_ENTRIES = 128
"""Number of entries in a CA port's congestion control table: two blocks of 64, the most that OpenSM
can fill."""


NO_TEMPERATURE = -32768
"""Value of ``node_temperature`` and ``module_temperature`` if the source states no temperature."""


@dataclass(frozen=True)
class Column:
    """An array of the fabric. Each of its ``dims`` is the name of a field of :class:`Sizes`, or a
    number."""

    name: str
    dtype: Any
    dims: tuple[str | int, ...]
    writer: str
    doc: str
    fill: int = 0


@dataclass
class Sizes:
    """Number of rows for each name in ``dims``."""

    nodes: int = 0
    ports: int = 0
    switches: int = 0
    cables: int = 0
    pkeys: int = 0
    guids: int = 0
    sl2vl_rows: int = 0
    lft_cap: int = 49152
    mlids: int = 1024
    mft_positions: int = 1
    sharps: int = 0
    vports: int = 0

    def shape(self, dims: tuple[str | int, ...]) -> tuple[int, ...]:
        """Return the shape with names resolved to numbers."""
        return tuple(d if isinstance(d, int) else int(getattr(self, d)) for d in dims)


_C = Column
COLUMNS: tuple[Column, ...] = (
    # -- nodes --
    _C("node_type", np.uint8, ("nodes",), "hardware", "NodeType: 1 CA, 2 switch, 3 router"),
    _C("node_nports", np.uint8, ("nodes",), "hardware", "NodeInfo.NumPorts: physical ports, port 0 not counted"),
    _C("node_base", np.int32, ("nodes",), "hardware", "port = node_base + portnum"),
    _C("node_guid", np.uint64, ("nodes",), "hardware", "NodeGUID"),
    _C("sys_guid", np.uint64, ("nodes",), "hardware", "SystemImageGUID"),
    _C("vendor_id", np.uint32, ("nodes",), "hardware", "VendorID (24 bits)"),
    _C("device_id", np.uint16, ("nodes",), "hardware", "DeviceID"),
    _C("revision", np.uint32, ("nodes",), "hardware", "Revision"),
    _C("node_stated", np.uint8, ("nodes",), "hardware", "Stated: which of these the source states"),
    _C("node_temperature", np.int16, ("nodes",), "hardware", "chip temperature in degrees Celsius", NO_TEMPERATURE),
    _C("node_firmware", np.uint32, ("nodes", 3), "hardware", "major, minor, sub-minor; 0.0.0 = not known"),
    _C("node_psid", np.uint8, ("nodes", 16), "hardware", "Parameter Set ID of the board, ASCII; zeros = not known"),
    _C(
        "node_strict",
        np.uint8,
        ("nodes",),
        "hardware",
        "1: 1: the firmware reports extended speeds only to managers that declare support for them",
    ),
    _C("node_ethernet", np.uint8, ("nodes",), "hardware", "1: an adapter whose link layer is Ethernet (RoCE)"),
    _C("node_desc", np.uint8, ("nodes", 64), "mad", "NodeDescription, wire image"),
    _C("switch_of_node", np.int32, ("nodes",), "hardware", "row of the switch arrays, -1 for a CA", -1),
    # -- ports --
    _C("port_node", np.int32, ("ports",), "hardware", "node that owns the port"),
    _C("port_num", np.uint8, ("ports",), "hardware", "portnum on that node"),
    _C("port_guid", np.uint64, ("ports",), "hardware", "PortGUID; all ports of a switch carry that of port 0"),
    _C("port_peer", np.int32, ("ports",), "hardware", "port at the other end of the cable, -1 = none", -1),
    _C("port_cable", np.int32, ("ports",), "hardware", "cable in this port, -1 = none", -1),
    _C("port_info", np.uint8, ("ports", 64), "mad", "PortInfo, wire image"),
    _C(
        "port_mlnx_speed", np.uint8, ("ports", 3), "mad", "Mellanox ExtendedPortInfo speeds: supported, enabled, active"
    ),
    _C(
        "port_fec",
        np.uint8,
        ("ports",),
        "hardware",
        "active FEC mode as Mellanox' ExtendedPortInfo numbers it, 255 = not known",
        255,
    ),
    _C("module_temperature", np.int16, ("ports",), "hardware", "module temperature in degrees Celsius", NO_TEMPERATURE),
    _C("pkey_base", np.int32, ("ports",), "hardware", "first P_Key of the port in pkeys"),
    _C("pkey_cap", np.uint16, ("ports",), "hardware", "entries of the port's P_Key table"),
    _C("guid_base", np.int32, ("ports",), "hardware", "first GUID of the port in guids"),
    _C(
        "sl2vl_base",
        np.int32,
        ("ports",),
        "hardware",
        "switch: row of (input 0, this output); add the input portnum. CA: its row",
    ),
    _C(
        "vl_arb",
        np.uint8,
        ("ports", 4, 64),
        "mad",
        "VLArb blocks low 0-31, low 32-63, high 0-31, high 32-63, wire image",
    ),
    _C("counters", COUNTERS, ("ports",), "engine", "PerfMgt counters, 64 bits wide; the PMA saturates to each field"),
    _C(
        "port_loss",
        np.float64,
        ("ports", 2),
        "hardware",
        "bit errors: a packet of L bytes on the wire into the port is lost with probability 1 - exp(-(a + b L))",
    ),
    _C(
        "port_drain",
        np.float64,
        ("ports",),
        "hardware",
        "ps that the port takes to drain one byte of its data VLs: 0 = no delay, infinite = blocked. Negative: the "
        "port also grants credits regardless, so senders do not wait and its buffer overruns",
    ),
    # Optional counters, sampling and congestion control; the docstring of this module states their
    # sizes.
    _C("detail_counters", DETAIL_COUNTERS, ("ports",), "engine", "optional PerfMgt counters"),
    _C("vl_counters", VL_COUNTERS, ("ports",), "engine", "optional PerfMgt counters by VL"),
    _C("sl_counters", SL_COUNTERS, ("ports",), "engine", "optional PerfMgt counters by SL"),
    _C("lane_counters", LANE_COUNTERS, ("ports",), "engine", "counters of extended speeds by lane"),
    _C(
        "fec_histogram",
        np.uint64,
        ("ports", BINS),
        "engine",
        "received codewords by the number of symbols that RS-FEC corrected in them, 0 to 15; bin 0 is counted from "
        "its first query",
    ),
    _C(
        "module_info",
        np.uint8,
        ("ports", 208),
        "hardware",
        "measurements and identity of the module in the port: page 3 of register PDDR, power in microwatts; zeros = "
        "unknown",
    ),
    _C("op_code", np.uint8, ("ports", 3), "mad", "opcode that 0x17, 0x19, 0x1a count on this port: BTH.opcode"),
    _C("sample_control", np.uint8, ("ports", 72), "mad", "end ports: PortSamplesControl as last set, wire image"),
    _C("sample_ps", np.int64, ("ports", 2), "mad", "end ports: start and end of sampling in ps; end 0 = no sampling"),
    _C(
        "sample_count",
        np.uint64,
        ("ports", 5),
        "mad",
        "end ports: data sent and received, packets sent and received, and wait: values at the start, differences "
        "once sampling has ended",
    ),
    _C(
        "class_traps",
        np.uint8,
        ("ports", 2, 32),
        "mad",
        "end ports: TrapGID to TrapQ_Key of ClassPortInfo, wire image, for PerfMgt and for congestion control",
    ),
    _C("port_info_ext", np.uint8, ("ports", 24), "mad", "PortInfoExtended, first bytes of the wire image"),
    _C("cc_key_info", np.uint8, ("ports", 16), "mad", "end ports: CongestionKeyInfo, wire image"),
    _C("cc_log", np.uint8, ("ports", 224), "engine", "end ports: CongestionLog, wire image"),
    _C("cc_port_setting", np.uint8, ("ports", 4), "mad", "switch ports: SwitchPortCongestionSettingElement"),
    _C("cc_ca_setting", np.uint8, ("ports", 132), "mad", "CA ports: CACongestionSetting, wire image"),
    _C(
        "cc_table",
        np.uint8,
        ("ports", 4 + 2 * CCT_ENTRIES),
        "mad",
        "CA ports: CCTI_Limit, reserved, then the CongestionControlTable",
    ),
    # -- cables --
    _C(
        "cable_port",
        np.int32,
        ("cables", 2),
        "hardware",
        "ports at both ends; -1 = unknown peer",
    ),
    _C("cable_length_m", np.float32, ("cables",), "hardware", "metres, NaN = unknown"),
    _C("cable_medium", np.uint8, ("cables",), "hardware", "CableMedium"),
    _C("cable_ber", np.float64, ("cables",), "hardware", "raw bit error ratio, 0 = perfect"),
    _C(
        "cable_listed",
        np.uint8,
        ("cables",),
        "hardware",
        "number of ends at which the source lists this cable; 1 = one-sided record",
    ),
    # -- switches --
    _C("switch_node", np.int32, ("switches",), "hardware", "node of the switch"),
    _C("switch_info", np.uint8, ("switches", 64), "mad", "SwitchInfo, wire image"),
    _C("cc_switch_setting", np.uint8, ("switches", 76), "mad", "SwitchCongestionSetting, wire image"),
    _C("lft", np.uint8, ("switches", "lft_cap"), "mad", "egress portnum by LID, 255 = no route", 255),
    _C("mft", np.uint16, ("switches", "mlids", "mft_positions"), "mad", "port masks by MLID - 0xC000"),
    _C(
        "ar_info",
        np.uint8,
        ("switches", 64),
        "mad",
        "ARInfo, wire image of the last Set (ar_enabled, by_sl_en, enable_by_sl_mask, by_transport_disable, "
        "no_fallback, fr_enabled, "
        "group_top, ageing_time_value); zeros = no adaptive routing",
    ),
    _C(
        "ar_group",
        np.uint64,
        ("switches", AR_GROUPS, 4),
        "mad",
        "ports of each adaptive routing group: bit p % 64 of word p // 64 is port p; group 0 stays empty",
    ),
    _C(
        "ar_lft",
        np.uint16,
        ("switches", "lft_cap"),
        "mad",
        "by LID: state << 14 | group; states 0 BOUNDED (a flow keeps its port), 1 FREE (each packet), 2 STATIC (lft "
        "alone). "
        "An empty group means the port of lft",
    ),
    # -- aggregation nodes --
    _C("sharp_of_node", np.int32, ("nodes",), "hardware", "row of the arrays of aggregation nodes, -1 for others", -1),
    _C("sharp_node", np.int32, ("sharps",), "hardware", "node of the aggregation node (a CA)"),
    _C(
        "sharp_cap",
        np.uint16,
        ("sharps", 2),
        "hardware",
        ("number of trees that it holds, and of streaming trees that may be enabled"),
    ),
    _C("sharp_qp_used", np.uint32, ("sharps",), "mad", "QPNs 1 to this number are reserved"),
    _C("sharp_qp", np.uint8, ("sharps", SHARP_QPS, 16), "mad", "QPCConfig by QPN, wire image"),
    _C("sharp_tree", np.uint8, ("sharps", SHARP_TREES, 16), "mad", "head of TreeConfig by tree ID, wire image"),
    _C(
        "sharp_child",
        np.uint32,
        ("sharps", SHARP_TREES, SHARP_CHILDREN),
        "mad",
        ("local QPN towards each child, 0 = none"),
    ),
    _C("sharp_quota", np.uint8, ("sharps", SHARP_TREES, 16), "mad", "QuotaConfig by tree ID, wire image"),
    # -- virtual ports --
    _C(
        "vport_base",
        np.int32,
        ("ports",),
        "hardware",
        "row of virtual port 0 of a CA port whose CapabilityMask2 announces virtual ports",
    ),
    _C("virtualization", np.uint8, ("ports", 8), "mad", "VirtualizationInfo, first bytes of the wire image"),
    _C("vport_enabled", np.uint8, ("vports",), "hardware", "1: the host uses the virtual port"),
    _C("vport_info", np.uint8, ("vports", 64), "mad", "VPortInfo, wire image"),
    _C("vport_guids", np.uint64, ("vports", VPORT_GUIDS), "mad", "VPortGUIDInfo, native byte order"),
    _C("vport_pkeys", np.uint16, ("vports", VPORT_PKEYS), "mad", "VPortPKeyTable, native byte order"),
    _C("vnode_info", np.uint8, ("vports", 64), "hardware", "VNodeInfo of its virtual HCA, wire image"),
    _C("vnode_desc", np.uint8, ("vports", 64), "hardware", "VNodeDescription, wire image"),
    # -- tables of variable length --
    _C("pkeys", np.uint16, ("pkeys",), "mad", "P_Key tables, native byte order"),
    _C("guids", np.uint64, ("guids",), "mad", "GUID tables of end ports"),
    _C("sl2vl", np.uint8, ("sl2vl_rows", 8), "mad", "16 nibbles a row: VL of SL 0, 1, …"),
)

COLUMN_BY_NAME = {c.name: c for c in COLUMNS}

LAZY_COLUMNS = frozenset(
    c.name
    for c in COLUMNS
    if c.name.startswith(("cc_", "sample_", "ar_"))
    or (c.name.startswith("sharp_") and c.writer == "mad")
    or c.name
    in (
        "detail_counters",
        "vl_counters",
        "sl_counters",
        "lane_counters",
        "op_code",
        "class_traps",
        "port_info_ext",
        "fec_histogram",
        "module_info",
        "vport_base",
        "virtualization",
    )
)
"""Columns that stay zero in most fabrics. A copy or a reset of a fabric should not allocate their
pages."""


class CableMedium:
    """Medium of a cable (``cable_medium``)."""

    UNKNOWN, DAC, ACC, AOC, MULTIMODE, SINGLEMODE, BACKPLANE = range(7)
    NAMES = ("unknown", "DAC", "ACC", "AOC", "MMF", "SMF", "backplane")
