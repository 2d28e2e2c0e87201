/* Ranks that reduce again and again for as many seconds as the argument says. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { VALUES = 65536 };

int main(int argc, char **argv)
{
    static double ours[VALUES], sum[VALUES];
    int rank, size, going = 1, steps = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    printf("rank %d of %d, pid %d, on %s\n", rank, size, (int)getpid(), getenv("SOFTIB_PLACE"));
    fflush(stdout);
    double end = MPI_Wtime() + (argc > 1 ? atof(argv[1]) : 6);
    while (going) {
        MPI_Allreduce(ours, sum, VALUES, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        int more = MPI_Wtime() < end;
        MPI_Allreduce(&more, &going, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
        steps++;
    }
    if (!rank)
        printf("%d steps\n", steps);
    MPI_Finalize();
    return 0;
}
