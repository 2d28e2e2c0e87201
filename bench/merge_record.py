"""How fast the threads' files of a recording become a schedule: ``python bench/merge_record.py [--messages N]``.

Four ranks pass messages round a ring; each polls its receive and its completion. Seconds are CPU time of this process; an event is one that a thread wrote down.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from softib.sim.recorded_events import Event, RecordedThread
from softib.workloads.traces.goal import write_goal
from softib.workloads.traces.goal_binary import write_binary
from softib.workloads.traces.recorded import recorded_schedule

RANKS, SEND = 4, 2


def threads(messages: int) -> list[RecordedThread]:
    """``messages`` of each rank to the next: post, receive, completion, 20 µs between."""
    made = []
    for rank in range(RANKS):
        out, back = 100 + rank, 200 + rank
        n = 3 * messages
        number = np.arange(n) // 3
        kind = np.tile([Event.POST, Event.RECEIVED, Event.SENT], messages)
        ns = 1000 + number * 20_000 + np.tile([0, 9000, 12_000], messages) + rank
        qpn = np.where(kind == Event.RECEIVED, back, out)
        octets = np.where(kind == Event.SENT, number + 1, 4096)
        columns = [
            ns,
            number * 5000,
            kind,
            np.where(kind == Event.POST, SEND, 128),
            qpn,
            np.where(kind == Event.POST, 200 + (rank + 1) % RANKS, 0),
            octets,
        ]
        begin = np.array([[rank, 0, Event.QP, 2, q, 0, 0] for q in (out, back)], np.int64).T
        rows = np.concatenate([begin, np.array(columns, np.int64)], axis=1)
        made.append(RecordedThread(1000 + rank, 1000 + rank, rank, *rows))
    return made


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--messages", type=int, default=250_000, help="of each of four ranks")
    chosen = given.parse_args()
    recorded_schedule("warm", threads(10))
    found = threads(chosen.messages)
    events = sum(len(t.ns) for t in found)
    began = time.process_time()
    made = recorded_schedule("bench", found)
    merged = time.process_time()
    text = write_goal(made.schedule, made.notes)
    wrote = time.process_time()
    binary = write_binary(made.schedule)
    ended = time.process_time()
    print(f"{events:,} events, {made.messages:,} messages, {len(made.schedule):,} operations")
    for what, took, size in (
        ("merging", merged - began, 0),
        ("writing text", wrote - merged, len(text)),
        ("writing binary", ended - wrote, len(binary)),
    ):
        print(
            f"{what:15} {took:7.2f} s  {events / max(took, 1e-9) / 1e6:6.2f} M events/s{f', {size:,} bytes' if size else ''}"
        )


if __name__ == "__main__":
    main()
