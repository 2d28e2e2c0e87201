/*
 * `direct_io KIND MOVES FILE`: registers buffers while the kernel reads FILE into them past the page cache. KIND says by which call:
 * `read` (O_DIRECT, in another thread), `aio`, `uring`, `unmapped` (an io_uring whose rings are not mapped at that moment), `none`
 * (the file is read before), `pipe` (none, and a pipe with O_DIRECT is open). MOVES: `moves`, `always`. Prints how many of the
 * buffers moved, and how many did not have the file's octets in the end.
 */
#include "remap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MUST(what)                                                                                                           \
    do {                                                                                                                     \
        if (!(what)) {                                                                                                       \
            fprintf(stderr, "%s:%d: not true: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);                           \
            _exit(1);                                                                                                        \
        }                                                                                                                    \
    } while (0)

#define LENGTH (16ul << 20)
#define ROUNDS 6
#define MOST_ROUNDS 60 /* of a mode that loses data, until it has */

static uint64_t content(uint64_t i)
{
    return (i + 1) * 0x9E3779B97F4A7C15u;
}

static int fd;
static char *buffer;

static void make_file(const char *path)
{
    uint64_t *octets = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(octets != MAP_FAILED);
    for (uint64_t i = 0; i < LENGTH / 8; i++)
        octets[i] = content(i);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
    if (fd < 0 && errno == EINVAL) {
        puts("skip: the file system has no O_DIRECT");
        exit(0);
    }
    MUST(fd >= 0 && pwrite(fd, octets, LENGTH, 0) == (ssize_t)LENGTH && !fsync(fd));
    munmap(octets, LENGTH);
}

/* -- the kinds of I/O: begin, and wait until it is over -- */

static pthread_t reader;

static void *read_all(void *none)
{
    (void)none;
    MUST(pread(fd, buffer, LENGTH, 0) == (ssize_t)LENGTH);
    return NULL;
}

static void read_begins(void)
{
    MUST(!pthread_create(&reader, NULL, read_all, NULL));
    usleep(1000); /* it is inside */
}

static void read_ends(void)
{
    pthread_join(reader, NULL);
}

static aio_context_t context;

static void aio_begins(void)
{
    struct iocb one = { .aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = (uint32_t)fd, .aio_buf = (uintptr_t)buffer,
                        .aio_nbytes = LENGTH };
    struct iocb *list = &one;

    if (!context)
        MUST(!syscall(SYS_io_setup, 1, &context));
    MUST(syscall(SYS_io_submit, context, 1, &list) == 1);
}

static void aio_ends(void)
{
    struct io_event event;

    MUST(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1 && event.res == (int64_t)LENGTH);
}

static int ring = -1;
static struct io_uring_params params;
static struct io_uring_sqe *entries;
static char *queues;
static size_t queues_n;

static void map_ring(void)
{
    queues_n = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    queues = mmap(NULL, queues_n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    entries = mmap(NULL, params.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
                   IORING_OFF_SQES);
    MUST(queues != MAP_FAILED && entries != MAP_FAILED);
}

static void unmap_ring(void)
{
    munmap(queues, queues_n);
    munmap(entries, params.sq_entries * sizeof *entries);
}

static uint32_t *in_ring(uint32_t offset)
{
    return (uint32_t *)(void *)(queues + offset);
}

static void uring_begins(void)
{
    uint32_t tail, at;

    if (ring < 0) {
        ring = (int)syscall(SYS_io_uring_setup, 4, &params);
        if (ring < 0) {
            puts("skip: no io_uring here");
            exit(0);
        }
        MUST(params.features & IORING_FEAT_SINGLE_MMAP);
        map_ring();
    }
    tail = *in_ring(params.sq_off.tail);
    at = tail & *in_ring(params.sq_off.ring_mask);
    entries[at] = (struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = fd, .addr = (uintptr_t)buffer, .len = LENGTH };
    in_ring(params.sq_off.array)[at] = at;
    __atomic_store_n(in_ring(params.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
    MUST(syscall(SYS_io_uring_enter, ring, 1, 0, 0, NULL, 0) == 1);
}

static void uring_ends(void)
{
    uint32_t *head = in_ring(params.cq_off.head);
    const struct io_uring_cqe *cqes = (const void *)(queues + params.cq_off.cqes);

    while (__atomic_load_n(in_ring(params.cq_off.tail), __ATOMIC_ACQUIRE) == *head)
        MUST(syscall(SYS_io_uring_enter, ring, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0) >= 0 || errno == EINTR);
    MUST(cqes[*head & *in_ring(params.cq_off.ring_mask)].res == (int)LENGTH);
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

static void unmapped_begins(void)
{
    uring_begins();
    unmap_ring();
}

static void unmapped_ends(void)
{
    map_ring();
    uring_ends();
}

static void none_begins(void)
{
    read_all(NULL);
    close(fd);
}

static int ends[2];

static void *wait_for_pipe(void *none)
{
    char octet;

    return read(ends[0], &octet, 1) == 1 ? NULL : none;
}

/* Another thread is inside read(2) of it, so descriptors with O_DIRECT count. */
static void pipe_begins(void)
{
    none_begins();
    MUST(!pipe2(ends, O_DIRECT) && !pthread_create(&reader, NULL, wait_for_pipe, NULL));
}

static void pipe_ends(void)
{
    MUST(write(ends[1], "", 1) == 1);
    pthread_join(reader, NULL);
    close(ends[0]);
    close(ends[1]);
}

static void nothing(void)
{
}

static const struct kind {
    const char *name;
    void (*begins)(void), (*ends)(void);
} kinds[] = {
    { "read", read_begins, read_ends }, { "aio", aio_begins, aio_ends }, { "uring", uring_begins, uring_ends },
    { "unmapped", unmapped_begins, unmapped_ends }, { "none", none_begins, nothing }, { "pipe", pipe_begins, pipe_ends },
};

static const struct kind *kind_named(const char *name)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, name))
            return &kinds[i];
    return NULL;
}

int main(int n, char **arguments)
{
    const struct kind *kind = n == 4 ? kind_named(arguments[1]) : NULL;
    enum vm_moves moves = kind && !strcmp(arguments[2], "always") ? VM_MOVES_ALWAYS : VM_MOVES;
    unsigned moved = 0, lost = 0;

    MUST(kind);
    for (unsigned round = 0; round < (moves == VM_MOVES_ALWAYS && !lost ? MOST_ROUNDS : ROUNDS); round++) {
        struct vm_region r;
        bool right = true;

        if (!round || kind->begins == none_begins || kind->begins == pipe_begins)
            make_file(arguments[3]);
        buffer = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        MUST(buffer != MAP_FAILED);
        kind->begins();
        vm_region_add(&r, (uintptr_t)buffer, (uintptr_t)buffer + LENGTH, true, moves, 0);
        MUST((r.holder == VM_HELD_BY_IO) == (r.shared_to == r.shared_from));
        kind->ends();
        moved += r.shared_to > r.shared_from;
        for (uint64_t i = 0; i < LENGTH / 8 && right; i++)
            right = ((const uint64_t *)(const void *)buffer)[i] == content(i);
        lost += !right;
        vm_region_drop(&r);
        munmap(buffer, LENGTH);
    }
    printf("%u moved, %u lost\n", moved, lost);
    return 0;
}
