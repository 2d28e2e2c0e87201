/* SOFTIB_STRICT: scrambled fields, shuffled receives, and the warnings. Their conditions:
 * strict_checks.c. */
#include "strict.h"
#include "../scheduling/sq_sched_internal.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FRAMES 24
#define CALLS 256 /* number of stored call sites; warnings from further sites may repeat */

static uint64_t rng_state, seed;
static char this_library[1];

void ve_strict_begin(void)
{
    const char *value = getenv("SOFTIB_STRICT_SEED");
    void *frame[1];

    seed = value ? strtoull(value, NULL, 0) : 0;
    rng_state = seed * 0x9E3779B97F4A7C15u;
    backtrace(frame, 1); /* the first call of backtrace loads a library: do that now, while no lock is held */
}

/* splitmix64 (Steele, Lea, Flood, 2014): a counter, so threads share it without a lock. */
static uint32_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((x ^ x >> 31) >> 32);
}

uint32_t ve_strict_roll(void)
{
    return mixed(__atomic_add_fetch(&rng_state, 0x9E3779B97F4A7C15u, __ATOMIC_RELAXED));
}

/* -- warnings -- */

/* Return the index of the first frame outside this library: the caller in the program. */
static int theirs(void **frames, int n)
{
    Dl_info here, there;
    int i = 0;

    if (!dladdr(this_library, &here))
        return 0;
    while (i < n && dladdr(frames[i], &there) && there.dli_fbase == here.dli_fbase)
        i++;
    return i < n ? i : 0;
}

static bool is_new(const void *where, const char *what)
{
    static uint64_t calls[CALLS];
    uint64_t id = ((uintptr_t)where ^ (uintptr_t)what << 20) | 1;

    for (unsigned i = 0; i < CALLS; i++) {
        uint64_t free = 0;

        if (__atomic_compare_exchange_n(&calls[i], &free, id, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return true;
        if (free == id)
            return false;
    }
    return true;
}

static void report(const char *kind, const char *format, va_list values)
{
    char line[512];
    void *frames[FRAMES];
    int n = backtrace(frames, FRAMES), from = theirs(frames, n);

    if (!is_new(frames[from], kind) || vsnprintf(line, sizeof line - 1, format, values) < 0)
        return;
    dprintf(STDERR_FILENO, "softib: strict: %s\n", line);
    backtrace_symbols_fd(frames + from, n - from, STDERR_FILENO);
}

void ve_warn(const char *format, ...)
{
    va_list values;

    va_start(values, format);
    report(format, format, values);
    va_end(values);
}

void ve_warn_of(const char *kind, const char *format, ...)
{
    va_list values;

    va_start(values, format);
    report(kind, format, values);
    va_end(values);
}

/* -- undefined fields -- */

void ve_scramble(struct softib_cqe *cqe)
{
    cqe->opcode ^= IBV_WC_RECV | (ve_strict_roll() & 7); /* so that the completion of a send looks like that of a
                                                          * receive */
    cqe->byte_len = ve_strict_roll() | 0x40000000;
    cqe->imm = ve_strict_roll();
    cqe->src_qp = ve_strict_roll() & 0xFFFFFF;
    cqe->flags = ve_strict_roll() & 15;
    cqe->slid = (uint16_t)ve_strict_roll();
    cqe->pkey_index = (uint16_t)ve_strict_roll();
    cqe->sl = ve_strict_roll() & 15;
    cqe->path_bits = ve_strict_roll() & 127;
}

void ve_scramble_wc(struct ibv_wc *wc)
{
    struct softib_cqe cqe = { .opcode = wc->opcode };

    ve_scramble(&cqe);
    wc->opcode = cqe.opcode;
    wc->byte_len = cqe.byte_len;
    wc->imm_data = cqe.imm;
    wc->src_qp = cqe.src_qp;
    wc->wc_flags = cqe.flags;
    wc->slid = cqe.slid;
    wc->pkey_index = cqe.pkey_index;
    wc->sl = cqe.sl;
    wc->dlid_path_bits = cqe.path_bits;
}

/* -- the order of an SRQ -- */

uint32_t ve_shuffle_seed(void)
{
    return mixed(seed + 1) | 1;
}

void ve_shuffle(struct ve_engine *e, struct softib_srq *srq)
{
    size_t octets = sizeof(struct softib_receive) + srq->sges * sizeof(struct softib_sge);
    uint32_t head = srq->head, n = __atomic_load_n(&srq->tail, __ATOMIC_ACQUIRE) - head, other;
    char *ring = vm_at(&e->w, srq->ring), *a = ring + (head & (srq->size - 1)) * octets, *b;
    char hold[sizeof(struct softib_receive) + VE_SGES * sizeof(struct softib_sge)];

    if (n < 2 || srq->shuffled == head + 1 || octets > sizeof hold)
        return; /* already drawn, in an attempt that was not completed */
    other = head + mixed(((uint64_t)srq->shuffles << 32) + head) % n;
    b = ring + (other & (srq->size - 1)) * octets;
    srq->shuffled = head + 1;
    if (other == head)
        return;
    memcpy(hold, a, octets);
    memcpy(a, b, octets);
    memcpy(b, hold, octets);
}
