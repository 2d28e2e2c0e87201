"""Programs recorded live under ``--pace``, replayed on their fabric, each against that same run: ``python bench/paced_replay.py [--rounds N] [--octets N] [PROGRAM …]``.

All links of the hosts have one lane of SDR (2 Gb/s), so that the wire and not this machine is the limit. Compared is the time from the first large message to the end of the last, each
rank's first left out (it connects and registers memory): what the recording's clock says, and what the replay says. Both are of one run, so that start-up, which takes another time in
each, is in neither. What a message took (the median, from its post until its completion was polled) says who is late: on a machine with others a program that polls uses its time slice
up, and sees a completion when it has the next; one that sleeps (``-e``) is woken up. That costs the same whatever the message's size, so messages that take long on the wire show it less.
Where more ranks ran than the machine has processors, the replay shares these among them (``processors`` of the trace); behind it stands what it says with a processor for each rank.
``noise`` is wall over CPU time of a loop that only computes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

from own_fabric import own_fabric
from record import MPIRUN
from softib.live.recording import threads_in
from softib.sim.recorded_events import Event, RecordedThread
from softib.workloads.traces.goal import write_goal
from softib.workloads.traces.recorded import recorded_schedule

FABRIC = "name: paced\ngeneration: SDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
OCTETS, LARGE = 16 << 20, 1 << 20
LEAST = 5
"""Iterations that perftest takes at least."""
PROGRAM = """
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    int rank, ranks, size = atoi(argv[3]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *a = calloc(1, size), *b = calloc(1, size);
    for (int i = 0; i <= atoi(argv[2]); i++) {
        if (!strcmp(argv[1], "ring")) {
            MPI_Sendrecv(a, size, MPI_CHAR, (rank + 1) % ranks, 0, b, size, MPI_CHAR, (rank + ranks - 1) % ranks, 0,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (!strcmp(argv[1], "allreduce")) {
            MPI_Allreduce(a, b, size / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        } else if (rank % 2) {
            MPI_Recv(b, size, MPI_CHAR, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(a, size, MPI_CHAR, rank - 1, 0, MPI_COMM_WORLD);
        } else {
            MPI_Send(a, size, MPI_CHAR, rank + 1, 0, MPI_COMM_WORLD);
            MPI_Recv(b, size, MPI_CHAR, rank + 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (!i)
            MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
"""
PERFTEST = (
    "timeout 120 softib run --node host-0001 -- {0} & "
    "for i in 1 2 3 4 5 6; do sleep 2; softib run --node host-0002 -- {0} 127.0.0.1 && break; done; wait"
)
"""The server, and its client, again where the server does not listen yet."""
SLEEPING = "mkdir meet; for r in 0 1 2 3; do timeout 120 softib run --node host-000$((r + 1)) -- ./v meet $r 4 {0} {1} & done; wait; rm -r meet"
"""A ring of verbs_allreduce.c."""


def commands(rounds: int, octets: int) -> dict[str, list[str]]:
    mpi = lambda what, ranks: [*MPIRUN[:-1], str(ranks), "softib", "run", "--", "./p", what, str(rounds), str(octets)]
    port = 20000 + os.getpid() % 10000
    pair = lambda words: [
        "sh",
        "-c",
        PERFTEST.format(f"{words} -F -s {octets >> 1} -n {max(2 * rounds, LEAST)} -p {port}"),
    ]
    return {
        "ring of 4, polls": mpi("ring", 4),
        "ring of 2, polls": mpi("ring", 2),
        "pingpong of 2, polls": mpi("pingpong", 2),
        "pingpong of 4, polls": mpi("pingpong", 4),
        "allreduce of 4, polls": mpi("allreduce", 4),
        "allreduce of 2, polls": mpi("allreduce", 2),
        "allreduce of 4, sleeps": ["sh", "-c", SLEEPING.format(rounds, octets)],
        "ib_send_lat -e": pair("ib_send_lat -e"),
        "ib_read_lat -e": pair("ib_read_lat -e"),
        "ib_send_bw -e": pair("ib_send_bw -e"),
    }


def noise(seconds: float = 0.5) -> float:
    """Wall over CPU time of a loop."""
    wall, cpu = time.perf_counter(), time.process_time()
    while time.process_time() - cpu < seconds:
        pass
    return (time.perf_counter() - wall) / seconds


def large(threads: list[RecordedThread]) -> list[tuple[int, int]]:
    """(posted, its completion polled), ns, of each thread's large requests but its first."""
    found: list[tuple[int, int]] = []
    for t in threads:
        posts: dict[int, list[int]] = {}
        mine: list[tuple[int, int]] = []
        for i in np.flatnonzero((t.type == Event.POST) | (t.type == Event.SENT)).tolist():
            queue = posts.setdefault(int(t.qpn[i]), [])
            if t.type[i] == Event.POST:
                queue.append(i)
                continue
            done = queue[: int(t.octets[i])]
            mine += [(p, i) for p in done if p >= 0 and t.octets[p] >= LARGE]
            queue[: len(done)] = [-1] * len(done)
        found += [(int(t.ns[p]), int(t.ns[e])) for p, e in mine[1:]]
    return found


def of_replay(table: pl.DataFrame) -> pl.DataFrame:
    """Of all messages the large ones, without the first of each rank: the one that posts a READ, which is what fetches them, is the destination."""
    table = table.filter(table["size"] >= LARGE).sort("began_us")
    return table.filter(pl.int_range(pl.len()).over("destination") > 0)


def compared(folder: Path, events: Path) -> str:
    """One line: live, replayed, and what the machine added."""
    import softib

    threads = threads_in(events)
    try:
        made = recorded_schedule("paced", threads)
    except softib.errors.InputError as error:
        return f"{error}: did the programs start?"
    goal = folder / "x.goal"
    goal.write_text(write_goal(made.schedule, made.notes))
    processors = len(os.sched_getaffinity(0))
    shared = made.schedule.ranks > processors
    whole = softib.running()
    tables = [
        of_replay(softib.simulate(whole, f"trace:{goal}{more}").messages)
        for more in ([f",processors={processors}"] if shared else []) + [""]
    ]
    of_live = large(threads)
    if not of_live or not len(tables[0]):
        return "no message of this size was recorded twice by one rank: did the programs meet?"
    live = (max(r[1] for r in of_live) - min(r[0] for r in of_live)) / 1e9
    seconds = [(table["completed_us"].max() - table["began_us"].min()) / 1e6 for table in tables]
    took = np.median([r[1] - r[0] for r in of_live]) / 1e6
    alone = float(np.median(tables[0]["completed_us"] - tables[0]["began_us"])) / 1e3
    said = f"live {live:7.3f} s, replayed {seconds[0]:7.3f} s: {seconds[0] / live - 1:+6.1%}"
    if shared:
        said += f" (a processor for each rank {seconds[1] / live - 1:+6.1%})"
    return f"{said}; a message {took:6.1f} ms, in replay {alone:6.1f} ms ({len(of_live)}, {len(tables[0])})"


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rounds", type=int, default=6)
    given.add_argument("--tries", type=int, default=3)
    given.add_argument("--octets", type=int, default=OCTETS, help="octets of a message (perftest's: half)")
    given.add_argument("programs", nargs="*")
    chosen = given.parse_args()
    with own_fabric(FABRIC, "--pace") as (folder, env):
        os.environ["XDG_RUNTIME_DIR"] = env["XDG_RUNTIME_DIR"]
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        (folder / "p.c").write_text(PROGRAM)
        run = lambda words, **more: subprocess.run(
            words, cwd=folder, check=True, capture_output=True, text=True, env={**env, **more}
        )
        run(["mpicc", "-O2", "p.c", "-o", "p"])
        run(["cc", "-O2", str(Path(__file__).with_name("verbs_allreduce.c")), "-o", "v", "-libverbs"])
        for host in range(1, 5):
            run(["softib", "fault", "downgrade", f"host-000{host}[1]", "--width", "1"])
        time.sleep(3)  # they train, and the manager sweeps
        for name, command in commands(chosen.rounds, chosen.octets).items():
            if chosen.programs and not any(word in name for word in chosen.programs):
                continue
            for k in range(chosen.tries):
                events = folder / f"{name}-{k}".replace(" ", "-")
                events.mkdir()
                run(command, SOFTIB_RECORD=str(events), SOFTIB_RECORD_RANK_FROM="OMPI_COMM_WORLD_RANK")
                print(f"{name:21} {compared(folder, events)}; noise {noise():.2f}", flush=True)


if __name__ == "__main__":
    main()
