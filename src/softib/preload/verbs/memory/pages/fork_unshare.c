/* In a forked child: pages that the parent moved to memory files become private memory again, with
 * the parent's data. */
#include "mmap_calls.h"
#include "remap.h"
#include "vma.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 4096 /* pages that are checked at a time */

struct copying {
    const char *path;
    bool swaps;
    bool failed;
};

/* Copy only the pages that exist: reading another page would allocate it. */
static void copy_there(const struct copying *c, char *to, char *from, uint64_t length)
{
    static unsigned char in_memory[PAGES];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

    for (uint64_t at = 0; at < length; at += PAGES * page) {
        uint64_t n = length - at < PAGES * page ? length - at : PAGES * page;
        bool known = !c->swaps && !mincore(from + at, n, in_memory);

        for (uint64_t i = 0; i < n / page; i++)
            if (!known || in_memory[i] & 1)
                memcpy(to + at + i * page, from + at + i * page, page);
    }
}

static int protection(const char *rights)
{
    return (rights[0] == 'r' ? PROT_READ : 0) | (rights[1] == 'w' ? PROT_WRITE : 0) | (rights[2] == 'x' ? PROT_EXEC : 0);
}

static bool replace(const struct vm_vma *g, void *of)
{
    struct copying *c = of;
    uint64_t n = g->end - g->start;
    void *old = (void *)(uintptr_t)g->start, *new;

    if (g->rights[3] != 's' || strcmp(g->path, c->path))
        return true;
    new = vm_mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (new == MAP_FAILED || (g->rights[0] != 'r' && vm_mprotect(old, n, PROT_READ))) {
        c->failed = true;
        vm_munmap(old, n); /* to unmap the memory is better than to share the parent's */
        return true;
    }
    copy_there(c, new, old, n);
    vm_mprotect(new, n, protection(g->rights));
    if (vm_mremap(new, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, old) == MAP_FAILED) {
        c->failed = true;
        vm_munmap(old, n);
    }
    return true;
}

void vm_make_private(const char *path)
{
    struct copying c = { .path = path, .swaps = vm_may_swap() };

    if (!vm_vmas(replace, &c))
        c.failed = true;
    if (c.failed)
        fprintf(stderr, "softib: a forked process gets no copy of its parent's registered memory: out of memory\n");
}
