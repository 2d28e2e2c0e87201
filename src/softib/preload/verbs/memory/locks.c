/* Waiting for each other: locks of dead owners, hazards, sleep and wake. */
#include "memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPINS 1000 /* then the processor is given away: the owner may wait for it */

bool vm_owner_lives(struct vm_heap *w, uint32_t owner)
{
    return __atomic_load_n(&vm_process(w, owner & 0xFFFF)->generation, __ATOMIC_ACQUIRE) == owner >> 16 &&
           vm_lives(w, owner & 0xFFFF);
}

/* A zombie does not: all its threads are past their last copy, and its parent may never ask for it. */
static bool runs(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd over = { .fd = fd, .events = POLLIN };
    bool lives;

    if (fd < 0)
        return errno == ESRCH ? false : kill(pid, 0) == 0 || errno != ESRCH;
    lives = poll(&over, 1, 0) <= 0;
    close(fd);
    return lives;
}

bool vm_lives(struct vm_heap *w, uint32_t process)
{
    struct softib_process *p = vm_process(w, process);

    if (!__atomic_load_n(&p->alive, __ATOMIC_ACQUIRE))
        return false;
    return runs((pid_t)p->pid);
}

bool vm_lock_slow(struct vm_heap *w, uint32_t *lock)
{
    for (uint32_t spins = 1;; spins++) {
        uint32_t owner = __atomic_load_n(lock, __ATOMIC_RELAXED);

        if (owner && spins % SPINS == 0) {
            sched_yield();
            if (spins % (2 * SPINS) == 0 && !vm_owner_lives(w, owner) && /* a yield is long on a busy machine */
                __atomic_compare_exchange_n(lock, &owner, w->owner, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
                return true;
        }
        owner = 0;
        if (__atomic_compare_exchange_n(lock, &owner, w->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return false;
        vm_relax();
    }
}

uint64_t *vm_hazard(struct vm_heap *w, uint32_t target, enum vm_level level)
{
    static const struct { uint32_t from, n; } levels[] = { [VM_FIRST] = { 0, 16 }, [VM_SECOND] = { 16, 4 }, [VM_THIRD] = { 20, 4 } };
    static __thread uint64_t sequence;
    static __thread uint32_t mine;
    uint32_t from = levels[level].from, n = levels[level].n;
    uint64_t *slots = vm_process(w, w->process)->hazard, value = ++sequence << 16 | target;

    for (uint32_t tries = 1;; mine++, tries++) { /* mostly the one that this thread had before */
        uint64_t none = 0, *slot = &slots[from + mine % n];

        if (__atomic_compare_exchange_n(slot, &none, value, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            return slot;
        if (tries % SOFTIB_VERBS_HAZARDS == 0)
            sched_yield();
    }
}

void vm_quiesce(struct vm_heap *w)
{
    vm_quiesce_of(w, w->process);
}

void vm_quiesce_of(struct vm_heap *w, uint32_t process)
{
    uint32_t high = __atomic_load_n(&vm_head(w)->process_high, __ATOMIC_SEQ_CST);

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (uint32_t number = 1; number <= high; number++) {
        struct softib_process *p = vm_process(w, number);

        for (unsigned i = 0; __atomic_load_n(&p->alive, __ATOMIC_ACQUIRE) && i < SOFTIB_VERBS_HAZARDS; i++) {
            uint64_t seen = __atomic_load_n(&p->hazard[i], __ATOMIC_SEQ_CST);

            if ((seen & 0xFFFF) != process)
                continue;
            for (uint32_t spins = 1; __atomic_load_n(&p->hazard[i], __ATOMIC_ACQUIRE) == seen; spins++) {
                vm_relax();
                if (spins % SPINS == 0) {
                    sched_yield();
                    if (!vm_lives(w, number))
                        break;
                }
            }
        }
    }
}

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *limit)
{
    return syscall(SYS_futex, word, op, value, limit, NULL, 0);
}

void vm_wake(struct vm_heap *w, uint32_t process)
{
    struct softib_process *p = vm_process(w, process);

    __atomic_fetch_add(&p->wake, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&p->sleeping, __ATOMIC_SEQ_CST))
        futex(&p->wake, FUTEX_WAKE, 1, NULL);
}

void vm_rouse(struct vm_heap *w)
{
    struct softib_process *p = vm_process(w, w->process);

    __atomic_fetch_add(&p->wake, 1, __ATOMIC_SEQ_CST);
    futex(&p->wake, FUTEX_WAKE, 1, NULL);
}

uint32_t vm_wakes(struct vm_heap *w)
{
    return __atomic_load_n(&vm_process(w, w->process)->wake, __ATOMIC_SEQ_CST);
}

void vm_sleep(struct vm_heap *w, uint32_t seen, uint64_t ns, const bool *stop)
{
    struct softib_process *p = vm_process(w, w->process);
    struct timespec limit = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

    __atomic_store_n(&p->sleeping, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(stop, __ATOMIC_SEQ_CST))
        futex(&p->wake, FUTEX_WAIT, seen, &limit);
    __atomic_store_n(&p->sleeping, 0, __ATOMIC_SEQ_CST);
}

void vm_doze(struct vm_heap *w, uint32_t seen, uint64_t ns)
{
    struct timespec limit = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

    futex(&vm_process(w, w->process)->wake, FUTEX_WAIT, seen, &limit);
}
