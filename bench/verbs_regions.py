"""What ``ibv_reg_mr`` of private memory costs: its pages are moved to shared memory (docs/verbs.md).

    python bench/verbs_regions.py [--rounds 5] [--many 4000]

Rows: one page, 1 MB, 64 MB, 1 GB; the first registration, the next of the same memory, deregistration, and a memcpy of as many octets to
fresh memory in the same program. The same with ``SOFTIB_REMAP=0`` (nothing is moved). Then the cost of a region among many.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.preload.verbs.applications import A, Applications

SIZES = (("1 page", 4096), ("1 MB", 1 << 20), ("64 MB", 64 << 20), ("1 GB", 1 << 30))


def measured(fabric: Applications, program: Path, *arguments: object, **env: str) -> list[float]:
    """The numbers of one run's line."""
    done = subprocess.run(
        fabric.on(A, str(program), *map(str, arguments)),
        env={**fabric.env, **env},
        capture_output=True,
        text=True,
        check=True,
    )
    return [float(x) for x in done.stdout.split()]


def main() -> None:
    """Print two tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--many", type=int, default=4000)
    reply = options.parse_args()
    fabric = Applications()
    program = fabric.folder / "regions"
    try:
        subprocess.run(
            ["gcc", "-O2", "-o", str(program), str(Path(__file__).with_suffix(".c")), "-libverbs"], check=True
        )
        print(f"{'us':12} {'reg_mr':>10} {'again':>10} {'dereg_mr':>10} {'memcpy':>10} {'reg_mr, REMAP=0':>16}")
        for name, octets in SIZES:
            rounds = reply.rounds if octets < 1 << 30 else 1
            first, end, repeat, _, copy = measured(fabric, program, "one", octets, rounds)
            plain = measured(fabric, program, "one", octets, rounds, SOFTIB_REMAP="0")[0]
            print(f"{name:12} {first:10.1f} {repeat:10.1f} {end:10.1f} {copy:10.1f} {plain:16.1f}")
        for arguments in ({}, {"SOFTIB_REMAP": "0"}):
            reg, last, dereg, end = measured(fabric, program, "many", reply.many, 4096, **arguments)
            print(
                f"a page among {reply.many} {arguments or ''}: the first hundred {reg:.1f} us, the last {last:.1f}; "
                f"dereg_mr {dereg:.1f}, {end:.1f}"
            )
    finally:
        fabric.close()


if __name__ == "__main__":
    main()
