"""Share of planted faults that ``check`` finds and names exactly: ``python -m bench.planted [SEEDS] [--data DIR] [--show]``.

One line a fabric and fault: tried, found, all ports named, findings that name nothing of the fault. Real fabrics are used
where ``--data`` (a folder of real files) is given; ``--fabric`` and ``--fault`` choose.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.diags.planting import BUILT, FAULTS, GENERATED, REAL, ground, measure


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seeds", nargs="?", type=int, default=100)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--fabric", action="append")
    parser.add_argument("--fault", action="append")
    parser.add_argument("--show", type=int, default=0, help="so many examples that were not named")
    args = parser.parse_args()
    names = args.fabric or [*GENERATED, *BUILT, *(REAL if args.data else ())]
    print(f"{'fabric':12} {'fault':40} {'tried':>5} {'found':>6} {'named':>6} {'stray':>5}")
    for name in names:
        for fault in args.fault or FAULTS:
            score = measure(ground(name, args.data), fault, range(args.seeds))
            if not score.tried:
                continue
            share = [f"{100 * n / score.tried:5.0f}%" for n in (score.found, score.named)]
            print(f"{name:12} {fault:40} {score.tried:5} {share[0]:>6} {share[1]:>6} {score.stray:5}", flush=True)
            for text in score.examples[: args.show]:
                print("    ", text)


if __name__ == "__main__":
    main()
