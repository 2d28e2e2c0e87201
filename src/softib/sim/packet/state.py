"""The packet layer's state: queue pairs and messages as rows, and pools that grow when they are short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError, LimitError
from softib.iba.cc import CACongestionSetting
from softib.iba.constants import MAD_SIZE
from softib.iba.rates import MTU_BYTES
from softib.iba.smp import PortInfo
from softib.sim.messages import Messages, Opcode, Transport
from softib.sim.packet import tables as t
from softib.sim.packet.ethernet import ethernet_state, no_ethernet_state
from softib.sim.packet.ethernet_tables import PAYLOAD_OCTETS
from softib.sim.packet.groups import mark_messages
from softib.sim.packet.network import aligned
from softib.sim.packet.options import PacketOptions

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["build_state", "first_vl", "grow", "grow_mads", "local_pools", "waiting"]

POOLS = {"packet": (t.PK_COLUMNS, np.int32, t.NEXT, t.FREE_PACKET, t.SPARE_PACKETS), "credit": (t.CREDIT_COLUMNS, np.int64, t.C_NEXT,
         t.FREE_CREDIT, t.SPARE_CREDITS), "event": (3, np.int64, 2, t.FREE_EVENT, t.SPARE_EVENTS)}  # fmt: skip
"""Pool → (columns, type, column of the free list's link, its head and its length in ``reg``)."""
FIRST_ROWS, ROWS_A_SENDER = 1024, 8
"""Rows of each pool before it grows."""
LOG_ROWS = 1 << 12
EVENTS_A_BUCKET = 8
LEAST_WIDTH_PS = 4
"""A power of two above it is the narrowest bucket; all of them together then reach 1 us ahead."""
MOST_ROWS = 1 << 28
"""An event's payload has 28 bits."""


def _queue_pairs(
    fabric: Fabric, ends: np.ndarray, m: Messages, sl: np.ndarray, net: Any, network: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(``State.qp``, ``State.order``, row of the queue pair of each message)"""
    link_fs = net.port[:, t.FS]
    order = np.argsort(m.qp, kind="stable").astype(np.int64)
    names, first, row = np.unique(m.qp, return_index=True, return_inverse=True)
    begins = np.searchsorted(m.qp[order], names)
    q = np.zeros((max(len(names), 1), t.QP_COLUMNS), np.int64)
    n = len(names)
    src, dst = ends[m.src[first]].astype(np.int64), ends[m.dst[first]].astype(np.int64)
    lid = fabric.lid.astype(np.int64)
    q[:n, t.SRC], q[:n, t.DST] = src, dst
    q[:n, t.BACK_LID] = lid[src] + (m.path_bits[first] & _path_mask(fabric, src))
    q[:n, t.SL] = sl[first]
    q[:n, t.OUT_VL], q[:n, t.BACK_VL] = first_vl(fabric, src, sl[first]), first_vl(fabric, dst, sl[first])
    q[:n, t.PAYLOAD] = _path_mtu(fabric, m, first, src, dst)
    q[:n, t.SERVICE] = m.transport[first]
    if network != "infiniband":
        on_frames(q[:n], net, network)
    q[:n, t.FIRST_MESSAGE], q[:n, t.END_MESSAGE] = begins, np.append(begins[1:], len(order))
    for column in (t.CURRENT_MESSAGE, t.DONE_MESSAGE, t.RX_MESSAGE, t.RESPONSE, t.RESPONSE_END):
        q[:n, column] = begins
    q[:n, t.LAST_MESSAGE] = q[:n, t.END_MESSAGE]
    rate = m.rate_gbps[first]
    for column, port in ((t.PS_PACKET, src), (t.BACK_PS_PACKET, dst)):
        link_gbps = np.divide(8e6, link_fs[port], out=np.zeros(n), where=link_fs[port] > 0)
        limited = (rate > 0) & (rate < link_gbps)
        q[:n, column] = np.where(limited, np.rint(1000 * link_gbps / np.where(limited, rate, 1)), 0)
    q[:n, t.WAKE] = -1
    q[:n, t.REPOST] = m.repost_ps[first]
    unreliable = m.transport[first] != Transport.RC
    q[:n, t.RECEIVES_FREE] = np.where(unreliable, m.receives[first], 0)
    return q, order, row.astype(np.int64)


def on_frames(q: np.ndarray, net: Any, network: str) -> None:
    """Queue pairs over Ethernet: the payload of a frame, and the SL as priority."""
    most = int(net.ethernet[PAYLOAD_OCTETS])
    q[:, t.PAYLOAD] = most if network == "tcp" else np.minimum(q[:, t.PAYLOAD], most)
    q[:, t.OUT_VL] = q[:, t.BACK_VL] = q[:, t.SL]
    if network == "tcp":
        q[:, t.SERVICE] = 0


def first_vl(fabric: Fabric, ports: np.ndarray, sl: np.ndarray) -> np.ndarray:
    """VL that an end port sends ``sl`` on: a CA by its own table, port 0 of a switch as the identity."""
    rows = fabric.sl2vl[np.maximum(fabric.sl2vl_base[ports], 0)]
    pair = rows[np.arange(len(ports)), sl >> 1].astype(np.int64)
    vl = np.where(sl & 1, pair & 15, pair >> 4)
    return np.where(fabric.port_num[ports] == 0, 0, vl)


def _path_mask(fabric: Fabric, ports: np.ndarray) -> np.ndarray:
    """The path bits that each end port has (LMC). Those of a path are added to both of its base LIDs; beyond LMC they wrap."""
    mask: np.ndarray = (1 << fabric.lmc[ports].astype(np.int64)) - 1
    return mask


def _path_mtu(fabric: Fabric, m: Messages, first: np.ndarray, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Payload of a packet of each queue pair: the smallest NeighborMTU on its way, which is what its path record says."""
    mtus = np.array([MTU_BYTES.get(code, 4096) for code in range(16)], np.int64)
    mtu = mtus[PortInfo.neighbor_mtu.get(fabric.port_info)]
    of_ends: np.ndarray = np.minimum(mtu[src], mtu[dst])
    if len(np.unique(mtu[fabric.linked])) < 2:
        return of_ends
    from softib.sim.paths import Plane

    return np.minimum(of_ends, Plane(fabric).lay(m).mtu[first])


def _messages(m: Messages, lids: np.ndarray, q: np.ndarray, order: np.ndarray, row: np.ndarray) -> np.ndarray:
    """``State.message``; ``lids`` are the messages' DLIDs."""
    n = len(m)
    out = np.zeros((max(n, 1), t.M_COLUMNS), np.int64)
    payload = q[row, t.PAYLOAD]
    packets = -(-m.size // payload)
    packets = np.where(m.opcode == Opcode.ATOMIC, 1, packets)
    too_long = (m.transport == Transport.UD) & (packets > 1) & (q[row, t.SERVICE] == Transport.UD)
    if too_long.any():
        i = int(np.argmax(too_long))
        raise InputError(
            f"message {i} is a datagram of {int(m.size[i]):,} octets; UD sends at most the path MTU, {int(payload[i]):,}"
        )
    out[:n, t.M_QP], out[:n, t.M_SIZE], out[:n, t.M_PACKETS], out[:n, t.M_OPCODE] = row, m.size, packets, m.opcode
    immediate = m.opcode == Opcode.WRITE_WITH_IMM
    out[:n, t.M_IMMEDIATE] = immediate
    out[:n, t.M_OPCODE][immediate] = Opcode.WRITE
    out[:n, t.M_SIZE] = np.where(m.computes, m.delay_ps, m.size)
    sent = np.cumsum(packets[order]) - packets[order]
    of_first = sent[q[row[order], t.FIRST_MESSAGE]] if n else sent
    psn = np.empty(n, np.int64)
    psn[order] = sent - of_first
    out[:n, t.M_PSN] = psn
    # What waits for nothing has had all of it at time 0, so its delay counts from there.
    out[:n, t.M_START], out[:n, t.M_DELAY] = np.maximum(m.start_ps, m.wait_ps), m.wait_ps
    out[:n, t.M_LID] = lids
    out[:n, t.M_NEEDS] = np.diff(m.first)
    out[:n, t.M_VALUE] = m.value
    out[:n, t.M_RECEIVE] = _receives(m, order)
    for column in (t.M_BEGAN, t.M_ARRIVED, t.M_COMPLETED):
        out[:, column] = -1
    return out


def _receives(m: Messages, order: np.ndarray) -> np.ndarray:
    """``M_RECEIVE``: of the SENDs (and WRITEs with immediate) of a queue pair with ``d`` receives the first ``d`` find one, each other takes that of the ``d``-th before
    it. Of UC and UD who finds one is known when they arrive, as what finds none is lost. Raises :class:`InputError` for receives of a UD queue pair that sends to several
    destinations: each of these has receives of its own."""
    out = np.zeros(len(m), np.int64)
    counted = (m.receives > 0) & np.isin(m.opcode, (Opcode.SEND, Opcode.WRITE_WITH_IMM))
    if not counted.any():
        return out
    unreliable = counted & (m.transport != Transport.RC)
    out[unreliable] = t.NEEDS_RECEIVE
    several = (m.qp[order][1:] == m.qp[order][:-1]) & (m.dst[order][1:] != m.dst[order][:-1]) & unreliable[order][1:]
    several = np.append(several, False) | (m.group[order] > 0) & unreliable[order]
    if several.any():
        i = int(order[np.argmax(several)])
        raise InputError(
            f"message {i} counts receives on a UD queue pair with several destinations; take a queue pair for each"
        )
    counted &= ~unreliable
    rows = order[counted[order]]
    qp = m.qp[rows]
    nth = np.arange(len(rows)) - np.searchsorted(qp, qp)
    others = np.flatnonzero(nth >= m.receives[rows])
    out[rows[others]] = rows[others - m.receives[rows[others]]] + 1
    return out


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


def _pool(rows: int, columns: int, dtype: Any, link: int) -> np.ndarray:
    """A pool whose rows 1 … are all on the free list."""
    pool = aligned((rows, columns), dtype)
    pool[1:-1, link] = np.arange(2, rows)
    return pool


def _width(ports: int, fastest_fs: int) -> int:
    """Bucket width as a power of two of ps: a bucket holds some events of a busy network, so that its heap stays flat."""
    packet_ps = max(4200 * fastest_fs // 1000, 1)
    width = max(EVENTS_A_BUCKET * packet_ps // max(ports, 1), LEAST_WIDTH_PS)
    return min(int(width).bit_length(), 24)


def build_state(fabric: Fabric, ends: np.ndarray, m: Messages, sl: np.ndarray, net: Any, options: PacketOptions) -> Any:
    """:data:`~softib.sim.packet.tables.State` before the first event.

    Raises :class:`InputError` for messages that cannot be sent and :class:`LimitError` for more than the event numbers can tell apart.
    """
    if len(m) >= MOST_ROWS:
        raise LimitError(f"{len(m):,} messages are too many for one run; at most {MOST_ROWS - 1:,}")
    q, order, row = _queue_pairs(fabric, ends, m, sl, net, options.network)
    unlinked = (net.port[ends[m.src], t.PEER] < 0) & ~m.computes
    if unlinked.any():
        port = int(ends[m.src[np.argmax(unlinked)]])
        name = fabric.node_name(int(fabric.port_node[port]))
        raise InputError(
            f"{int(unlinked.sum()):,} messages cannot leave: the link of {name}, port {int(fabric.port_num[port])}, is not up"
        )
    net.opt[t.RNR] = bool((m.receives > 0).any())
    asks = (m.opcode == Opcode.READ) | (m.opcode == Opcode.ATOMIC)
    if options.network == "tcp" and asks.any():
        raise InputError(f"message {int(np.argmax(asks))} is a READ or atomic; a socket has none")
    target = ends[m.dst].astype(np.int64)
    lids = fabric.lid[target].astype(np.int64) + (m.path_bits & _path_mask(fabric, target))
    message = _messages(m, lids, q, order, row)
    deliveries = mark_messages(message, m)
    arrival, after_arrival, completion, after_completion = _waiting(m)
    ports, vls = len(net.port), int(net.opt[t.OPT_VLS])
    if int(max(q[:, t.OUT_VL].max(), q[:, t.BACK_VL].max())) >= vls:
        raise InputError(
            "an adapter maps an SL in use to VL 15 or to one that its link has not; program SL2VL, or use another SL"
        )
    vl = aligned((ports * vls, t.V_COLUMNS), np.int64)
    peer = np.maximum(net.port[:, t.PEER], 0)
    vl[:, t.FCCL] = np.repeat(np.where(net.port[:, t.PEER] >= 0, net.rare[peer, t.BLOCKS], 0), vls)
    flow, throttle = _flows(fabric, q, bool(net.opt[t.CC]))
    reg = np.zeros(t.REGISTERS, np.int64)
    links = int((net.port[:, t.PEER] >= 0).sum())
    fs = net.port[:, t.FS]
    reg[t.WIDTH] = _width(min(links, 12 * len(np.unique(q[:, t.SRC]))), int(fs[fs > 0].min()) if fs.any() else 1000)
    reg[t.LEFT], reg[t.PARTS] = len(m), 1
    start_rows = FIRST_ROWS + ROWS_A_SENDER * len(np.unique(q[:, t.SRC]))
    rows = {name: start_rows + (len(m) if name == "event" else 0) for name in POOLS}
    voqs = (
        int((net.port[:, t.VOQ] + np.where(net.port[:, t.KIND] == t.SWITCH_PORT, net.port[:, t.PORTS] * vls, 0)).max())
        + 1
    )
    of_ports = aligned((ports, t.S_COLUMNS), np.int64)
    return t.State(
        reg=reg, port=of_ports, count=of_ports, ready=of_ports.view(np.int32), arb=np.zeros((ports, t.ARB_COLUMNS), np.int64), vl=vl,
        more=np.zeros((ports * vls, t.MORE_COLUMNS), np.int64), voq=np.zeros((voqs, t.Q_COLUMNS), np.int32),
        **_pools(reg, rows, len(q) + 1024), qp=q, order=order, message=message, arrival=arrival, after_arrival=after_arrival, completion=completion,
        after_completion=after_completion,
        flow=flow, throttle=throttle,
        bound=np.zeros((len(net.ar_on) if net.opt[t.AR] else 1, t.BOUND_SLOTS, 2), np.int64),
        place=np.zeros((2 * len(q) if net.opt[t.PLACEMENT] else 2, 2 * t.WINDOW_PACKETS // 64), np.uint64),
        rare_count=np.zeros((ports, t.RC_COLUMNS), np.int64),
        delivery=np.tile(np.array([-1, 0], np.int64), (deliveries, 1)),
        sl_count=np.zeros((ports if net.opt[t.BY_SL] else 1, 32), np.int64),
        vl_wait=np.zeros((ports * vls if net.opt[t.BY_SL] else 1, t.VW_COLUMNS), np.int64),
        rng=np.array([options.seed], np.uint64), mail=np.zeros((1, 2, 1, t.MAIL_COLUMNS), np.int64), sync=np.zeros(t.SYNC_PARTS, np.int64),
        **(no_ethernet_state() if options.network == "infiniband" else ethernet_state(net, options.network, len(q))),
        log=np.zeros((LOG_ROWS if len(net.watch_port) else t.MARGIN + 2, t.LOG_COLUMNS), np.int64),
        resent=np.zeros(len(message), np.int64), **_management(ports if net.management[t.MG_ON] else 1),
    )  # fmt: skip


def local_pools(s: Any, reg: np.ndarray) -> dict[str, np.ndarray]:
    """New pools and queues of events of the size of those of ``s``, for ``reg``."""
    return _pools(reg, {name: len(getattr(s, name)) for name in POOLS}, len(s.timer))


def _pools(reg: np.ndarray, rows: dict[str, int], timers: int) -> dict[str, np.ndarray]:
    made: dict[str, np.ndarray] = {}
    for name, (columns, dtype, link, head, spare) in POOLS.items():
        made[name] = _pool(rows[name], columns, dtype, link)
        reg[head], reg[spare] = 1, rows[name] - 1
    heaps = {name: np.zeros((rows["event"] + 256, 2), np.int64) for name in ("heap", "due", "sorting", "far")}
    return {
        **made, **heaps, "digits": np.zeros(256, np.int64), "when": made["packet"].view(np.int64), "timer": np.zeros((timers, 2), np.int64),
        "bucket": np.zeros(t.BUCKETS, np.int64), "used": np.zeros(t.BUCKETS // 64, np.uint64),
    }  # fmt: skip


FIRST_MADS = 256


def _management(ports: int) -> dict[str, np.ndarray]:
    """What the management plane has; one row where it is not in the run."""
    rows = FIRST_MADS if ports > 1 else 1
    mads, mad_row = np.zeros(t.MADS_REGISTERS, np.int64), np.zeros((rows, t.MR_COLUMNS), np.int64)
    mad_row[1:-1, t.MR_NEXT] = np.arange(2, rows)
    mads[t.MADS_FREE], mads[t.MADS_SPARE] = min(1, rows - 1), rows - 1
    return {
        "mads": mads, "smi": np.zeros((ports, t.SMI_COLUMNS), np.int64), "mad": np.zeros((rows, MAD_SIZE), np.uint8),
        "mad_row": mad_row, "inbox": np.zeros(rows, np.int64),
    }  # fmt: skip


def grow_mads(s: Any, more: int) -> Any:
    """The state with room for at least ``more`` MADs; rows of the new ones are in its list."""
    old = len(s.mad)
    if s.mads[t.MADS_SPARE] >= more:
        return s
    rows = 2 * old + more
    mad, mad_row, inbox = (
        np.zeros((rows, MAD_SIZE), np.uint8),
        np.zeros((rows, t.MR_COLUMNS), np.int64),
        np.zeros(rows, np.int64),
    )
    mad[:old], mad_row[:old], inbox[:old] = s.mad, s.mad_row, s.inbox
    mad_row[old:-1, t.MR_NEXT] = np.arange(old + 1, rows)
    mad_row[-1, t.MR_NEXT] = s.mads[t.MADS_FREE]
    s.mads[t.MADS_FREE] = old
    s.mads[t.MADS_SPARE] += rows - old
    return s._replace(mad=mad, mad_row=mad_row, inbox=inbox)


def grow(s: Any, least: int = 0) -> Any:
    """The state with twice the room in each pool that is short, or has not ``least`` rows. Raises :class:`LimitError` beyond what event numbers can tell apart."""
    changed: dict[str, np.ndarray] = {}
    for name, (columns, dtype, link, head, spare) in POOLS.items():
        pool = getattr(s, name)
        ahead = int(s.reg[t.LATER_N]) if name == "event" else 0
        if s.reg[spare] - ahead >= max(len(pool) // 4, 2 * t.MARGIN, least):
            continue
        rows = 2 * len(pool) + least + ahead
        if rows > MOST_ROWS:
            raise LimitError(f"{rows:,} rows of {name}s are too many for one run")
        more = aligned((rows, columns), dtype)
        more[: len(pool)] = pool
        more[len(pool) : -1, link] = np.arange(len(pool) + 1, rows)
        more[-1, link] = s.reg[head]
        s.reg[head] = len(pool)
        s.reg[spare] += rows - len(pool)
        changed[name] = more
        if name == "packet":
            changed["when"] = more.view(np.int64)
    if s.log[0, t.L_ROWS] > len(s.log) - 2 * t.MARGIN:
        changed["log"] = np.zeros((2 * len(s.log), t.LOG_COLUMNS), np.int64)
        changed["log"][: len(s.log)] = s.log
    events = len(changed.get("event", s.event))
    for name, count in {**waiting(s), "due": 0, "sorting": 0}.items():
        old = getattr(s, name)
        need = max(events + 256 if name != "timer" else 0, 2 * len(old) if count > len(old) // 2 else 0)
        need = max(need, count + 2 * least if name == "timer" and count + least > len(old) else 0)
        if need > len(old):
            changed[name] = np.zeros((need, 2), np.int64)
            changed[name][: len(old)] = old
    return s._replace(**changed)


def waiting(s: Any) -> dict[str, int]:
    """Heap → how many entries it needs room for: what is due may go back to the heap of now."""
    due = int(s.reg[t.DUE_N] - s.reg[t.DUE_AT])
    return {"heap": int(s.reg[t.HEAP_N]) + due, "far": int(s.reg[t.LATER_N]), "timer": int(s.reg[t.TIMER_N])}
