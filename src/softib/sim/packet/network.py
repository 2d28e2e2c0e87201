"""A programmed fabric as the packet layer's tables."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softib.errors import InputError
from softib.fabric.end_ports import port_gbps
from softib.iba.constants import LFT_NO_ROUTE, PhysState, PortState
from softib.iba.rates import MTU_BYTES, SPEEDS
from softib.iba.smp import PortInfo, SwitchInfo
from softib.iba.virtual_lanes import DATA_VLS
from softib.sim.credits import WINDOW, vl_blocks
from softib.sim.packet import constants
from softib.sim.packet.ethernet import ethernet_net, no_ethernet_net
from softib.sim.packet.manager_tables import adaptive_tables, congestion_tables
from softib.sim.packet.options import RNR_TIMER_US, PacketOptions, ethernet_options
from softib.sim.packet.profiles import PROFILES, DeviceProfile
from softib.sim.packet.tables import Net
from softib.sim.packet.tables.network import LOSS, MANAGEMENT, OPTIONS, PORT, PORT_RARE

if TYPE_CHECKING:
    from softib.fabric.model import Fabric


__all__ = [
    "active_peer",
    "build_net",
    "drain_fs",
    "know_peers",
    "main_profile",
    "physical_peer",
    "refresh_ports",
    "usable_peer",
]

FOREVER = 31
"""HOQLife and LifeTimeValue above 19: no limit (IBA 14.2.5.4, 14.2.5.6)."""
HEADROOM = 128
"""Maximum size in bytes of a packet's headers, which a link's MTU does not include (IBA chapter 7: MTU + 124 from LRH
to ICRC, and VCRC)."""
NO_LIMIT = 255
MOST_PRIORITY = 7
"""Largest priority of IEEE 802.1Q: three bits."""
FS_PER_S = 10**15
HOUR_FS, LARGEST_PAYLOAD = 3600 * FS_PER_S, 4096
SMALLEST_PACKET = 30
"""Bytes of an acknowledgement: LRH 8, BTH 12, AETH 4, ICRC 4, VCRC 2 (IBA 5.2)."""


def physical_peer(fabric: Fabric, ports: np.ndarray) -> np.ndarray:
    """Return the port at the other end of each link that is LinkUp at both ends (int32, -1: none):
    it carries VL15."""
    peer = fabric.port_peer[ports]
    there = np.maximum(peer, 0)
    up = [PortInfo.port_phys_state.get(fabric.port_info[at]) == PhysState.LINK_UP for at in (ports, there)]
    return np.where((peer >= 0) & up[0] & up[1], peer, -1).astype(np.int32)


def active_peer(fabric: Fabric, ports: np.ndarray) -> np.ndarray:
    """Return the port at the other end of each link that is ACTIVE at both ends (int32, -1: none): it carries data."""
    peer = physical_peer(fabric, ports)
    active = [PortInfo.port_state.get(fabric.port_info[at]) == PortState.ACTIVE for at in (ports, np.maximum(peer, 0))]
    return np.where((peer >= 0) & active[0] & active[1], peer, -1).astype(np.int32)


def usable_peer(fabric: Fabric) -> np.ndarray:
    """Return the port at the other end of each link that carries data (int32[ports], -1: none): both
    ends are LinkUp. If any port of the fabric is ACTIVE (a manager has run), both ends must also be ACTIVE."""
    every = np.arange(fabric.sizes.ports)
    managed = (fabric.port_state[fabric.linked] == PortState.ACTIVE).any()
    return active_peer(fabric, every) if managed else physical_peer(fabric, every)


def main_profile(fabric: Fabric) -> DeviceProfile:
    """Return the profile of the generation to which the links of most adapters belong."""
    from softib.fabric.power_up import active_speed_codes

    on_ca = ~fabric.is_switch[fabric.port_node] & fabric.linked
    codes = active_speed_codes(fabric.port_info, fabric.port_mlnx_speed)[on_ca]
    codes = codes[codes > 0]
    if not len(codes):
        raise InputError("no adapter of the fabric has a link that is up; bring up the fabric first")
    return PROFILES[SPEEDS[int(np.bincount(codes).argmax()) - 1].name]


def _ports(fabric: Fabric, vls: int, profile: DeviceProfile, changed: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    f = fabric
    n = f.sizes.ports
    every = np.arange(n)
    p, rare = PORT.zeros(n), PORT_RARE.zeros(n)
    node = f.port_node
    on_switch, port0 = f.is_switch[node], f.is_switch[node] & (f.port_num == 0)
    peer = usable_peer(f)
    p["peer"] = np.where(port0, every, peer)
    p["kind"] = np.where(
        on_switch & ~port0, constants.SWITCH_PORT, np.where(port0 | (peer >= 0), constants.END_PORT, constants.NOTHING)
    )
    p["switch"] = f.switch_of_node[node]
    p["num"] = f.port_num
    metres = (
        np.where(f.port_cable >= 0, f.cable_length_m[np.maximum(f.port_cable, 0)], 0.0)
        if f.sizes.cables
        else np.zeros(n)
    )
    p["delay_ps"] = np.rint(np.nan_to_num(metres) * 5000).astype(np.int64)
    ports = f.node_nports[node].astype(np.int64) + 1
    p["ports"] = ports
    queues = np.where(on_switch, ports * vls, 0)
    p["voq"] = np.cumsum(queues) - queues
    p["port_0"] = f.node_base[node]
    refresh_ports(f, every, p, rare, profile, changed, vls)
    return p, rare


def refresh_ports(
    fabric: Fabric,
    ports: np.ndarray,
    p: np.ndarray,
    rare: np.ndarray,
    profile: DeviceProfile,
    changed: dict[str, Any],
    vls: int,
) -> None:
    """Write the values set by MADs and by link training into the rows ``ports`` of ``Net.port`` and
    ``Net.rare``: rate, latency, VLs (at most the ``vls`` for which the run has rows), MTU,
    lifetimes, arbitration."""
    from softib.fabric.power_up import active_speed_codes

    f, at = fabric, ports
    info = f.port_info[at]
    n, node = len(at), f.port_node[at]
    external = f.is_switch[node] & (f.port_num[at] > 0)
    codes = active_speed_codes(info, f.port_mlnx_speed[at])
    gbps = port_gbps(f, at)
    figure = {
        name: np.array(
            [
                changed.get(name, getattr(profile, name)),
                *(changed.get(name, getattr(PROFILES[s.name], name)) for s in SPEEDS),
            ],
            np.int64,
        )[codes]
        for name in ("vl_blocks", "switch_ns", "adapter_ns")
    }
    p["fs"][at] = np.rint(np.divide(8e6, gbps, out=np.zeros(n), where=gbps > 0)).astype(np.int64)
    p["latency_ps"][at] = np.where(external, figure["switch_ns"] * 1000, figure["adapter_ns"] * 500)
    stated = np.minimum(figure["vl_blocks"], WINDOW)
    operational = PortInfo.operational_vls.get(info)
    rare["blocks"][at] = stated if "vl_blocks" in changed else vl_blocks(figure["vl_blocks"], operational)
    p["vls"][at] = np.minimum(DATA_VLS[PortInfo.operational_vls.get(info) & 7], vls)
    p["hoq"][at] = np.where(external, PortInfo.hoq_life.get(info), FOREVER)
    p["life"][at] = FOREVER
    if f.sizes.switches:
        life = SwitchInfo.life_time_value.get(f.switch_info[np.maximum(f.switch_of_node[node], 0)])
        p["life"][at] = np.where(external, life, FOREVER)
    rare["stall_count"][at] = np.where(external, PortInfo.vl_stall_count.get(info), 0)
    limit = PortInfo.vl_high_limit.get(info).astype(np.int64)
    rare["high_limit"][at] = np.where(limit == NO_LIMIT, -1, limit * 4096)
    mtus = np.array([MTU_BYTES.get(code, 4096) for code in range(16)], np.int64)
    p["mtu"][at] = mtus[PortInfo.neighbor_mtu.get(info)] + HEADROOM
    weights = f.vl_arb[at, :, 1::2]
    low = np.minimum(PortInfo.vl_arb_low_cap.get(info).astype(np.int64), 64)
    high = np.minimum(PortInfo.vl_arb_high_cap.get(info).astype(np.int64), 64)
    place = np.arange(64)
    low_any = (weights[:, 0:2].reshape(n, 64) * (place < low[:, None])).any(axis=1)
    high_any = (weights[:, 2:4].reshape(n, 64) * (place < high[:, None])).any(axis=1)
    rare["low_cap"][at], rare["high_cap"][at] = low * low_any, high * high_any
    symbol_fs = np.array([1.0, *(10e6 / s.lane_gbps for s in SPEEDS)])
    rare["tick_ps"][at] = np.maximum(np.rint(symbol_fs[codes] / 1000), 1).astype(np.int64)


def drain_fs(byte_ps: np.ndarray) -> np.ndarray:
    """Return ``Net.drain``. ``byte_ps`` float64[ports]: ps in which a port drains a byte; 0: as fast as the link; inf:
    it drains nothing, represented as an hour per packet; below 0: it grants credits although it has no room, so it does
    not slow down its peer."""
    finite = np.where(np.isinf(byte_ps), HOUR_FS / LARGEST_PAYLOAD, byte_ps * 1000)
    return np.rint(np.where(byte_ps > 0, finite, 0)).astype(np.int64)


def know_peers(port: np.ndarray) -> None:
    """Write the kind and the latency of each port's peer into the port's row of ``Net.port``. Must be called again when
    these change."""
    there = np.maximum(port["peer"], 0)
    port["next_kind"], port["next_latency_ps"] = port["kind"][there], port["latency_ps"][there]


class _SlMap(NamedTuple):
    """The VLs, or priorities, of service levels."""

    uniform: np.ndarray
    """``Net.uniform``, int64[16]."""
    vls: int
    """Number of VLs that the SLs in use need."""
    is_uniform: bool
    """Whether all switch ports have the same mapping."""


def _sl2vl(fabric: Fabric, sls: np.ndarray) -> _SlMap:
    """Return the mapping of the switches for the SLs in use."""
    rows = fabric.sl2vl
    uniform, is_uniform = np.zeros(16, np.int64), False
    if not len(rows):
        return _SlMap(uniform, 1, is_uniform)
    vls = np.stack([rows[:1] >> 4, rows[:1] & 15], axis=2).reshape(16).astype(np.int64)
    if (rows == rows[0]).all():
        uniform[:], is_uniform = vls, True
        used = vls[sls]
    else:
        used = np.unique(
            np.concatenate([np.unique(rows[:, sl >> 1] >> (0 if sl & 1 else 4) & 15) for sl in sls.tolist()])
        )
    used = used[used < 15]
    return _SlMap(uniform, int(used.max(initial=0)) + 1, is_uniform)


def priorities(sls: np.ndarray) -> _SlMap:
    """Return the values of :func:`_sl2vl` for Ethernet, where the service level is the priority (PCP). Raises
    :class:`InputError` for a service level above 7."""
    most = int(sls.max(initial=0))
    if most > MOST_PRIORITY:
        raise InputError(f"SL {most} has no priority of Ethernet; these are 0 to {MOST_PRIORITY}")
    return _SlMap(np.arange(16), most + 1, True)


def build_net(
    fabric: Fabric, options: PacketOptions, sls: np.ndarray, management: np.ndarray | None = None
) -> tuple[Any, DeviceProfile]:
    """Return :data:`~softib.sim.packet.tables.Net` for packets of these SLs, and the adapters'
    profile. ``management``: a row if links and tables will change during the run; the fabric's arrays are then used
    without a copy. Raises :class:`InputError` if no link is up.
    """
    base = main_profile(fabric)
    changed = dict(options.profile)
    profile = base.but(**changed)
    is_ethernet = options.network != "infiniband"
    uniform, vls, is_uniform = priorities(sls) if is_ethernet else _sl2vl(fabric, np.unique(sls))
    lft = np.ascontiguousarray(fabric.lft) if len(fabric.lft) else np.full((1, 1), LFT_NO_ROUTE, np.uint8)
    port, rare = _ports(fabric, vls, profile, changed)
    opt_rows = _options(options, profile, vls)
    opt = opt_rows[0]
    opt["uniform_sl2vl"] = is_uniform and management is None
    if is_ethernet:
        options = replace(options, adaptive_routing=False, congestion_control=False)
    congestion = congestion_tables(fabric, rare["blocks"], options.congestion_control, opt)
    adaptive = adaptive_tables(fabric, options, opt)
    wire, drain = np.zeros(1, np.int32), drain_fs(fabric.port_drain)
    if management is None:
        management = MANAGEMENT.zeros(1)
    else:
        wire = physical_peer(fabric, np.arange(fabric.sizes.ports))
    management["slow"] = bool(drain.any()) and not is_ethernet
    opt["lossy"] = bool(fabric.port_loss.any()) or bool(management["on"].any())
    ethernet = no_ethernet_net()
    if is_ethernet:
        ethernet = ethernet_net(fabric, options.network, ethernet_options(options.ethernet), port, opt, options.seed)
    net = Net(
        port=port,
        rare=rare,
        lft=lft,
        sl2vl_base=fabric.sl2vl_base,
        sl2vl=fabric.sl2vl,
        uniform=uniform,
        vl_arb=fabric.vl_arb,
        loss=np.ascontiguousarray(fabric.port_loss).view(LOSS.dtype).reshape(-1),
        opt=opt_rows,
        management=management,
        wire=wire,
        drain=drain,
        **congestion,
        **adaptive,
        **ethernet,
        mft=np.zeros((1, 1, 1), np.uint16),
        switch_info=fabric.switch_info,
        group_first=np.zeros(1, np.int64),
        group_port=np.zeros(1, np.int64),
        watch_port=np.zeros(0, np.uint8),
        watch_qp=np.zeros(0, np.uint8),
    )
    return net, profile


def _options(options: PacketOptions, profile: DeviceProfile, vls: int) -> np.ndarray:
    rows = OPTIONS.zeros(1)
    opt = rows[0]
    opt["vls"], opt["fifo"], opt["random"] = vls, options.fifo, options.random_arbitration
    opt["ack_every"], opt["reads"] = max(profile.ack_every, 1), max(profile.reads, 1)
    opt["fetch_ps"], opt["inline"] = profile.fetch_ns * 1000, profile.inline_bytes
    opt["dma_fs"] = opt["rx_fs"] = round(8e6 / profile.pcie_gbps) if profile.pcie_gbps else 0
    opt["ramp_fs"] = max(opt["dma_fs"], round(8e6 / profile.ramp_gbps) if profile.ramp_gbps else 0)
    opt["ramp"] = profile.ramp_bytes
    opt["pio_fs"] = round(profile.inline_ns * 1e6)
    opt["message_gap_ps"], opt["ack_delay_ps"] = round(profile.message_gap_ns * 1000), profile.ack_ns * 1000
    opt["cqe_ps"], opt["gap"] = profile.cqe_ns * 1000, profile.gap_bytes
    opt["timeout_ps"], opt["retries"] = 4_096_000 << options.ack_timeout, options.retries
    opt["rnr_ps"], opt["rnr_retries"] = RNR_TIMER_US[options.rnr_timer] * 1_000_000, options.rnr_retries
    opt["by_sl"] = options.counters_by_sl
    opt["fcp"], opt["smallest"] = 8, SMALLEST_PACKET
    return rows
