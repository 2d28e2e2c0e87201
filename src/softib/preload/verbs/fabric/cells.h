/* Cells of the traffic file, for one process. */
#ifndef SOFTIB_VERBS_CELLS_H
#define SOFTIB_VERBS_CELLS_H

#include <stddef.h>

#include "path.h"
#include "traffic.h"

_Static_assert(sizeof(struct softib_cell) == SOFTIB_CELL_OCTETS, "a cell has its size");
_Static_assert(sizeof(struct softib_link_clock) == 64, "a link clock fills a cache line");
_Static_assert(SOFTIB_CELL_OCTETS * SOFTIB_CHUNK_CELLS == SOFTIB_CHUNK_OCTETS, "a chunk is full of cells");

struct sv_cells; /* the mapping, and which chunks are this process's */

/* Maps the file `fd`, which is theirs from now on, for process number `process`. 0, or -errno with a line in `why`, which calls it `path`. */
int sv_cells_open(struct sv_cells **cells, int fd, const char *path, uint32_t process, char *why, size_t room);
/* After a fork the parent's cells are the parent's: the child claims chunks under its own number. */
void sv_cells_renumber(struct sv_cells *cells, uint32_t process);
void sv_cells_close(struct sv_cells *cells);
/* The link clocks of all ports; from now on the daemon looks at them. */
struct softib_link_clock *sv_cells_link_clocks(struct sv_cells *cells);

/* Content of a cell: the ports of a direction, and the fate of its packets. */
struct sv_direction {
    const uint32_t *egress;
    uint32_t links, drop;
    uint8_t counter;
};

struct sv_label { /* for traps */
    uint32_t key, qp[2];
    uint16_t slid, dlid;
    uint8_t sl;
    bool multicast;
};

/* A LIVE cell with counts of 0. NULL: the file, or its file system, is full (errno ENOSPC). Threads may call it. */
struct softib_cell *sv_cell_new(struct sv_cells *cells, const struct sv_direction directions[2], const struct sv_label *label);
/* Return whether `cell` counts on exactly these paths. */
bool sv_cell_is_on(struct sv_cells *cells, const struct softib_cell *cell, const struct sv_direction directions[2]);
/* The owner counts no more; what it counted stays. */
void sv_cell_retire(struct softib_cell *cell);

static inline void sv_cell_touch(struct softib_cell *cell)
{
    struct softib_chunk *chunk = (void *)((char *)cell - (size_t)cell->index * SOFTIB_CELL_OCTETS);

    if (!__atomic_load_n(&chunk->dirty, __ATOMIC_RELAXED))
        __atomic_store_n(&chunk->dirty, 1, __ATOMIC_RELEASE);
}

/* Counts in direction `direction` (0 forward, 1 back). One thread at a time: the holder of the QP's lock. */
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

/* As sv_cell_count, where several threads share the cell (an address handle used by several QPs). */
static inline void sv_cell_count_shared(struct softib_cell *cell, unsigned direction, uint64_t packets, uint64_t dwords)
{
    __atomic_fetch_add(&cell->dwords[direction], dwords, __ATOMIC_RELAXED);
    __atomic_fetch_add(&cell->packets[direction], packets, __ATOMIC_RELEASE);
    sv_cell_touch(cell);
}

#endif
