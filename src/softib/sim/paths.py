"""Paths of messages: the fabric's tables, followed hop by hop, as columns for the static and the
fluid layer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.fabric.end_ports import end_ports, port_gbps
from softib.iba.catalogue import ADAPTER_OF, SWITCH_OF
from softib.iba.rates import MTU_BYTES, SPEEDS
from softib.iba.virtual_lanes import DATA_VLS
from softib.sim.credits import Credits, ahead_ps, credits_of
from softib.sim.messages import PATH_SL, Messages, Opcode, Transport
from softib.sim.packet_sizes import ACK_DWORDS, dwords_of, packets_of, wire_octets
from softib.sim.timing import Timing, profile_of, timing_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from softib.fabric.model import Fabric
    from softib.sim.fluid.phases import PhaseTables
    from softib.sim.packet.profiles import DeviceProfile


__all__ = ["WHY", "Laid", "Plane"]

UNKNOWN_SWITCH_NS = SWITCH_OF["FDR"].latency_ns
"""Latency of a switch whose link speed is unknown."""
PS_PER_M = 5_000
"""Delay of a signal in a cable: 5 ns per metre."""
MAX_HOPS = 64
"""Largest number of links of a path; with more, the tables must have a loop (the hop limit of IBA 14.2.1.2, more than
any fabric has)."""
WHY = {
    0: "",
    -1: "a forwarding table has no route",
    -2: "the tables lead to a port without a link",
    -3: "its SL is not mapped to a VL",
    -4: "the tables have a loop",
    -5: "the tables lead to another port",
}


@dataclass(frozen=True)
class Laid:
    """Paths of messages: ``channel[first[i]:first[i + 1]]`` are the channels of message i; ``port`` int64 (16 × egress
    port + VL) by channel.

    ``delay_ps``: delay of the path; ``back_ps``: delay of the acknowledgement's path; both without the adapters.
    ``mtu`` in bytes; ``why``: 0, or a key of :data:`WHY` if the message has no path and so no channel. ``answers``
    (:data:`~softib.sim.path_kernels.COUNTED` by port): data sent and received, packets sent and received, for
    acknowledgements and READ requests only. READ data flows from the destination to the source, so ``delay_ps`` of a
    READ is the delay of the response.
    """

    first: np.ndarray
    channel: np.ndarray
    port: np.ndarray
    delay_ps: np.ndarray
    back_ps: np.ndarray
    mtu: np.ndarray
    why: np.ndarray
    answers: np.ndarray

    @property
    def channels(self) -> int:
        """Return the number of channels that at least one path uses."""
        return len(self.port)


@dataclass(frozen=True)
class Scale:
    """Factors for a what-if: ``latency`` of all times of a message other than its bytes on links,
    ``bandwidth`` of all links, and ``congestion``: links between switches are slower than the hosts'
    links by this factor."""

    latency: float = 1.0
    bandwidth: float = 1.0
    congestion: float = 1.0


def _aggregation_ports(fabric: Fabric) -> np.ndarray:
    """Return the port of each aggregation node that is linked to its switch (int64)."""
    ports = np.asarray(fabric.node_base[fabric.sharp_node] + 1, np.int64)
    return ports[fabric.port_peer[ports] >= 0]


class Plane:
    """The data plane of ``fabric`` in its present state: end ports, links that are up, tables,
    rates and delays.

    ``path_sl`` uint8[ends, ends] by rows of :func:`~softib.fabric.end_ports.end_ports`: the SLs of a
    manager's path records (None: 0). ``aggregates``: aggregation nodes reduce, so the links to them
    are inside their switches. ``hosts``: values of the adapters' profile to override. Creating a Plane is the most
    expensive part of a short run, so layers also accept a Plane instead of the fabric.
    """

    def __init__(
        self,
        fabric: Fabric,
        path_sl: np.ndarray | None = None,
        scale: Scale | None = None,
        aggregates: bool = False,
        hosts: Mapping[str, float] | None = None,
    ):
        self._hosts = dict(hosts or {})
        self.fabric, self.path_sl, self.scale = fabric, path_sl, scale or Scale()
        self.inside = _aggregation_ports(fabric) if aggregates else np.zeros(0, np.int64)
        self.ends = end_ports(fabric)
        self._last: tuple[Messages, Laid] | None = None

    @cached_property
    def gbps(self) -> np.ndarray:
        """Return the data rate of each port's link (float64[ports]). A link of unknown rate gets that of the slowest
        known link."""
        stated = port_gbps(self.fabric)
        linked = self.fabric.linked
        if not stated.any() and linked.any():
            raise InputError("no link of this fabric has a known speed, so times of traffic are unknown")
        rate = np.where(linked & (stated == 0), stated[stated > 0].min(initial=np.inf), stated) * self.scale.bandwidth
        if self.scale.congestion != 1:
            f = self.fabric
            inside = (f.switch_of_node[f.port_node] >= 0) & (f.port_peer >= 0)
            inside &= f.switch_of_node[f.port_node[np.maximum(f.port_peer, 0)]] >= 0
            rate = np.where(inside, rate / self.scale.congestion, rate)
        if len(self.inside):  # a node accepts data at the rate of all ports of its switch together
            f = self.fabric
            switch = f.port_node[f.port_peer[self.inside]]
            of_switch = np.bincount(f.port_node, rate, minlength=len(f.node_base))
            rate = rate.copy()
            for ports in (self.inside, f.port_peer[self.inside]):
                rate[ports] = np.maximum(of_switch[switch] - rate[f.port_peer[self.inside]], rate[ports])
        return rate

    @cached_property
    def carried_gbps(self) -> np.ndarray:
        """Return the maximum rate of one VL of each port's link (float64[ports]): :attr:`link_gbps`,
        limited by credits."""
        return np.minimum(self.link_gbps, self.credits.gbps)

    def links_of(self, port: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return ``(link, gbps)``: the link of each channel ``port`` (16 × port + VL), and the rate of
        each link. The VLs of a port share its link. If credits limit the VLs to so low a rate that the link can carry
        all of them, each VL counts as a separate link."""
        rows = port >> 4
        vls, vl_gbps = np.bincount(rows, minlength=len(self.gbps)), self.credits.gbps[rows]
        apart = vl_gbps * vls[rows] <= self.link_gbps[rows]
        key, link = np.unique(np.where(apart, port, rows << 4), return_inverse=True)
        gbps = np.zeros(len(key))
        gbps[link] = np.minimum(self.link_gbps[rows], np.where(apart, vl_gbps, vl_gbps * vls[rows]))
        return link, gbps

    @cached_property
    def credits(self) -> Credits:
        """Return the limits of each link due to receive buffers."""
        return credits_of(self)

    @cached_property
    def link_gbps(self) -> np.ndarray:
        """Return the maximum rate of each port's link (float64[ports]): its data rate, limited
        by the PCIe of an adapter at either end; credits enforce this limit at the other end."""
        f, most = self.fabric, self.profile.pcie_gbps * self.scale.bandwidth
        adapter = f.switch_of_node[f.port_node] < 0
        adapter[self.inside] = False
        either = adapter | (adapter[np.maximum(f.port_peer, 0)] & (f.port_peer >= 0))
        return np.where(either & (most > 0), np.minimum(self.gbps, most), self.gbps)

    @cached_property
    def table(self) -> Any:
        """Return the columns for :mod:`softib.sim.path_kernels`."""
        from softib.iba.constants import LFT_NO_ROUTE, PhysState
        from softib.iba.smp import PortInfo, SwitchInfo
        from softib.sim.path_kernels import Tables

        f = self.fabric
        up = PortInfo.port_phys_state.get(f.port_info) == PhysState.LINK_UP
        peer = np.where((f.port_peer >= 0) & up & up[np.maximum(f.port_peer, 0)], f.port_peer, -1)
        last = int((f.lid[self.ends].astype(np.int64) + (1 << f.lmc[self.ends].astype(np.int64))).max(initial=1))
        lft = f.lft[:, :last].copy() if len(f.lft) else np.full((1, 1), LFT_NO_ROUTE, np.uint8)
        top = SwitchInfo.linear_fdb_top.get(f.switch_info)
        if len(f.lft):
            lft[np.arange(last) > top[:, None]] = LFT_NO_ROUTE
        mtu = np.zeros(16, np.int64)
        mtu[list(MTU_BYTES)] = list(MTU_BYTES.values())
        octets = mtu[PortInfo.neighbor_mtu.get(f.port_info) & 15]
        return Tables(
            peer=peer.astype(np.int32),
            switch=f.switch_of_node[f.port_node].astype(np.int32),
            base=f.node_base[f.port_node].astype(np.int32),
            num=f.port_num.astype(np.int64),
            lft=lft,
            sl2vl=np.ascontiguousarray(f.sl2vl),
            sl2vl_base=f.sl2vl_base.astype(np.int64),
            vls=DATA_VLS[PortInfo.operational_vls.get(f.port_info) & 7],
            delay_ps=self.hop_ps,
            mtu=np.where(octets > 0, octets, 4096),
        )

    @cached_property
    def speed_codes(self) -> np.ndarray:
        from softib.fabric.power_up import active_speed_codes

        return np.asarray(active_speed_codes(self.fabric.port_info, self.fabric.port_mlnx_speed), np.int64)

    @cached_property
    def hop_ps(self) -> np.ndarray:
        """Return the sum of two delays for each port: that of its cable, and that of the switch at the other end, which
        depends on the link's speed (int64[ports])."""
        f = self.fabric
        to_switch = (f.switch_of_node[f.port_node[np.maximum(f.port_peer, 0)]] >= 0) & (f.port_peer >= 0)
        to_switch[self.inside] = False
        return np.asarray(np.where(to_switch, self.switch_ps, 0) + self.cable_ps)

    @cached_property
    def switch_ps(self) -> np.ndarray:
        """Return the latency of a switch for a packet that arrived at the speed of each port's link
        (int64[ports])."""
        of_speed = np.array([UNKNOWN_SWITCH_NS, *(SWITCH_OF[s.name].latency_ns for s in SPEEDS)], np.int64)
        if "switch_ns" in self._hosts:
            of_speed[:] = round(self._hosts["switch_ns"])
        return np.asarray(of_speed[self.speed_codes] * 1000)

    @cached_property
    def cable_ps(self) -> np.ndarray:
        """Return the delay of the cable of each port (int64[ports]); 0 if its length is unknown."""
        f = self.fabric
        metres = np.zeros(len(f.port_cable))
        has_cable = f.port_cable >= 0
        metres[has_cable] = np.nan_to_num(f.cable_length_m[f.port_cable[has_cable]])
        return np.round(metres * PS_PER_M).astype(np.int64)

    @cached_property
    def link_mtu(self) -> int:
        """Return the MTU of all links, 0 if they differ."""
        used = self.table.mtu[self.table.peer >= 0]
        return int(used[0]) if len(used) and (used == used[0]).all() else 0

    @cached_property
    def phase_tables(self) -> PhaseTables:
        """Return the tables for :mod:`softib.sim.fluid.phases`."""
        from softib.sim.fluid.phases import tables_of

        return tables_of(self)

    @cached_property
    def profile(self) -> DeviceProfile:
        """Return the adapters' profile."""
        return profile_of(self.fabric).but(**self._hosts)

    def timing(self, m: Messages, laid: Laid) -> Timing:
        """Return all times of messages except the transmission times of their bytes."""
        last = laid.first[1:] - 1  # only messages with a path; packets for a switch count as received at its port 0
        onto = laid.port[laid.channel[np.maximum(last, 0)]] // 16 if len(laid.channel) else np.zeros(len(m), np.int64)
        times = timing_of(self.profile, m, laid, self.gbps[onto], self.half_ps)
        if self.scale.latency != 1:
            longer = lambda ps: np.round(ps * self.scale.latency).astype(np.int64)
            times = Timing(**{k: v if k == "ramped" else longer(v) for k, v in vars(times).items()})
        ahead = ahead_ps(self, laid, wire_octets(m, packets_of(m, laid.mtu)))
        times = replace(times, forth_ps=np.maximum(times.forth_ps - ahead, 0))
        if not (computes := m.computes).any():
            return times
        return Timing(
            np.where(computes, 0, times.request_ps),
            np.where(computes, m.delay_ps, times.forth_ps),
            np.where(computes, 0, times.answer_ps),
            np.where(computes, 0, times.ramp_ps),
            np.where(computes, 0, times.memory_ps),
            np.where(computes, 0, times.behind_ps),
            np.where(computes, 0, times.lead_ps),
            times.ramped,
        )

    @cached_property
    def half_ps(self) -> np.ndarray:
        """Return half of the latency of a pair of adapters, by end port (int64[ends]); for ports of unknown speed, half
        of the profile's latency."""
        halves = (
            np.array([self.profile.adapter_ns, *(ADAPTER_OF[s.name].pair_latency_ns or 0 for s in SPEEDS)], np.int64)
            * 500
        )
        half = np.asarray(halves[self.speed_codes[self.ends]])
        if len(self.inside):  # an aggregation node has no adapter, only the time to reduce a packet
            half = np.where(np.isin(self.ends, self.inside), max(self.profile.reduce_ns, 1) * 1000, half)
        return half

    def sl_of(self, m: Messages) -> np.ndarray:
        """Return the SL of each message (int64); if it has none, the SL of the path record."""
        if self.path_sl is None:
            return np.maximum(m.sl, 0).astype(np.int64)
        given = self.path_sl[m.src, m.dst].astype(np.int64)
        return np.where(m.sl == PATH_SL, given & 15, m.sl)

    def sends(self, m: Messages, back: bool = False) -> Any:
        """Return rows of :data:`~softib.sim.path_kernels.Sends` for the payload of each message (a
        READ's from its destination). ``back``: for the opposite direction. Path bits beyond a port's
        LMC wrap."""
        from softib.sim.path_kernels import Sends

        turned = (m.opcode == Opcode.READ) ^ back
        source, target = (m.dst, m.src) if turned.all() else (m.src, m.dst)
        if turned.any() and not turned.all():
            source, target = np.where(turned, m.dst, m.src), np.where(turned, m.src, m.dst)
        port, lid, mask = self.end_columns
        dlid = lid[target] + (m.path_bits & mask[target]) if m.path_bits.any() else lid[target]
        return Sends(port[source], port[target], dlid, self.sl_of(m))

    @cached_property
    def end_columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return port row, base LID and mask of the path bits of each end port (int64)."""
        f, ends = self.fabric, self.ends.astype(np.int64)
        return ends, f.lid[ends].astype(np.int64), (1 << f.lmc[ends].astype(np.int64)) - 1

    def lay(self, m: Messages) -> Laid:
        """Return the paths of ``m``, which passed :meth:`~softib.sim.messages.Messages.check`;
        cached for the same messages."""
        if self._last is None or self._last[0] is not m:
            self._last = m, self._lay(m)
        return self._last[1]

    def _lay(self, m: Messages) -> Laid:
        from softib.sim.path_kernels import COUNTED, Paths, follow_back, lay_paths

        n, sends = len(m), self.sends(m)
        why, info = np.zeros(n, np.int64), np.zeros(3, np.int64)
        room = 8 * n + MAX_HOPS
        of_port = np.full(16 * self.fabric.sizes.ports, -1, np.int32)
        port = np.zeros(min(room * 4, len(of_port)) + 1, np.int64)
        channel = np.empty(room, np.int32)
        first, delay, mtu = np.zeros(n + 1, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
        path = np.empty(MAX_HOPS, np.int64)
        at = 0
        while True:
            paths = Paths(first, channel, of_port, port, delay, mtu)
            at = lay_paths(self.table, sends, at, paths, path, info, why)
            if at == n:
                break
            channel = np.concatenate([channel, np.empty(len(channel), np.int32)])
        used, back = int(info[2]), np.zeros(n, np.int64)
        counted = COUNTED.zeros(self.fabric.sizes.ports)
        small = np.where(m.transport == Transport.RC, ACK_DWORDS[m.opcode], 0)
        follow_back(self.table, self.sends(m, back=True), small, path, info, back, why, counted)
        return Laid(first, channel[: first[n]], port[:used].copy(), delay, back, mtu, why, counted)

    def count(self, m: Messages, laid: Laid, arrived: np.ndarray) -> np.ndarray:
        """Return counters (:data:`softib.fabric.counters.COUNTERS`) by port of the messages that
        ``arrived`` (bool): payload, a READ's requests, and one acknowledgement for each other message
        of RC."""
        from softib.fabric.counters import COUNTERS
        from softib.sim.path_kernels import Paths, count, follow_back

        n, path, info = len(m), np.empty(MAX_HOPS, np.int64), np.zeros(3, np.int64)
        packets = packets_of(m, laid.mtu)
        dwords = dwords_of(m, packets)
        counted = laid.answers.copy()
        if not arrived.all():
            counted, packets, dwords = np.zeros_like(counted), packets * arrived, dwords * arrived
            small = np.where(arrived & (m.transport == Transport.RC), ACK_DWORDS[m.opcode], 0)
            unused = np.zeros(n, np.int64)
            follow_back(self.table, self.sends(m, back=True), small, path, info, unused, unused.copy(), counted)
        paths = Paths(laid.first, laid.channel, np.zeros(1, np.int32), laid.port, laid.delay_ps, laid.mtu)
        count(self.table, paths, packets, dwords, counted)
        out = np.zeros(len(counted), COUNTERS)
        out["port_xmit_data"], out["port_rcv_data"] = counted["data_out"], counted["data_in"]
        out["port_xmit_pkts"], out["port_rcv_pkts"] = counted["packets_out"], counted["packets_in"]
        out["port_unicast_xmit_pkts"], out["port_unicast_rcv_pkts"] = counted["packets_out"], counted["packets_in"]
        return out
