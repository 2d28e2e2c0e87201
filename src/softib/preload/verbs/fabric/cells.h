/* Cells of the traffic file, for one process. */
#ifndef SOFTIB_VERBS_CELLS_H
#define SOFTIB_VERBS_CELLS_H

#include <stddef.h>

#include "path.h"
#include "traffic.h"

_Static_assert(sizeof(struct softib_cell) == SOFTIB_CELL_OCTETS, "a cell has its size");
_Static_assert(sizeof(struct softib_link_clock) == 128, "a link clock fills two cache lines");
_Static_assert(SOFTIB_CELL_OCTETS * SOFTIB_CHUNK_CELLS == SOFTIB_CHUNK_OCTETS, "a chunk is full of cells");

struct sv_cells; /* the mapping, and the chunks of this process */

/* Map the file `fd`, and take ownership of `fd`, for process number `process`. 0, or -errno and one
 * line in `why`, which names it `path`. */
int sv_cells_open(struct sv_cells **cells, int fd, const char *path, uint32_t process, char *why, size_t room);
/* Called after a fork: the parent keeps its cells, and the child claims chunks with its own number. */
void sv_cells_renumber(struct sv_cells *cells, uint32_t process);
void sv_cells_close(struct sv_cells *cells);
/* Return the link clocks of all ports, and make the daemon read them. */
struct softib_link_clock *sv_cells_link_clocks(struct sv_cells *cells);

/* One direction of a cell: the ports that packets leave, and the port at which they are lost. */
struct sv_direction {
    const uint32_t *egress;
    uint32_t links, drop;
    uint8_t counter;
};

struct sv_label { /* fields that appear only in traps */
    uint32_t key, qp[2];
    uint16_t slid, dlid;
    uint8_t sl;
    bool multicast;
};

/* Return a LIVE cell with counts of 0. NULL: the file, or its file system, is full (errno ENOSPC). Threads may call
 * it. */
struct softib_cell *sv_cell_new(struct sv_cells *cells, const struct sv_direction directions[2], const struct sv_label *label);
/* Return whether `cell` counts exactly these paths. */
bool sv_cell_is_on(struct sv_cells *cells, const struct softib_cell *cell, const struct sv_direction directions[2]);
/* End counting in a cell of this process; the counts stay. */
void sv_cell_retire(struct softib_cell *cell);

static inline void sv_cell_touch(struct softib_cell *cell)
{
    struct softib_chunk *chunk = (void *)((char *)cell - (size_t)cell->index * SOFTIB_CELL_OCTETS);

    if (!__atomic_load_n(&chunk->dirty, __ATOMIC_RELAXED))
        __atomic_store_n(&chunk->dirty, 1, __ATOMIC_RELEASE);
}

/* Count in `direction` (0 forward, 1 back). One thread at a time: the holder of the QP's lock. */
static inline void sv_cell_count(struct softib_cell *cell, unsigned direction, uint64_t packets, uint64_t dwords)
{
    __atomic_store_n(&cell->dwords[direction], cell->dwords[direction] + dwords, __ATOMIC_RELAXED);
    __atomic_store_n(&cell->packets[direction], cell->packets[direction] + packets, __ATOMIC_RELEASE);
    sv_cell_touch(cell);
}

/* `packets` in direction `direction` arrived with bit errors. One thread at a time. */
static inline void sv_cell_corrupt(struct softib_cell *cell, unsigned direction, uint32_t packets)
{
    __atomic_store_n(&cell->corrupted[direction], cell->corrupted[direction] + packets, __ATOMIC_RELEASE);
    sv_cell_touch(cell);
}

/* Like sv_cell_count, for a cell that several threads share (an address handle used by several QPs). */
static inline void sv_cell_count_shared(struct softib_cell *cell, unsigned direction, uint64_t packets, uint64_t dwords)
{
    __atomic_fetch_add(&cell->dwords[direction], dwords, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cell->packets[direction], packets, __ATOMIC_RELEASE);
    sv_cell_touch(cell);
}

#endif
