"""Keep a recorded story as a test: ``python -m bench.why_stories.keep FOLDER/NNN-KIND... INTO``.

Its logs stay as they are. Of the history ``counters.csv`` keeps three intervals (all but the last two rounds, and those), and of them the
ports that counted or did not answer: all others answered, and counted nothing.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import numpy as np

from softib.monitor.history import History

COUNTERS = (
    "link_downed_counter",
    "symbol_error_counter",
    "port_rcv_errors",
    "port_local_physical_errors",
    "local_link_integrity_errors",
    "port_fec_uncorrectable_block_ctr",
    "port_xmit_discards",
    "port_inactive_discards",
    "port_sw_hoq_lifetime_limit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "port_xmit_data",
    "port_rcv_data",
)


LITTLE = 100_000
"""Less data than this, in units of four bytes, is what managers and the exporter send."""


def keep(story: Path, into: Path) -> None:
    """Write one story."""
    target = into / story.name
    shutil.rmtree(target, ignore_errors=True)
    seen = History(story / "history").observations()
    if seen.intervals < 4:
        print(f"{story.name}: too few rounds")
        return
    target.mkdir(parents=True)
    for log in story.glob("*.log"):
        shutil.copy(log, target / log.name)
    truth = json.loads((story / "truth.json").read_text())
    brief = {key: truth[key] for key in ("kind", "cause", "where", "hosts", "ended")}
    (target / "truth.json").write_text(json.dumps(brief) + "\n")
    cuts = [
        slice(0, seen.intervals - 2),
        slice(seen.intervals - 2, seen.intervals - 1),
        slice(seen.intervals - 1, seen.intervals),
    ]
    with (target / "counters.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["interval", "begin_ns", "end_ns", "node", "port", "answered", "state", *COUNTERS])
        for number, cut in enumerate(cuts):
            answered = (seen.end_ns[cut] > seen.begin_ns[cut]).any(axis=0)
            rose = np.array(
                [
                    seen.increase[c][cut].sum(axis=0) if c in seen.increase else np.zeros(len(answered), np.uint64)
                    for c in COUNTERS
                ]
            )
            state = seen.level["state"][cut][-1]
            times = [int(seen.begin_ns[cut].min()), int(seen.end_ns[cut].max())]
            rose[-2:][rose[-2:] < LITTLE] = 0
            for row in np.flatnonzero(rose.any(axis=0) | ~answered | (state != 4) & ~np.isnan(state)).tolist():
                shown = "" if np.isnan(state[row]) else int(state[row])
                place = [seen.ports.node[row], int(seen.ports.portnum[row])]
                out.writerow([number, *times, *place, int(answered[row]), shown, *(int(v) or "" for v in rose[:, row])])


if __name__ == "__main__":
    *stories, last = map(Path, sys.argv[1:])
    for one in stories:
        keep(one, last)
