"""Healthy incasts, shuffles and checkpoints of a real MPI program on a paced running fabric, judged by ``softib diagnose``: how many false alarms.

    python bench/live_incasts.py [--runs 100] [--out live-incasts.json]

Run k plays one of the three with 3 to 16 senders on hosts drawn by k. Each result is written at once; runs that are in OUT are not played again, so an
interrupted bench goes on where it ended. Needs Open MPI and UCX.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.diags.cable_rules.live_incasts import KINDS, judged, paced_fabric

LEAST, MOST = 3, 16
"""Senders."""


def main() -> int:
    """Play the missing runs; 1 if there was a false alarm."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=100)
    options.add_argument("--out", type=Path, default=Path("live-incasts.json"))
    given = options.parse_args()
    mpicc = shutil.which("mpicc")
    if mpicc is None:
        print("absent: mpicc; apt-get install openmpi-bin libopenmpi-dev")
        return 2
    results = json.loads(given.out.read_text()) if given.out.exists() else {}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the fabric goes down
    fabric = paced_fabric(mpicc)
    os.environ["XDG_RUNTIME_DIR"] = fabric.env["XDG_RUNTIME_DIR"]
    try:
        for run in range(given.runs):
            if str(run) in results:
                continue
            kind, senders = KINDS[run % len(KINDS)], LEAST + run // len(KINDS) % (MOST - LEAST + 1)
            try:
                alarms = judged(fabric, kind, senders + 1, 1000 + run)[0]
            except AssertionError as error:  # the job did not run through: no result
                print(f"run {run}: {kind} of {senders}: {error}", flush=True)
                continue
            results[str(run)] = {"kind": kind, "senders": senders, "alarms": alarms, "load": round(os.getloadavg()[0])}
            given.out.write_text(json.dumps(results, indent=1) + "\n")
            print(f"run {run}: {kind} of {senders}: {alarms or 'none'}", flush=True)
    finally:
        fabric.close()
    played = Counter(r["kind"] for r in results.values())
    wrong = [r for r in results.values() if r["alarms"]]
    print(
        f"{sum(played.values())} runs ({', '.join(f'{n} {k}' for k, n in played.items())}), {len(wrong)} with a false alarm"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
