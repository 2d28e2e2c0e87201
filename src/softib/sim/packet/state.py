"""The packet layer's state before the first event: queue pairs, messages, ports, pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError, LimitError
from softib.iba.cc import CACongestionSetting
from softib.sim.messages import Messages, Opcode
from softib.sim.packet import tables as t
from softib.sim.packet.ethernet import ethernet_state, no_ethernet_state
from softib.sim.packet.groups import mark_messages
from softib.sim.packet.mad_rows import management_state
from softib.sim.packet.message_rows import message_rows
from softib.sim.packet.network import aligned
from softib.sim.packet.options import PacketOptions
from softib.sim.packet.pools import MOST_ROWS, POOLS, new_pools
from softib.sim.packet.queue_pairs import path_mask, queue_pairs

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
    """(``State.flow``, ``State.throttle``): each stream is slowed by itself, or all of one SL of a port together (CACongestionSetting.
    PortControl bit 0)."""
    if not controlled:
        return np.zeros((1, 1), np.int64), np.zeros((1, 3), np.int64)
    port = np.stack([q[:, t.SRC], q[:, t.DST]], axis=1).ravel()
    sl = np.repeat(q[:, t.SL], 2)
    together = (CACongestionSetting.port_control.get(fabric.cc_ca_setting[port]) & 1).astype(bool)
    alone = np.arange(len(port)) + 16 * fabric.sizes.ports
    _, row = np.unique(np.where(together, port * 16 + sl, alone), return_inverse=True)
    return row.reshape(-1, 1).astype(np.int64), np.zeros((int(row.max()) + 1, 3), np.int64)


def _width(ports: int, fastest_fs: int) -> int:
    """Bucket width as a power of two of ps: a bucket holds some events of a busy network, so that its heap stays flat."""
    packet_ps = max(4200 * fastest_fs // 1000, 1)
    width = max(EVENTS_A_BUCKET * packet_ps // max(ports, 1), LEAST_WIDTH_PS)
    return min(int(width).bit_length(), 24)


def _check_messages(fabric: Fabric, ends: np.ndarray, m: Messages, q: np.ndarray, net: Any, network: str) -> None:
    """Raises :class:`InputError` for messages that cannot be sent."""
    unlinked = (net.port[ends[m.src], t.PEER] < 0) & ~m.computes
    if unlinked.any():
        port = int(ends[m.src[np.argmax(unlinked)]])
        name = fabric.node_name(int(fabric.port_node[port]))
        raise InputError(
            f"{int(unlinked.sum()):,} messages cannot leave: the link of {name}, port {int(fabric.port_num[port])}, is not up"
        )
    asks = (m.opcode == Opcode.READ) | (m.opcode == Opcode.ATOMIC)
    if network == "tcp" and asks.any():
        raise InputError(f"message {int(np.argmax(asks))} is a READ or atomic; a socket has none")
    if int(max(q[:, t.OUT_VL].max(), q[:, t.BACK_VL].max())) >= int(net.opt[t.OPT_VLS]):
        raise InputError(
            "an adapter maps an SL in use to VL 15 or to one that its link has not; program SL2VL, or use another SL"
        )


def build_state(fabric: Fabric, ends: np.ndarray, m: Messages, sl: np.ndarray, net: Any, options: PacketOptions) -> Any:
    """:data:`~softib.sim.packet.tables.State` before the first event.

    Raises :class:`InputError` for messages that cannot be sent and :class:`LimitError` for more than the event numbers can tell apart.
    """
    if len(m) >= MOST_ROWS:
        raise LimitError(f"{len(m):,} messages are too many for one run; at most {MOST_ROWS - 1:,}")
    q, order, row = queue_pairs(fabric, ends, m, sl, net, options.network)
    _check_messages(fabric, ends, m, q, net, options.network)
    net.opt[t.RNR] = bool((m.receives > 0).any())
    target = ends[m.dst].astype(np.int64)
    lids = fabric.lid[target].astype(np.int64) + (m.path_bits & path_mask(fabric, target))
    message = message_rows(m, lids, q, order, row)
    deliveries = mark_messages(message, m)
    arrival, after_arrival, completion, after_completion = _waiting(m)
    ports, vls = len(net.port), int(net.opt[t.OPT_VLS])
    vl = aligned((ports * vls, t.V_COLUMNS), np.int32)
    peer = np.maximum(net.port[:, t.PEER], 0)
    vl[:, t.FCCL] = np.repeat(np.where(net.port[:, t.PEER] >= 0, net.rare[peer, t.BLOCKS], 0), vls)
    flow, throttle = _flows(fabric, q, bool(net.opt[t.CC]))
    reg = np.zeros(t.REGISTERS, np.int64)
    links = int((net.port[:, t.PEER] >= 0).sum())
    fs = net.port[:, t.FS]
    reg[t.WIDTH] = _width(min(links, 12 * len(np.unique(q[:, t.SRC]))), int(fs[fs > 0].min()) if fs.any() else 1000)
    reg[t.LEFT] = len(m)
    start_rows = FIRST_ROWS + ROWS_A_SENDER * len(np.unique(q[:, t.SRC]))
    rows = {name: start_rows + (len(m) if name == "event" else 0) for name in POOLS}
    voqs = (
        int((net.port[:, t.VOQ] + np.where(net.port[:, t.KIND] == t.SWITCH_PORT, net.port[:, t.PORTS] * vls, 0)).max())
        + 1
    )
    of_ports = aligned((ports, t.S_COLUMNS), np.int64)
    return t.State(
        reg=reg, port=of_ports, count=of_ports, ready=of_ports.view(np.int32), arb=np.zeros((ports, t.ARB_COLUMNS), np.int64), vl=vl, vl_time=vl.view(np.int64),
        more=np.zeros((ports * vls, t.MORE_COLUMNS), np.int64), voq=np.zeros((voqs, t.Q_COLUMNS), np.int32),
        **new_pools(reg, rows, len(q) + 1024), qp=q, order=order, message=message, arrival=arrival, after_arrival=after_arrival, completion=completion,
        after_completion=after_completion,
        flow=flow, throttle=throttle,
        bound=np.zeros((len(net.ar_on) if net.opt[t.AR] else 1, t.BOUND_SLOTS, 2), np.int64),
        place=np.zeros((2 * len(q) if net.opt[t.PLACEMENT] else 2, 2 * t.WINDOW_PACKETS // 64), np.uint64),
        rare_count=np.zeros((ports, t.RC_COLUMNS), np.int64),
        delivery=np.tile(np.array([-1, 0], np.int64), (deliveries, 1)),
        sl_count=np.zeros((ports if net.opt[t.BY_SL] else 1, 32), np.int64),
        vl_wait=np.zeros((ports * vls if net.opt[t.BY_SL] else 1, t.VW_COLUMNS), np.int64),
        rng=np.array([options.seed], np.uint64),
        **(no_ethernet_state() if options.network == "infiniband" else ethernet_state(net, options.network, len(q))),
        log=np.zeros((LOG_ROWS if len(net.watch_port) else t.MARGIN + 2, t.LOG_COLUMNS), np.int64),
        resent=np.zeros(len(message), np.int64), **management_state(ports if net.management[t.MG_ON] else 1),
    )  # fmt: skip
