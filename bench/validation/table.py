"""The page of all comparisons: docs/evidence/validation.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from bench.validation.row import Row
from softib.iba.catalogue import ADAPTERS
from softib.workloads.parameters import sections

__all__ = ["page", "row_line", "summary_lines"]

HEAD = """# Measured and predicted

Written by `make validate` (`bench/validation`); do not edit. Every prediction comes from `softib.simulate`, with a user's arguments. Measurements are read in
place from `shared/reference/measured.csv` and `shared/data`, which are not part of the project; datasets absent there are missing here.

| column | mean error of |
|---|---|
| `described` | softib, with the machine described in one line (GPUs: options of the workload; hosts: `--hosts`) |
| `default` | softib, without that line |
| `α–β` | latency of adapters and bandwidth of links from data sheets alone |
| NCCL's model | the model by which NCCL chooses its algorithm; also with 12 µs added to each answer |
| `left out` | softib, fitted again by script to the datasets of other machines (MPI: hosts not described); beside it NCCL's model with a constant fitted in the same way |
"""
CLASSES = ((1 << 15, "to 32 KiB"), (1 << 20, "to 1 MiB"), (1 << 26, "to 64 MiB"), (1 << 60, "above"))
DESCRIBED = (
    ("program_ns", 860, "Azure's virtual machines: ib_send_lat of P4"),
    ("program_ns", 588, "node A of ABCI: osu_latency"),
    ("copy_gbytes", 4.7, "node V of ABCI: all-reduces inside a host"),
    ("copy_gbytes", 13.5, "node A of ABCI: the same"),
    ("post_ns", 169, "default: osu_latency of three machines; message rates of perftest say the same within a quarter"),
    ("receive_us", 14.5, "fiu-imb-fdr: stack of hosts of 2017"),
)
"""Numbers chosen by looking at measured rows that stand in descriptions and profiles."""


def row_line(r: Row) -> str:
    """One row of the second table."""
    return f"| {r.dataset} | {r.metric} | {r.size} | {r.nodes} | {r.measured:g} | {r.predicted:.4g} | {r.unit} | {100 * r.error:+.1f} % |"


def _mean(rows: Sequence[Row], of: Callable[[Row], float]) -> float:
    return float(np.mean([abs(of(r) / r.measured - 1) for r in rows]))


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:.1f} %"


def _by(rows: Iterable[Row], key: Callable[[Row], str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for r in rows:
        found.setdefault(key(r), []).append(r)
    return found


def summary_lines(rows: Sequence[Row], left: Sequence[Row] = ()) -> list[str]:
    """Errors by dataset."""
    out = _by(left, lambda r: r.dataset)
    lines = [
        "| dataset | rows | described | worst | default | α–β | NCCL's own | + 12 µs | left out | NCCL's own + constant, left out |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, of in _by(rows, lambda r: f"{r.dataset}: {r.metric.split()[0]}").items():
        base = [r for r in of if r.baselines and not math.isnan(r.baselines[0])]
        own = [r for r in of if len(r.baselines) > 1]
        without = [r for r in out.get(of[0].dataset, []) if r.metric.split()[0] == of[0].metric.split()[0]]
        beside = [r for r in without if r.baselines]
        cells = [
            _mean(of, lambda r: r.predicted),
            max(abs(r.error) for r in of),
            _mean(of, lambda r: r.default),
            _mean(base, lambda r: r.baselines[0]) if base else math.nan,
            _mean(own, lambda r: r.baselines[1]) if own else math.nan,
            _mean(own, lambda r: r.baselines[1] + 12) if own else math.nan,
            _mean(without, lambda r: r.predicted) if without else math.nan,
            _mean(beside, lambda r: r.baselines[0]) if beside else math.nan,
        ]
        lines.append(f"| {name} | {len(of)} | {' | '.join(_shown(c) for c in cells)} |")
    return lines


def _classes(left: Sequence[Row]) -> list[str]:
    """Left-out errors of NCCL by size, beside the baseline's."""
    lines = ["| size | rows | left out | NCCL's own + constant, left out |", "|---|---|---|---|"]
    least = 0
    for most, name in CLASSES:
        of = [r for r in left if least < r.size <= most]
        least = most
        if of:
            errors = _mean(of, lambda r: r.predicted), _mean(of, lambda r: r.baselines[0])
            lines.append(f"| {name} | {len(of)} | {_shown(errors[0])} | {_shown(errors[1])} |")
    return lines


def constants() -> list[tuple[str, str, float, str]]:
    """(where, name, value, source) of every number that was chosen by looking at measured rows."""
    found = [
        (s.name, name, p.value, p.source) for s in sections().values() for name, p in s.rows.items() if p.fitted_to
    ]
    for a in ADAPTERS:
        found += [
            (f"{a.name} (catalogue)", name, float(getattr(a, name)), source)
            for name, source in a.sources.items()
            if source.startswith("fitted")
        ]
    return found + [("hosts", name, value, source) for name, value, source in DESCRIBED]


def page(rows: Sequence[Row], left: Sequence[Row], assumptions: dict[str, str], trust: Sequence[str]) -> str:
    """The page as Markdown."""
    of_nccl = [r for r in left if r.metric.startswith("nccl")]
    listed = constants()
    lines = [HEAD, *summary_lines(rows, left)]
    if of_nccl:
        lines += ["", "## NCCL on machines left out, by size", "", *_classes(of_nccl)]
    lines += ["", "## How far to trust an answer", "", *trust]
    lines += ["", "## Assumed, because the data does not state it", "", "| dataset | assumed |", "|---|---|"]
    names = dict.fromkeys(r.dataset for r in rows)
    lines += [f"| {name} | {assumptions[name]} |" for name in names if name in assumptions]
    lines += [
        "",
        f"## The {len(listed)} fitted constants, {len(listed) + 2} strictly",
        "",
        "Three more, `product_share`, `memory_share` and `copy_submit` of training, come from published measurements on one GPU, which are not a dataset here.",
        "",
        "| where | name | value | source |",
        "|---|---|---|---|",
    ]
    lines += [f"| {where} | `{name}` | {value:g} | {source} |" for where, name, value, source in listed]
    lines += ["", "## Every row", "", "| dataset | metric | bytes | nodes | measured | predicted | unit | error |"]
    lines += ["|---|---|---|---|---|---|---|---|", *(row_line(r) for r in rows)]
    return "\n".join([*lines, ""])
