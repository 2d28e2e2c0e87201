/*
 * This process's own copies: a request reads and writes local memory by its L_Keys, in whatever thread executes it (who posts,
 * who polls, the timer's). No hazard slot names them, as a slot costs an atomic operation a request. Instead each QP says in a
 * word of its own that it copies; who takes memory away waits for the words of all, after a barrier in every running thread
 * (membarrier(2)), so that who copies needs none.
 */
#include "engine.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS 1000

bool ve_fences = true; /* until the system is known to have the other barrier */

static bool barrier(int command)
{
    return !syscall(SYS_membarrier, command, 0, 0);
}

void ve_own_begin(struct ve_engine *e)
{
    pthread_mutex_init(&e->own_lock, NULL);
    e->own = NULL;
    ve_fences = !barrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

void ve_own_add(struct ve_qp *q)
{
    pthread_mutex_lock(&q->e->own_lock);
    q->own_next = q->e->own;
    q->e->own = q;
    pthread_mutex_unlock(&q->e->own_lock);
}

void ve_own_drop(struct ve_qp *q)
{
    pthread_mutex_lock(&q->e->own_lock);
    for (struct ve_qp **at = &q->e->own; *at; at = &(*at)->own_next) {
        if (*at == q) { /* a forked child has none of its parent's */
            *at = q->own_next;
            break;
        }
    }
    pthread_mutex_unlock(&q->e->own_lock);
}

static void wait_for(const struct ve_qp *q)
{
    uint32_t seen = __atomic_load_n(&q->copies, __ATOMIC_ACQUIRE);

    for (uint32_t spins = 1; seen % 2 && __atomic_load_n(&q->copies, __ATOMIC_ACQUIRE) == seen; spins++) {
        vm_relax();
        if (spins % SPINS == 0)
            sched_yield(); /* it may wait for this processor */
    }
}

void ve_quiesce(struct ve_engine *e)
{
    bool fenced = ve_fences || barrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    pthread_mutex_lock(&e->own_lock);
    for (struct ve_qp *q = e->own; q; q = q->own_next) {
        if (!fenced) { /* the system took the barrier away (seccomp) */
            ve_spin_lock(&q->lock);
            ve_spin_unlock(&q->lock);
        }
        wait_for(q);
    }
    pthread_mutex_unlock(&e->own_lock);
    vm_quiesce(&e->w);
}
