"""Tables of the packet layer made from settings that managers wrote: congestion control, adaptive routing, multicast
groups, aggregation nodes. The module also records when the members of a group receive its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.iba.cc import (
    CACongestionEntry,
    CACongestionSetting,
    SwitchCongestionSetting,
    SwitchPortCongestionSettingElement,
)
from softib.iba.vendor.ar import ARInfo
from softib.sim.messages import Messages
from softib.sim.outcome import NEVER
from softib.sim.packet import constants
from softib.sim.packet.kernels.switch.adaptive_routing import REPAIR
from softib.sim.packet.options import PacketOptions
from softib.sim.packet.profiles import DeviceProfile
from softib.sim.packet.tables.network import MARKING, THROTTLING

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.sim.packet.options import PacketOptions


__all__ = [
    "adaptive_tables",
    "aggregation_columns",
    "congestion_tables",
    "deliveries_of",
    "group_tables",
    "inside_links",
    "mark_messages",
    "reached_ps",
]


def aggregation_columns(fabric: Fabric, net: Any, m: Messages, profile: DeviceProfile) -> None:
    """For a run with reductions, set ``opt.aggregates`` and, for each aggregation node, the rate of its link to the
    switch and the time to reduce a packet. The node accepts data at the combined rate of all ports of its switch."""
    if not m.reduces.any() or not fabric.sizes.sharps:
        return
    net.opt.aggregates = 1
    ports = fabric.node_base[fabric.sharp_node] + 1
    ports = ports[net.port["peer"][ports] >= 0]
    peers = net.port["peer"][ports]
    fs = np.maximum(net.port["fs"][peers] // np.maximum(net.port["ports"][peers] - 1, 1), 1)
    for ends in (ports, peers):
        net.port["fs"][ends], net.port["delay_ps"][ends] = fs, 0
        net.rare["blocks"][ends] = constants.WINDOW
    net.rare["reduce_fs"][ports] = fs
    net.rare["reduce_ps"][ports] = max(profile.reduce_ns * 1000, 1)


def inside_links(net: Any) -> np.ndarray:
    """Return both ends of the links between switches and the aggregation nodes inside them (rows of ports). Empty for a
    run without reductions. Link training does not determine the rates and buffers of these ports."""
    nodes = np.flatnonzero(net.rare["reduce_fs"] > 0)
    return np.concatenate([nodes, net.port["peer"][nodes].astype(np.int64)])


def group_tables(
    fabric: Fabric, ends: np.ndarray, m: Messages, options: PacketOptions, opt: Any
) -> dict[str, np.ndarray]:
    """Return ``mft``, ``group_first`` and ``group_port`` of :data:`~softib.sim.packet.tables.Net`;
    set ``opt[MULTICAST]``. Raises :class:`InputError` for a group without an MLID, and if inputs are FIFOs, which do
    not support copies.
    """
    used = [m.groups[g - 1] for g in np.unique(m.group[m.group > 0]).tolist()]
    if not used:
        return {
            "mft": np.zeros((1, 1, 1), np.uint16),
            "group_first": np.zeros(1, np.int64),
            "group_port": np.zeros(1, np.int64),
        }
    if options.fifo:
        raise InputError("inputs with one FIFO per VL do not support multicast; leave fifo out")
    if any(g.mlid < constants.MULTICAST_LID for g in used):
        raise InputError("a multicast group has no MLID; a subnet manager must create the group")
    opt["multicast"] = 1
    ports = [np.unique(ends[g.members]) for g in m.groups]
    first = np.concatenate([[0], np.cumsum([len(p) for p in ports])])
    return {
        "mft": fabric.mft,
        "group_first": first.astype(np.int64),
        "group_port": np.concatenate(ports).astype(np.int64),
    }


def mark_messages(message: np.ndarray, m: Messages) -> int:
    """Fill the columns ``lid``, ``group`` and ``delivery`` of messages for groups; return the number of rows of
    ``State.delivery``. Raises :class:`InputError` if a message waits for a datagram that its source does not receive.
    """
    rows = np.flatnonzero(m.group > 0)
    if not len(rows):
        return 1
    owner = np.repeat(np.arange(len(m)), np.diff(m.first))
    for i, needed in zip(owner.tolist(), m.needs.tolist(), strict=True):
        g = int(m.group[needed])
        if g and m.src[i] != m.src[needed] and m.src[i] not in m.groups[g - 1].members:
            raise InputError(
                f"message {i} waits for a datagram to a multicast group of which its source is not a member"
            )
    group = m.group[rows] - 1
    members = np.array([len(np.unique(g.members)) for g in m.groups], np.int64)[group]
    message["group"][rows] = group + 1
    message["lid"][rows] = np.array([g.mlid for g in m.groups], np.int64)[group]
    message["delivery"][rows] = np.cumsum(members) - members
    return int(members.sum())


def deliveries_of(net: Any, s: Any, i: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return three arrays for message ``i``, which is for a group: the ports of the group's members, the time at which
    each received the message (ps, -1: never), and the number of times it received it."""
    group = int(s.message["group"][i]) - 1
    first, end = int(net.group_first[group]), int(net.group_first[group + 1])
    rows = s.delivery[int(s.message["delivery"][i]) :][: end - first]
    return net.group_port[first:end], rows["arrived"], rows["times"]


def reached_ps(net: Any, s: Any, n: int) -> np.ndarray:
    """Return when each of ``n`` messages arrived; a message for a group arrives when the last
    member other than its sender has received it."""
    arrived = s.message["arrived"][:n].copy()
    for i in np.flatnonzero(s.message["group"][:n]).tolist():
        ports, when, _ = deliveries_of(net, s, i)
        when = when[ports != s.qp["src"][s.message["qp"][i]]]
        arrived[i] = when.max() if len(when) and (when >= 0).all() else NEVER
    return arrived


TIMER_PS = 1_024_000
"""Unit of CCTI_Timer: 1.024 us (IBA A10.4.3.8)."""
BLOCK = 64
US = 1_000_000


def congestion_tables(fabric: Fabric, blocks: np.ndarray, wanted: bool, opt: Any) -> dict[str, np.ndarray]:
    """Return ``marking``, ``throttling`` and ``cct`` of :data:`~softib.sim.packet.tables.Net`; set ``opt.cc`` if a
    switch marks. Threshold ``w`` of 1 to 15 means (16 - w) sixteenths of the receive buffer of a VL. (Annex A10
    requires that the thresholds decrease uniformly, and leaves their sizes to the switch.) An entry of the congestion
    control table is a shift (2 bits) and a multiplier (14 bits): the flow waits for multiplier / 2^shift packet times.
    """
    empty = {
        "marking": MARKING.zeros(1),
        "throttling": THROTTLING.zeros(1, 1),
        "cct": np.zeros((1, 1), np.int64),
    }
    marking = _marking(fabric, blocks) if wanted and fabric.sizes.switches else None
    if marking is None or not marking["threshold"].any():
        return empty
    opt["cc"] = 1
    throttling = THROTTLING.zeros(fabric.sizes.ports, 16)
    entries = CACongestionSetting.entries.get(fabric.cc_ca_setting).astype(np.uint8).reshape(fabric.sizes.ports, 16, -1)
    throttling["timer_ps"] = CACongestionEntry.ccti_timer.get(entries).astype(np.int64) * TIMER_PS
    throttling["increase"] = CACongestionEntry.ccti_increase.get(entries)
    throttling["least"] = CACongestionEntry.ccti_min.get(entries)
    entries16 = fabric.cc_table.view(">u2").astype(np.int64)
    throttling["limit"] = entries16[:, :1]
    entry = entries16[:, 2:]
    return {"marking": marking, "throttling": throttling, "cct": 1000 * (entry & 0x3FFF) >> (entry >> 14)}


def _marking(fabric: Fabric, blocks: np.ndarray) -> np.ndarray:
    f, S, P = fabric, SwitchCongestionSetting, SwitchPortCongestionSettingElement
    switch = np.maximum(f.switch_of_node[f.port_node], 0)
    of_switch, of_port = f.cc_switch_setting[switch], f.cc_port_setting
    of_port_itself = (P.valid.get(of_port) == 1) & (P.control_type.get(of_port) == 0)
    threshold = np.where(of_port_itself, P.threshold.get(of_port), S.threshold.get(of_switch)).astype(np.int64)
    out = MARKING.zeros(f.sizes.ports)
    external = f.is_switch[f.port_node] & (f.port_num > 0)
    out["threshold"] = np.where(external & (threshold > 0), np.maximum(blocks * (16 - threshold) // 16, 1), 0)
    out["packet_size"] = (
        np.where(of_port_itself, P.packet_size.get(of_port), S.packet_size.get(of_switch)).astype(np.int64) * BLOCK
    )
    out["rate"] = np.where(of_port_itself, P.cong_parm_marking_rate.get(of_port), S.marking_rate.get(of_switch))
    mask = S.victim_mask.get(f.cc_switch_setting).astype(np.uint8).reshape(f.sizes.switches, 32)
    bits = np.unpackbits(mask, axis=1)[:, ::-1]  # port 0 is the last bit
    out["victim"] = bits[switch, f.port_num]
    return out


def adaptive_tables(fabric: Fabric, options: PacketOptions, opt: Any) -> dict[str, Any]:
    """Return ``ar_lft``, ``ar_group``, ``ar_on`` and ``ageing`` of
    :data:`~softib.sim.packet.tables.Net`; set ``opt.ar`` if a switch routes adaptively, and ``opt.placement``."""
    f = fabric
    if not (options.adaptive_routing and f.sizes.switches):
        return _no_adaptive()
    info = f.ar_info
    on = ARInfo.ar_enabled.get(info).astype(bool)
    repairs = ARInfo.fr_enabled.get(info).astype(np.int64)
    if not (on.any() or repairs.any()):
        return _no_adaptive()
    sls = np.where(ARInfo.by_sl_en.get(info).astype(bool), ARInfo.enable_by_sl_mask.get(info), 0xFFFF).astype(np.int64)
    off = ARInfo.by_transport_disable.get(info).astype(np.int64)
    transports = (off >> 1 & 1) | (off >> 2 & 1) << 1 | (off & 1) << 2  # on the wire UD, RC, UC; here RC, UC, UD
    opt["ar"], opt["placement"] = 1, options.placement
    return {
        "ar_lft": f.ar_lft,
        "ar_group": f.ar_group,
        "ar_on": np.where(on, sls | transports << 16, 0) | repairs << REPAIR,
        "ageing": ARInfo.ageing_time_value.get(info).astype(np.int64) * US,
    }


def _no_adaptive() -> dict[str, Any]:
    return {
        "ar_lft": np.zeros((1, 1), np.uint16),
        "ar_group": np.zeros((1, 1, 4), np.uint64),
        "ar_on": np.zeros(1, np.int64),
        "ageing": np.zeros(1, np.int64),
    }
