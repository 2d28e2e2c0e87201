"""The tables of a simulation as columns, and the timeline of one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.analysis.simulation.run import message_row
from softib.api.simulation.records import MessageTrace, TracedHop, TracedPacket, WaitedFor
from softib.errors import InputError
from softib.sim.packet import constants
from softib.sim.packet.timeline import KINDS, timeline

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult
    from softib.sim.fluid.phases import Phases
    from softib.sim.packet.log import PacketLog
    from softib.sim.packet.timeline import Flight, Hop

__all__ = ["jobs", "messages", "packets", "phases", "ports", "rows", "trace_of"]


def trace_of(run: RunResult, message: str | int | None) -> MessageTrace:
    """Return the traced ``message``: its times in µs, its packets hop by hop, and the parts of the time of the last
    packet. Raises :class:`InputError` if no message was traced."""
    if message is None or run.outcome.log is None:
        raise InputError(
            "no message was traced; use record=softib.Record(trace='SOURCE->DESTINATION') and layer packet"
        )
    row, log, m = message_row(message, run.names, run.messages), run.outcome.log, run.messages
    of_message = timeline(log, row)
    last = of_message.flights[of_message.last] if of_message.last >= 0 else None
    return MessageTrace(
        message=row,
        job=run.jobs[m.job[row]],
        source=run.names[m.src[row]],
        destination=run.names[m.dst[row]],
        size=int(m.size[row]),
        posted_us=_us(of_message.posted_ps),
        ready_us=_us(of_message.ready_ps),
        arrived_us=_us(of_message.arrived_ps),
        completed_us=_us(of_message.completed_ps),
        latency_us=_us(run.took_ps[row]),
        packets=[_flight(run, log, f) for f in of_message.flights],
        left_out=of_message.left_out,
        last=of_message.last if last is not None else None,
        parts_us={}
        if last is None
        else {
            "posting": _us(of_message.ready_ps - of_message.posted_ps),
            **{k: _us(v) for k, v in last.parts(log).items()},
        },
    )


def _us(ps: int) -> float | None:
    return None if ps < 0 else int(ps) / 1e6


def _flight(run: RunResult, log: PacketLog, f: Flight) -> TracedPacket:
    return TracedPacket(
        kind=f.kind,
        psn=f.psn,
        octets=f.octets,
        backward=f.backward,
        hops=[_hop(run, h) for h in f.hops],
        received_us=_us(f.received_ps),
        written_us=_us(f.written_ps),
        lost_us=_us(f.lost_ps),
        lost_at=run.fabric.port_name(f.lost_at) if f.lost_at >= 0 else None,
    )


def _hop(run: RunResult, h: Hop) -> TracedHop:
    m, names = run.messages, run.names
    return TracedHop(
        port=run.fabric.port_name(h.port),
        vl=h.vl,
        arrived_us=_us(h.arrived_ps),
        sent_us=_us(h.sent_ps),
        left_us=_us(h.left_ps),
        waits_us={k: _us(v) for k, v in h.waits_ps.items() if v},
        behind=[WaitedFor(k, names[m.src[k]], names[m.dst[k]], _us(ps)) for k, ps in h.behind],
    )


def messages(run: RunResult) -> dict[str, Any]:
    """Return one row per message, without the computations of programs. Times are in µs, NaN for
    events that did not happen. ``message``: its number, for a trace."""
    m, o = run.messages, run.outcome
    rows = np.flatnonzero(~m.computes)
    return {
        "job": np.array(run.jobs, object)[m.job[rows]].tolist(),
        "source": run.names[m.src[rows]].tolist(),
        "destination": run.names[m.dst[rows]].tolist(),
        "size": m.size[rows],
        "start_us": m.start_ps[rows] / 1e6,
        "began_us": _us_of(o.began_ps[rows]),
        "arrived_us": _us_of(o.arrived_ps[rows]),
        "completed_us": _us_of(o.completed_ps[rows]),
        "latency_us": _us_of(run.took_ps[rows]),
        "gbps": o.gbps(m.size)[rows],
        "message": rows,
    }


EVENTS = {constants.LOG_SENT: "sent", constants.LOG_RECEIVED: "received", constants.LOG_LOST: "lost"}


def packets(run: RunResult) -> dict[str, Any]:
    """Return one row for each event of a packet at a port, by time; times are in ps. ``sent``: the packet's turn
    came at ``time_ps``, and it was on the wire from ``start_ps`` to ``end_ps``. ``received``: the times at which
    its last byte arrived, at which it left the receive buffer, and at which it was in memory. ``lost``: it was
    lost."""
    log, m = run.outcome.log, run.messages
    rows = np.flatnonzero(np.isin(log.kind, list(EVENTS)))
    of = np.full(len(rows), -1)
    of[log.stream[rows] >= 0] = log.message_of(rows[log.stream[rows] >= 0])
    named = lambda names: np.where(of >= 0, names[np.maximum(of, 0)], "")
    ports = np.unique(log.port[rows])
    port_names = np.array([run.fabric.port_name(int(p)) for p in ports], object)
    kinds = {k: KINDS.get(k, str(k)) for k in np.unique(log.what[rows]).tolist()}
    return {
        "event": [EVENTS[k] for k in log.kind[rows].tolist()],
        "packet": [
            "MAD" if s < 0 else kinds[k]
            for k, s in zip(log.what[rows].tolist(), log.stream[rows].tolist(), strict=True)
        ],
        "message": of,
        "source": named(run.names[m.src]).tolist(),
        "destination": named(run.names[m.dst]).tolist(),
        "psn": log.psn[rows],
        "bytes": log.octets[rows],
        "port": port_names[np.searchsorted(ports, log.port[rows])].tolist(),
        "sl": log.sl[rows],
        "vl": log.vl[rows],
        "time_ps": log.now[rows],
        "start_ps": log.start[rows],
        "end_ps": log.end[rows],
    }


def jobs(run: RunResult) -> dict[str, Any]:
    """Return one row per job."""
    times = run.job_times()
    return {
        "job": [j.name for j in times],
        "messages": np.array([j.messages for j in times]),
        "bytes": np.array([j.size for j in times]),
        "began_us": _us_of(np.array([j.began_ps for j in times])),
        "ended_us": _us_of(np.array([j.ended_ps for j in times])),
        "gbps": np.array([j.gbps for j in times]),
    }


def ports(run: RunResult) -> dict[str, Any]:
    """Return one row for each port that sent or received; ``load`` is the share of the run in which
    its link was busy."""
    f, c = run.fabric, run.outcome.counters
    sent = np.flatnonzero((c["port_xmit_pkts"] > 0) | (c["port_rcv_pkts"] > 0))
    names = [f.node_name(int(n)) for n in f.port_node[sent]]
    figures = run.outcome.port_figures
    counted = ("port_xmit_data", "port_rcv_data", "port_xmit_pkts", "port_rcv_pkts", "port_xmit_wait")
    return {
        "node": names,
        "port": f.port_num[sent].astype(np.int64),
        "peer": [f.port_name(int(p)) for p in f.port_peer[sent]],
        "gbps": run.gbps[sent],
        "load": run.load[sent],
        **{name: c[name][sent].astype(np.int64) for name in counted},
        **{name: column[sent] for name, column in figures.items() if name != "gbps"},
    }


def phases(phases_of_run: Phases) -> dict[str, Any]:
    """Return one row per phase."""
    return {"shift": phases_of_run.shifts, "took_us": phases_of_run.took_ps / 1e6, "most_flows": phases_of_run.most}


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Return columns as one mapping per row."""
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in columns.items()}
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]


def _us_of(ps: np.ndarray) -> np.ndarray:
    """Return picoseconds as µs; NaN for an event that did not happen."""
    return np.where(ps >= 0, ps / 1e6, np.nan)
