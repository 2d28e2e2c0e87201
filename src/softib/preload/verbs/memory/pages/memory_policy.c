/*
 * Properties of private memory that a file mapped in its place would lose: locks (mlock(2)) and
 * NUMA policies (mbind(2)). Each of these is read with a system call, which is cheap if there are no policies or locks.
 */
#include "memory_policy.h"
#include "vma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES 1024
#define POLICY_OF_ADDRESS 2 /* MPOL_F_ADDR (set_mempolicy(2)); <numaif.h> is not installed everywhere */

/* -- NUMA policies -- */

static int policy_of(uint64_t address, unsigned long mask[NODES / 64])
{
    int mode;

    memset(mask, 0, NODES / 8);
    return syscall(SYS_get_mempolicy, &mode, mask, (unsigned long)NODES, (void *)(uintptr_t)address, (unsigned long)POLICY_OF_ADDRESS)
               ? 0 : mode;
}

bool vm_has_policy(uint64_t address)
{
    unsigned long mask[NODES / 64];

    return policy_of(address, mask) != 0;
}

struct policies {
    uint64_t from, to, at;
    int fd;
};

static bool bind_part(const struct vm_vma *g, void *of)
{
    const struct policies *p = of;
    uint64_t from = g->start > p->from ? g->start : p->from, to = g->end < p->to ? g->end : p->to;
    unsigned long mask[NODES / 64];
    int mode = from < to ? policy_of(from, mask) : 0;
    void *part;

    if (!mode)
        return true;
    part = mmap(NULL, to - from, PROT_READ, MAP_SHARED | MAP_NORESERVE, p->fd, (off_t)(p->at + from - p->from));
    if (part == MAP_FAILED)
        return true;
    syscall(SYS_mbind, part, to - from, mode, mask, (unsigned long)NODES, 0u); /* of the file, for all mappings */
    munmap(part, to - from);
    return true;
}

void vm_keep_policies(uint64_t from, uint64_t to, int fd, uint64_t at)
{
    struct policies p = { .from = from, .to = to, .at = at, .fd = fd };

    vm_vmas_between(from, to, bind_part, &p);
}

/* -- locks -- */

/* Call `each` for every line of a file in /proc. */
static void lines(const char *path, void (*each)(const char *line, void *of), void *of)
{
    char text[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t n;

    while (fd >= 0 && ((n = read(fd, text + used, sizeof text - 1 - used)) > 0 || (n < 0 && errno == EINTR))) {
        char *line = text, *end;

        used += n > 0 ? (size_t)n : 0;
        text[used] = 0;
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            each(line, of);
        }
        used -= (size_t)(line - text);
        memmove(text, line, used);
        if (used == sizeof text - 1)
            used = 0; /* this line is not used */
    }
    if (fd >= 0)
        close(fd);
}

static void status_line(const char *line, void *of)
{
    if (!strncmp(line, "VmLck:", 6))
        *(bool *)of = strtoul(line + 6, NULL, 10) != 0;
}

struct look {
    struct vm_locks *locks;
    uint64_t start, end, size, rss;
};

static void smaps_line(const char *line, void *of)
{
    struct look *look = of;
    struct vm_locks *l = look->locks;
    char *at;
    uint64_t start = strtoul(line, &at, 16);

    if (at != line && *at == '-') { /* a mapping begins */
        look->start = start > l->from ? start : l->from;
        look->end = strtoul(at + 1, NULL, 16);
        look->end = look->end < l->to ? look->end : l->to;
    } else if (!strncmp(line, "Size:", 5)) {
        look->size = strtoul(line + 5, NULL, 10);
    } else if (!strncmp(line, "Rss:", 4)) {
        look->rss = strtoul(line + 4, NULL, 10);
    } else if (!strncmp(line, "VmFlags:", 8) && strstr(line, " lo") && look->start < look->end && l->n < VM_LOCKS) {
        l->at[l->n].from = look->start;
        l->at[l->n].to = look->end;
        l->at[l->n++].all = look->rss >= look->size;
    }
}

void vm_keep_locks(struct vm_locks *l, uint64_t from, uint64_t to)
{
    struct look look = { .locks = l };
    bool some = false;

    l->n = 0;
    l->from = from;
    l->to = to;
    lines("/proc/self/status", status_line, &some);
    if (some)
        lines("/proc/self/smaps", smaps_line, &look);
}

void vm_relock(const struct vm_locks *l, uint64_t to)
{
    for (unsigned i = 0; i < l->n; i++) {
        uint64_t end = l->at[i].to < to ? l->at[i].to : to;
        void *from = (void *)(uintptr_t)l->at[i].from;

        if (l->at[i].from < end && (l->at[i].all ? mlock(from, end - l->at[i].from) : mlock2(from, end - l->at[i].from, MLOCK_ONFAULT)))
            fprintf(stderr, "softib: registered memory is no longer locked: mlock: %s\n", strerror(errno));
    }
}
