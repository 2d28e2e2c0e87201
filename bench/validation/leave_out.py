"""Errors on a machine that the parameters have not seen: all of its datasets are left out, and everything is fitted again to the rest by script. NCCL's own model gets a
constant that is fitted likewise."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

import numpy as np

from bench.validation import mpi, nccl
from bench.validation.row import Row
from softib.analysis.calibration.fit import fit
from softib.iba.rates import speed_named
from softib.workloads.nccl.job import run_of
from softib.workloads.nccl.law import predicted_us
from softib.workloads.parameters import Section, section, sections
from softib.workloads.workload import parse

__all__ = ["mpi_without", "nccl_rows", "nccl_without", "refit"]

MOST = 0.35
"""Of the logarithm of predicted over measured, beyond which an error counts no more in a fit: a row that no mechanism explains must not draw the others."""
EVERY = 3
"""A refit of MPI looks at each third size of a dataset."""
PAIRS = ("receive", "copy_octet", "fragment_octet", "fetch", "behind", "rendezvous", "rendezvous_wait")
REDUCTIONS = ("reduce_octet", "reduce")
NCCL = ("launch", "channel", "latency", "ll_line", "ll128_share", "nic_share")
CONSTANTS = np.linspace(0, 40, 161)
"""us that are tried beside NCCL's own model."""


def _residuals(rows: list[Row]) -> np.ndarray:
    """ln(predicted / measured) of each row over the root of its dataset's length: each dataset counts the same."""
    count = Counter(r.dataset for r in rows)
    off = np.log([max(r.predicted, 1e-9) / r.measured for r in rows])
    return np.clip(off, -MOST, MOST) / np.sqrt([count[r.dataset] for r in rows])


def refit(
    start: Section, names: Collection[str], rows: Callable[[Mapping[str, Section]], list[Row]], rounds: int = 8
) -> Section:
    """``start`` with ``names`` fitted so that ``rows`` (of these parameters) have the smallest squares of their logarithms."""
    values = lambda found: {n: min(v, 1.0) if n == "nic_share" else v for n, v in found.items()}
    changed = lambda found: {start.name: start.but(**values(found))}
    found = fit({n: start[n] for n in names}, lambda v: _residuals(rows(changed(v))), rounds)
    return changed(found)[start.name]


def nccl_rows(v: Section, pick: Callable[[nccl.Set], bool] = lambda s: True) -> list[Row]:
    """The comparisons by the closed law, which an idle fabric takes (``tests/workloads/nccl/test_law.py``): a fit asks many times. Baseline: NCCL's own model."""
    found = []
    for s in nccl.sets():
        if not pick(s):
            continue
        names = tuple(f"node-{node} {nic}" for node in range(s.nodes) for nic in range(s.adapters))
        gbps = np.full(len(names), 4 * speed_named(s.generation).lane_data_gbps)
        for collective, size, us in s.rows:
            job = parse(nccl._text(s, collective, size, s.line)).jobs[0]
            run = run_of(job, names, np.arange(len(names)), gbps)  # type: ignore[arg-type]
            took = predicted_us(collective, run.by, size, run.machine, run.nodes, v)
            own = nccl.baselines(s, collective, size)[1]
            found.append(
                Row(s.name, f"nccl {collective}", size, s.nodes, us, took, "us", 0.0, s.machine, math.nan, (own,))
            )
    return found


def nccl_without() -> list[Row]:
    """Every row with parameters that have not seen its machine; ``baselines``: NCCL's own model with a constant that has not either."""
    out: list[Row] = []
    base = section("nccl")
    every = nccl_rows(base)
    for machine in dict.fromkeys(r.machine for r in every):
        others = lambda s, machine=machine: s.machine != machine
        v = refit(base, NCCL, lambda p, others=others: nccl_rows(p["nccl"], others))
        rest = [r for r in every if r.machine != machine]
        own, measured = np.array([r.baselines[0] for r in rest]), np.array([r.measured for r in rest])
        constant = min(CONSTANTS, key=lambda c: float(np.mean(np.abs((own + c) / measured - 1))))
        left = nccl_rows(v, lambda s, machine=machine: s.machine == machine)
        out += [r._replace(baselines=(r.baselines[0] + constant,)) for r in left]
    return out


def mpi_without() -> list[Row]:
    """Every row of MPI with parameters that have not seen its machine, and hosts that no one described."""
    out: list[Row] = []
    base = sections()["openmpi"]
    kinds = ((PAIRS, ("osu_latency", "osu_bw")), (REDUCTIONS, ("osu_allreduce",)))
    fitted = [s for s in mpi.sets() if s.metric in ("osu_latency", "osu_bw", "osu_allreduce") and s.bar]
    for machine in dict.fromkeys(s.machine for s in fitted):
        v = base
        for names, metrics in kinds:
            data = {s.name for s in fitted if s.machine != machine and s.metric in metrics}
            if data and any(s.machine == machine and s.metric in metrics for s in fitted):
                v = refit(v, names, lambda p, data=data: mpi.rows(p, data, EVERY), rounds=4)
        left = {s.name for s in fitted if s.machine == machine}
        out += mpi.rows(MappingProxyType({"openmpi": v}), left, hosts={machine: {}})
    return out
