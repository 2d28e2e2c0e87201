"""The packet layer: InfiniBand's mechanisms, packet by packet, in virtual time.

    outcome = run(fabric, messages)

Credits by VL, virtual output queues, VL arbitration, cut-through, HOQLife and lifetime, PSNs, acknowledgements and retries: each is
a kernel of :mod:`softib.sim.packet.kernels`, driven by the tables that a subnet manager wrote. The fabric is not changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.errors import InputError
from softib.fabric.columns import COUNTERS
from softib.sim.ends import end_ports
from softib.sim.messages import PATH_SL, Messages
from softib.sim.outcome import Outcome
from softib.sim.packet import tables as t
from softib.sim.packet.ethernet_results import port_figures, totals
from softib.sim.packet.link_technology import kernels_of
from softib.sim.packet.network import build_net
from softib.sim.packet.options import PacketOptions, Progress
from softib.sim.packet.parallel import in_parts, merged, run_parts
from softib.sim.packet.state import build_state, grow

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["execute", "outcome_of", "run", "service_levels"]

VCRC, FCS = 2, 4
"""Octets of the link layer's check at the end of a packet and of a frame."""
EVENTS_A_CALL = 500_000
"""Between two looks at the clock of the caller: a tenth of a second."""


def run(
    fabric: Fabric, messages: Messages, options: PacketOptions | None = None, path_sl: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Outcome:  # fmt: skip
    """Send ``messages`` through ``fabric`` and say when each arrived, and what every port counted.

    ``path_sl`` uint8[messages] is the SL of each message's path record, for those that name none themselves; without it they take SL 0, and
    the outcome says so. Raises :class:`InputError` for messages that cannot be and a fabric without links.
    """
    options = options or PacketOptions()
    net, states, status, notes = execute(fabric, messages, options, path_sl, progress)
    outcome = outcome_of(net, states, messages, status, notes)
    return outcome if options.network == "infiniband" else _with_ethernet(outcome, net, states[0], options.network)


def execute(
    fabric: Fabric,
    messages: Messages,
    options: PacketOptions,
    path_sl: np.ndarray | None = None,
    progress: Progress | None = None,
) -> tuple[Any, list[Any], int, tuple[str, ...]]:
    """:func:`run` up to the tables: :data:`~softib.sim.packet.tables.Net`, the last :data:`~softib.sim.packet.tables.State` of each part, what the loop said
    at the end (:data:`~softib.sim.packet.tables.DONE`, …), and notes."""
    ends = end_ports(fabric)
    messages.check(len(ends))
    sl, notes = service_levels(messages, path_sl)
    net, _ = build_net(fabric, options, sl if len(sl) else np.zeros(1, np.int64))
    state = build_state(fabric, ends, messages, sl, net, options)
    states = in_parts(net, state, ends, messages, options)
    if len(states) > 1:
        status = run_parts(net, states, options, progress, len(messages))
        return net, states, status, notes
    status, state = _run(net, state, options, progress)
    return net, [state], status, notes


def service_levels(m: Messages, path_sl: np.ndarray | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """The SL of each message, and notes; ``path_sl`` as :func:`run` takes it."""
    sl = m.sl.astype(np.int64)
    unnamed = sl == PATH_SL
    if not unnamed.any():
        return sl, ()
    if path_sl is None:
        return np.where(unnamed, 0, sl), ("no path record stated an SL: SL 0 is used",)
    if len(path_sl) != len(m):
        raise InputError(f"path_sl has {len(path_sl)} rows for {len(m)} messages")
    return np.where(unnamed, path_sl.astype(np.int64), sl), ()


def _run(net: Any, state: Any, options: PacketOptions, progress: Progress | None) -> tuple[int, Any]:
    start, loop = kernels_of(options.network)
    total = int(state.reg[t.LEFT])
    start(net, state)
    while True:
        status = int(loop(net, state, options.until_ps, EVENTS_A_CALL))
        if status == t.GROW:
            state = grow(state)
        elif status != t.MORE:
            return status, state
        elif progress is not None:
            progress(int(state.reg[t.NOW]), total - int(state.reg[t.LEFT]), total)


def outcome_of(net: Any, states: list[Any], m: Messages, status: int, notes: tuple[str, ...]) -> Outcome:
    """What the tables of a run say (of each part), with what the loop said last."""
    from softib.sim.packet.deadlock import waiting_cycle

    s = merged(states)
    n, reg = len(m), s.reg
    notes = (*notes, *_more_notes(s, n, status))
    return Outcome(
        layer="packet", began_ps=s.message[:n, t.M_BEGAN].copy(), arrived_ps=s.message[:n, t.M_ARRIVED].copy(),
        completed_ps=s.message[:n, t.M_COMPLETED].copy(), end_ps=int(max(reg[t.LAST], reg[t.NOW] if status != t.DONE else 0)),
        counters=counters_of(s.count), valid=status == t.DONE,
        deadlock=waiting_cycle(net, states) if status == t.STUCK and reg[t.IN_NETWORK] > 0 else (),
        notes=notes, work={"events": int(reg[t.EVENTS]), "packet hops": int(reg[t.HOPS]), "packets": int(reg[t.SENT])},
    )  # fmt: skip


def _with_ethernet(o: Outcome, net: Any, s: Any, network: str) -> Outcome:
    """``o`` with what Ethernet counts; frames that a full queue dropped are discards."""
    figures = port_figures(net, s)
    o.network, o.port_figures = network, figures
    o.counters = counters_of(s.count, FCS)
    o.counters["port_xmit_discards"] += figures["tail_drops"].astype(o.counters["port_xmit_discards"].dtype)
    o.work |= totals(figures, s, network)
    return o


def _more_notes(s: Any, n: int, status: int) -> tuple[str, ...]:
    lost = int((s.message[:n, t.M_ARRIVED] < 0).sum())
    found = []
    if status == t.TIME_OVER:
        found.append(f"the time that was given is over; {lost:,} messages have not arrived")
    elif lost and status != t.STUCK:
        found.append(f"{lost:,} messages never arrived: their retries were exceeded, or nobody repeats them")
    return tuple(found)


def counters_of(count: np.ndarray, check_octets: int = VCRC) -> np.ndarray:
    """:data:`~softib.fabric.columns.COUNTERS` of what the kernels counted; data in words of four octets without the ``check_octets`` of the link
    layer at the end of each packet (IBA 16.1.3.5: from LRH to ICRC)."""
    out = np.zeros(len(count), COUNTERS)
    discards = count[:, [t.HOQ_DISCARDS, t.LIFE_DISCARDS, t.INACTIVE, t.TOO_LONG]].sum(axis=1)
    columns = {
        "port_xmit_data": (count[:, t.XMIT_OCTETS] - check_octets * count[:, t.XMIT_PACKETS]) // 4,
        "port_rcv_data": (count[:, t.RCV_OCTETS] - check_octets * count[:, t.RCV_PACKETS]) // 4,
        "port_xmit_pkts": count[:, t.XMIT_PACKETS], "port_rcv_pkts": count[:, t.RCV_PACKETS],
        "port_unicast_xmit_pkts": count[:, t.XMIT_PACKETS], "port_unicast_rcv_pkts": count[:, t.RCV_PACKETS],
        "port_xmit_wait": count[:, t.WAIT_TICKS], "port_xmit_discards": discards, "port_rcv_errors": count[:, t.RCV_ERRORS],
        "port_rcv_switch_relay_errors": count[:, t.RELAY_ERRORS],
    }  # fmt: skip
    for name, column in columns.items():
        out[name] = column
    return out
