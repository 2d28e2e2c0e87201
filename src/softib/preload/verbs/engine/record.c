/*
 * Recording (record.h). If a call, or a gap between calls, is shorter than LONG_NS, the scheduler did not interrupt it,
 * so all of its time is CPU time. After a longer call or gap, the thread's CPU clock is read (a system call). Thus each
 * poll of a spinning thread costs only two reads of the processor's counter.
 */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../memory/libc_calls.h"

#define LONG_NS 10000
#define GOOD_NS 200             /* two counter reads around a clock read within this time count as one moment */
#define CLOCK_TRIES 20
#define SPIN_NS 1000000         /* duration for which counter and clock are compared when recording begins */
#define HEAD_OCTETS 65536       /* header of a file: a multiple of any page size */
#define CHUNK_OCTETS (1u << 20)

struct recorder {
    struct softib_record_head *head;
    struct softib_record_event *next, *end, *chunk;
    uint64_t size;              /* of the file */
    int fd;
    bool idle, posted;
    uint64_t now, last, compute;
    uint64_t cpu_ns, cpu_ticks; /* the thread's CPU clock, and the time of its read */
    struct recorder *more;      /* next recorder of this process */
};

struct moment {
    uint64_t ticks, ns;         /* the same moment by the counter and by CLOCK_MONOTONIC */
};

bool ve_recording;
static uint64_t long_ticks, good_ticks, per_us; /* ticks of LONG_NS, of GOOD_NS, of 2^20 ns */
static struct moment began;
static const char *folder;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct recorder *all;
static __thread struct recorder *mine;
static __thread bool refused;

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline uint64_t ticks(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t t;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
    return t;
#else
    return clock_ns(CLOCK_MONOTONIC);
#endif
}

/* Read both clocks at one moment. A thread that is descheduled between the two reads gets different moments, so the
 * best of several tries is used. */
static struct moment both_clocks(void)
{
    struct moment found = { 0 };
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < CLOCK_TRIES && best > good_ticks; i++) {
        uint64_t before = ticks(), clock = clock_ns(CLOCK_MONOTONIC), took = ticks() - before;

        if (took >= best)
            continue;
        best = took;
        found = (struct moment){ .ticks = before + took / 2, .ns = clock };
    }
    return found;
}

void ve_record_begin(void)
{
    struct moment to;

    folder = getenv("SOFTIB_RECORD");
    if (!folder || !*folder)
        return;
    began = both_clocks();
    while (clock_ns(CLOCK_MONOTONIC) - began.ns < SPIN_NS)
        ;
    to = both_clocks();
    per_us = (uint64_t)(((unsigned __int128)(to.ticks - began.ticks) << 20) / (to.ns - began.ns));
    long_ticks = (LONG_NS * per_us) >> 20;
    good_ticks = (GOOD_NS * per_us) >> 20;
    ve_recording = true;
}

/* Store the present moment by both clocks, at exit and when a file grows: the longer the interval, the better their
 * comparison. */
static void note_time(struct recorder *r)
{
    struct moment now = both_clocks();

    r->head->ticks[1] = now.ticks;
    r->head->ns[1] = now.ns;
}

__attribute__((destructor)) static void at_exit(void)
{
    for (struct recorder *r = __atomic_load_n(&all, __ATOMIC_ACQUIRE); r; r = r->more)
        note_time(r);
}

void ve_record_forget(void)
{
    mine = NULL;
    refused = false;
    all = NULL;
    pthread_mutex_init(&lock, NULL);
}

/* Make room for CHUNK_OCTETS more. */
static bool grow(struct recorder *r)
{
    VM_KEEP_ERRNO;
    void *at;

    if (r->chunk)
        munmap(r->chunk, CHUNK_OCTETS);
    r->chunk = r->next = r->end = NULL;
    if (posix_fallocate(r->fd, (off_t)r->size, CHUNK_OCTETS))
        return false;
    at = mmap(NULL, CHUNK_OCTETS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, (off_t)r->size);
    if (at == MAP_FAILED)
        return false;
    r->size += CHUNK_OCTETS;
    r->chunk = r->next = at;
    r->end = r->chunk + CHUNK_OCTETS / sizeof *r->chunk;
    note_time(r);
    return true;
}

/* Return the rank of this process: the first launcher's variable that is set, in the order of softib run's list. */
static uint32_t rank_of_process(void)
{
    const char *names = getenv("SOFTIB_RECORD_RANK_FROM");
    char name[64], *end;

    while (names && *names) {
        size_t n = strcspn(names, ",");

        if (n < sizeof name) {
            const char *value;

            memcpy(name, names, n);
            name[n] = 0;
            value = getenv(name);
            if (value && *value) {
                unsigned long rank = strtoul(value, &end, 10);

                if (!*end && rank < 0xFFFFFFFFul)
                    return (uint32_t)rank;
            }
        }
        names += n + (names[n] == ',');
    }
    return 0xFFFFFFFFu;
}

static struct recorder *recorder(void)
{
    VM_KEEP_ERRNO;
    static const char magic[8] = "SOFTIBr";
    char path[4096];
    struct recorder *r;
    uint32_t tid;

    if (mine || refused)
        return mine;
    refused = true;
    tid = (uint32_t)syscall(SYS_gettid);
    r = calloc(1, sizeof *r);
    if (!r || (size_t)snprintf(path, sizeof path, "%s/%u-%u.events", folder, (unsigned)getpid(), tid) >= sizeof path) {
        free(r);
        return NULL;
    }
    r->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    r->size = HEAD_OCTETS;
    r->head = r->fd < 0 || posix_fallocate(r->fd, 0, HEAD_OCTETS) ? MAP_FAILED
                                                                  : mmap(NULL, HEAD_OCTETS, PROT_READ | PROT_WRITE, MAP_SHARED,
                                                                         r->fd, 0);
    if (r->head == MAP_FAILED) {
        if (r->fd >= 0)
            close(r->fd);
        free(r);
        return NULL;
    }
    *r->head = (struct softib_record_head){ .version = SOFTIB_RECORD_VERSION, .pid = (uint32_t)getpid(), .tid = tid,
                                            .rank = rank_of_process() };
    r->head->ticks[0] = began.ticks;
    r->head->ns[0] = began.ns;
    r->last = r->now = r->cpu_ticks = ticks();
    r->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    memcpy(r->head->magic, magic, sizeof magic);
    note_time(r);
    pthread_mutex_lock(&lock);
    r->more = all;
    __atomic_store_n(&all, r, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    refused = false;
    return mine = r;
}

/* Return the CPU time of the thread in the gap before `now`. */
static uint64_t cpu_ticks_of(struct recorder *r, uint64_t now)
{
    uint64_t gap = now - r->last, known = r->last - r->cpu_ticks, cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), used;

    used = (uint64_t)(((unsigned __int128)(cpu - r->cpu_ns) * per_us) >> 20);
    r->cpu_ns = cpu;
    r->cpu_ticks = now;
    used = used > known ? used - known : 0;
    return used < gap ? used : gap;
}

void ve_record_enter(bool acts)
{
    struct recorder *r = recorder();
    uint64_t gap, had;

    if (!r)
        return;
    r->now = ticks();
    gap = r->now - r->last;
    if (gap >= long_ticks) {
        had = cpu_ticks_of(r, r->now);
        if (acts && r->posted)
            r->head->away += gap - had;
        gap = had;
    }
    if (!r->idle || gap >= long_ticks)
        r->compute += gap;
    r->last = r->now;
}

void ve_record_taken(void)
{
    if (mine)
        mine->now = ticks();
}

void ve_record_leave(bool idle)
{
    struct recorder *r = mine;
    uint64_t now;

    if (!r)
        return;
    now = ticks();
    if (now - r->last >= long_ticks)
        cpu_ticks_of(r, now);
    r->last = now;
    r->idle = idle;
}

void ve_record(uint16_t type, uint16_t opcode, uint32_t qpn, uint32_t peer, uint32_t octets)
{
    struct recorder *r = mine;

    if (!r)
        return;
    if (r->next == r->end && (r->head->lost || !grow(r))) {
        r->head->lost++;
        return;
    }
    r->posted |= type == SOFTIB_EVENT_POST;
    *r->next++ = (struct softib_record_event){ r->now, r->compute, qpn, peer, octets, opcode, type };
}
