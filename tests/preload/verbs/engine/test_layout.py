"""What C says twice must be the same: wire images declared in iba/smp.py, words of a cell in the kernel."""

import re
from pathlib import Path

import numpy as np
import pytest

from softib.agents.kernels import app_drops as k
from softib.iba import constants as c
from softib.iba.smp import PortInfo, SwitchInfo
from softib.iba.vendor import ar
from softib.iba.vendor.ar import ARInfo
from softib.live.verbs import server
from softib.live.verbs.traffic import HEADER, constant
from tests.preload.verbs.fabric_library import SOURCES

ATTRIBUTES = SOURCES / "attributes.h"
FIELDS = {
    "GID_PREFIX": PortInfo.gid_prefix, "LID": PortInfo.lid, "MASTER_SM_LID": PortInfo.master_sm_lid,
    "CAP_MASK": PortInfo.cap_mask, "LINK_WIDTH_ACTIVE": PortInfo.link_width_active, "STATE": PortInfo.port_state,
    "PHYS_STATE": PortInfo.port_phys_state, "LMC": PortInfo.lmc, "SPEED_ACTIVE": PortInfo.link_speed_active,
    "NEIGHBOR_MTU": PortInfo.neighbor_mtu, "VL_CAP": PortInfo.vl_cap, "VL_HIGH_LIMIT": PortInfo.vl_high_limit, "INIT_TYPE_REPLY": PortInfo.init_type_reply,
    "OPERATIONAL_VLS": PortInfo.operational_vls, "PKEY_VIOLATIONS": PortInfo.pkey_violations,
    "QKEY_VIOLATIONS": PortInfo.qkey_violations, "GUID_CAP": PortInfo.guid_cap, "SUBNET_TIMEOUT": PortInfo.subnet_timeout,
    "EXT2": PortInfo.link_speed_ext2_active, "CAP_MASK2": PortInfo.cap_mask2,
    "SPEED_EXT_ACTIVE": PortInfo.link_speed_ext_active, "HOQ_LIFE": PortInfo.hoq_life, "LINEAR_FDB_TOP": SwitchInfo.linear_fdb_top,
    "FR_ENABLED": ARInfo.fr_enabled, "AR_SLS": ARInfo.enable_by_sl_mask, "AR_TRANSPORTS": ARInfo.by_transport_disable, "AR_AGEING": ARInfo.ageing_time_value, "MCAST_FDB_CAP": SwitchInfo.mcast_fdb_cap, "MCAST_FDB_TOP": SwitchInfo.mcast_fdb_top,
}  # fmt: skip # a table, its columns aligned


def test_every_offset_of_the_header_is_that_of_the_declaration():
    named = re.findall(r"#define SV_(\w+)_AT", ATTRIBUTES.read_text())
    assert sorted(named) == sorted(FIELDS)
    for name, field in FIELDS.items():
        assert define_of(f"SV_{name}_AT") == field.byte, name


def define_of(name):
    return int(re.search(rf"#define {name} (\w+)", ATTRIBUTES.read_text())[1], 0)


def test_codes():
    assert define_of("SV_FR_ENABLED") == 1 << (7 - ARInfo.fr_enabled.offset % 8)
    assert define_of("SV_AR_GROUP_MASK") == ar.GROUP_MASK
    assert define_of("SV_AR_STATE_SHIFT") == ar.STATE_SHIFT
    for name, field in (
        ("ENABLED", ARInfo.ar_enabled),
        ("NO_FALLBACK", ARInfo.no_fallback),
        ("BY_SL", ARInfo.by_sl_en),
    ):
        assert define_of(f"SV_AR_{name}") == 1 << (7 - field.offset % 8)
    assert define_of("SV_ENFORCE_IN") == 1 << (7 - PortInfo.partition_enforcement_inbound.offset % 8)
    assert define_of("SV_ENFORCE_OUT") == 1 << (7 - PortInfo.partition_enforcement_outbound.offset % 8)
    for name, value in (
        ("NODE_CA", c.NodeType.CA),
        ("NODE_SWITCH", c.NodeType.SWITCH),
        ("PORT_DOWN", c.PortState.DOWN),
        ("PORT_INIT", c.PortState.INIT),
        ("PORT_ARMED", c.PortState.ARMED),
        ("PORT_ACTIVE", c.PortState.ACTIVE),
        ("PHYS_LINK_UP", c.PhysState.LINK_UP),
        ("LID_MCAST_MIN", c.LID_MCAST_MIN),
        ("LID_PERMISSIVE", c.LID_PERMISSIVE),
    ):
        assert define_of(f"SV_{name}") == int(value), name


def test_the_kernel_knows_the_layout_of_a_cell():
    cell = HEADER.types()["softib_cell"]
    assert cell.itemsize == constant("CELL_OCTETS") == 256 and constant("CHUNK_OCTETS") == 256 * k.CHUNK
    fields = {
        "state": k.STATE,
        "more": k.NEXT,
        "links": k.LINKS,
        "drop": k.DROP,
        "counter": k.KINDS,
        "slid": k.LIDS,
        "key": k.KEY,
        "qp": k.QP,
        "corrupted": k.CORRUPTED,
        "egress": k.EGRESS,
    }
    assert {name: cell.fields[name][1] for name in fields} == {name: 4 * at for name, at in fields.items()}
    assert (cell.fields["packets"][1], cell.fields["dwords"][1]) == (8 * k.PACKETS, 8 * k.DWORDS)
    assert (cell.fields["multicast"][1], cell.fields["sl"][1], cell.fields["dlid"][1]) == (30, 31, 34)
    assert cell["egress"].shape == (k.LINKS_ROOM,) == (constant("CELL_LINKS"),)
    chunk, head = HEADER.types()["softib_chunk"], HEADER.types()["softib_traffic"]
    assert (chunk.fields["owner"][1], chunk.fields["dirty"][1]) == (4 * k.OWNER, 4 * k.DIRTY)
    assert head.fields["high"][1] == 4 * k.HIGH
    states = ("FREE", "TAKEN", "LIVE", "RETIRED", "MORE")
    assert [constant(f"CELL_{s}") for s in states] == [getattr(k, s) for s in states]
    drops = {
        "INACTIVE": k.INACTIVE_DROP,
        "MTU": k.MTU_DROP,
        "DLID_MAPPING": k.DLID_DROP,
        "VL_MAPPING": k.VL_DROP,
        "XMIT_CONSTRAINT": k.XMIT_DROP,
        "RCV_CONSTRAINT": k.RCV_DROP,
        "PKEY": k.PKEY_DROP,
        "QKEY": k.QKEY_DROP,
        "HOQ": k.HOQ_DROP,
        "HELD": k.HELD_DROP,
        "OVERRUN": k.OVERRUN_DROP,
    }
    assert {name: constant(f"DROP_{name}") for name in drops} == drops
    assert f"#define SV_PATH_LINKS {k.MAX_LINKS}" in (SOURCES / "path.h").read_text()


def test_event_numbers_are_those_of_libibverbs():
    """Oracle: the installed verbs.h."""
    header = Path("/usr/include/infiniband/verbs.h")
    if not header.is_file():
        pytest.skip(f"{header} is not installed")
    text = header.read_text(encoding="utf-8")
    names = re.search(r"enum ibv_event_type \{(.*?)\}", text, re.DOTALL)[1]
    order = [n.strip() for n in names.split(",") if n.strip()]
    order = [n.removeprefix("IBV_EVENT_") for n in order]
    seen = 0
    for name in (
        "DEVICE_FATAL",
        "PORT_ACTIVE",
        "PORT_ERR",
        "LID_CHANGE",
        "PKEY_CHANGE",
        "SM_CHANGE",
        "CLIENT_REREGISTER",
        "GID_CHANGE",
    ):
        assert server.constant(f"EVENT_{name}") == order.index(name), name
        seen += 1
    assert seen == 8
    assert server.types()["softib_event"] == np.dtype([("type", "u4"), ("portnum", "u4"), ("element", "u8")])
