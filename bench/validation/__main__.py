"""``make validate``: predictions of softib against published measurements, row by row, and what each dataset's error is when nothing was fitted to it.

python -m bench.validation                  write docs/evidence/validation.md
python -m bench.validation --quick          without leave-one-out, to standard output
python -m bench.validation --fit openmpi-abci-v …   fit the parameters of these sections anew, print them, and keep them in refit.yaml
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import math
import pkgutil
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import bench.validation as package
from bench.validation.data import SHARED
from bench.validation.leave_one_out import Rows, fitted, without
from bench.validation.row import Row
from bench.validation.section_values import with_values
from bench.validation.table import Left, Library, page
from softib.workloads.parameters import Section, sections

REFIT = Path(__file__).with_name("refit.yaml")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "validation.md"


def modules() -> list[Any]:
    """Modules of this package that have ``rows``."""
    found = [
        importlib.import_module(f"bench.validation.{m.name}")
        for m in pkgutil.iter_modules(package.__path__)
        if m.name != "__main__"
    ]
    return [m for m in found if hasattr(m, "rows")]


def rows_of(module: Any) -> Rows:
    """``rows(parameters, only, every)`` of a module; one that takes its one section alone gives all rows, which are then chosen from."""
    some = len(inspect.signature(module.rows).parameters) > 1

    def rows(parameters: Mapping[str, Section], only: Collection[str] = (), every: int = 1) -> list[Row]:
        found = (
            module.rows(parameters, only, every)
            if some
            else module.rows(next(iter(parameters.values())))
            if SHARED.is_dir()
            else []
        )
        return [Row(*r) for r in found if not only or r[0] in only]

    return rows


def parameters_of(module: Any) -> dict[str, Section]:
    """The sections that a module's predictions take: its ``SECTIONS`` (beginnings of their names), else its own name."""
    begins = getattr(module, "SECTIONS", (module.__name__.rsplit(".", 1)[1],))
    return {name: s for name, s in sections().items() if name.split("-")[0] in begins}


def leave_out(rows: list[Row], parameters: Mapping[str, Section], predict: Rows) -> dict[str, Left]:
    """Of each dataset that something was fitted to: its error without it."""
    out = {}
    seen = {d for s in parameters.values() for p in s.rows.values() for d in p.fitted_to}
    for name in dict.fromkeys(r.dataset for r in rows):
        if name in seen:
            print(f"left out: {name}", file=sys.stderr)
            found, how = without(name, parameters, predict)
            same = found is parameters
            mean = math.nan if same else float(np.mean([abs(r.error) for r in predict(found, (name,), 1)]))
            out[name] = Left(mean, how)
    return out


def library(module: Any, quick: bool) -> Library:
    """All that the page says of one module."""
    parameters, predict = parameters_of(module), rows_of(module)
    rows = predict(parameters, (), 1)
    left = {} if quick or not rows else leave_out(rows, parameters, predict)
    again = {name: with_values(s, **refit().get(name, {})) for name, s in parameters.items()}
    fitted_rows = (
        []
        if quick or not rows or not set(refit()) & set(parameters)
        else predict(again, fitted_datasets(parameters), 1)
    )
    return Library(
        module.__name__.rsplit(".", 1)[1].upper(),
        rows,
        parameters,
        left,
        getattr(module, "ASSUMPTIONS", {}),
        refit(),
        fitted_rows,
    )


def fitted_datasets(parameters: Mapping[str, Section]) -> set[str]:
    """Datasets that something of the refitted sections was fitted to."""
    return {d for name in refit() if name in parameters for p in parameters[name].rows.values() for d in p.fitted_to}


def refit() -> dict[str, dict[str, float]]:
    """What ``--fit`` found last, by section."""
    import yaml

    return yaml.safe_load(REFIT.read_text(encoding="utf-8")) if REFIT.is_file() else {}


def keep_refit(section: str, values: Mapping[str, float]) -> None:
    """Write what a fit found beside the others."""
    kept = refit() | {section: dict(values)}
    head = (
        next(iter(REFIT.read_text(encoding="utf-8").splitlines()), "")
        if REFIT.is_file()
        else "# What --fit found last."
    )
    lines = [f"{name}: {{{', '.join(f'{k}: {v}' for k, v in of.items())}}}" for name, of in sorted(kept.items())]
    REFIT.write_text("\n".join([head, *lines, ""]), encoding="utf-8")


def main() -> int:
    """Write the page, or say the fitted parameters."""
    parser = argparse.ArgumentParser(prog="python -m bench.validation", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no leave-one-out; to standard output")
    parser.add_argument(
        "--fit", nargs="+", metavar="SECTION", help="fit the parameters of these sections again, and print them"
    )
    args = parser.parse_args()
    if args.fit:
        for name in args.fit:
            module = next(m for m in modules() if name in parameters_of(m))
            parameters = parameters_of(module)
            names = [(name, n) for n, p in parameters[name].rows.items() if p.fitted_to]
            data = {d for _, n in names for d in parameters[name].rows[n].fitted_to}
            found = fitted(parameters, names, data, rows_of(module), every=1)
            values = {n: round(found[name][n], 1) for _, n in names}
            print(name, values, flush=True)
            keep_refit(name, values)
        return 0
    libraries = [library(m, args.quick) for m in modules()]
    if not any(x.rows for x in libraries):
        print("shared/ is absent: there are no measurements to compare with", file=sys.stderr)
        return 0
    text = page(libraries)
    if args.quick:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
