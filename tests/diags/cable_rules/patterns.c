/* MPI ranks that send for SECONDS: patterns incast|shuffle|checkpoint SECONDS. Rank 0 receives an incast, ranks 0 to 2 a checkpoint. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 262144, EACH = 8, STORES = 3 };

static void many_to(int target, int rank, int size, char *data)
{
    MPI_Request request[EACH];
    if (rank == target) {
        for (int i = 0; i < EACH * (size - 1); i++)
            MPI_Recv(data, BYTES, MPI_CHAR, MPI_ANY_SOURCE, target, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    for (int i = 0; i < EACH; i++)
        MPI_Isend(data, BYTES, MPI_CHAR, target, target, MPI_COMM_WORLD, &request[i]);
    MPI_Waitall(EACH, request, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    int rank, size, going = 1;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3)
        MPI_Abort(MPI_COMM_WORLD, 2);
    char *out = calloc(size, BYTES), *in = calloc(size, BYTES);
    double end = MPI_Wtime() + atof(argv[2]);
    if (!rank) {
        printf("begun\n");
        fflush(stdout);
    }
    for (int step = 0; going; step++) {
        if (!strcmp(argv[1], "incast"))
            many_to(0, rank, size, out);
        else if (!strcmp(argv[1], "checkpoint"))
            many_to(step % STORES, rank, size, out);
        else
            MPI_Alltoall(out, BYTES, MPI_CHAR, in, BYTES, MPI_CHAR, MPI_COMM_WORLD);
        int more = MPI_Wtime() < end;
        MPI_Allreduce(&more, &going, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
