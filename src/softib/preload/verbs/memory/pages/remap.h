/*
 * Private memory of this process that others shall reach without a system call: its pages are moved to a memory file
 * (docs/decisions, "registered private memory").
 */
#ifndef SOFTIB_VERBS_REMAP_H
#define SOFTIB_VERBS_REMAP_H

#include <stdbool.h>
#include <stdint.h>

#include "page_holders.h"

struct vm_moved;

enum vm_moves {
    VM_STAYS,               /* private memory stays private */
    VM_MOVES,               /* … unless it may be held */
    VM_MOVES_ALWAYS,        /* … unless a device may hold it: the program registers nothing that I/O is in flight to */
};

/* A registered region, kept in a list while it is one. */
struct vm_region {
    uint64_t from, to;              /* what was registered */
    uint64_t shared_from, shared_to; /* the part of it that others can map; none where both are equal */
    uint64_t file_at;               /* where `shared_from` is in the file */
    uint64_t device, inode;
    int fd;                         /* the file's, in this process */
    bool writes;                    /* others may write to it */
    enum vm_moves moves;
    enum vm_holder holder;          /* for whose sake it did not move */
    struct vm_moved *moved;
    struct vm_region *next, *previous;
    unsigned listed;                /* which list it is in, counted from 1: a forked child begins another; 0: none */
};

/*
 * Lists a region; the whole pages of private memory in it become shared as `moves` says. `helpers` threads of this process
 * write to no memory meanwhile.
 */
void vm_region_add(struct vm_region *r, uint64_t from, uint64_t to, bool writes, enum vm_moves moves, unsigned helpers);
/* Its right changes. */
void vm_region_writes(struct vm_region *r, bool writes);
/* It is no region any more: no one copies there. Its pages stay what they are. */
void vm_region_drop(struct vm_region *r);

/* -- between remap.c, page_migration.c, madvise.c and fork_unshare.c -- */

/* What this process's files are called in /proc/self/maps; a peer's, which may be mapped here too, have another name. */
void vm_memory_path(char path[80]);
/*
 * Moves [from, to) to `at` of file `fd`; `moved_before`: part of it is in files that have no name any more. Returns the end of what was moved: all, or less, `*holder` where somebody may hold the rest; `despite_io`: I/O does not count.
 */
uint64_t vm_move(uint64_t from, uint64_t to, int fd, uint64_t at, bool moved_before, unsigned helpers, bool despite_io, enum vm_holder *holder);
/* The system has swap space: a file's page that is not in memory may have bytes all the same. */
bool vm_may_swap(void);
/* Memory was moved there: madvise treats it as private. */
void vm_span_add(uint64_t from, uint64_t to);
/* In a forked child: the pages of its parent's files, `path` in the maps, are replaced by private ones with the same bytes. */
void vm_make_private(const char *path);

#endif
