"""What recording costs: ``python bench/record.py [--rounds N]``.

Four ranks of Open MPI over UCX send each other 64 KB and compute 200 us between, on a fabric of their own, by turns with and without ``--record``: wall time of the loop, and
CPU time of all ranks in it (which polls while it waits). What is best of all rounds is compared: another program makes a run slower, never faster. Merging the file at the end is no part of it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from own_fabric import own_fabric

FABRIC = "name: record\ngeneration: HDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
PROGRAM = """
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
    int rank, ranks, size = 65536;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    char *a = calloc(1, size), *b = calloc(1, size);
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime(), cpu = (double)clock() / CLOCKS_PER_SEC, sum;
    for (int i = 0; i < atoi(argv[1]); i++) {
        struct timespec from, now;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        do
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        while ((now.tv_sec - from.tv_sec) * 1e9 + now.tv_nsec - from.tv_nsec < 200000);
        MPI_Sendrecv(a, size, MPI_CHAR, (rank + 1) % ranks, 0, b, size, MPI_CHAR, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
    cpu = (double)clock() / CLOCKS_PER_SEC - cpu;
    MPI_Reduce(&cpu, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("loop %.6f %.6f\\n", MPI_Wtime() - began, sum);
    MPI_Finalize();
    return 0;
}
"""
MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-np", "4")


def loop(command: list[str], env: dict[str, str], folder: str) -> tuple[float, float]:
    """Wall and CPU seconds of the program's loop."""
    done = subprocess.run(command, env=env, cwd=folder, check=True, capture_output=True, text=True)
    wall, cpu = next(line for line in done.stdout.splitlines() if line.startswith("loop")).split()[1:]
    return float(wall), float(cpu)


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--rounds", type=int, default=5)
    given.add_argument("--iterations", type=int, default=5000)
    chosen = given.parse_args()
    softib = [sys.executable, "-m", "softib"]
    with own_fabric(FABRIC) as (folder, env):
        (folder / "p.c").write_text(PROGRAM)
        subprocess.run(["mpicc", "-O2", "p.c", "-o", "p"], cwd=folder, check=True)
        best = [[float("inf")] * 2, [float("inf")] * 2]
        for k in range(chosen.rounds):
            for which, more in enumerate(((), ("--record", f"r{k}.goal"))):
                found = loop([*MPIRUN, *softib, "run", *more, "--", "./p", str(chosen.iterations)], env, str(folder))
                best[which] = [min(pair) for pair in zip(best[which], found, strict=True)]
                print(f"{'with' if more else 'without':8} {found[0]:7.3f} s, {found[1]:7.3f} s of CPU time")
        print(
            f"recording costs {best[1][0] / best[0][0] - 1:+.1%} of wall time, {best[1][1] / best[0][1] - 1:+.1%} of CPU time"
        )


if __name__ == "__main__":
    main()
