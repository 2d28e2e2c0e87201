"""``make validate``: answers of softib against published measurements, row by row, and what each dataset's error is when nothing was fitted to its machine.

python -m bench.validation           write docs/evidence/validation.md and src/softib/workloads/measured.yaml
python -m bench.validation --quick   without leaving machines out, to standard output
python -m bench.validation --fit     fit the parameters of NCCL to all datasets again, and print them
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from bench.validation import leave_out, mpi, nccl, trust
from bench.validation.table import page, summary_lines
from softib.workloads.parameters import section

PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "validation.md"


def main() -> int:
    """Write the page, or print what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.validation", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="do not leave machines out; to standard output")
    parser.add_argument("--fit", action="store_true", help="fit the parameters of NCCL again, and print them")
    args = parser.parse_args()
    if args.fit:
        found = leave_out.refit(section("nccl"), leave_out.NCCL, lambda p: leave_out.nccl_rows(p["nccl"]))
        print({name: round(found[name], 3) for name in leave_out.NCCL})
        return 0
    rows = nccl.rows(defaults=True) + mpi.rows(defaults=True)
    if not rows:
        print("shared/ is absent: there are no measurements to compare with", file=sys.stderr)
        return 0
    if args.quick:
        print("\n".join(summary_lines(rows)))
        return 0
    left = leave_out.nccl_without() + leave_out.mpi_without()
    trust.write(rows, left)
    PAGE.write_text(page(rows, left, {**nccl.ASSUMPTIONS, **mpi.ASSUMPTIONS}, trust.lines(left)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
