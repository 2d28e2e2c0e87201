/* Two ranks: round trips of 8 octets, then 1 MB blocks from rank 0 to rank 1. Others wait.
 *
 *     mpicc -O2 examples/mpi_bandwidth.c -o mpi_bandwidth
 *     mpirun -np 2 softib run -- ./mpi_bandwidth
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 8, BLOCK = 1 << 20, TRIPS = 1000, BLOCKS = 200 };

int main(int argc, char **argv)
{
    int rank, size;
    char place[MPI_MAX_PROCESSOR_NAME] = "?";
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (getenv("SOFTIB_PLACE"))
        snprintf(place, sizeof place, "%s", getenv("SOFTIB_PLACE"));
    printf("rank %d of %d on %s\n", rank, size, place);
    char *data = malloc(BLOCK);
    memset(data, rank + 1, BLOCK);
    MPI_Barrier(MPI_COMM_WORLD);
    if (size > 1 && rank < 2) {
        int other = 1 - rank;
        double began = MPI_Wtime();
        for (int i = 0; i < TRIPS; i++) {
            if (rank == 0)
                MPI_Send(data, SMALL, MPI_CHAR, other, 0, MPI_COMM_WORLD);
            MPI_Recv(data, SMALL, MPI_CHAR, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank == 1)
                MPI_Send(data, SMALL, MPI_CHAR, other, 0, MPI_COMM_WORLD);
        }
        if (rank == 0)
            printf("latency %.2f us\n", (MPI_Wtime() - began) / TRIPS / 2 * 1e6);
        began = MPI_Wtime();
        for (int i = 0; i < BLOCKS; i++) {
            if (rank == 0)
                MPI_Send(data, BLOCK, MPI_CHAR, other, 1, MPI_COMM_WORLD);
            else
                MPI_Recv(data, BLOCK, MPI_CHAR, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        if (rank == 1)
            printf("bandwidth %.0f MB/s, last octet %d\n", (double)BLOCK * BLOCKS / (MPI_Wtime() - began) / 1e6, data[BLOCK - 1]);
    }
    free(data);
    MPI_Finalize();
    return 0;
}
