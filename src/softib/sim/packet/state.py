"""The packet layer's state before the first event: queue pairs, messages, ports, pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError, LimitError
from softib.iba.cc import CACongestionSetting
from softib.plural import counted
from softib.sim.messages import Messages, Opcode
from softib.sim.packet import constants
from softib.sim.packet.ethernet import ethernet_state, no_ethernet_state
from softib.sim.packet.groups import mark_messages
from softib.sim.packet.mad_rows import management_state
from softib.sim.packet.options import PacketOptions
from softib.sim.packet.pools import MOST_ROWS, POOLS, new_pools
from softib.sim.packet.queue_pairs import message_rows, path_mask, queue_pairs
from softib.sim.packet.tables import State, engine, links

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["build_state"]

FIRST_ROWS, ROWS_A_SENDER = 1024, 8
"""Rows of each pool before it grows."""
LOG_ROWS = 1 << 12
EVENTS_A_BUCKET = 8
LEAST_WIDTH_PS = 4
"""A power of two above it is the narrowest bucket; all of them together then reach 1 us ahead."""


def _waiting(m: Messages) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(offsets, messages that wait for the arrival of each, offsets, for its completion)"""
    n = len(m)
    owner = np.repeat(np.arange(n), np.diff(m.first))
    by_sender = m.src[owner] == m.src[m.needs] if n else np.zeros(0, bool)
    made: list[np.ndarray] = []
    for chosen in (~by_sender, by_sender):
        needed, who = m.needs[chosen], owner[chosen]
        by = np.argsort(needed, kind="stable")
        made += [np.searchsorted(needed[by], np.arange(n + 1)).astype(np.int64), who[by].astype(np.int64)]
    return made[0], made[1], made[2], made[3]


def _flows(fabric: Fabric, q: np.ndarray, controlled: bool) -> tuple[np.ndarray, np.ndarray]:
    """(``State.flow``, ``State.throttle``): each stream is slowed by itself, or all of one SL of a
    port together (CACongestionSetting. PortControl bit 0)."""
    if not controlled:
        return np.zeros(1, np.int64), links.THROTTLE.zeros(1)
    port = np.stack([q["src"], q["dst"]], axis=1).ravel()
    sl = np.repeat(q["sl"], 2)
    together = (CACongestionSetting.port_control.get(fabric.cc_ca_setting[port]) & 1).astype(bool)
    alone = np.arange(len(port)) + 16 * fabric.sizes.ports
    _, row = np.unique(np.where(together, port * 16 + sl, alone), return_inverse=True)
    return row.astype(np.int64), links.THROTTLE.zeros(int(row.max()) + 1)


def _width(ports: int, fastest_fs: int) -> int:
    """Bucket width as a power of two of ps: a bucket holds some events of a busy network, so that
    its heap stays flat."""
    packet_ps = max(4200 * fastest_fs // 1000, 1)
    width = max(EVENTS_A_BUCKET * packet_ps // max(ports, 1), LEAST_WIDTH_PS)
    return min(int(width).bit_length(), 24)


def _check_messages(fabric: Fabric, ends: np.ndarray, m: Messages, q: np.ndarray, net: Any, network: str) -> None:
    """Raises :class:`InputError` for messages that cannot be sent."""
    unlinked = (net.port["peer"][ends[m.src]] < 0) & ~m.computes
    if unlinked.any():
        port = int(ends[m.src[np.argmax(unlinked)]])
        name = fabric.node_name(int(fabric.port_node[port]))
        raise InputError(
            f"{counted(int(unlinked.sum()), 'message')} cannot leave: "
            f"the link of {name}, port {int(fabric.port_num[port])}, is not up"
        )
    asks = (m.opcode == Opcode.READ) | (m.opcode == Opcode.ATOMIC)
    if network == "tcp" and asks.any():
        raise InputError(f"message {int(np.argmax(asks))} is a READ or atomic; a socket has none")
    if int(max(q["out_vl"].max(), q["back_vl"].max())) >= int(net.opt.vls):
        raise InputError(
            "an adapter maps an SL in use to VL 15 or to one that its link has not; program SL2VL, or use another SL"
        )


def build_state(fabric: Fabric, ends: np.ndarray, m: Messages, sl: np.ndarray, net: Any, options: PacketOptions) -> Any:
    """:data:`~softib.sim.packet.tables.State` before the first event.

    Raises :class:`InputError` for messages that cannot be sent and :class:`LimitError` for more
    than the event numbers can tell apart.
    """
    if len(m) >= MOST_ROWS:
        raise LimitError(f"{len(m):,} messages are too many for one run; at most {MOST_ROWS - 1:,}")
    pairs, row = queue_pairs(fabric, ends, m, sl, net, options.network)
    q = pairs["qp"]
    _check_messages(fabric, ends, m, q, net, options.network)
    net.opt.rnr = bool((m.receives > 0).any())
    target = ends[m.dst].astype(np.int64)
    lids = fabric.lid[target].astype(np.int64) + (m.path_bits & path_mask(fabric, target))
    message = message_rows(m, lids, q, pairs["order"], row)
    deliveries = mark_messages(message, m)
    arrival, after_arrival, completion, after_completion = _waiting(m)
    ports, vls = len(net.port), int(net.opt.vls)
    vl = links.VL.zeros(ports * vls)
    peer = np.maximum(net.port["peer"], 0)
    vl["fccl"] = np.repeat(np.where(net.port["peer"] >= 0, net.rare["blocks"][peer], 0), vls)
    flow, throttle = _flows(fabric, q, bool(net.opt.cc))
    registers = engine.REGISTERS.zeros(1)
    reg = registers[0]
    linked = int((net.port["peer"] >= 0).sum())
    fs = net.port["fs"]
    reg["width"] = _width(min(linked, 12 * len(np.unique(q["src"]))), int(fs[fs > 0].min()) if fs.any() else 1000)
    reg["left"] = len(m)
    start_rows = FIRST_ROWS + ROWS_A_SENDER * len(np.unique(q["src"]))
    rows = {name: start_rows + (len(m) if name == "event" else 0) for name in POOLS}
    voqs = (
        int((net.port["voq"] + np.where(net.port["kind"] == constants.SWITCH_PORT, net.port["ports"] * vls, 0)).max())
        + 1
    )
    by_sl = bool(net.opt.by_sl)
    delivery = links.DELIVERY.zeros(deliveries)
    delivery["arrived"] = -1
    return State(
        reg=registers,
        port=links.PORT_STATE.zeros(ports),
        rare_count=links.RARE_COUNT.zeros(ports),
        by_sl=links.BY_SL.zeros(ports if by_sl else 1, 16),
        arbiter=links.ARBITER.zeros(ports),
        arbitration=links.ARBITRATION.zeros(2 * ports),
        vl=vl,
        vl_more=links.VL_MORE.zeros(ports * vls),
        vl_wait=links.VL_WAIT.zeros(ports * vls if by_sl else 1),
        voq=links.VOQ.zeros(voqs),
        **new_pools(reg, rows, len(q) + 1024),
        **pairs,
        place=np.zeros((2 * len(q) if net.opt.placement else 2, 2 * constants.WINDOW_PACKETS // 64), np.uint64),
        message=message,
        arrival=arrival,
        after_arrival=after_arrival,
        completion=completion,
        after_completion=after_completion,
        resent=np.zeros(len(message), np.int64),
        delivery=delivery,
        flow=flow,
        throttle=throttle,
        bound=links.BOUND_FLOW.zeros(len(net.ar_on) if net.opt.ar else 1, constants.BOUND_SLOTS),
        rng=np.array([options.seed], np.uint64),
        **management_state(ports if net.management.on else 1),
        **(no_ethernet_state() if options.network == "infiniband" else ethernet_state(net, options.network, len(q))),
        log=engine.LOG.zeros(LOG_ROWS if len(net.watch_port) else constants.MARGIN + 2),
    )
