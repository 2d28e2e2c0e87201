/*
 * Moves pages of private memory to a memory file, so that other processes can access them without a
 * system call (docs/decisions, "registered private memory").
 */
#ifndef SOFTIB_VERBS_REMAP_H
#define SOFTIB_VERBS_REMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "page_holders.h"

struct vm_moved;

enum vm_moves {
    VM_STAYS,               /* private memory stays private */
    VM_MOVES,               /* private memory moves, unless its pages may be held */
    VM_MOVES_ALWAYS,        /* private memory moves, unless a device may hold its pages: the program never registers
                             * memory with I/O in flight */
};

/* A registered region; it is in a list until it is deregistered. */
struct vm_region {
    uint64_t from, to;              /* registered range */
    uint64_t shared_from, shared_to; /* the part that others can map; empty if both are equal */
    uint64_t file_at;               /* offset of `shared_from` in the file */
    uint64_t device, inode;
    int fd;                         /* descriptor of the file in this process */
    bool writes;                    /* others may write to it */
    enum vm_moves moves;
    enum vm_holder holder;          /* holder that prevented the move */
    struct vm_moved *moved;
    struct vm_region *next, *previous;
    unsigned listed;                /* generation of its list, from 1, incremented in a forked child; 0: none */
};

/*
 * Add a region; its whole pages of private memory become shared according to `moves`. `helpers`: number of library
 * threads that write no memory meanwhile.
 */
void vm_region_add(struct vm_region *r, uint64_t from, uint64_t to, bool writes, enum vm_moves moves, unsigned helpers);
/* Change the access right of a region. */
void vm_region_writes(struct vm_region *r, bool writes);
/* Remove a region, after the last copy. Its pages stay as they are. */
void vm_region_drop(struct vm_region *r);

/* -- between remap.c, page_migration.c, madvise.c and fork_unshare.c -- */

/* Name of this process's files in /proc/self/maps; files of peers, which may be mapped here too,
 * have another name. */
void vm_memory_path(char path[80]);
/*
 * Move [from, to) to offset `at` of file `fd`. `moved_before`: part of it is in unlinked files. `despite_io`: ignore
 * I/O that may be in flight. Return the end of the moved part; if the pages after it may be held, set `*holder`.
 */
uint64_t vm_move(uint64_t from, uint64_t to, int fd, uint64_t at, bool moved_before, unsigned helpers, bool despite_io, enum vm_holder *holder);
/* Return whether the system has swap space: a file's page that is not in memory may then still have
 * data. */
bool vm_may_swap(void);
/* Memory at this address was moved to a file: madvise treats it as private. */
void vm_span_add(uint64_t from, uint64_t to);
/* In a forked child: replace the pages of its parent's files, `path` in the maps, with private
 * copies. */
void vm_make_private(const char *path);

#endif
