/*
 * madvise of memory that was moved to a file. MADV_DONTNEED zeroes private memory, and allocators
 * rely on that; a shared mapping would keep its data. So the pages are removed from the file.
 */
#include "remap.h"
#include "vma.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPANS 1024

/* Address ranges ever moved to a file; they may have been remapped since. The list has a limited size: when it is
 * full, the last range is widened. Read without a lock. */
static struct { uint64_t from, to; } spans[SPANS];
static unsigned spans_n;

void vm_span_add(uint64_t from, uint64_t to)
{
    for (unsigned i = 0; i < spans_n; i++)
        if (spans[i].from <= from && spans[i].to >= to)
            return;
    if (spans_n < SPANS) {
        __atomic_store_n(&spans[spans_n].from, from, __ATOMIC_RELAXED);
        __atomic_store_n(&spans[spans_n].to, to, __ATOMIC_RELAXED);
        __atomic_store_n(&spans_n, spans_n + 1, __ATOMIC_RELEASE);
        return;
    }
    if (from < spans[SPANS - 1].from)
        __atomic_store_n(&spans[SPANS - 1].from, from, __ATOMIC_RELAXED);
    if (to > spans[SPANS - 1].to)
        __atomic_store_n(&spans[SPANS - 1].to, to, __ATOMIC_RELAXED);
}

static bool was_moved(uint64_t from, uint64_t to)
{
    unsigned n = __atomic_load_n(&spans_n, __ATOMIC_ACQUIRE);

    for (unsigned i = 0; i < n; i++)
        if (__atomic_load_n(&spans[i].from, __ATOMIC_RELAXED) < to && __atomic_load_n(&spans[i].to, __ATOMIC_RELAXED) > from)
            return true;
    return false;
}

struct advised {
    uint64_t from, to, done; /* done: position up to which the range has been handled */
    int advice;
    long result;
    char path[80];
};

static void pass_on(struct advised *a, uint64_t to, int advice)
{
    if (a->done < to && !a->result)
        a->result = syscall(SYS_madvise, a->done, to - a->done, advice);
    a->done = a->done < to ? to : a->done;
}

static bool split(const struct vm_vma *g, void *of)
{
    struct advised *a = of;

    if (g->end <= a->done || strcmp(g->path, a->path) || g->rights[3] != 's')
        return g->start < a->to;
    if (g->start >= a->to)
        return false;
    pass_on(a, g->start, a->advice);
    pass_on(a, g->end < a->to ? g->end : a->to, MADV_REMOVE);
    return true;
}

__attribute__((visibility("default"))) int madvise(void *address, size_t length, int advice)
{
    struct advised a = { .from = (uintptr_t)address, .to = (uintptr_t)address + length, .done = (uintptr_t)address,
                       .advice = advice };

    if ((advice != MADV_DONTNEED && advice != MADV_FREE) || !was_moved(a.from, a.to))
        return (int)syscall(SYS_madvise, address, length, advice);
    vm_memory_path(a.path);
    vm_vmas_between(a.from, a.to, split, &a);
    pass_on(&a, a.to, advice);
    return a.result ? -1 : 0;
}
