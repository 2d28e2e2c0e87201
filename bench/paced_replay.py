"""A program recorded live on four ranks, replayed on its fabric, against live runs under ``--pace``: ``python bench/paced_replay.py``.

Open MPI over UCX sends blocks round a ring; all links of its hosts have one lane of SDR (2 Gb/s), so that the wire and not this machine is the limit. Compared is what more rounds take:
the loop of the program, and the replay's end, each of MANY rounds less that of FEW. The best of some live runs counts. The noise of this machine is printed too: wall over CPU
time of a loop that only computes (1: nobody else wants the processor); over 1.2 the comparison says nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from own_fabric import own_fabric
from record import MPIRUN

FABRIC = "name: paced\ngeneration: SDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
FEW, MANY, OCTETS, TRIES = 2, 8, 16 << 20, 3
PROGRAM = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, ranks, size = atoi(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *a = calloc(1, size), *b = calloc(1, size);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime();
    for (int i = 0; i < atoi(argv[1]); i++)
        MPI_Sendrecv(a, size, MPI_CHAR, (rank + 1) % ranks, 0, b, size, MPI_CHAR, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0)
        printf("loop %.6f\\n", MPI_Wtime() - began);
    MPI_Finalize();
    return 0;
}
"""


def noise(seconds: float = 0.5) -> float:
    """Wall over CPU time of a loop."""
    wall, cpu = time.perf_counter(), time.process_time()
    while time.process_time() - cpu < seconds:
        pass
    return (time.perf_counter() - wall) / seconds


def main() -> None:
    import softib

    with own_fabric(FABRIC, "--pace") as (folder, env):
        os.environ["XDG_RUNTIME_DIR"] = env["XDG_RUNTIME_DIR"]
        (folder / "p.c").write_text(PROGRAM)
        run = lambda *words: subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout
        program = [sys.executable, "-m", "softib"]
        run("mpicc", "-O2", "p.c", "-o", "p")
        for host in range(1, 5):
            run(*program, "fault", "downgrade", f"host-000{host}[1]", "--width", "1")
        time.sleep(3)  # they train, and the manager sweeps
        live, replayed = {}, {}
        for n in (FEW, MANY):
            loop = lambda *more, n=n: float(
                run(*MPIRUN, *program, "run", *more, "--", "./p", str(n), str(OCTETS)).split("loop")[1]
            )
            loop("--record", f"{n}.goal")
            live[n] = min(loop() for _ in range(TRIES))
            replayed[n] = softib.simulate(softib.running(), f"{folder}/{n}.goal").simulated_us / 1e6
        took, predicted = live[MANY] - live[FEW], replayed[MANY] - replayed[FEW]
        print(
            f"live {took:.3f} s, replayed {predicted:.3f} s: {predicted / took - 1:+.1%}; noise of this machine {noise():.2f}"
        )


if __name__ == "__main__":
    main()
