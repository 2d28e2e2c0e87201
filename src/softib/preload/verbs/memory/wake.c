/* Sleep and wake, by a futex in each process's slot. */
#include "wake.h"
#include "libc_calls.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void futex(uint32_t *word, int op, uint32_t value, const struct timespec *limit)
{
    VM_KEEP_ERRNO;

    syscall(SYS_futex, word, op, value, limit, NULL, 0);
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
