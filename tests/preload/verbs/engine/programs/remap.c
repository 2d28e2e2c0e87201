/*
 * Registered private memory that becomes shared: `remap SCENE`. No fabric; the other side of a region is its file, opened as
 * a peer opens it.
 */
#include "hazards.h"
#include "key_table.h"
#include "peer_mappings.h"
#include "remap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(what)                                                                                                           \
    do {                                                                                                                     \
        if (!(what)) {                                                                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #what);                                             \
            _exit(1);                                                                                                        \
        }                                                                                                                    \
    } while (0)

#define PAGE 4096ul

static char *fresh(size_t length)
{
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(at != MAP_FAILED);
    return at;
}

static void add(struct vm_region *r, void *at, size_t length)
{
    vm_region_add(r, (uintptr_t)at, (uintptr_t)at + length, true, VM_MOVES, 0);
}

static size_t shared(const struct vm_region *r)
{
    return r->shared_to - r->shared_from;
}

/* What a peer maps. */
static char *seen_by_peer(const struct vm_region *r)
{
    char path[64], *at;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), r->fd);
    fd = open(path, O_RDWR);
    MUST(fd >= 0);
    at = mmap(NULL, shared(r), PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)r->file_at);
    MUST(at != MAP_FAILED);
    close(fd);
    return at;
}

static uint64_t octets_in(const struct vm_region *r)
{
    struct stat info;

    MUST(!fstat(r->fd, &info));
    return (uint64_t)info.st_blocks * 512;
}

static void fill(char *at, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        at[i] = (char)((i * 2654435761u + seed) >> 7);
}

static bool filled(const char *at, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        if (at[i] != (char)((i * 2654435761u + seed) >> 7))
            return false;
    return true;
}

/* Octets stay, whole pages are shared, neighbours on the edges' pages are not. */
static void whole_pages(void)
{
    char *at = fresh(64 * PAGE), *peer;
    struct vm_region r, all, second;

    fill(at, 64 * PAGE, 1);
    add(&r, at + 100, 20 * PAGE);
    MUST(r.shared_from == (uintptr_t)at + PAGE && r.shared_to == (uintptr_t)at + 20 * PAGE);
    MUST(filled(at, 64 * PAGE, 1));
    peer = seen_by_peer(&r);
    memcpy(peer + 5, "peer", 4);
    MUST(!memcmp(at + PAGE + 5, "peer", 4));
    memcpy(at + 2 * PAGE, "mine", 4);
    MUST(!memcmp(peer + PAGE, "mine", 4));
    add(&second, at + 3 * PAGE, 2 * PAGE); /* one file for both */
    MUST(second.inode == r.inode && second.file_at == 2 * PAGE && shared(&second) == 2 * PAGE);
    add(&all, at, 64 * PAGE); /* the pages at the edges are another region's: peers may be writing there */
    MUST(all.shared_from == (uintptr_t)at + 21 * PAGE && all.shared_to == (uintptr_t)at + 64 * PAGE);
    vm_region_drop(&r);
    vm_region_drop(&all);
    memcpy(peer + 2 * PAGE, "left", 4); /* `second` holds it */
    MUST(!memcmp(at + 3 * PAGE, "left", 4));
    vm_region_drop(&second);
    fill(at, 64 * PAGE, 2);
    add(&all, at, 64 * PAGE); /* files without a name: moved once more */
    MUST(shared(&all) == 64 * PAGE && all.inode != r.inode && filled(at, 64 * PAGE, 2));
    memcpy(peer, "nobody", 6);
    MUST(filled(at, 64 * PAGE, 2));
    vm_region_drop(&all);
    add(&all, at, 64 * PAGE); /* no page was touched in between */
    MUST(shared(&all) == 64 * PAGE && filled(at, 64 * PAGE, 2) && filled(seen_by_peer(&all), 64 * PAGE, 2));
}

/* What cannot be moved stays: read-only, files, shared, stacks, parts of a page. */
static void not_moved(void)
{
    char *at = fresh(8 * PAGE), on_stack[8 * PAGE];
    int fd = memfd_create("x", 0);
    struct vm_region r;

    MUST(!ftruncate(fd, 8 * PAGE));
    add(&r, at + 1, PAGE);
    MUST(!shared(&r));
    vm_region_drop(&r);
    mprotect(at, 8 * PAGE, PROT_READ);
    add(&r, at, 8 * PAGE);
    MUST(!shared(&r));
    MUST(mmap(at, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fd, 0) == at);
    vm_region_drop(&r);
    add(&r, at, 8 * PAGE);
    MUST(!shared(&r));
    MUST(mmap(at, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == at);
    vm_region_drop(&r);
    add(&r, at, 8 * PAGE);
    MUST(!shared(&r));
    vm_region_drop(&r);
    add(&r, on_stack, sizeof on_stack);
    MUST(!shared(&r));
}

/* Pages that were never touched take no memory, neither here nor in a child. */
static void sparse(void)
{
    size_t length = 8ul << 30;
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct vm_region r;
    int status;

    MUST(at != MAP_FAILED);
    memcpy(at + length / 2, "middle", 6);
    add(&r, at, length);
    MUST(shared(&r) == length && octets_in(&r) == PAGE && !memcmp(at + length / 2, "middle", 6) && !at[PAGE]);
    if (!fork()) {
        MUST(!memcmp(at + length / 2, "middle", 6) && !at[2 * PAGE]);
        _exit(0);
    }
    MUST(wait(&status) > 0 && !status);
    MUST(octets_in(&r) <= 3 * PAGE);
    vm_region_drop(&r);
}

static void *idle(void *end)
{
    char octet;

    MUST(!read(*(int *)end, &octet, 1));
    return NULL;
}

/* The same while another thread is there, whose writes a guard stops. */
static void sparse_with_threads(void)
{
    size_t length = 1ul << 30;
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct vm_region r;
    pthread_t other;
    int ends[2];

    MUST(at != MAP_FAILED && !pipe(ends) && !pthread_create(&other, NULL, idle, &ends[0]));
    memcpy(at + length / 2, "middle", 6);
    add(&r, at, length);
    MUST(!shared(&r) || (shared(&r) == length && octets_in(&r) == PAGE)); /* none moves where the user may have no guard */
    MUST(!memcmp(at + length / 2, "middle", 6) && !at[PAGE]);
    vm_region_drop(&r);
    close(ends[1]);
    pthread_join(other, NULL);
}

static void fork_depth(char *at, size_t length, unsigned depth)
{
    int ready[2], status;
    char octet;

    MUST(!pipe(ready));
    if (!fork()) {
        MUST(read(ready[0], &octet, 1) == 1); /* until the parent has changed its own */
        MUST(filled(at, length, depth));
        fill(at, length, depth + 1);
        if (depth < 3) {
            struct vm_region r;

            add(&r, at, length);
            MUST(shared(&r) == length);
            fork_depth(at, length, depth + 1);
        }
        _exit(0);
    }
    fill(at, length, 1000);
    MUST(write(ready[1], "", 1) == 1);
    MUST(wait(&status) > 0 && !status);
    MUST(filled(at, length, 1000)); /* the child wrote to its own */
    fill(at, length, depth);
}

/* A child has what was there when it was made, and each writes to its own; also what is no region any more. */
static void forks(void)
{
    size_t length = 300 * PAGE;
    char *at = fresh(length), *dropped = fresh(length);
    struct vm_region r, dropped_region;
    int status;

    fill(at, length, 0);
    fill(dropped, length, 7);
    add(&r, at, length);
    add(&dropped_region, dropped, length);
    vm_region_drop(&dropped_region);
    mprotect(dropped, PAGE, PROT_NONE);
    mprotect(dropped + PAGE, PAGE, PROT_READ);
    if (!fork()) {
        MUST(filled(dropped + PAGE, PAGE, 7 + (unsigned)PAGE * 2654435761u));
        memset(dropped + 2 * PAGE, 1, PAGE);
        MUST(!mprotect(dropped, 2 * PAGE, PROT_READ | PROT_WRITE));
        MUST(filled(dropped, 2 * PAGE, 7));
        _exit(0);
    }
    MUST(wait(&status) > 0 && !status);
    MUST(!mprotect(dropped, 2 * PAGE, PROT_READ | PROT_WRITE) && filled(dropped, length, 7));
    fork_depth(at, length, 0);
    MUST(!system("true"));
    vm_region_drop(&r);
}

/* Kills every child as soon as it is there. */
static void *hunt(void *stop)
{
    char path[80], text[64];

    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    while (!*(volatile bool *)stop) {
        int fd = open(path, O_RDONLY);
        ssize_t n = read(fd, text, sizeof text - 1);

        close(fd);
        text[n > 0 ? n : 0] = 0;
        if (atoi(text))
            kill(atoi(text), 9);
    }
    return NULL;
}

/* A child that is killed before it has its copy does not keep the parent waiting. */
static void killed_child(void)
{
    size_t length = 64ul << 20;
    char *at = fresh(length);
    volatile bool stop = false;
    pthread_t hunter;
    struct vm_region r;
    int status;

    memset(at, 1, length);
    add(&r, at, length);
    MUST(shared(&r) == length && !pthread_create(&hunter, NULL, hunt, (void *)&stop));
    for (int i = 0; i < 20; i++) {
        if (!fork())
            pause();
        MUST(wait(&status) > 0 && WIFSIGNALED(status));
    }
    stop = true;
    pthread_join(hunter, NULL);
}

/* -- other threads -- */

struct writer {
    pthread_t thread;
    uint64_t *at;
    size_t n, step, first;
    uint64_t rounds;
    bool by_system;
    volatile bool *stop;
};

static void *write_on(void *of)
{
    struct writer *w = of;
    int zero = w->by_system ? memfd_create("counts", 0) : -1;

    while (!*w->stop) {
        w->rounds++;
        if (w->by_system)
            MUST(pwrite(zero, &w->rounds, 8, 0) == 8);
        for (size_t i = w->first; i < w->n; i += w->step) {
            if (w->by_system)
                MUST(pread(zero, &w->at[i], 8, 0) == 8);
            else
                w->at[i] = w->rounds;
        }
    }
    return NULL;
}

/* They write all the time, also by system calls: no write is lost, whether the pages move or not. */
static void threads(void)
{
    size_t length = 16 * PAGE;
    unsigned moved = 0;

    for (unsigned round = 0; round < 60; round++) {
        uint64_t *at = (uint64_t *)(void *)fresh(length);
        volatile bool stop = false;
        struct writer w[4];
        struct vm_region r;

        for (unsigned i = 0; i < 4; i++) {
            w[i] = (struct writer){ .at = at, .n = length / 8, .step = 4 * 61, .first = i * 61, .by_system = i == 3,
                                    .stop = &stop };
            MUST(!pthread_create(&w[i].thread, NULL, write_on, &w[i]));
        }
        usleep(300);
        add(&r, at, length);
        moved += shared(&r) != 0;
        usleep(300);
        stop = true;
        for (unsigned i = 0; i < 4; i++) {
            pthread_join(w[i].thread, NULL);
            for (size_t k = w[i].first; k < w[i].n; k += w[i].step)
                MUST(at[k] == w[i].rounds);
        }
        vm_region_drop(&r);
        munmap(at, length);
    }
    printf("%u of 60 moved\n", moved);
}

/* -- what a program does with its memory later -- */

static void later(void)
{
    char *at = fresh(64 * PAGE), *grown;
    struct vm_region r;

    fill(at, 64 * PAGE, 3);
    add(&r, at, 32 * PAGE);
    MUST(!madvise(at + 8 * PAGE, 32 * PAGE, MADV_DONTNEED)); /* over its end */
    for (size_t i = 8 * PAGE; i < 40 * PAGE; i++)
        MUST(!at[i]);
    MUST(filled(at, 8 * PAGE, 3));
    MUST(!madvise(at, PAGE, MADV_FREE));
    vm_region_drop(&r);
    MUST(!madvise(at, 4 * PAGE, MADV_DONTNEED) && !at[0] && !at[4 * PAGE - 1] && at[5 * PAGE + 3] != 0);
    grown = mremap(at, 32 * PAGE, 128 * PAGE, MREMAP_MAYMOVE);
    MUST(grown != MAP_FAILED);
    for (size_t i = 32 * PAGE; i < 128 * PAGE; i++)
        MUST(!grown[i]);
    memset(grown, 1, 128 * PAGE);
}

/* The allocator's memory: what calloc gives is zero, whatever was registered before. */
static void *allocate(void *rounds)
{
    for (unsigned i = 0; i < *(unsigned *)rounds; i++) {
        size_t n = (1 + i % 7) * 3 * PAGE;
        char *some = malloc(n), *more = malloc(90 * PAGE), *zero;
        struct vm_region r;

        add(&r, some, n);
        memset(some, 0xAA, n);
        memset(more, 0xBB, 90 * PAGE);
        vm_region_drop(&r);
        if (i % 2)
            add(&r, more, 90 * PAGE);
        else
            free(some);
        if (i % 2)
            vm_region_drop(&r);
        free(more);
        zero = calloc(1, 60 * PAGE + n);
        for (size_t k = 0; k < 60 * PAGE + n; k++)
            MUST(!zero[k]);
        memset(zero, 0xCC, 60 * PAGE + n);
        free(zero);
        if (i % 2)
            free(some);
    }
    return NULL;
}

static void allocator(void)
{
    unsigned rounds = 300;
    pthread_t one;

    allocate(&rounds); /* the heap */
    MUST(!pthread_create(&one, NULL, allocate, &rounds)); /* another arena */
    pthread_join(one, NULL);
    allocate(&rounds);
}

/* No descriptors left for files: memory stays private, and nothing fails. */
static void descriptors(void)
{
    struct rlimit few = { 64, 64 };
    struct vm_region r[40];
    unsigned n = 0;

    MUST(!setrlimit(RLIMIT_NOFILE, &few));
    for (unsigned i = 0; i < 40; i++) {
        add(&r[i], fresh(PAGE), PAGE);
        n += shared(&r[i]) != 0;
    }
    MUST(n == 16);
    vm_region_drop(&r[0]);
    add(&r[0], fresh(PAGE), PAGE);
    MUST(shared(&r[0]));
}

/* -- the peer's side -- */

static void mappings(void)
{
    char folder[] = "/dev/shm/svr-XXXXXX", name[80], *at = fresh(16 * PAGE), *mapped;
    struct vm_heap owner, peer;
    struct softib_file file = { 0 };
    struct softib_key *k;
    struct vm_region r;
    uint64_t *hazard;
    uint32_t key;

    MUST(mkdtemp(folder) && !vm_open(&owner, folder, -1, 1) && !vm_open(&peer, folder, -1, 2));
    for (int round = 0; round < 3 * VM_MAPS; round++) { /* more keys than places */
        add(&r, at, 16 * PAGE);
        file = (struct softib_file){ .from = r.shared_from, .to = r.shared_to, .at = r.file_at, .device = r.device, .inode = r.inode,
                                      .fd = r.fd };
        k = vm_key_take(&owner, &key);
        MUST(k);
        vm_key_publish(k, key);
        hazard = vm_hazard(&peer, 1, false);
        mapped = vp_map_of(&peer, &file, key);
        MUST(mapped && vp_map_of(&peer, &file, key) == mapped);
        *at = (char)round;
        MUST(*mapped == (char)round);
        vm_key_give(k);
        __atomic_fetch_add(&vm_head(&owner)->drops, 1, __ATOMIC_RELEASE);
        if (round % 3 == 0) { /* in use: it stays */
            vp_maps_tidy(&peer);
            *at = (char)(round + 1);
            MUST(*(volatile char *)mapped == (char)(round + 1));
            vm_hazard_end(hazard);
            vp_maps_tidy(&peer);
            MUST(msync(mapped, PAGE, MS_ASYNC)); /* nothing is there */
        } else {
            vm_hazard_end(hazard);
        }
        k->process = 0;
        vm_region_drop(&r);
    }
    file.fd = 0;
    MUST(!vp_map_of(&peer, &file, key + 256)); /* another file */
    snprintf(name, sizeof name, "%s/verbs", folder);
    unlink(name);
    rmdir(folder);
}

/* Octets of the mapping at `at` that huge pages map (proc_pid_smaps(5)). */
static uint64_t huge_at(const char *at)
{
    FILE *file = fopen("/proc/self/smaps", "r");
    unsigned long start, end, kb = 0;
    bool inside = false;
    char line[600];

    MUST(file);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            inside = start <= (uintptr_t)at && (uintptr_t)at < end;
        if (inside && sscanf(line, "ShmemPmdMapped: %lu kB", &kb) == 1)
            break;
    }
    fclose(file);
    return kb * 1024;
}

/* A program can have them again: file and memory have the same places in them. The system is the oracle (madvise(2), MADV_COLLAPSE). */
static void huge_pages(void)
{
    enum { HUGE = 2 << 20, COLLAPSE = 25 };
    char *at = fresh(8 * HUGE) + 5 * PAGE, *first = at + HUGE - ((uintptr_t)at & (HUGE - 1));
    struct vm_region r;

    fill(at, 6 * HUGE, 3);
    add(&r, at, 6 * HUGE);
    MUST(shared(&r) == 6 * HUGE && seen_by_peer(&r)[HUGE] == at[HUGE]);
    if (madvise(first, 4 * HUGE, COLLAPSE)) {
        puts("skip");
        return;
    }
    MUST(huge_at(first) == 4 * HUGE);
    MUST(filled(at, 6 * HUGE, 3));
}

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = {
    { "whole_pages", whole_pages }, { "not_moved", not_moved }, { "sparse", sparse }, { "sparse_with_threads", sparse_with_threads },
    { "forks", forks },
    { "killed_child", killed_child }, { "threads", threads }, { "later", later }, { "allocator", allocator },
    { "descriptors", descriptors }, { "mappings", mappings }, { "huge_pages", huge_pages },
};

int main(int n, char **arguments)
{
    for (unsigned i = 0; n == 2 && i < sizeof scenes / sizeof *scenes; i++) {
        if (strcmp(arguments[1], scenes[i].name))
            continue;
        scenes[i].run();
        puts("ok");
        return 0;
    }
    return 2;
}
