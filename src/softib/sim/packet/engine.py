"""The packet layer: InfiniBand's mechanisms, packet by packet, in virtual time.

    outcome = run(fabric, messages)

Credits by VL, virtual output queues, VL arbitration, cut-through, HOQLife and lifetime, PSNs,
acknowledgements and retries: a kernel of :mod:`softib.sim.packet.kernels` implements each, and follows the tables that
a subnet manager wrote. A run does not change the fabric.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from softib.errors import InputError
from softib.extensions import blamed_on
from softib.fabric.end_ports import end_ports
from softib.jit.specialise import specialised
from softib.plural import counted, plural
from softib.sim.agreement import ALL, NONE
from softib.sim.messages import PATH_SL, Messages
from softib.sim.outcome import Outcome, Sampler
from softib.sim.packet import constants
from softib.sim.packet.congestion_control import Compiled
from softib.sim.packet.counters import FCS, counters_of, sl_counters_of, vl_counters_of
from softib.sim.packet.ethernet import no_ethernet_net, no_ethernet_state, port_figures, totals
from softib.sim.packet.log import PacketLog, watch_tables
from softib.sim.packet.manager_tables import aggregation_columns, group_tables, reached_ps
from softib.sim.packet.network import FOREVER, build_net, know_peers
from softib.sim.packet.options import PacketOptions, Progress
from softib.sim.packet.pools import grow
from softib.sim.packet.state import build_state
from softib.sim.packet.steady import SteadyStates
from softib.sim.validity import why_not

if TYPE_CHECKING:
    from softib.fabric.model import Fabric


__all__ = ["MessageSls", "execute", "outcome_of", "run", "service_levels"]

ROCE_HEADERS = 62
"""Bytes of a RoCEv2 frame in addition to payload and extended headers: Ethernet 14 and FCS 4, IPv4
20, UDP 8, BTH 12, ICRC 4 (IBA annex A17)."""
ROCE_ACK = ROCE_HEADERS + 4
TCP_HEADERS = 70
"""Bytes of a TCP segment's headers: Ethernet 14 and FCS 4, IPv4 20, TCP 20 with timestamps 12 (RFC 7323)."""


@functools.cache
def loop_of(network: str, control: Compiled) -> Any:
    """Return ``run`` of :mod:`~softib.sim.packet.kernels.engine.loop` for ``network``, with the
    congestion control ``control`` over RoCE."""
    from softib.sim.packet.kernels.engine import loop
    from softib.sim.packet.kernels.ethernet import pfc

    if network == "infiniband":
        return loop.run
    if network == "tcp":
        return specialised(loop.run, "tcp", _common() | _tcp(), {"ACK_OCTETS": TCP_HEADERS})
    replaced = _common() | {loop.link_event: pfc.roce_event} | dict(control.replaced)
    constants = {"HEADERS": ROCE_HEADERS, "ACK_OCTETS": ROCE_ACK}
    return specialised(loop.run, control.name, replaced, constants)


def _common() -> dict[Any, Any]:
    """Return the kernel replacements that RoCE and TCP share: those of links and switches."""
    from softib.sim.packet.kernels.ethernet import ethernet_switch, pfc
    from softib.sim.packet.kernels.link import credits
    from softib.sim.packet.kernels.switch import switch

    return {
        credits.has_credit: pfc.not_paused,
        credits.take_credits: pfc.nothing_to_take,
        credits.starve: pfc.nobody_waits,
        credits.grant: pfc.received,
        switch.arrive: ethernet_switch.arrive_ethernet,
        switch.forward: ethernet_switch.forward_ethernet,
        switch.cross: ethernet_switch.cross_ethernet,
    }


def _tcp() -> dict[Any, Any]:
    """Return the kernel replacements of TCP only: those of sockets and of the operating system's stack."""
    from softib.sim.packet.kernels.engine import loop
    from softib.sim.packet.kernels.ethernet import tcp, tcp_receive
    from softib.sim.packet.kernels.hca import hca, messages
    from softib.sim.packet.kernels.transport import receive, retransmission

    return {
        loop.posted: tcp.tcp_posted,
        messages.stream_octets: tcp.stream_segment_octets,
        hca.not_before: tcp.segment_not_before,
        hca.send_stream: tcp.send_segment,
        receive.receive: tcp_receive.tcp_receive,
        receive.answer: tcp_receive.segment,
        retransmission.timeout: tcp.retransmission_timeout,
        loop.link_event: tcp_receive.tcp_event,
    }


EVENTS_A_CALL = 500_000
"""Number of events between two calls of ``progress``: a tenth of a second."""


def run(
    fabric: Fabric,
    messages: Messages,
    options: PacketOptions | None = None,
    path_sl: np.ndarray | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Send ``messages`` through ``fabric``; return when each arrived, and the counters of every
    port.

    ``path_sl`` uint8[messages]: SLs of the path records; messages without an SL use them. Without ``path_sl`` they use
    SL 0, and the outcome has a note. Raises :class:`InputError` for impossible messages and a fabric without links.
    """
    options = options or PacketOptions()
    sampler = Sampler(options.sample_ps) if options.sample_ps else None
    net, state, status, notes = execute(fabric, messages, options, path_sl, progress, sampler)
    outcome = outcome_of(net, state, messages, status, notes)
    outcome.why_not = why_not(fabric, end_ports(fabric), messages)
    outcome.agreement = NONE if outcome.why_not else ALL
    if options.network == "infiniband" and _discarded(state) and not outcome.interrupted:
        outcome.dissolved = _dissolved(fabric, messages, options, path_sl)
    if sampler is not None:
        vls = int(net.opt.vls)
        outcome.samples = sampler.finish(outcome.end_ps, state.port["xmit_octets"], state.vl["queued"], vls)
    if len(net.watch_port):
        outcome.log = PacketLog.of(net, state)
    return outcome if options.network == "infiniband" else _with_ethernet(outcome, net, state, options.network)


def _discarded(s: Any) -> int:
    """Return the number of packets discarded after HOQLife or the switch lifetime."""
    return int(s.port["hoq_discards"].sum() + s.port["life_discards"].sum())


def _dissolved(
    fabric: Fabric, messages: Messages, options: PacketOptions, path_sl: np.ndarray | None
) -> tuple[tuple[int, int], ...]:
    """Return the (port, VL) of the cycle of buffers that ended because packets were discarded. To find the cycle, the
    run is repeated without lifetimes, and then stands still if there is one. The result is empty if the discards were
    due to congestion only."""
    plain = replace(options, sample_ps=0, watch_ports=(), watch_messages=())
    from softib.sim.packet.standstill import waiting_cycle

    ran = execute(fabric, messages, plain, path_sl, lifetimes=False)
    stuck = ran.status == constants.STUCK and ran.state.reg["in_network"] > 0
    return waiting_cycle(ran.net, ran.state) if stuck else ()


class Execution(NamedTuple):
    """The tables of a run at its end."""

    net: Any
    """:data:`~softib.sim.packet.tables.Net`."""
    state: Any
    """The last :data:`~softib.sim.packet.tables.State` of each part."""
    status: int
    """The last return value of the loop (:data:`~softib.sim.packet.tables.DONE`, …)."""
    notes: tuple[str, ...]


def execute(
    fabric: Fabric,
    messages: Messages,
    options: PacketOptions,
    path_sl: np.ndarray | None = None,
    progress: Progress | None = None,
    sampler: Sampler | None = None,
    lifetimes: bool = True,
) -> Execution:
    """Execute a run (:func:`run`) and return its tables. If ``lifetimes`` is False, no packet is discarded because of
    its age."""
    ends = end_ports(fabric)
    messages.check(len(ends))
    sl, notes = service_levels(messages, path_sl)
    net, profile = build_net(fabric, options, sl if len(sl) else np.zeros(1, np.int64))
    if not lifetimes:
        net.port["hoq"], net.port["life"] = FOREVER, FOREVER
    aggregation_columns(fabric, net, messages, profile)
    net = net._replace(**group_tables(fabric, ends, messages, options, net.opt))
    net = net._replace(**watch_tables(fabric, messages, options))
    state = build_state(fabric, ends, messages, sl, net, options)
    know_peers(net.port)
    status, state, steady = _run(net, state, options, progress, sampler)
    return Execution(net, state, status, (*notes, *steady.notes()))


class MessageSls(NamedTuple):
    """The SL of each message."""

    sl: np.ndarray
    """int64[messages]"""
    notes: tuple[str, ...]


def service_levels(m: Messages, path_sl: np.ndarray | None) -> MessageSls:
    """Return the SL of each message; ``path_sl`` as in :func:`run`."""
    sl = m.sl.astype(np.int64)
    unnamed = sl == PATH_SL
    if not unnamed.any():
        return MessageSls(sl, ())
    if path_sl is None:
        return MessageSls(np.where(unnamed, 0, sl), ("no path record stated an SL: SL 0 is used",))
    if len(path_sl) != len(m):
        raise InputError(f"path_sl has {counted(len(path_sl), 'row')} for {counted(len(m), 'message')}")
    return MessageSls(np.where(unnamed, path_sl.astype(np.int64), sl), ())


def _run(
    net: Any, state: Any, options: PacketOptions, progress: Progress | None, sampler: Sampler | None
) -> tuple[int, Any, SteadyStates]:
    control = options.control
    blame = functools.partial(blamed_on, control.package, f"congestion control {control.name}")
    with blame():
        loop = loop_of(options.network, control.compiled)
    total = int(state.message["packets"].sum())
    steady = SteadyStates(net, loop, options.skip and options.network == "infiniband")
    _start(net, state)
    try:
        while True:
            until = options.until_ps if sampler is None else min(options.until_ps, sampler.next_ps)
            with blame():
                status = int(loop(net, state, until, EVENTS_A_CALL))
            if status == constants.MORE:
                status, state = steady.after(state, until)
            if status == constants.GROW:
                state = grow(state)
                continue
            sampled = status == constants.TIME_OVER and sampler is not None and until < options.until_ps
            if sampled:
                sampler.take(state.port["xmit_octets"], state.vl["queued"])  # type: ignore[union-attr]
            if progress is not None:
                sent = total if status == constants.DONE else min(int(state.reg.sent), total)
                progress(int(state.reg.now), sent, total)
            if not sampled and status != constants.MORE:
                return status, state, steady
    except KeyboardInterrupt:
        if not options.interruptible:
            raise
        return constants.INTERRUPTED, state, steady


def _start(net: Any, state: Any) -> None:
    """Call :func:`~softib.sim.packet.kernels.engine.loop.start`. It does not use congestion controls, so it is compiled
    once for all of them."""
    from softib.sim.packet.kernels.engine import loop

    loop.start(net._replace(cc=no_ethernet_net()["cc"]), state._replace(cc=no_ethernet_state()["cc"]))


def outcome_of(net: Any, s: Any, m: Messages, status: int, notes: tuple[str, ...]) -> Outcome:
    """Return the outcome of a run from its tables and the last return value of the loop (``status``)."""
    from softib.sim.packet.standstill import standstill_notes, waiting_cycle

    n, reg = len(m), s.reg
    arrived = reached_ps(net, s, n)
    unheard = int(s.unreliable["out_of_buffer"][s.qp["service"] > 0].sum()) if net.opt.rnr else 0
    completed = s.message["completed"][:n]
    notes = (*notes, *_more_notes(arrived, completed, status, unheard))
    deadlock = waiting_cycle(net, s) if status == constants.STUCK and reg["in_network"] > 0 else ()
    if status == constants.STUCK and not deadlock:
        notes = (*notes, *standstill_notes(net, s, s.message["began"][:n], arrived, completed))
    return Outcome(
        layer="packet",
        began_ps=s.message["began"][:n].copy(),
        arrived_ps=arrived,
        completed_ps=completed.copy(),
        end_ps=int(max(reg["last"], reg["now"] if status != constants.DONE else 0)),
        counters=counters_of(s.port, s.rare_count),
        deadlock=deadlock,
        notes=notes,
        work={"events": int(reg["events"]), "packet hops": int(reg["hops"]), "packets": int(reg["sent"])},
        values=s.message["value"][:n].copy() if net.opt.aggregates else None,
        sl_counters=sl_counters_of(net, s) if net.opt.by_sl else None,
        vl_counters=vl_counters_of(net, s) if net.opt.by_sl else None,
        interrupted=status == constants.INTERRUPTED,
    )


def _with_ethernet(o: Outcome, net: Any, s: Any, network: str) -> Outcome:
    """Return ``o`` with Ethernet's counters; frames dropped at a full queue count as discards."""
    figures = port_figures(net, s, o.end_ps)
    o.network, o.port_figures = network, figures
    o.counters = counters_of(s.port, s.rare_count, FCS)
    o.counters["port_xmit_discards"] += figures["tail_drops"].astype(o.counters["port_xmit_discards"].dtype)
    o.work |= totals(figures, s, network)
    return o


def _more_notes(arrived: np.ndarray, completed: np.ndarray, status: int, unheard: int) -> tuple[str, ...]:
    lost = int((arrived < 0).sum())
    notes = []
    ended = {constants.TIME_OVER: "time limit reached", constants.INTERRUPTED: "interrupted"}
    if status in ended:
        notes.append(f"{ended[status]}; {counted(lost, 'message')} {plural(lost, 'has', 'have')} not arrived")
    if unheard:
        notes.append(f"{counted(unheard, 'message')} of UC and UD found no receive and were dropped (out_of_buffer)")
    if lost > unheard and status not in (*ended, constants.STUCK):
        notes.append(f"{lost - unheard:,} messages never arrived: retries were exhausted, or the transport has none")
    silent = int(((arrived >= 0) & (completed < 0)).sum())
    if silent and status not in (*ended, constants.STUCK):
        notes.append(
            f"{counted(silent, 'message')} arrived and {plural(silent, 'was', 'were')} never acknowledged: "
            "the sender's retries were exhausted"
        )
    return tuple(notes)
