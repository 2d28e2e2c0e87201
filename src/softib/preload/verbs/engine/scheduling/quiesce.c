/*
 * Copies within this process: the thread that executes a request (a posting, polling or timer thread) reads and writes
 * local memory through its L_Keys. Protecting this memory with a hazard would cost an atomic operation per request.
 * Instead each QP counts its copies in softib_qp.copies, which is odd during a copy. The copying thread needs no memory
 * barrier: a thread that removes memory makes every running thread execute one (membarrier(2)), and then waits for the
 * counts of all QPs. The counts are in shared memory: a process that deregisters an imported region waits for the
 * counts of the region's owner.
 */
#include "quiesce.h"
#include "../../memory/hazards.h"
#include "../../memory/locks.h"
#include "../../memory/heap/number_table.h"
#include "../../peers/orders.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SPINS
#define SPINS 1000
#endif

bool ve_fences = true; /* until it is known whether membarrier is available */

static bool barrier(int command)
{
    return !syscall(SYS_membarrier, command, 0, 0);
}

void ve_quiesce_begin(struct ve_engine *e)
{
    pthread_mutex_init(&e->qps_lock, NULL);
    e->qps = NULL;
    e->qps_begun++;
    ve_fences = !barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) || !barrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

void ve_quiesce_add(struct ve_qp *q)
{
    pthread_mutex_lock(&q->e->qps_lock);
    q->next_of_process = q->e->qps;
    q->previous_of_process = NULL;
    if (q->e->qps)
        q->e->qps->previous_of_process = q;
    q->e->qps = q;
    q->in_qps = q->e->qps_begun;
    pthread_mutex_unlock(&q->e->qps_lock);
}

void ve_quiesce_drop(struct ve_qp *q)
{
    pthread_mutex_lock(&q->e->qps_lock);
    if (q->in_qps == q->e->qps_begun) { /* a forked child has none of its parent's QPs */
        if (q->next_of_process)
            q->next_of_process->previous_of_process = q->previous_of_process;
        *(q->previous_of_process ? &q->previous_of_process->next_of_process : &q->e->qps) = q->next_of_process;
        q->in_qps = 0;
    }
    pthread_mutex_unlock(&q->e->qps_lock);
}

static void wait_for(const struct softib_qp *s)
{
    uint32_t seen = __atomic_load_n(&s->copies, __ATOMIC_ACQUIRE);

    for (uint32_t spins = 1; seen % 2 && __atomic_load_n(&s->copies, __ATOMIC_ACQUIRE) == seen; spins++) {
        vm_relax();
        if (spins % SPINS == 0)
            sched_yield(); /* the other thread may wait for this processor */
    }
}

void ve_quiesce(struct ve_engine *e)
{
    bool fenced = ve_fences || barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    pthread_mutex_lock(&e->qps_lock);
    for (struct ve_qp *q = e->qps; q; q = q->next_of_process) {
        if (!fenced) { /* membarrier is no longer permitted (seccomp) */
            ve_spin_lock(&q->lock);
            ve_spin_unlock(&q->lock);
        }
        wait_for(q->s);
    }
    pthread_mutex_unlock(&e->qps_lock);
    vp_serve_quiesce();
    vm_quiesce(&e->w);
}

/* -- of another process -- */

/* Return the copy count of QP `number` if it belongs to `process` and is executing a request; else
 * 0. */
static uint32_t copies_of(struct ve_engine *e, uint32_t number, uint32_t process)
{
    uint64_t *hazard;
    const struct softib_qp *s;
    uint32_t copies = 0;

    if (vm_number_process(__atomic_load_n(vm_number(&e->w, number), __ATOMIC_ACQUIRE)) != process)
        return 0;
    s = vm_number_hold(&e->w, number, &hazard);
    if (!s)
        return 0;
    if (s->is == SOFTIB_IS_QP && s->process == process)
        copies = __atomic_load_n(&s->copies, __ATOMIC_ACQUIRE);
    vm_hazard_end(hazard); /* that request may be a LOCAL_INV, which itself waits here for others */
    return copies % 2 ? copies : 0;
}

void ve_quiesce_of(struct ve_engine *e, uint32_t process)
{
    uint32_t high, seen;

    if (!barrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED))
        barrier(MEMBARRIER_CMD_GLOBAL);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    high = __atomic_load_n(&vm_head(&e->w)->number_high, __ATOMIC_SEQ_CST);
    for (uint32_t number = 2; number < high; number++) {
        seen = copies_of(e, number, process);
        for (uint32_t spins = 1; seen && copies_of(e, number, process) == seen && vm_lives(&e->w, process); spins++) {
            if (spins % SPINS == 0)
                sched_yield();
        }
    }
    vm_quiesce_of(&e->w, process);
}
