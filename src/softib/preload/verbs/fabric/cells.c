/* Claim chunks and take cells, without locks: states and owners change only by compare-and-swap. */
#include "cells.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "SOFTIBt"

struct sv_cells {
    char *base;
    struct softib_traffic *head;
    uint32_t process;
    int fd;
    uint32_t cursor;    /* start of the search for a free cell */
    uint32_t tried;     /* busy cells met since the last chunk was claimed */
    uint32_t mine_n;
    uint32_t *mine;     /* chunks of this process; the array has address space for all chunks, and pages as needed */
};

static struct softib_chunk *chunk_at(const struct sv_cells *c, uint32_t number)
{
    return (void *)(c->base + SOFTIB_CHUNK_OCTETS * ((size_t)number + 1));
}

static struct softib_cell *cell_at(const struct sv_cells *c, uint32_t number)
{
    return (void *)(c->base + SOFTIB_CHUNK_OCTETS + (size_t)number * SOFTIB_CELL_OCTETS);
}

static uint32_t number_of(const struct sv_cells *c, const struct softib_cell *cell)
{
    return (uint32_t)(((const char *)cell - c->base - SOFTIB_CHUNK_OCTETS) / SOFTIB_CELL_OCTETS);
}

int sv_cells_open(struct sv_cells **cells, int fd, const char *path, uint32_t process, char *why, size_t room)
{
    struct sv_cells *c = calloc(1, sizeof *c);
    struct softib_traffic *head = MAP_FAILED;
    struct stat info;
    int error = EPROTO;

    if (!c || fstat(fd, &info)) {
        error = c ? errno : ENOMEM;
        snprintf(why, room, "%s: %s", path, strerror(error));
        goto fail;
    }
    size_t size = (size_t)info.st_size;

    if (size >= SOFTIB_CHUNK_OCTETS)
        head = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (head == MAP_FAILED || memcmp(head->magic, MAGIC, sizeof head->magic) || head->size != size ||
        head->chunks > size / SOFTIB_CHUNK_OCTETS - 1 || head->link_clocks_at > size ||
        head->link_clocks > (size - head->link_clocks_at) / sizeof(struct softib_link_clock)) {
        snprintf(why, room, "%s is not a traffic file", path);
        goto fail;
    }
    if (head->version != SOFTIB_TRAFFIC_VERSION) {
        snprintf(why, room, "%s has version %u, this library reads version %u", path, head->version,
                 SOFTIB_TRAFFIC_VERSION);
        goto fail;
    }
    c->mine = calloc(head->chunks, sizeof *c->mine);
    if (!c->mine) {
        error = ENOMEM;
        goto fail;
    }
    c->base = (char *)head;
    c->head = head;
    c->fd = fd;
    c->process = process;
    *cells = c;
    return 0;
fail:
    if (head != MAP_FAILED)
        munmap(head, size);
    free(c);
    return -error;
}

struct softib_link_clock *sv_cells_link_clocks(struct sv_cells *c)
{
    __atomic_store_n(&c->head->paced, 1, __ATOMIC_RELEASE);
    return (void *)(c->base + c->head->link_clocks_at);
}

void sv_cells_renumber(struct sv_cells *c, uint32_t process)
{
    c->process = process;
    c->mine_n = c->cursor = c->tried = 0;
}

void sv_cells_close(struct sv_cells *c)
{
    munmap(c->base, c->head->size);
    close(c->fd);
    free(c->mine);
    free(c);
}

/* Claim another chunk for this process; false if none is free, or the file system is full. */
static bool claim(struct sv_cells *c)
{
    for (uint32_t i = 0; i < c->head->chunks; i++) {
        struct softib_chunk *chunk = chunk_at(c, i);
        uint32_t unowned = 0, high = __atomic_load_n(&c->head->high, __ATOMIC_RELAXED);
        off_t at = (off_t)SOFTIB_CHUNK_OCTETS * ((off_t)i + 1);

        /* Allocate blocks first: a full file system is then an error here, not a SIGBUS later. */
        if (i >= high && fallocate(c->fd, 0, at, SOFTIB_CHUNK_OCTETS) && errno != EOPNOTSUPP)
            return false;
        if (__atomic_load_n(&chunk->owner, __ATOMIC_RELAXED) ||
            !__atomic_compare_exchange_n(&chunk->owner, &unowned, c->process, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            continue;
        while (high <= i && !__atomic_compare_exchange_n(&c->head->high, &high, i + 1, false, __ATOMIC_ACQ_REL,
                                                         __ATOMIC_RELAXED))
            ;
        uint32_t n = __atomic_load_n(&c->mine_n, __ATOMIC_RELAXED);

        /* Two threads may claim at the same time; each enters a different chunk. */
        while (!__atomic_compare_exchange_n(&c->mine_n, &n, n + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            ;
        __atomic_store_n(&c->mine[n], i + 1, __ATOMIC_RELEASE);
        __atomic_store_n(&c->cursor, n * SOFTIB_CHUNK_CELLS, __ATOMIC_RELAXED);
        __atomic_store_n(&c->tried, 0, __ATOMIC_RELAXED);
        return true;
    }
    return false;
}

static struct softib_cell *take_at(struct sv_cells *c, uint32_t at)
{
    uint32_t chunk = __atomic_load_n(&c->mine[at / SOFTIB_CHUNK_CELLS], __ATOMIC_ACQUIRE);
    uint32_t index = at % SOFTIB_CHUNK_CELLS, is_free = SOFTIB_CELL_FREE;

    if (!index || !chunk) /* cell 0 is the chunk's head; if the chunk is 0, another thread is just entering it */
        return NULL;
    struct softib_cell *cell = cell_at(c, (chunk - 1) * SOFTIB_CHUNK_CELLS + index);

    if (__atomic_load_n(&cell->state, __ATOMIC_RELAXED) != SOFTIB_CELL_FREE ||
        !__atomic_compare_exchange_n(&cell->state, &is_free, SOFTIB_CELL_TAKEN, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return NULL;
    cell->index = index;
    cell->more = 0;
    return cell;
}

static struct softib_cell *take(struct sv_cells *c)
{
    for (;;) {
        uint32_t all = __atomic_load_n(&c->mine_n, __ATOMIC_ACQUIRE) * SOFTIB_CHUNK_CELLS;

        /* Scan all chunks once for each claimed chunk: this finds cells that the daemon has freed, and bounds the cost
         * per new cell. */
        while (all && __atomic_load_n(&c->tried, __ATOMIC_RELAXED) < all) {
            uint32_t at = __atomic_fetch_add(&c->cursor, 1, __ATOMIC_RELAXED) % all;
            struct softib_cell *cell = take_at(c, at);

            if (cell)
                return cell;
            __atomic_fetch_add(&c->tried, 1, __ATOMIC_RELAXED);
        }
        if (!claim(c)) {
            /* The file is full: scan all chunks again. */
            for (uint32_t at = 0; at < all; at++) {
                struct softib_cell *cell = take_at(c, at);

                if (cell)
                    return cell;
            }
            errno = ENOSPC;
            return NULL;
        }
    }
}

static void give_back(struct sv_cells *c, struct softib_cell *cell)
{
    while (cell) {
        uint32_t more = cell->more;

        __atomic_store_n(&cell->state, SOFTIB_CELL_FREE, __ATOMIC_RELEASE);
        cell = more ? cell_at(c, more) : NULL;
    }
}

static uint32_t egress_of(const struct sv_direction directions[2], uint32_t i)
{
    return i < directions[0].links ? directions[0].egress[i] : directions[1].egress[i - directions[0].links];
}

struct softib_cell *sv_cell_new(struct sv_cells *c, const struct sv_direction directions[2], const struct sv_label *label)
{
    uint32_t n = directions[0].links + directions[1].links;
    struct softib_cell *first = take(c), *cell = first;

    if (!first)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (i && i % SOFTIB_CELL_LINKS == 0) {
            struct softib_cell *next = take(c);

            if (!next) {
                give_back(c, first);
                return NULL;
            }
            cell->more = number_of(c, next);
            cell = next;
            __atomic_store_n(&cell->state, SOFTIB_CELL_MORE, __ATOMIC_RELEASE);
        }
        cell->egress[i % SOFTIB_CELL_LINKS] = egress_of(directions, i);
    }
    for (int direction = 0; direction < 2; direction++) {
        first->links[direction] = directions[direction].links;
        first->drop[direction] = directions[direction].drop;
        first->counter[direction] = directions[direction].counter;
        first->qp[direction] = label->qp[direction];
        first->packets[direction] = first->dwords[direction] = 0;
        first->corrupted[direction] = 0;
    }
    first->key = label->key;
    first->slid = label->slid;
    first->dlid = label->dlid;
    first->sl = label->sl;
    first->multicast = label->multicast;
    __atomic_store_n(&first->state, SOFTIB_CELL_LIVE, __ATOMIC_RELEASE);
    return first;
}

bool sv_cell_is_on(struct sv_cells *c, const struct softib_cell *cell, const struct sv_direction directions[2])
{
    for (int direction = 0; direction < 2; direction++)
        if (cell->links[direction] != directions[direction].links || cell->drop[direction] != directions[direction].drop ||
            cell->counter[direction] != directions[direction].counter)
            return false;
    for (uint32_t i = 0, n = directions[0].links + directions[1].links; i < n; i++) {
        if (i && i % SOFTIB_CELL_LINKS == 0)
            cell = cell_at(c, cell->more);
        if (cell->egress[i % SOFTIB_CELL_LINKS] != egress_of(directions, i))
            return false;
    }
    return true;
}

void sv_cell_retire(struct softib_cell *cell)
{
    __atomic_store_n(&cell->state, SOFTIB_CELL_RETIRED, __ATOMIC_RELEASE);
    sv_cell_touch(cell);
}
