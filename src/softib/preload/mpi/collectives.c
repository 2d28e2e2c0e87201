/*
 * Wrappers of blocking MPI collectives for softib run --record: each call is forwarded to the MPI library, and its
 * begin and end are recorded. mpi.h is not used: handles are int in MPICH and pointers in Open MPI, so every argument
 * is forwarded as a word. In the calling conventions of x86-64 (System V) and AArch64 (AAPCS64), an int uses the same
 * register or stack slot as a pointer, and its upper half is ignored.
 */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../collectives.h"

#if !defined(__x86_64__) && !defined(__aarch64__)
#error "the calling conventions of this processor were not checked: see the comment above"
#endif

#define EXPORT __attribute__((visibility("default")))

typedef uintptr_t word;

static __thread int depth; /* collectives that a library calls inside a collective are not recorded */

struct wanted {
    const char *name;
    void *found;
};

/* RTLD_NEXT does not search the scope into which Python loads its extensions and the MPI library. */
static int look_into(struct dl_phdr_info *object, size_t size, void *data)
{
    struct wanted *w = data;
    void *library;

    (void)size;
    if (!object->dlpi_name || !strstr(object->dlpi_name, "libmpi"))
        return 0;
    library = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD);
    if (library) {
        w->found = dlsym(library, w->name);
        dlclose(library);
    }
    return w->found != NULL;
}

static void *next_of(const char *name)
{
    struct wanted w = { name, dlsym(RTLD_NEXT, name) };

    if (!w.found)
        dl_iterate_phdr(look_into, &w);
    if (!w.found) {
        fprintf(stderr, "softib: this program calls %s, but has loaded no MPI library\n", name);
        abort();
    }
    return w.found;
}

/* Return the MPI library's function `name`. It is resolved once; concurrent threads get the same result. */
static void *resolved(void **slot, const char *name)
{
    void *found = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

    if (!found) {
        found = next_of(name);
        __atomic_store_n(slot, found, __ATOMIC_RELEASE);
    }
    return found;
}

/* Return whether `buffer` is MPI_IN_PLACE: 1 in Open MPI, -1 in MPICH. Neither is the address of a buffer. */
static bool in_place(word buffer)
{
    return buffer == 1 || buffer == ~(word)0;
}

static uint32_t octets_of(word count, word datatype)
{
    static void *slot;
    int size = 0, n = (int)(uint32_t)count;
    int (*type_size)(word, int *);

    *(void **)&type_size = resolved(&slot, "PMPI_Type_size");
    if (n <= 0 || type_size(datatype, &size) || size <= 0)
        return 0;
    return (uint64_t)n * (uint64_t)size > UINT32_MAX ? UINT32_MAX : (uint32_t)n * (uint32_t)size;
}

typedef void note_function(uint32_t, uint32_t, int);

/* Return softib_record_collective; NULL if libsoftib-verbs.so is not loaded. */
static note_function *noter(void)
{
    static void *slot;
    static bool looked;
    note_function *note;

    if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE)) {
        __atomic_store_n(&slot, dlsym(RTLD_DEFAULT, "softib_record_collective"), __ATOMIC_RELAXED);
        __atomic_store_n(&looked, true, __ATOMIC_RELEASE);
    }
    *(void **)&note = __atomic_load_n(&slot, __ATOMIC_RELAXED);
    return note;
}

/* `OCTETS` is the size of a block or of the vector, computed from the arguments; 0 if the call has an array of
 * counts. */
#define COLLECTIVE(NAME, NUMBER, PARAMETERS, ARGUMENTS, OCTETS)                                                                        \
    EXPORT int NAME PARAMETERS;                                                                                                        \
    EXPORT int NAME PARAMETERS                                                                                                         \
    {                                                                                                                                  \
        static void *slot;                                                                                                             \
        note_function *note = depth ? NULL : noter();                                                                                  \
        int(*next) PARAMETERS;                                                                                                         \
        int error;                                                                                                                     \
                                                                                                                                       \
        *(void **)&next = resolved(&slot, #NAME);                                                                                      \
        if (!note)                                                                                                                     \
            return next ARGUMENTS;                                                                                                     \
        note(NUMBER, OCTETS, 1);                                                                                                       \
        depth++;                                                                                                                       \
        error = next ARGUMENTS;                                                                                                        \
        depth--;                                                                                                                       \
        note(NUMBER, 0, 0);                                                                                                            \
        return error;                                                                                                                  \
    }

/* Arguments in the order of MPI-4, chapter 6. */
COLLECTIVE(MPI_Barrier, SOFTIB_MPI_BARRIER, (word comm), (comm), 0)
COLLECTIVE(MPI_Bcast, SOFTIB_MPI_BCAST, (word buffer, word count, word type, word root, word comm), (buffer, count, type, root, comm),
           octets_of(count, type))
COLLECTIVE(MPI_Reduce, SOFTIB_MPI_REDUCE, (word from, word to, word count, word type, word op, word root, word comm),
           (from, to, count, type, op, root, comm), octets_of(count, type))

#define REDUCTION(NAME, NUMBER)                                                                                                        \
    COLLECTIVE(NAME, NUMBER, (word from, word to, word count, word type, word op, word comm), (from, to, count, type, op, comm),       \
               octets_of(count, type))
REDUCTION(MPI_Allreduce, SOFTIB_MPI_ALLREDUCE)
REDUCTION(MPI_Scan, SOFTIB_MPI_SCAN)
REDUCTION(MPI_Exscan, SOFTIB_MPI_EXSCAN)
REDUCTION(MPI_Reduce_scatter_block, SOFTIB_MPI_REDUCE_SCATTER_BLOCK)
COLLECTIVE(MPI_Reduce_scatter, SOFTIB_MPI_REDUCE_SCATTER, (word from, word to, word counts, word type, word op, word comm),
           (from, to, counts, type, op, comm), 0)

/* The size of a block comes from the buffer that is valid on every rank: the send buffer may be
 * MPI_IN_PLACE. */
#define EXCHANGE(NAME, NUMBER)                                                                                                         \
    COLLECTIVE(NAME, NUMBER, (word from, word count, word type, word to, word n, word kind, word comm),                                \
               (from, count, type, to, n, kind, comm), octets_of(n, kind))
EXCHANGE(MPI_Allgather, SOFTIB_MPI_ALLGATHER)
EXCHANGE(MPI_Alltoall, SOFTIB_MPI_ALLTOALL)
COLLECTIVE(MPI_Allgatherv, SOFTIB_MPI_ALLGATHERV, (word from, word count, word type, word to, word counts, word displs, word kind, word comm),
           (from, count, type, to, counts, displs, kind, comm), in_place(from) ? 0 : octets_of(count, type))
COLLECTIVE(MPI_Gather, SOFTIB_MPI_GATHER, (word from, word count, word type, word to, word n, word kind, word root, word comm),
           (from, count, type, to, n, kind, root, comm), in_place(from) ? octets_of(n, kind) : octets_of(count, type))
COLLECTIVE(MPI_Gatherv, SOFTIB_MPI_GATHERV,
           (word from, word count, word type, word to, word counts, word displs, word kind, word root, word comm),
           (from, count, type, to, counts, displs, kind, root, comm), in_place(from) ? 0 : octets_of(count, type))
COLLECTIVE(MPI_Scatter, SOFTIB_MPI_SCATTER, (word from, word n, word kind, word to, word count, word type, word root, word comm),
           (from, n, kind, to, count, type, root, comm), in_place(to) ? octets_of(n, kind) : octets_of(count, type))
COLLECTIVE(MPI_Scatterv, SOFTIB_MPI_SCATTERV,
           (word from, word counts, word displs, word kind, word to, word count, word type, word root, word comm),
           (from, counts, displs, kind, to, count, type, root, comm), in_place(to) ? 0 : octets_of(count, type))

#define ARRAYS(NAME, NUMBER)                                                                                                           \
    COLLECTIVE(NAME, NUMBER, (word a, word b, word c, word d, word e, word f, word g, word h, word comm), (a, b, c, d, e, f, g, h, comm), 0)
ARRAYS(MPI_Alltoallv, SOFTIB_MPI_ALLTOALLV)
ARRAYS(MPI_Alltoallw, SOFTIB_MPI_ALLTOALLW)
