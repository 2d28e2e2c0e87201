"""A fabric as Ethernet, with the same switches, cables and hosts: thresholds, equal-cost paths and settings as tables
of the packet layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.iba.catalogue import ethernet_switch
from softib.iba.rates import MTU_BYTES
from softib.routing.graph import PortColumns, SwitchGraph
from softib.routing.tables import min_hops
from softib.sim.packet import constants
from softib.sim.packet.congestion_control import CongestionControl
from softib.sim.packet.kernels.congestion import built_in
from softib.sim.packet.options import EthernetOptions
from softib.sim.packet.tables import ethernet as tables
from softib.sim.packet.tables.transport import ROUND_TRIP

if TYPE_CHECKING:
    from softib.fabric.model import Fabric


__all__ = ["ethernet_net", "ethernet_state", "no_ethernet_net", "no_ethernet_state", "port_figures", "totals"]

FIGURES = ("pause_frames_sent", "pause_frames_received", "paused_ps", "tail_drops", "headroom_drops", "ecn_marked")
"""Figures summed over the priorities of a port."""

COLUMNS = {"pause_frames_sent": "pauses_sent", "pause_frames_received": "pauses_received"}
"""Columns of ``State.queue`` whose names differ from those of their figures, by figure."""


def port_figures(net: Any, s: Any, end_ps: int) -> dict[str, np.ndarray]:
    """Return figures by port (int64[ports]) of a run that ended at ``end_ps``: ``pause_frames_sent``
    and ``_received``, ``paused_ps`` (of all priorities, including pauses not yet ended),
    ``tail_drops``, ``headroom_drops``, ``ecn_marked``, ``peak_queue`` (bytes of the longest egress queue of a
    priority), ``mean_queue`` (its mean over the run), ``gbps`` of the link (float64), ``cpu_send_ps`` and
    ``cpu_receive_ps`` of the port's host."""
    vls = int(net.opt.vls)
    q = s.queue.reshape(-1, vls)
    figures = {name: q[COLUMNS.get(name, name)].sum(axis=1) for name in FIGURES}
    now = max(end_ps, 1)
    since = q["paused"]
    figures["paused_ps"] = figures["paused_ps"] + np.where(since > 0, np.maximum(now + 1 - since, 0), 0).sum(axis=1)
    figures["peak_queue"] = q["peak_egress"].max(axis=1)
    still = (q["egress"] * np.maximum(now - q["queue_since"], 0)) >> 10
    queued = np.where(q["peak_egress"] > 0, q["queue_area"] + still, 0)
    figures["mean_queue"] = (queued.sum(axis=1).astype(np.float64) * 1024 / now).round().astype(np.int64)
    figures["gbps"] = net.buffer["line_kbps"] / 1e6
    figures["cpu_send_ps"], figures["cpu_receive_ps"] = (
        s.processor["send_ps"].copy(),
        s.processor["receive_ps"].copy(),
    )
    return figures


def totals(figures: dict[str, np.ndarray], s: Any, network: str) -> dict[str, int]:
    """Return the sums for :attr:`softib.sim.outcome.Outcome.work`."""
    sums = {
        "pause frames": int(figures["pause_frames_sent"].sum()),
        "frames marked": int(figures["ecn_marked"].sum()),
        "frames dropped": int(figures["tail_drops"].sum() + figures["headroom_drops"].sum()),
    }
    if network == "roce":
        sums["CNPs"] = int(s.port["rcv_becn"].sum())
    else:
        sums["segments sent again"] = int(s.tcp["retransmits"].sum())
        sums["timeouts"] = int(s.tcp["timeouts"].sum())
        sums["CPU us to send"] = int(figures["cpu_send_ps"].sum() // 1_000_000)
        sums["CPU us to receive"] = int(figures["cpu_receive_ps"].sum() // 1_000_000)
    return sums


PREAMBLE_AND_GAP = 20
"""Bytes between two frames: preamble and start 8, interpacket gap 12 (IEEE 802.3 4.2)."""
QUANTA_PS_GBPS = 65_535 * 512 * 1000
"""Duration of a pause frame with the largest number of quanta, in ps × Gb/s (IEEE 802.3 31B.2)."""
FRAME_HEADERS = 18
PAUSE = 84
ROCE_PARTS = 60
"""Bytes of headers within the MTU of a first packet: IPv4 20, UDP 8, BTH 12, RETH 16, ICRC 4."""
TCP_PARTS = 52
MIB = 1 << 20
FOREVER = 31
DCQCN_GBPS, DCTCP_GBPS = 40.0, 10.0
K_MIN_40, K_MAX_40, DCTCP_K_10 = 5_000, 200_000, 65 * 1500
"""Kmin and Kmax of DCQCN in bytes at 40 Gb/s (Zhu et al. 2015, figure 14); DCTCP's K at 10 Gb/s
(Alizadeh et al., SIGCOMM 2010)."""
US, NS = 1_000_000, 1000


def no_ethernet_net() -> dict[str, np.ndarray]:
    """Return the Ethernet fields of :data:`~softib.sim.packet.tables.Net` for a run over InfiniBand."""
    return {
        "ethernet": tables.SETTINGS.zeros(1),
        "cc": built_in.SETTINGS.zeros(1),
        "buffer": tables.BUFFER.zeros(1),
        "ecmp": np.zeros((1, 1), np.int32),
        "next_hops": np.zeros(1, np.uint8),
        "next_hop": np.zeros((1, 1), np.uint8),
        "leaf": np.zeros(1, np.int32),
    }


def no_ethernet_state() -> dict[str, np.ndarray]:
    """Return the Ethernet fields of :data:`~softib.sim.packet.tables.State` for a run over InfiniBand."""
    return {
        "queue": tables.QUEUE.zeros(1),
        "cc": built_in.FLOW.zeros(1),
        "round_trip": ROUND_TRIP.zeros(1),
        "tcp": tables.TCP.zeros(1),
        "segment": np.zeros(1, np.int64),
        "processor": tables.PROCESSOR.zeros(1),
    }


def ethernet_state(net: Any, network: str, control: CongestionControl, packets: np.ndarray) -> dict[str, np.ndarray]:
    """Return the Ethernet fields of :data:`~softib.sim.packet.tables.State` before the first event. ``packets``: number
    of packets of each queue pair."""
    ports, vls, queue_pairs = len(net.port), int(net.opt.vls), len(packets)
    fields = no_ethernet_state()
    if network == "roce":
        fields["cc"] = control.flow_rows(2 * queue_pairs, net)
        fields["round_trip"] = ROUND_TRIP.zeros(queue_pairs if control.measures else 1)
    else:
        fields["tcp"] = connection = tables.TCP.zeros(queue_pairs)
        connection["window"] = net.ethernet.first_window * 1000
        connection["threshold"] = net.ethernet.window_most * 1000
        connection["rto"] = net.ethernet.rto_first_ps
        connection["alpha"] = constants.MILLION
        slots = 1 << np.ceil(np.log2(np.clip(packets, 1, constants.WINDOW_PACKETS))).astype(np.int64)
        connection["slots"], connection["first_slot"] = slots - 1, np.cumsum(slots) - slots
        fields["segment"] = np.zeros(int(slots.sum()), np.int64)
    return fields | {"queue": tables.QUEUE.zeros(ports * vls), "processor": tables.PROCESSOR.zeros(ports)}


def ethernet_net(
    fabric: Fabric, network: str, options: EthernetOptions, port: np.ndarray, opt: Any, seed: int
) -> dict[str, np.ndarray]:
    """Return the Ethernet fields of :data:`~softib.sim.packet.tables.Net`. In ``port`` and ``opt``, set rates,
    latencies and the gap between frames, and remove lifetimes."""
    linked = port["fs"] > 0
    gbps = np.divide(8e6, port["fs"], out=np.zeros(len(port)), where=linked)
    host = float(np.median(gbps[linked & (port["kind"] == constants.END_PORT)])) if linked.any() else 1.0
    if options.gbps:
        gbps *= options.gbps / host
        host = options.gbps
    port["fs"] = np.rint(np.divide(8e6, gbps, out=np.zeros(len(port)), where=linked)).astype(np.int64)
    profiles = {g: ethernet_switch(g) for g in np.unique(gbps[linked]).tolist()}
    latency = {g: (options.switch_ns or p.latency_ns) * NS for g, p in profiles.items()}
    external = port["kind"] == constants.SWITCH_PORT
    switch_ps = np.where(linked, [latency.get(g, 0) for g in gbps.tolist()], 0)
    port["latency_ps"] = np.where(external, switch_ps, port["latency_ps"])
    port["hoq"], port["life"] = FOREVER, FOREVER
    mtu = options.mtu or (9000 if network == "roce" else 1500)
    if network == "roce" and mtu in MTU_BYTES.values():  # a path MTU, as shown by ibv_devinfo
        mtu += ROCE_PARTS
    port["mtu"] = mtu + FRAME_HEADERS
    opt["gap"], opt["fcp"] = PREAMBLE_AND_GAP, 0
    if network == "tcp":
        opt["placement"], opt["cqe_ps"] = 1, 0
    through = ethernet_switch(host).cut_through if options.cut_through is None else options.cut_through
    control = options.control
    if network == "roce":
        opt["placement"] = control.reorders
        opt["ack_every"] = 1 if control.measures else opt["ack_every"]
    settings = _settings(network, options, mtu, host, through, seed)
    memory = {g: options.buffer_bytes or int(p.buffer_mib * MIB) for g, p in profiles.items()}
    frame = mtu + FRAME_HEADERS + PREAMBLE_AND_GAP
    shared = np.array([memory.get(g, 0) for g in gbps.tolist()], np.int64)
    buffer = _buffers(network, options, port, gbps, shared, (frame, int(opt["vls"])))
    buffer["clock_ppb"] = _clock_errors(fabric, options.clock_ppm, seed)
    flows = {"cc": control.net_row(options.cc_options, host)}
    return {"ethernet": settings, "buffer": buffer, **flows, **_paths(fabric, port, options.ecmp)}


def _settings(network: str, o: EthernetOptions, mtu: int, gbps: float, cut_through: bool, seed: int) -> np.ndarray:
    out = tables.SETTINGS.zeros(1)
    roce, dctcp = network == "roce", network == "tcp" and o.congestion == "dctcp"
    values = {
        "pfc": roce and o.pfc,
        "ecn": (roce and o.control.marks) or dctcp,
        "cut_through": cut_through,
        "seed": seed & 0xFFF,
        "ecmp": o.ecmp,
        "share": o.share * constants.MILLION,
        "jitter_ps": o.jitter_ns * NS if o.jitter_ns >= 0 else (mtu + FRAME_HEADERS + PREAMBLE_AND_GAP) * 8e3 / gbps,
        "pfc_reaction_ps": o.pfc_reaction_ns * NS,
        "p_max": constants.MILLION * (1 if dctcp else o.p_max),
        "reorder_ps": o.reorder_us * US,
        "payload": max(m for m in MTU_BYTES.values() if m <= mtu - ROCE_PARTS) if roce else mtu - TCP_PARTS,
        "dctcp": dctcp,
        "dctcp_gain": o.dctcp_gain * constants.MILLION,
        "first_window": o.first_window,
        "window_most": o.window,
        "rto_min_ps": o.rto_min_ms * 1000 * US,
        "rto_first_ps": o.rto_min_ms * 1000 * US,
        "rto_max_ps": o.rto_max_ms * 1000 * US,
        "delayed_ack_ps": o.delayed_ack_ms * 1000 * US,
        "send_fs": _fs(o.send_gbps),
        "stack_send_ps": o.send_us * US,
        "stack_fs": _fs(o.receive_gbps),
        "stack_receive_ps": o.receive_us * US,
        "segment_ps": o.segment_ns * NS,
        "cores": o.cores,
        "interrupt_ps": o.interrupt_us * US,
    }
    for name, value in values.items():
        out[name] = round(value)
    return out


def _clock_errors(fabric: Fabric, most_ppm: float, seed: int) -> np.ndarray:
    """Return the clock error of every port's device (int64[ports], billionths): a hash of GUID and
    ``seed``, between -``most_ppm`` and ``most_ppm`` millionths."""
    z = fabric.node_guid.astype(np.uint64) * np.uint64(0xD1342543DE82EF95) + np.uint64(seed & 0xFFFF_FFFF)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        z = (z ^ z >> np.uint64(shift)) * np.uint64(factor)
    share = ((z ^ z >> np.uint64(31)) >> np.uint64(11)) / float(1 << 52) - 1
    return np.rint(share * most_ppm * 1000).astype(np.int64)[fabric.port_node]


def _fs(gbps: float) -> float:
    """Return the time per byte in fs; 0: no limit."""
    return 8e6 / gbps if gbps else 0.0


def _buffers(
    network: str, o: EthernetOptions, port: np.ndarray, gbps: np.ndarray, memory: np.ndarray, sizes: tuple[int, int]
) -> np.ndarray:
    """Return ``Net.buffer``. ``memory``: bytes of the switch's memory; ``sizes``: bytes of a frame, and number of
    priorities.

    Headroom: a pause frame waits for the frame that is being sent, crosses the cable, and takes
    effect. Until then the other end keeps sending: bytes on the cable arrive, and a frame that has
    begun is completed (802.1Q annex N). Headroom is reserved for every port and priority; the rest
    is shared. An adapter has room for its headroom and a few frames.
    """
    frame, vls = sizes
    out = tables.BUFFER.zeros(len(port))
    delay_ps = 2 * port["delay_ps"].astype(np.int64) + port["latency_ps"] + round(o.pfc_reaction_ns * NS)
    in_flight = np.ceil(delay_ps * gbps / 8e3).astype(np.int64) + 3 * frame + PAUSE
    headroom = in_flight if o.headroom_bytes < 0 else np.full(len(port), o.headroom_bytes)
    aside = np.bincount(port["port_0"], np.where(gbps > 0, headroom * vls, 0), minlength=len(port))[port["port_0"]]
    out["shared"] = np.maximum(memory - (aside if network == "roce" and o.pfc else 0), 8 * frame)
    out["xoff"] = np.where(port["kind"] == constants.END_PORT, o.xoff_bytes or 16 * frame, o.xoff_bytes)
    out["xon_gap"] = o.xon_bytes or 2 * frame
    out["headroom"] = headroom
    out["queue_most"] = o.queue_bytes
    if network == "tcp":
        out["k_min"] = o.dctcp_k_bytes or np.rint(DCTCP_K_10 * gbps / DCTCP_GBPS)
        out["k_max"] = out["k_min"]
    else:
        out["k_min"] = o.k_min_bytes or np.rint(K_MIN_40 * gbps / DCQCN_GBPS)
        out["k_max"] = np.maximum(o.k_max_bytes or np.rint(K_MAX_40 * gbps / DCQCN_GBPS), out["k_min"] + 1)
    out["refresh_ps"] = np.divide(QUANTA_PS_GBPS / 2, gbps, out=np.full(len(port), 1e12), where=gbps > 0)
    out["line_kbps"] = np.rint(gbps * 1e6)
    return out


def _paths(fabric: Fabric, port: np.ndarray, wanted: bool) -> dict[str, np.ndarray]:
    """Return ``ecmp``, ``next_hops``, ``next_hop`` and ``leaf`` of :data:`~softib.sim.packet.tables.Net`: the ports on
    the shortest paths from every switch to every switch with end ports."""
    if not wanted or not fabric.sizes.switches:
        nothing = no_ethernet_net()
        return {name: nothing[name] for name in ("ecmp", "next_hops", "next_hop")} | {"leaf": np.full(1, -1, np.int32)}
    graph = _graph(fabric, port)
    hops = min_hops(graph).hops
    targets = np.unique(graph.end_switch)
    ecmp = np.zeros((graph.n_switches, graph.n_switches), np.int32)
    rows: dict[bytes, int] = {b"": 0}
    for s in range(graph.n_switches):
        edges = slice(int(graph.first[s]), int(graph.first[s + 1]))
        out_port = graph.out_port[edges]
        distance = hops[s, targets].astype(np.int16)
        good = (
            (hops[graph.peer[edges]][:, targets].astype(np.int16) == distance - 1) & (distance > 0) & (distance < 255)
        )
        masks, which = np.unique(good, axis=1, return_inverse=True)
        numbers = [rows.setdefault(out_port[masks[:, i]].tobytes(), len(rows)) for i in range(masks.shape[1])]
        ecmp[s, targets] = np.array(numbers, np.int32)[which.reshape(-1)]
    next_hop = np.zeros((len(rows), max(1, *map(len, rows))), np.uint8)
    for ports, row in rows.items():
        next_hop[row, : len(ports)] = np.frombuffer(ports, np.uint8)
    next_hops = np.array([len(ports) for ports in rows], np.uint8)
    leaf = np.full(graph.max_lid + 2 + (1 << int(graph.end_lmc.max(initial=0))), -1, np.int32)
    for lid, lmc, switch in zip(graph.end_lid.tolist(), graph.end_lmc.tolist(), graph.end_switch.tolist(), strict=True):
        leaf[lid : lid + (1 << lmc)] = switch
    return {"ecmp": ecmp, "next_hops": next_hops, "next_hop": next_hop, "leaf": leaf}


def _graph(fabric: Fabric, port: np.ndarray) -> SwitchGraph:
    f = fabric
    peer = np.where((f.port_num == 0) & f.is_switch[f.port_node], -1, port["peer"])
    return SwitchGraph.from_ports(
        PortColumns(
            node_type=f.node_type,
            node_guid=f.node_guid,
            node_nports=f.node_nports,
            port_node=f.port_node,
            port_num=f.port_num,
            port_guid=f.port_guid,
            port_peer=peer,
            port_lid=f.lid,
            port_lmc=f.lmc,
        )
    )
