/* Registered regions of this process, and the memory files that their pages were moved to. */
#include "remap.h"
#include "../identity.h"
#include "memory_policy.h"
#include "vma.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * A file is longer than its pages by this many bytes. If the program extends the mapping (mremap), it reads zeros
 * there, as in private memory.
 */
#define ROOM (1ull << 44)

/* Addresses and file offsets are equal modulo this, as a mapping with huge pages requires
 * (MADV_COLLAPSE, shmem_enabled). */
#define HUGE_PAGE (2ull << 20)

struct vm_moved { /* a file, which is kept as long as regions use it */
    uint64_t from; /* the address of the file's first byte */
    uint64_t device, inode;
    int fd;
    unsigned users;
    struct vm_moved *next;
};

/* The lock is recursive: a pthread_atfork handler registered before softib's may deregister while softib's holds
 * the lock. */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct vm_region *regions;
static unsigned begun = 1; /* a forked child starts a new list */
static struct vm_moved *files;
static unsigned files_n;
static bool moved_ever; /* a forked child has pages to copy */

/* Make the name of this process's memory files. It contains the namespace too, because a pid identifies a process only
 * inside its namespace. */
static void name_memory(char name[48])
{
    snprintf(name, 48, "softib-memory-%d-%llx", (int)getpid(), (unsigned long long)vm_pid_ns());
}

void vm_memory_path(char path[80])
{
    char name[48];

    name_memory(name);
    snprintf(path, 80, "/memfd:%s (deleted)", name);
}

/* -- find the part of a region that is shared, or can become so -- */

struct run { /* pages that belong to one file, or can be moved to one */
    uint64_t from, to;
    struct vm_moved *moved;
    bool moved_before; /* part of it was moved before, to a file that is now unlinked */
};

struct search {
    uint64_t from, to; /* whole pages */
    char path[80];
    struct run now, best;
    bool policies; /* NUMA: part of it has its own policy */
};

static void end_run(struct search *s)
{
    if (s->now.to - s->now.from > s->best.to - s->best.from)
        s->best = s->now;
    s->now = (struct run){ .from = 0 };
}

static void add(struct search *s, uint64_t from, uint64_t to, struct vm_moved *moved)
{
    if (s->now.to != from || s->now.moved != moved) {
        end_run(s);
        s->now = (struct run){ .from = from, .to = from, .moved = moved };
    }
    s->now.to = to;
}

/* Private pages of a region that is already registered stay private, because peers may be copying to them through
 * the kernel. */
static void add_private(struct search *s, uint64_t from, uint64_t to, bool moved_before)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    for (const struct vm_region *r = regions; r; r = r->next) {
        uint64_t first = r->from / page * page, behind = (r->to + page - 1) / page * page;

        if (!r->writes || behind <= from || first >= to)
            continue;
        if (from < first)
            add_private(s, from, first, moved_before);
        if (behind < to)
            add_private(s, behind, to, moved_before);
        return;
    }
    add(s, from, to, NULL);
    s->now.moved_before = s->now.moved_before || moved_before;
}

static struct vm_moved *file_of(const struct vm_vma *g)
{
    for (struct vm_moved *m = files; m; m = m->next)
        if (m->device == g->device && m->inode == g->inode && m->from + g->offset == g->start)
            return m;
    return NULL;
}

static bool classify(const struct vm_vma *g, void *of)
{
    struct search *s = of;
    uint64_t from = g->start > s->from ? g->start : s->from, to = g->end < s->to ? g->end : s->to;
    struct vm_moved *moved;
    bool ours;

    if (from >= to)
        return true;
    ours = !strcmp(g->path, s->path) && !strcmp(g->rights, "rw-s");
    moved = ours ? file_of(g) : NULL;
    if (moved)
        add(s, from, to, moved);
    else if (ours || (!strcmp(g->rights, "rw-p") && !g->inode &&
                      (!*g->path || !strcmp(g->path, "[heap]") || !strncmp(g->path, "[anon:", 6))))
        add_private(s, from, to, ours);
    s->policies = s->policies || vm_has_policy(from);
    return true;
}

/* -- files -- */

static bool few_files(void)
{
    struct rlimit most;

    return !getrlimit(RLIMIT_NOFILE, &most) && files_n < most.rlim_cur / 4;
}

/* Move the descriptor above the numbers that programs use. */
static int high_descriptor(int fd)
{
    struct rlimit most;
    int high = fd < 0 || getrlimit(RLIMIT_NOFILE, &most) ? -1
               : fcntl(fd, F_DUPFD_CLOEXEC, most.rlim_cur < 65536 ? (int)most.rlim_cur / 2 : 32768);

    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static int make_file(uint64_t length)
{
    struct rlimit longest;
    char name[48];
    int fd;

    if (getrlimit(RLIMIT_FSIZE, &longest) || longest.rlim_cur < length + ROOM)
        return -1;
    name_memory(name);
    fd = high_descriptor(memfd_create(name, MFD_CLOEXEC));
    if (fd >= 0 && ftruncate(fd, (off_t)(length + ROOM))) {
        close(fd);
        return -1;
    }
    return fd;
}

/* If the program closed all descriptors, this one is closed too, and its number may now belong to another file. */
static void close_file(const struct vm_moved *m)
{
    struct stat info;

    if (!fstat(m->fd, &info) && info.st_dev == m->device && info.st_ino == m->inode)
        close(m->fd);
}

/*
 * -- fork: the child gets private pages while the parent waits -- * Handlers are registered when the library is loaded,
 * before those of the program: so this one takes its lock last, and runs first in the child. Otherwise the handler of a
 * registration cache (UCX's rcache) would wait for a thread that registers memory, which waits for this lock.
 */

static int gate[2] = { -1, -1 };
static char parent[80]; /* path of its files */

static void before_fork(void)
{
    pthread_mutex_lock(&lock); /* held until this fork ends: no other child inherits the pipe */
    if (moved_ever)
        vm_memory_path(parent);
    if (!moved_ever || pipe2(gate, O_CLOEXEC))
        gate[0] = gate[1] = -1;
}

/* Wait until the child is ready or has ended. */
static void in_parent(void)
{
    char byte;

    if (gate[0] >= 0) {
        close(gate[1]);
        while (read(gate[0], &byte, 1) < 0 && errno == EINTR)
            ;
        close(gate[0]);
    }
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    if (moved_ever)
        vm_make_private(parent);
    for (struct vm_moved *m = files; m; m = m->next)
        close_file(m);
    files = NULL;
    files_n = 0;
    regions = NULL;
    begun++;
    if (gate[0] >= 0) {
        while (write(gate[1], "", 1) < 0 && errno == EINTR)
            ;
        close(gate[0]);
        close(gate[1]);
    }
    moved_ever = false;
    lock = (pthread_mutex_t)PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, in_parent, in_child);
}

/* -- moving -- */

static bool on_this_stack(const struct run *run)
{
    uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);

    return here >= run->from && here < run->to;
}

/* Move `run`, or its first part, to a file. NULL: it stays private. */
static struct vm_moved *move(struct vm_region *r, struct run *run, bool policies, unsigned helpers)
{
    struct vm_moved *m = on_this_stack(run) || !few_files() ? NULL : calloc(1, sizeof *m);
    struct stat info;
    struct vm_locks locks;
    uint64_t end = run->from, at;

    if (!m)
        return NULL;
    at = run->to - run->from < HUGE_PAGE ? 0 : run->from % HUGE_PAGE;
    m->fd = make_file(at + (run->to - run->from));
    if (m->fd >= 0 && policies)
        vm_keep_policies(run->from, run->to, m->fd, at);
    vm_keep_locks(&locks, run->from, run->to);
    if (m->fd >= 0 && !fstat(m->fd, &info))
        end = vm_move(run->from, run->to, m->fd, at, run->moved_before, helpers, r->moves == VM_MOVES_ALWAYS, &r->holder);
    if (end == run->from) {
        if (m->fd >= 0)
            close(m->fd);
        free(m);
        return NULL;
    }
    run->to = end;
    vm_relock(&locks, end);
    vm_span_add(run->from, end);
    m->from = run->from - at;
    m->device = info.st_dev;
    m->inode = info.st_ino;
    m->next = files;
    files = m;
    files_n++;
    moved_ever = true;
    return m;
}

/* -- regions -- */

static void share(struct vm_region *r, unsigned helpers)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct search s = { .from = (r->from + page - 1) / page * page, .to = r->to / page * page };

    vm_memory_path(s.path);
    if (s.from >= s.to || !vm_vmas_between(s.from, s.to, classify, &s))
        return;
    end_run(&s);
    if (s.best.from == s.best.to)
        return;
    if (!s.best.moved && r->moves != VM_STAYS)
        s.best.moved = move(r, &s.best, s.policies, helpers);
    r->moved = s.best.moved;
    if (!r->moved)
        return;
    r->moved->users++;
    r->shared_from = s.best.from;
    r->shared_to = s.best.to;
    r->file_at = s.best.from - r->moved->from;
    r->device = r->moved->device;
    r->inode = r->moved->inode;
    r->fd = r->moved->fd;
}

void vm_region_add(struct vm_region *r, uint64_t from, uint64_t to, bool writes, enum vm_moves moves, unsigned helpers)
{
    *r = (struct vm_region){ .from = from, .to = to, .fd = -1, .writes = writes, .moves = moves };
    pthread_mutex_lock(&lock);
    if (from < to)
        share(r, helpers);
    r->next = regions;
    r->listed = begun;
    if (regions)
        regions->previous = r;
    regions = r;
    pthread_mutex_unlock(&lock);
}

void vm_region_writes(struct vm_region *r, bool writes)
{
    pthread_mutex_lock(&lock);
    r->writes = writes;
    pthread_mutex_unlock(&lock);
}

static void leave_file(struct vm_moved *m)
{
    if (--m->users)
        return;
    for (struct vm_moved **at = &files; *at; at = &(*at)->next) {
        if (*at == m) {
            *at = m->next;
            files_n--;
            break;
        }
    }
    close_file(m);
    free(m);
}

void vm_region_drop(struct vm_region *r)
{
    pthread_mutex_lock(&lock);
    if (r->listed == begun) { /* a forked child has none of its parent's */
        if (r->next)
            r->next->previous = r->previous;
        *(r->previous ? &r->previous->next : &regions) = r->next;
        if (r->moved)
            leave_file(r->moved);
    }
    r->listed = 0;
    r->moved = NULL;
    pthread_mutex_unlock(&lock);
}
