"""The packet layer's state before the first event: queue pairs with their paths, messages with
their packets and sequence numbers, receives, ports, pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softib.errors import InputError, LimitError
from softib.iba.cc import CACongestionSetting
from softib.iba.rates import MTU_BYTES
from softib.iba.smp import PortInfo
from softib.plural import counted
from softib.sim.messages import Messages, Opcode, Transport
from softib.sim.packet import constants
from softib.sim.packet.ethernet import ethernet_state, no_ethernet_state
from softib.sim.packet.manager_tables import mark_messages
from softib.sim.packet.options import PacketOptions
from softib.sim.packet.pools import MOST_ROWS, POOLS, management_state, new_pools
from softib.sim.packet.tables import State, engine, links
from softib.sim.packet.tables.transport import MESSAGE, QP, RC, UNRELIABLE

if TYPE_CHECKING:
    from softib.fabric.model import Fabric


__all__ = ["build_state", "first_vl", "message_rows", "path_mask", "queue_pairs"]


def message_rows(m: Messages, lids: np.ndarray, q: np.ndarray, order: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Return ``State.message``; ``lids`` are the messages' DLIDs."""
    n = len(m)
    out = MESSAGE.zeros(max(n, 1))
    payload = q["payload"][row]
    packets = -(-m.size // payload)
    packets = np.where(m.opcode == Opcode.ATOMIC, 1, packets)
    too_long = (m.transport == Transport.UD) & (packets > 1) & (q["service"][row] == Transport.UD)
    if too_long.any():
        i = int(np.argmax(too_long))
        raise InputError(
            f"message {i} is a datagram of {int(m.size[i]):,} bytes; UD sends at most the path MTU, {int(payload[i]):,}"
        )
    out["qp"][:n], out["length"][:n], out["packets"][:n], out["opcode"][:n] = row, m.size, packets, m.opcode
    immediate = m.opcode == Opcode.WRITE_WITH_IMM
    out["immediate"][:n] = immediate
    out["opcode"][:n][immediate] = Opcode.WRITE
    out["length"][:n] = np.where(m.computes, m.delay_ps, m.size)
    sent = np.cumsum(packets[order]) - packets[order]
    of_first = sent[q["first_message"][row[order]]] if n else sent
    psn = np.empty(n, np.int64)
    psn[order] = sent - of_first
    out["psn"][:n] = psn
    # A message without dependencies counts its delay from time 0.
    out["start"][:n], out["delay"][:n] = np.maximum(m.start_ps, m.wait_ps), m.wait_ps
    out["lid"][:n] = lids
    out["needs"][:n] = np.diff(m.first)
    out["value"][:n] = m.value
    out["receive"][:n] = _receives(m, order)
    for column in ("began", "arrived", "completed"):
        out[column] = -1
    return out


def _receives(m: Messages, order: np.ndarray) -> np.ndarray:
    """Return column ``receive`` of the messages. On a queue pair with ``d`` receives, each of the first ``d`` SENDs
    (and WRITEs with immediate) finds a receive, and each later one reuses the receive of the message ``d`` positions
    before it. For UC and UD, the receive is known only at arrival, because messages without a receive are lost. Raises
    :class:`InputError` if a UD queue pair with receives sends to several destinations, because each destination has
    separate receives."""
    out = np.zeros(len(m), np.int64)
    counted = (m.receives > 0) & np.isin(m.opcode, (Opcode.SEND, Opcode.WRITE_WITH_IMM))
    if not counted.any():
        return out
    unreliable = counted & (m.transport != Transport.RC)
    out[unreliable] = constants.NEEDS_RECEIVE
    several = (m.qp[order][1:] == m.qp[order][:-1]) & (m.dst[order][1:] != m.dst[order][:-1]) & unreliable[order][1:]
    several = np.append(several, False) | (m.group[order] > 0) & unreliable[order]
    if several.any():
        i = int(order[np.argmax(several)])
        raise InputError(
            f"message {i} counts receives on a UD queue pair with several destinations; use one queue pair for each"
        )
    counted &= ~unreliable
    rows = order[counted[order]]
    qp = m.qp[rows]
    nth = np.arange(len(rows)) - np.searchsorted(qp, qp)
    others = np.flatnonzero(nth >= m.receives[rows])
    out[rows[others]] = rows[others - m.receives[rows[others]]] + 1
    return out


def queue_pairs(
    fabric: Fabric, ends: np.ndarray, m: Messages, sl: np.ndarray, net: Any, network: str
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return ``qp``, ``rc``, ``unreliable`` and ``order`` of :data:`~softib.sim.packet.tables.State`,
    and the row of each message's queue pair."""
    link_fs = net.port["fs"]
    order = np.argsort(m.qp, kind="stable").astype(np.int64)
    names, first, row = np.unique(m.qp, return_index=True, return_inverse=True)
    begins = np.searchsorted(m.qp[order], names)
    q, rc, unreliable = (kind.zeros(max(len(names), 1)) for kind in (QP, RC, UNRELIABLE))
    n = len(names)
    src, dst = ends[m.src[first]].astype(np.int64), ends[m.dst[first]].astype(np.int64)
    lid = fabric.lid.astype(np.int64)
    q["src"][:n], q["dst"][:n] = src, dst
    q["back_lid"][:n] = lid[src] + (m.path_bits[first] & path_mask(fabric, src))
    q["sl"][:n] = sl[first]
    q["out_vl"][:n], q["back_vl"][:n] = first_vl(fabric, src, sl[first]), first_vl(fabric, dst, sl[first])
    q["payload"][:n] = _path_mtu(fabric, m, first, src, dst)
    q["service"][:n] = m.transport[first]
    if network != "infiniband":
        on_frames(q[:n], net, network)
    q["first_message"][:n], q["end_message"][:n] = begins, np.append(begins[1:], len(order))
    for column in ("current_message", "done_message", "rx_message"):
        q[column][:n] = begins
    rc["response"][:n] = rc["response_end"][:n] = begins
    q["last_message"][:n] = q["end_message"][:n]
    rate = m.rate_gbps[first]
    for column, port in (("ps_packet", src), ("back_ps_packet", dst)):
        link_gbps = np.divide(8e6, link_fs[port], out=np.zeros(n), where=link_fs[port] > 0)
        limited = (rate > 0) & (rate < link_gbps)
        q[column][:n] = np.where(limited, np.rint(1000 * link_gbps / np.where(limited, rate, 1)), 0)
    q["wake"][:n] = -1
    q["repost"][:n] = m.repost_ps[first]
    unreliable["receives_free"][:n] = np.where(m.transport[first] != Transport.RC, m.receives[first], 0)
    return {"qp": q, "rc": rc, "unreliable": unreliable, "order": order}, row.astype(np.int64)


def on_frames(q: np.ndarray, net: Any, network: str) -> None:
    """Set up queue pairs ``q`` for Ethernet: their packets have the payload of a frame, and the SL is the priority."""
    most = int(net.ethernet.payload)
    q["payload"] = most if network == "tcp" else np.minimum(q["payload"], most)
    q["out_vl"] = q["back_vl"] = q["sl"]
    if network == "tcp":
        q["service"] = 0


def first_vl(fabric: Fabric, ports: np.ndarray, sl: np.ndarray) -> np.ndarray:
    """Return the VL on which each end port sends ``sl``. A CA's port has it in its SL2VL table; port 0 of a switch uses
    the VL with the number of the SL."""
    rows = fabric.sl2vl[np.maximum(fabric.sl2vl_base[ports], 0)]
    pair = rows[np.arange(len(ports)), sl >> 1].astype(np.int64)
    vl = np.where(sl & 1, pair & 15, pair >> 4)
    return np.where(fabric.port_num[ports] == 0, 0, vl)


def path_mask(fabric: Fabric, ports: np.ndarray) -> np.ndarray:
    """Return the mask of path bits of each end port (LMC). The path bits of a message are added
    to both base LIDs, modulo this mask."""
    mask: np.ndarray = (1 << fabric.lmc[ports].astype(np.int64)) - 1
    return mask


def _path_mtu(fabric: Fabric, m: Messages, first: np.ndarray, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Return the payload of a packet of each queue pair: the smallest NeighborMTU on its path, as
    in its path record."""
    mtus = np.array([MTU_BYTES.get(code, 4096) for code in range(16)], np.int64)
    mtu = mtus[PortInfo.neighbor_mtu.get(fabric.port_info)]
    of_ends: np.ndarray = np.minimum(mtu[src], mtu[dst])
    if len(np.unique(mtu[fabric.linked])) < 2:
        return of_ends
    from softib.sim.paths import Plane

    return np.minimum(of_ends, Plane(fabric).lay(m).mtu[first])


FIRST_ROWS, ROWS_A_SENDER = 1024, 8
"""Rows of each pool before it grows."""
LOG_ROWS = 1 << 12
EVENTS_A_BUCKET = 8
LEAST_WIDTH_PS = 4
"""Smallest width of a bucket, as a power of two in ps; all buckets together then cover 1 us."""


class Waiting(NamedTuple):
    """The messages that wait for each message, as a list with the first of them for each message."""

    arrival: np.ndarray
    after_arrival: np.ndarray
    completion: np.ndarray
    after_completion: np.ndarray


def _waiting(m: Messages) -> Waiting:
    """Return the messages that wait for each message's arrival, and those that wait for its completion."""
    n = len(m)
    owner = np.repeat(np.arange(n), np.diff(m.first))
    by_sender = m.src[owner] == m.src[m.needs] if n else np.zeros(0, bool)
    columns: list[np.ndarray] = []
    for chosen in (~by_sender, by_sender):
        needed, who = m.needs[chosen], owner[chosen]
        by = np.argsort(needed, kind="stable")
        columns += [np.searchsorted(needed[by], np.arange(n + 1)).astype(np.int64), who[by].astype(np.int64)]
    return Waiting(*columns)


def _flows(fabric: Fabric, q: np.ndarray, controlled: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return (``State.flow``, ``State.throttle``). Each stream is throttled separately, or all streams of one SL of a
    port together (CACongestionSetting, PortControl bit 0)."""
    if not controlled:
        return np.zeros(1, np.int64), links.THROTTLE.zeros(1)
    port = np.stack([q["src"], q["dst"]], axis=1).ravel()
    sl = np.repeat(q["sl"], 2)
    together = (CACongestionSetting.port_control.get(fabric.cc_ca_setting[port]) & 1).astype(bool)
    alone = np.arange(len(port)) + 16 * fabric.sizes.ports
    _, row = np.unique(np.where(together, port * 16 + sl, alone), return_inverse=True)
    return row.astype(np.int64), links.THROTTLE.zeros(int(row.max()) + 1)


def _width(ports: int, fastest_fs: int) -> int:
    """Return the width of a bucket as a power of two of ps, chosen so that a bucket of a busy network has few events,
    and its heap stays small."""
    packet_ps = max(4200 * fastest_fs // 1000, 1)
    width = max(EVENTS_A_BUCKET * packet_ps // max(ports, 1), LEAST_WIDTH_PS)
    return min(int(width).bit_length(), 24)


def _check_messages(fabric: Fabric, ends: np.ndarray, m: Messages, q: np.ndarray, net: Any, network: str) -> None:
    """Raise :class:`InputError` for messages that cannot be sent."""
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
        raise InputError(f"message {int(np.argmax(asks))} is a READ or atomic, which sockets do not support")
    if int(max(q["out_vl"].max(), q["back_vl"].max())) >= int(net.opt.vls):
        raise InputError(
            "an adapter maps an SL in use to VL 15 or to one that its link lacks; program SL2VL, or use another SL"
        )


def _ethernet_state(net: Any, options: PacketOptions, packets: np.ndarray) -> dict[str, np.ndarray]:
    if options.network == "infiniband":
        return no_ethernet_state()
    return ethernet_state(net, options.network, options.control, packets)


def build_state(fabric: Fabric, ends: np.ndarray, m: Messages, sl: np.ndarray, net: Any, options: PacketOptions) -> Any:
    """Return :data:`~softib.sim.packet.tables.State` before the first
    event.
    Raises :class:`InputError` for messages that cannot be sent and :class:`LimitError` for more
    messages than event numbers can represent.
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
        **_ethernet_state(net, options, np.bincount(row, message["packets"][: len(m)], minlength=len(q))),
        log=engine.LOG.zeros(LOG_ROWS if len(net.watch_port) else constants.MARGIN + 2),
    )
