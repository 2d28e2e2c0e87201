"""The tables of a simulation as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult
    from softib.sim.fluid_phases import Phases

__all__ = ["jobs", "messages", "phases", "ports", "rows"]


def messages(run: RunResult) -> dict[str, Any]:
    """One row a message; times in µs, NaN where they did not happen."""
    m, o = run.messages, run.outcome
    return {
        "job": np.array(run.jobs, object)[m.job].tolist(),
        "source": run.names[m.src].tolist(),
        "destination": run.names[m.dst].tolist(),
        "size": m.size,
        "start_us": m.start_ps / 1e6,
        "began_us": _us(o.began_ps),
        "arrived_us": _us(o.arrived_ps),
        "completed_us": _us(o.completed_ps),
        "latency_us": _us(run.took_ps),
        "gbps": o.gbps(m.size),
    }


def jobs(run: RunResult) -> dict[str, Any]:
    """One row a job."""
    found = run.job_times()
    return {
        "job": [j.name for j in found],
        "messages": np.array([j.messages for j in found]),
        "bytes": np.array([j.size for j in found]),
        "began_us": _us(np.array([j.began_ps for j in found])),
        "ended_us": _us(np.array([j.ended_ps for j in found])),
        "gbps": np.array([j.gbps for j in found]),
    }


def ports(run: RunResult) -> dict[str, Any]:
    """One row a port that sent or received; ``load`` is the share of the run in which its link was
    busy."""
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


def phases(found: Phases) -> dict[str, Any]:
    """One row a phase."""
    return {"shift": found.shifts, "took_us": found.took_ps / 1e6, "most_flows": found.most}


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """Columns as a mapping a row."""
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in columns.items()}
    return [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]


def _us(ps: np.ndarray) -> np.ndarray:
    """Picoseconds as µs; NaN where it never happened."""
    return np.where(ps >= 0, ps / 1e6, np.nan)
