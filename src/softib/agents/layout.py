"""The data that the agents' kernels use: views of a fabric's arrays, and the few words of state
that firmware keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib import __version__
from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_speed_codes
from softib.fabric.power_up import active_speed_codes
from softib.iba.catalogue import ADAPTER_OF, SWITCH_OF
from softib.iba.constants import MAX_HOPS, NodeType
from softib.iba.devices import DEVICES
from softib.iba.perf import CapMask, CapMask2
from softib.iba.rates import LANES_BY_BIT, SPEEDS
from softib.iba.smp import PortInfo
from softib.jit import table

__all__ = ["FIRMWARE_FIELDS", "NOTICE_SLOTS", "Outcome", "Tables", "perf_capabilities", "tables_of"]


ALL = CapMask.ALL_PORT_SELECT | CapMask.EXTENDED_WIDTH | CapMask.PORT_XMIT_WAIT | CapMask.RSFEC_COUNTERS


def perf_capabilities(fabric: Fabric, additional: bool | None = None) -> np.ndarray:
    """Return int64[nodes, 2]: the PerfMgt CapabilityMask and CapabilityMask2 of each node's device.
    If the catalogue does not have the device, use the typical device of its generation. If
    ``additional`` is not None, all devices get the same masks, with or without the 64-bit error
    counters and QP1Dropped."""
    n = fabric.sizes.nodes
    if additional is not None:
        same = (ALL | CapMask.QP1_DROPPED, CapMask2.ADDITIONAL_EXTENDED_COUNTERS) if additional else (ALL, 0)
        return np.tile(np.array(same, np.int64), (n, 1))
    is_switch = fabric.node_type[:n] == NodeType.SWITCH
    code = np.ones(n, np.int64)
    np.maximum.at(code, fabric.port_node, supported_speed_codes(fabric, np.arange(fabric.sizes.ports)))
    out = np.zeros((n, 2), np.int64)
    for speed in SPEEDS:
        for switch, part in ((False, ADAPTER_OF[speed.name]), (True, SWITCH_OF[speed.name])):
            out[(code == speed.code) & (is_switch == switch)] = part.perf_capability, part.perf_capability2
    for number, part in DEVICES.items():
        of = (fabric.device_id[:n] == number) & (is_switch == (part.kind == "switch"))
        out[of] = part.perf_capability, part.perf_capability2
    return out


FABRIC_FIELDS = (
    "node_type",
    "node_nports",
    "node_base",
    "node_guid",
    "sys_guid",
    "vendor_id",
    "device_id",
    "revision",
    "node_strict",
    "node_desc",
    "switch_of_node",
    "port_node",
    "port_num",
    "port_guid",
    "port_peer",
    "port_info",
    "port_mlnx_speed",
    "pkey_base",
    "pkey_cap",
    "guid_base",
    "sl2vl_base",
    "vl_arb",
    "switch_info",
    "lft",
    "mft",
    "pkeys",
    "guids",
    "sl2vl",
    "op_code",
    "sample_control",
    "sample_ps",
    "sample_count",
    "class_traps",
    "port_info_ext",
    "cc_key_info",
    "cc_log",
    "cc_port_setting",
    "cc_ca_setting",
    "cc_table",
    "cc_switch_setting",
    "ar_info",
    "ar_group",
    "ar_lft",
    "sharp_of_node",
    "sharp_cap",
    "sharp_qp_used",
    "sharp_qp",
    "sharp_tree",
    "sharp_child",
    "sharp_quota",
    "fec_histogram",
    "module_info",
    "vport_base",
    "virtualization",
    "vport_enabled",
    "vport_info",
    "vport_guids",
    "vport_pkeys",
    "vnode_info",
    "vnode_desc",
)
"""Columns of the fabric that agents read or write."""

COUNTER_FIELDS = ("counters", "detail_counters", "vl_counters", "sl_counters", "lane_counters")

FIRMWARE_FIELDS = (
    *COUNTER_FIELDS,
    "mkey_until",
    "cc_until",
    "trained",
    "notices",
    "notice_data",
    "notice_count",
    "samplers",
    "passed",
    "touched",
    "progress",
    "path",
    "options",
    "firmware",
    "reregisters",
    "fault",
    "fault_rate",
    "rng_state",
    "overruns",
    "fec_clock",
    "perf_caps",
)

Tables: Any = table("Tables", [*FABRIC_FIELDS, *FIRMWARE_FIELDS])
"""The single argument that all kernels receive. In addition to the columns of the fabric, it has:

* the five ``…counters`` uint64[ports, counters]: the counters of the fabric, without field names,
  because structured arrays are expensive to pass to Numba
* ``mkey_until``, ``cc_until`` int64[ports]: time in ps at which the lease of M_Key and of CC_Key
  ends; 0 = no lease is running
* ``trained`` uint8[ports, 2]: lanes and speed code of the cable at the start; 255 = it had no link
* ``notices`` int64[slots, 4]: time in ps, port, trap number, detail; ``notice_data`` uint8[slots,
  54]: the DataDetails of these notices; ``notice_count`` int64[2]: number of used slots, number of
  lost notices
* ``samplers`` int64[slots, 3]: element [0, 0] is the number of armed sampling mechanisms; each
  further row is the end port of one, the port that it samples, and 1 if it has begun
* ``passed`` uint64[ports]: number of MADs of this call that are not counted yet (sent, received <<
  32); ``touched`` int32[ports]: the ports with such MADs
* ``progress`` int64[6]: state of the MAD that is being routed (:mod:`softib.agents.kernels.route`);
  ``path`` int64[2 (switches + 64)]: the egress ports of its path
* ``options`` int64[2]: whether MADs are counted, and the number of ports that have a fault
* ``perf_caps`` int64[nodes, 2]: :func:`perf_capabilities`
* ``fault`` int64[ports, 7], ``fault_rate`` float64[ports, 3], ``rng_state`` uint64[1]:
  :mod:`softib.agents.kernels.faults.fault_columns`
* ``fec_clock`` int64[ports]: time in ps up to which codewords without an error are counted; 0 = no
  histogram has been requested
* ``overruns`` int64[ports, 2]: :mod:`softib.agents.kernels.faults.flow_control`
* ``firmware`` uint8[3]: softib's version, which every device reports as firmware version
* ``reregisters`` uint32[ports]: number of Sets that requested the clients of an end port to
  register again
"""

Outcome: Any = table(
    "Outcome",
    "row client_row client_port served fate reply_row reply_answer forward_row forward_answer forward_port counts",
)
"""Results of a batch (:func:`softib.agents.kernels.serve.serve`). ``row`` int64[n]: the request of
each answer. ``client_row``, ``client_port`` int64[n]: the request and the end port of MADs for
clients, filled from the last row downwards. ``served`` int64[2]: the number of answers, and of MADs
for clients. The other columns are used by the servers of a running fabric
(:func:`softib.live.exchange_kernels.answer`) and are empty elsewhere. They are in the same table
because with two tables, the machine code that answers MADs would be compiled twice."""

NOTICE_SLOTS = 4096
SAMPLER_SLOTS = 1025
RNG_SEED = 0x9E3779B97F4A7C15
"""Initial random state for bit errors. :meth:`softib.agents.link_faults.LinkFaults.seed` sets
another state."""


def tables_of(fabric: Fabric, count_mads: bool = True, additional_counters: bool | None = None) -> Any:
    """Return views of ``fabric`` and new firmware state. Arrays are not copied, so writes of agents
    change the fabric."""
    columns = {name: getattr(fabric, name) for name in FABRIC_FIELDS}
    ports = fabric.sizes.ports
    for name in COUNTER_FIELDS:
        columns[name] = getattr(fabric, name).view(np.uint64).reshape(ports, -1)
    columns["cc_until"] = np.zeros(ports, np.int64)
    columns["notice_data"] = np.zeros((NOTICE_SLOTS, 54), np.uint8)
    columns["samplers"] = np.zeros((SAMPLER_SLOTS, 3), np.int64)
    columns["passed"], columns["touched"] = np.zeros(ports, np.uint64), np.zeros(ports, np.int32)
    columns["progress"] = np.zeros(6, np.int64)
    columns["path"] = np.zeros(2 * (fabric.sizes.switches + 1 + MAX_HOPS), np.int64)
    columns["options"] = np.array([count_mads, 0], np.int64)
    columns["perf_caps"] = perf_capabilities(fabric, additional_counters)
    columns["firmware"] = np.array([int(n) for n in __version__.split(".")[:3]], np.uint8)
    columns["fault"], columns["fault_rate"] = np.zeros((ports, 7), np.int64), np.zeros((ports, 3))
    columns["overruns"] = np.tile(np.array([-1, 0], np.int64), (ports, 1))
    columns["fec_clock"] = np.zeros(ports, np.int64)
    columns["rng_state"] = np.array([RNG_SEED], np.uint64)
    columns["reregisters"] = np.zeros(ports, np.uint32)
    columns["mkey_until"] = np.zeros(fabric.sizes.ports, np.int64)
    columns["trained"] = _trained(fabric)
    columns["notices"] = np.zeros((NOTICE_SLOTS, 4), np.int64)
    columns["notice_count"] = np.zeros(2, np.int64)
    return Tables(**columns)


def _trained(fabric: Fabric) -> np.ndarray:
    lanes = np.full(256, 255, np.uint8)
    for bit, n in LANES_BY_BIT.items():
        lanes[bit] = n
    codes = active_speed_codes(fabric.port_info, fabric.port_mlnx_speed)
    trained = fabric.linked & (codes > 0)
    width = lanes[PortInfo.link_width_active.get(fabric.port_info)]
    return np.stack([np.where(trained, width, 255), np.where(trained, codes, 255)], axis=1).astype(np.uint8)
