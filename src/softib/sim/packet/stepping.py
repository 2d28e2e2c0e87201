"""A run of the packet layer that stops at given times, so that the caller can change links and tables and send MADs
between two events.

    steps = PacketSteps(fabric, messages, sls, options, times) steps.run_until(t)
    # events before t; steps.arrived(): MADs that wait for an answer steps.links_changed(ports, dead)
    # apply changed port states of the fabric to packets steps.post(port, mad, dlid, sl,
    smp)     # a MAD leaves an end port

The run uses the fabric's arrays without a copy, so a forwarding table that an agent writes takes effect at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.fabric.end_ports import end_ports
from softib.iba.constants import LID_PERMISSIVE, MgmtClass
from softib.iba.smp import CLASS_AT
from softib.sim.packet import constants
from softib.sim.packet.log import PacketLog, watch_tables
from softib.sim.packet.manager_tables import aggregation_columns, group_tables, inside_links
from softib.sim.packet.network import active_peer, build_net, drain_fs, know_peers, physical_peer, refresh_ports
from softib.sim.packet.options import PacketOptions, Progress
from softib.sim.packet.pools import grow, grow_mads, longer, waiting
from softib.sim.packet.state import build_state, first_vl
from softib.sim.packet.tables.engine import LOG
from softib.sim.packet.tables.links import COUNTERS
from softib.sim.packet.tables.network import MANAGEMENT

if TYPE_CHECKING:
    from softib.fabric.model import Fabric
    from softib.sim.messages import Messages


__all__ = ["Arrived", "PacketSteps", "ProcessorTimes"]

EVENTS_A_CALL = 500_000
DEAD, DOWN = 2, 1
ROWS_A_POST = 4 * constants.MARGIN


@dataclass(frozen=True)
class ProcessorTimes:
    """Processing times of MADs in devices. ``agent_ps``: time in which a management processor answers a MAD;
    ``forward_ps``: time in which that of a switch forwards a directed MAD; ``vl15_packets``: size of a port's VL15
    receive buffer (IBA chapter 7 requires at least one packet)."""

    agent_ps: int = 10_000_000
    forward_ps: int = 5_000_000
    vl15_packets: int = 8

    def __post_init__(self) -> None:
        if min(self.agent_ps, self.forward_ps) < 0 or self.vl15_packets < 1:
            raise InputError("negative time of a management processor, or a VL15 buffer of less than 1 packet")

    def settings(self) -> np.ndarray:
        """Return ``Net.management``."""
        row = MANAGEMENT.zeros(1)
        row["on"], row["buffers"] = 1, self.vl15_packets
        row["agent_ps"], row["forward_ps"] = self.agent_ps, self.forward_ps
        return row


@dataclass
class Arrived:
    """A MAD at its destination. In order: the port through which it entered the node (if it was routed by LID, the end
    port); the destination's end port; the sender's end port; its bytes (a copy); its SL; whether it arrived on VL15."""

    ingress: int
    end: int
    source: int
    mad: np.ndarray
    level: int
    smp: bool


class PacketSteps:
    """``net`` and ``state`` of a run; ``status`` is the last return value of the loop."""

    def __init__(
        self, fabric: Fabric, messages: Messages, sls: np.ndarray, options: PacketOptions, times: ProcessorTimes
    ):
        """``sls``: SL of each message. MADs on data VLs take SL 0. Raises :class:`InputError` if no link is up, for
        Ethernet, and with ``options.fifo``, because packets cannot be removed from such queues."""
        if options.fifo:
            raise InputError("timed faults need a queue for each output; leave fifo out")
        if options.network != "infiniband":
            raise InputError(
                f"network {options.network} does not support timed faults or a timed manager; use InfiniBand"
            )
        self.fabric, self.options = fabric, options
        ends = end_ports(fabric)
        messages.check(len(ends))
        levels = np.append(sls, 0).astype(np.int64)
        self.net, self.profile = build_net(fabric, options, levels, times.settings())
        aggregation_columns(fabric, self.net, messages, self.profile)
        self.net = self.net._replace(**group_tables(fabric, ends, messages, options, self.net.opt))
        self.net = self.net._replace(**watch_tables(fabric, messages, options))
        self.state = build_state(fabric, ends, messages, sls, self.net, options)
        self.cabled = self.net.port.copy()
        self.cabled["peer"] = np.where(fabric.port_peer >= 0, fabric.port_peer, self.cabled["peer"])
        know_peers(self.net.port)
        self.total, self.status = len(messages), constants.MORE
        self._inside = inside_links(self.net)
        self._inside_port, self._inside_blocks = (
            self.net.port[self._inside].copy(),
            self.net.rare["blocks"][self._inside],
        )
        from softib.sim.packet.kernels.engine.loop import start

        start(self.net, self.state)

    @property
    def left(self) -> int:
        """Return the number of messages that are not done."""
        return int(self.state.reg.left)

    @property
    def in_network(self) -> int:
        """Return the number of packets in the network."""
        return int(self.state.reg.in_network)

    @property
    def now_ps(self) -> int:
        """Return the time of the last event."""
        return int(self.state.reg.now)

    def run_until(self, until_ps: int, progress: Progress | None = None) -> bool:
        """Handle the events before ``until_ps``. Return True if it stopped early because a MAD waits
        (:meth:`arrived`)."""
        from softib.sim.packet.kernels.engine.loop import run as loop

        while True:
            status = self.status = int(loop(self.net, self.state, until_ps - 1, EVENTS_A_CALL))
            if status == constants.GROW:
                self.state = grow(self.state)
            elif status != constants.MORE:
                return status == constants.MANAGED
            elif progress is not None:
                progress(self.now_ps, self.total - self.left, self.total)

    def log(self) -> PacketLog | None:
        """Return the log of watched packets; None if none are watched."""
        return PacketLog.of(self.net, self.state, self.cabled) if len(self.net.watch_port) else None

    # -- MADs --

    def arrived(self) -> list[Arrived]:
        """Return the MADs that wait for an answer, in the order in which they were processed;
        their packets are freed."""
        s, arrivals = self.state, []
        for k in s.inbox[: s.mads.inbox].tolist():
            packet = s.packet[k]
            row, ingress = int(packet["psn"]), int(packet["came_in"])
            switch = self.net.port["switch"][ingress] >= 0
            end = int(self.net.port["port_0"][ingress]) if switch else ingress
            smp, source = int(packet["kind"]) == constants.SMP, int(s.mad_row["source"][row])
            if s.mad[row, CLASS_AT] != MgmtClass.SUBN_DR:
                ingress = end
            arrivals.append(Arrived(ingress, end, source, s.mad[row].copy(), int(packet["sl"]), smp))
            self._free(s, k, row)
        s.mads.inbox = 0
        return arrivals

    def vl_of(self, port: int, level: int) -> int:
        """Return the data VL on which the end port ``port`` sends SL ``level``; for an SL that the run does not use,
        return the VL of SL 0."""
        vl = int(first_vl(self.fabric, np.array([port]), np.array([level]))[0])
        return vl if vl < int(self.net.opt.vls) else self.vl_of(port, 0) if level else 0

    @staticmethod
    def _free(s: Any, k: int, row: int) -> None:
        s.mad_row["next"][row] = s.mads.free
        s.mads.free = row
        s.mads.spare += 1
        s.packet["next"][k] = s.reg.free_packet
        s.reg.free_packet = k
        s.reg.spare_packets += 1
        s.reg.in_network -= 1

    def post(
        self, port: int, mad: np.ndarray, dlid: int, now_ps: int, level: int = 0, vl: int = constants.VL15
    ) -> None:
        """Send ``mad`` (uint8[256]) from end port ``port`` at ``now_ps``, on VL15, on data VL
        ``vl``, or (``vl`` -1) as an SMP to itself."""
        from softib.sim.packet.kernels.link.link_changes import post_mad

        self._room(ROWS_A_POST)
        row = self._mad_row()
        s = self.state
        s.mad[row] = mad
        s.mad_row["source"][row] = port
        s.mad_row["slid"][row] = LID_PERMISSIVE if dlid == LID_PERMISSIVE else self.fabric.lid[port]
        post_mad(self.net, s, port, row, dlid, level, vl, now_ps)

    def _mad_row(self) -> int:
        """Return a free row for a MAD."""
        s = self.state = grow_mads(self.state, 2)
        row = int(s.mads.free)
        s.mads.free = s.mad_row["next"][row]
        s.mads.spare -= 1
        return row

    def _room(self, rows: int) -> None:
        s = self.state
        short = min(s.reg.spare_events - s.reg.later_n, s.reg.spare_packets, s.reg.spare_credits) < rows
        if short or any(count + rows > len(getattr(s, name)) for name, count in waiting(s).items()):
            s = self.state = grow(s, rows)
        if len(self.net.watch_port) and int(s.reg.log_rows) + rows > len(s.log) - 2 * constants.MARGIN:
            self.state = s._replace(log=longer(s.log, LOG, 2 * len(s.log) + rows))

    # -- links --

    def links_changed(self, ports: np.ndarray, now_ps: int, dead: np.ndarray | None = None) -> None:
        """Apply changed states, speeds or settings of ``ports`` of the fabric (rows, both ends of each
        link) to the run and its packets; ``dead``: rows of nodes that lost their power, including port
        0."""
        from softib.sim.packet.kernels.link.link_changes import link_up, links_down

        net, ports = self.net, np.unique(ports)
        ports = ports[self.fabric.port_num[ports] > 0] if self.fabric.sizes.switches else ports
        before = net.port["peer"][ports].copy()
        wire_before = net.wire[ports].copy()
        vls = int(net.opt.vls)
        refresh_ports(self.fabric, ports, net.port, net.rare, self.profile, dict(self.options.profile), vls)
        for column in ("fs", "delay_ps"):
            net.port[column][self._inside] = self._inside_port[column]
        net.rare["blocks"][self._inside] = self._inside_blocks
        net.wire[ports] = physical_peer(self.fabric, ports)
        after = active_peer(self.fabric, ports)
        net.port["peer"][ports] = after
        ca = ports[(net.port["kind"][ports] == constants.NOTHING) & (after >= 0)]
        net.port["kind"][ca] = constants.END_PORT
        know_peers(net.port)
        change = np.zeros(len(net.port), np.uint8)
        change[ports[((before >= 0) & (after < 0)) | ((wire_before >= 0) & (net.wire[ports] < 0))]] = DOWN
        if dead is not None:
            change[dead] = DEAD
        self._room((self.in_network if change.any() else 0) + len(ports) + ROWS_A_POST)
        if change.any():
            links_down(net, self.state, change, now_ps)
        for port in ports[(before < 0) & (after >= 0)].tolist():
            link_up(net, self.state, port, now_ps)

    def power_lost(self, rows: np.ndarray) -> None:
        """Reset the counters of the ports ``rows``, whose switch lost its power."""
        for column in COUNTERS:
            self.state.port[column][rows] = 0

    def drains(self, port: int, gbps: float | None) -> None:
        """Set the rate at which ``port`` drains data VLs to ``gbps`` (None: no limit). At 0 each
        packet takes an hour."""
        byte_ps = 0.0 if gbps is None else 8e3 / gbps if gbps else math.inf
        self.net.drain[port] = drain_fs(np.array(byte_ps))
        self.net.management.slow = bool(self.net.drain.any())
