/* Every blocking collective once, by one rank, checked; what the library between says of each is printed: number, octets, begins. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void softib_record_collective(uint32_t number, uint32_t octets, int begins);
void softib_record_collective(uint32_t number, uint32_t octets, int begins)
{
    printf("%u %u %d\n", number, octets, begins);
}

static double from[8], to[8];

static void right(int is)
{
    if (!is) {
        puts("wrong");
        exit(1);
    }
}

#define CHECK(call)                                 \
    for (int i = 0; i < 8; i++)                     \
        from[i] = i + 1, to[i] = 0;                 \
    right((call) == MPI_SUCCESS);                   \
    for (int i = 0; i < 3; i++)                     \
        right(to[i] == from[i])

int main(int argc, char **argv)
{
    MPI_Comm c = MPI_COMM_WORLD;
    MPI_Datatype d = MPI_DOUBLE, pair;
    int three = 3, zero = 0;

    MPI_Init(&argc, &argv);
    MPI_Type_contiguous(2, d, &pair);
    MPI_Type_commit(&pair);
    right(MPI_Barrier(c) == MPI_SUCCESS);
    right(MPI_Bcast(from, 4, pair, 0, c) == MPI_SUCCESS);
    CHECK(MPI_Reduce(from, to, 3, d, MPI_SUM, 0, c));
    CHECK(MPI_Allreduce(from, to, 3, d, MPI_MAX, c));
    CHECK(MPI_Scan(from, to, 3, d, MPI_SUM, c));
    right(MPI_Exscan(from, to, 3, d, MPI_SUM, c) == MPI_SUCCESS);
    CHECK(MPI_Reduce_scatter(from, to, &three, d, MPI_SUM, c));
    CHECK(MPI_Reduce_scatter_block(from, to, 3, d, MPI_SUM, c));
    CHECK(MPI_Allgather(from, 3, d, to, 3, d, c));
    CHECK(MPI_Allgatherv(from, 3, d, to, &three, &zero, d, c));
    CHECK(MPI_Gather(from, 3, d, to, 3, d, 0, c));
    CHECK(MPI_Gatherv(from, 3, d, to, &three, &zero, d, 0, c));
    CHECK(MPI_Scatter(from, 3, d, to, 3, d, 0, c));
    CHECK(MPI_Scatterv(from, &three, &zero, d, to, 3, d, 0, c));
    CHECK(MPI_Alltoall(from, 3, d, to, 3, d, c));
    CHECK(MPI_Alltoallv(from, &three, &zero, d, to, &three, &zero, d, c));
    CHECK(MPI_Alltoallw(from, &three, &zero, &d, to, &three, &zero, &d, c));
    puts("in place");
    right(MPI_Allreduce(MPI_IN_PLACE, to, 2, d, MPI_SUM, c) == MPI_SUCCESS);
    right(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, 2, d, c) == MPI_SUCCESS);
    right(MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to, 2, d, 0, c) == MPI_SUCCESS);
    right(MPI_Scatter(to, 2, d, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, c) == MPI_SUCCESS);
    MPI_Type_free(&pair);
    MPI_Finalize();
    return 0;
}
