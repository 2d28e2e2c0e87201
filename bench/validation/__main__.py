"""``make validate``: predictions of softib against published measurements, row by row, and what each dataset's error is when nothing was fitted to it.

python -m bench.validation                  write docs/evidence/validation.md
python -m bench.validation --quick          without leave-one-out, to standard output
python -m bench.validation --fit abci-v …   fit the parameters of sections openmpi-NAME anew and print them
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
from bench.validation.leave_one_out import fitted, without
from bench.validation.row import Row
from bench.validation.table import Left, page
from softib.workloads.parameters import Section, sections

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "validation.md"


def modules() -> list[Any]:
    """Modules of this package that have ``rows``."""
    found = [
        importlib.import_module(f"bench.validation.{m.name}")
        for m in pkgutil.iter_modules(package.__path__)
        if m.name != "__main__"
    ]
    return [m for m in found if hasattr(m, "rows")]


def all_rows(parameters: Mapping[str, Section], only: Collection[str] = (), every: int = 1) -> list[Row]:
    """Rows of all modules. One whose ``rows`` takes the parameters alone gives all of its rows, which are then chosen from."""
    out: list[Row] = []
    for m in modules():
        some = len(inspect.signature(m.rows).parameters) > 1
        found = m.rows(parameters, only, every) if some else m.rows(parameters)
        out += [Row(*r) for r in found if not only or r.dataset in only]
    return out


def leave_out(rows: list[Row], parameters: Mapping[str, Section]) -> dict[str, Left]:
    """Of each dataset that something was fitted to: its error without it."""
    out = {}
    seen = {d for s in parameters.values() for p in s.rows.values() for d in p.fitted_to}
    for name in dict.fromkeys(r.dataset for r in rows):
        if name in seen:
            print(f"left out: {name}", file=sys.stderr)
            found, how = without(name, parameters, all_rows)
            mean = (
                float(np.mean([abs(r.error) for r in all_rows(found, (name,))]))
                if found is not parameters
                else math.nan
            )
            out[name] = Left(mean, how)
    return out


def main() -> int:
    """Write the page, or say the fitted parameters."""
    parser = argparse.ArgumentParser(prog="python -m bench.validation", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="no leave-one-out; to standard output")
    parser.add_argument(
        "--fit", nargs="+", metavar="SECTION", help="fit the parameters of these sections again, and print them"
    )
    args = parser.parse_args()
    parameters = sections()
    if args.fit:
        for name in args.fit:
            names = [(name, n) for n, p in parameters[name].rows.items() if p.fitted_to]
            data = {d for n in names for d in parameters[name].rows[n[1]].fitted_to}
            found = fitted(parameters, names, data, all_rows, rounds=3)
            print(name, {n: round(found[name][n], 1) for _, n in names})
        return 0
    rows = all_rows(parameters)
    if not rows:
        print("shared/ is absent: there are no measurements to compare with", file=sys.stderr)
        return 0
    assumptions = {k: v for m in modules() for k, v in getattr(m, "ASSUMPTIONS", {}).items()}
    text = page(rows, parameters, {} if args.quick else leave_out(rows, parameters), assumptions)
    if args.quick:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
