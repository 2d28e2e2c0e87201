"""The page of all comparisons: docs/evidence/validation.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from bench.validation.row import Row
from softib.workloads.parameters import Section

__all__ = ["Left", "Library", "page", "row_line"]

HEAD = """# Measured and predicted

Written by `make validate` (`bench/validation`); do not edit. Measurements are read in place from `shared/reference/measured.csv` and `shared/data`, which are
not part of the project; a dataset that is absent there is missing here.

`mean` and `worst` are relative errors without sign. `within` counts the rows whose error is at most the bar; a dataset passes where its bar is one for the mean (OSU
latency and bandwidth, 8 %) and the mean keeps it, or every row keeps it. `left out` is the mean error when the parameters are fitted without that
dataset; `fitted` says how many parameters were fitted to it (`profile`: the device profile was, see [virtual time](../simulate.md)); `none` under `left out`: nothing but this dataset tells those parameters. A
parameter that only the left-out dataset tells, beside others that are fitted again, keeps its value. What stands under UNFITTED is not in `measured.csv`: other clusters,
larger ones and other collectives, predicted as they are with what was fitted to the rest. `fit` beside a parameter is what `python -m bench.validation --fit` last found from the same
datasets, and `mean of fit` the error with that. It takes all parameters of a machine at once; those in use were found in two steps,
messages between hosts from latencies and bandwidths alone, then shared memory from all-reduces, so that `left out` holds for either.
"""
MEAN_BARS = (0.08,)
"""Bars that hold for the mean of a dataset; others hold for each row."""


PROFILES = ("P1-QDR-CX2", "P3-EDR-UD-b2b", "P4-HDR-AzureHBv3")
"""Datasets that device profiles were fitted to (docs/simulate.md), by hand and before this page was."""


@dataclass(frozen=True)
class Left:
    """Mean error of a dataset that the parameters have not seen, and how they were found."""

    mean: float
    how: str


def row_line(r: Row) -> str:
    """One row of the second table."""
    return f"| {r.dataset} | {r.metric} | {r.size} | {r.nodes} | {r.measured:g} | {r.predicted:.4g} | {r.unit} | {100 * r.error:+.1f} % |"


@dataclass(frozen=True)
class Library:
    """What is said of one library: its rows, the parameters that they take, errors without a dataset, and assumptions by dataset."""

    name: str
    rows: list[Row]
    parameters: Mapping[str, Section]
    left: Mapping[str, Left]
    assumptions: Mapping[str, str]
    refit: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    refit_rows: list[Row] = field(default_factory=list)


def page(libraries: list[Library]) -> str:
    """The page as Markdown."""
    lines = [HEAD]
    for x in libraries:
        lines += ["", f"## {x.name}", "", *_library(x)]
    for x in libraries:
        lines += [
            "",
            f"## Every row of {x.name}",
            "",
            "| dataset | metric | octets | nodes | measured | predicted | unit | error |",
        ]
        lines += ["|---|---|---|---|---|---|---|---|", *(row_line(r) for r in x.rows)]
    return "\n".join([*lines, ""])


def _library(x: Library) -> list[str]:
    """Summary, assumptions, what leave-one-out took, and parameters."""
    by: dict[str, list[Row]] = {}
    for r in x.rows:
        by.setdefault(r.dataset, []).append(r)
    lines = [
        "| dataset | rows | mean | worst | bar | within | passes | fitted | left out |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_summary(name, of, x.parameters, x.left.get(name)) for name, of in by.items()]
    if not by:
        lines += ["", "`shared/` is absent: nothing was compared."]
    if x.refit_rows:
        lines += ["", "| dataset | mean | mean of fit |", "|---|---|---|", *_refits(x, by)]
    known = [f"| {name} | {x.assumptions[name]} |" for name in by if name in x.assumptions]
    if known:
        lines += ["", "| dataset | assumed, because the data does not say it |", "|---|---|", *known]
    lines += [
        "",
        "| left out | parameters without it |",
        "|---|---|",
        *(f"| {name} | {found.how} |" for name, found in x.left.items()),
    ]
    lines += ["", "| section | parameter | value | fit | fitted to | source |", "|---|---|---|---|---|---|"]
    for s in x.parameters.values():
        lines += [
            f"| {s.name} | {n} | {p.value:g} {p.unit} | {_refit(x, s.name, n)} | {', '.join(p.fitted_to) or 'nothing'} | {p.source} |"
            for n, p in s.rows.items()
        ]
    return lines


def _refit(x: Library, section: str, name: str) -> str:
    """What a fit found for a parameter, empty where none was made."""
    value = x.refit.get(section, {}).get(name)
    return "" if value is None else f"{value:g}"


def _refits(x: Library, by: Mapping[str, list[Row]]) -> list[str]:
    """Of each dataset that was fitted again: the error in use, and with what the fit found."""
    names = dict.fromkeys(r.dataset for r in x.refit_rows)
    mean = lambda rows: f"{100 * float(np.mean([abs(r.error) for r in rows])):.1f} %"
    return [f"| {n} | {mean(by[n])} | {mean([r for r in x.refit_rows if r.dataset == n])} |" for n in names]


def _summary(name: str, of: list[Row], parameters: Mapping[str, Section], left: Left | None) -> str:
    errors = np.abs([r.error for r in of])
    bars = np.array([r.bar for r in of])
    fitted = sum(name in p.fitted_to for s in parameters.values() for p in s.rows.values())
    asked = bars > 0
    within = f"{int((errors <= bars)[asked].sum())} of {int(asked.sum())}" if asked.any() else ""
    if not asked.any():
        passes, bar = "", "none"
    elif set(bars.tolist()) <= set(MEAN_BARS):
        passes, bar = "yes" if errors.mean() <= bars.max() else "no", f"{100 * bars.max():.0f} % mean"
    else:
        passes, bar = "yes" if (errors <= bars)[asked].all() else "no", f"{100 * bars.max():.0f} %"
    out = "" if left is None else "none" if math.isnan(left.mean) else f"{100 * left.mean:.1f} %"
    seen = fitted or ("profile" if name in PROFILES else "no")
    return f"| {name} | {len(of)} | {100 * errors.mean():.1f} % | {100 * errors.max():.1f} % | {bar} | {within} | {passes} | {seen} | {out} |"
