/*
 * Numbers of the collectives in a recording, stored in its BEGIN and END events (record.h). libsoftib-mpi.so and
 * softib's torch backend pass them to softib_record_collective(). softib.live.recording derives the names of the
 * functions from these macros: SOFTIB_MPI_REDUCE_SCATTER is MPI_Reduce_scatter, SOFTIB_TORCH_ALL_REDUCE is torch's
 * all_reduce.
 */
#ifndef SOFTIB_COLLECTIVES_H
#define SOFTIB_COLLECTIVES_H

#include <stdint.h>

#define SOFTIB_MPI_BARRIER 1
#define SOFTIB_MPI_BCAST 2
#define SOFTIB_MPI_REDUCE 3
#define SOFTIB_MPI_ALLREDUCE 4
#define SOFTIB_MPI_SCAN 5
#define SOFTIB_MPI_EXSCAN 6
#define SOFTIB_MPI_REDUCE_SCATTER 7
#define SOFTIB_MPI_REDUCE_SCATTER_BLOCK 8
#define SOFTIB_MPI_ALLGATHER 9
#define SOFTIB_MPI_ALLGATHERV 10
#define SOFTIB_MPI_GATHER 11
#define SOFTIB_MPI_GATHERV 12
#define SOFTIB_MPI_SCATTER 13
#define SOFTIB_MPI_SCATTERV 14
#define SOFTIB_MPI_ALLTOALL 15
#define SOFTIB_MPI_ALLTOALLV 16
#define SOFTIB_MPI_ALLTOALLW 17
#define SOFTIB_TORCH_BROADCAST 18
#define SOFTIB_TORCH_ALL_REDUCE 19
#define SOFTIB_TORCH_REDUCE 20
#define SOFTIB_TORCH_ALL_GATHER 21
#define SOFTIB_TORCH_REDUCE_SCATTER 22
#define SOFTIB_TORCH_ALL_TO_ALL 23
#define SOFTIB_TORCH_GATHER 24
#define SOFTIB_TORCH_SCATTER 25
#define SOFTIB_TORCH_BARRIER 26

/* Record that the calling thread begins or ends a collective of `octets` bytes. Does nothing if this process does not
 * record. Exported by libsoftib-verbs.so. */
void softib_record_collective(uint32_t number, uint32_t octets, int begins);

#endif
