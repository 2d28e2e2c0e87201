/* MPI_Allreduce of bytes in a range of sizes, timed as osu_allreduce does, in the table that it prints. Sizes: argv[1] to argv[2]. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t least = argc > 1 ? strtoul(argv[1], 0, 0) : 4, most = argc > 2 ? strtoul(argv[2], 0, 0) : 1 << 20;
    char *ours = calloc(most, 1), *sum = calloc(most, 1);
    if (!rank)
        printf("\n# OSU MPI Allreduce Latency Test v7.3\n# Datatype: MPI_CHAR.\n# Size       Avg Latency(us)\n");
    for (size_t bytes = least; bytes <= most; bytes *= 4) {
        int rounds = 4;
        double took = 0, mean;
        MPI_Allreduce(ours, sum, (int)bytes, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD); /* warm */
        for (int i = 0; i < rounds; i++) {
            MPI_Barrier(MPI_COMM_WORLD);
            double begin = MPI_Wtime();
            MPI_Allreduce(ours, sum, (int)bytes, MPI_CHAR, MPI_SUM, MPI_COMM_WORLD);
            took += MPI_Wtime() - begin;
        }
        took = took / rounds * 1e6;
        MPI_Reduce(&took, &mean, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
        if (!rank) {
            printf("%-10zu%18.2f\n", bytes, mean / size);
            fflush(stdout);
        }
    }
    MPI_Finalize();
    return 0;
}
