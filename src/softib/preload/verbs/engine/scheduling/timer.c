/* Pending work: a list, and a thread that exists only while the list is not empty. */
#include "timer.h"
#include "../send.h"
#include "sq_sched.h"
#include "../tag_matching/tag_matching.h"
#include "../../memory/libc_calls.h"
#include "../../peers/orders.h"
#include "../../peers/peer_mappings.h"
#include "../../memory/wake.h"

#include <signal.h>
#include <sys/prctl.h>

#define IDLE_NS 1000000000u /* an idle thread ends after this time */
#define RNDV_LOOK_NS 50000000u   /* interval at which it checks whether the senders of rendezvous are alive */
#define PAUSE_NS 2000u      /* time in which several receives can be posted */
#define SOON_NS 1000000u    /* pending work is checked at least this often, since a path may return and a peer may
                             * die */

static void *run(void *argument);

void ve_timer_begin(struct ve_engine *e)
{
    VM_KEEP_ERRNO;
    sigset_t all, before;

    if (e->timer_runs)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are the application's */
    __atomic_store_n(&e->stop, false, __ATOMIC_RELAXED);
    e->timer_runs = !pthread_create(&e->timer, NULL, run, e);
    if (e->timer_runs)
        pthread_detach(e->timer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Add work, and make sure that a thread checks it. `q->lock` is held; takes `e->lock`. */
void ve_list(struct ve_qp *q)
{
    struct ve_engine *e = q->e;

    if (q->listed)
        return;
    pthread_mutex_lock(&e->lock);
    q->next = e->waiting;
    q->listed = true;
    __atomic_store_n(&e->waiting, q, __ATOMIC_RELEASE);
    ve_timer_begin(e);
    pthread_mutex_unlock(&e->lock);
    if (!ve_wakes_in_time(e))
        vm_wake(&e->w, e->w.process);
}

void ve_unlist(struct ve_qp *q)
{
    struct ve_engine *e = q->e;

    pthread_mutex_lock(&e->lock);
    for (struct ve_qp **at = &e->waiting; *at; at = &(*at)->next) {
        if (*at == q) {
            __atomic_store_n(at, q->next, __ATOMIC_RELAXED); /* ve_progress reads the first without the lock */
            break;
        }
    }
    q->listed = false;
    pthread_mutex_unlock(&e->lock);
}

/*
 * Continue the pending work of all QPs. `e->lock` is held, so no QP is destroyed. A QP whose lock is held is skipped,
 * since the holder may wait for `e->lock`. With `polls`, a request that waits for a receive is tried at most every
 * PAUSE_NS: each attempt takes the cache line with the responder's count away from the responder.
 */
static bool go_on(struct ve_engine *e, uint64_t now, bool woken, bool polls)
{

    if (ve_modes)
        ve_look_begins(e);
    for (struct ve_qp **at = &e->waiting; *at;) {
        struct ve_qp *q = *at;

        if (!ve_spin_try(&q->lock)) {
            if (ve_modes)
                ve_missed(e);
            at = &q->next;
            continue;
        }
        if (!polls || q->waits != VE_RNR || now - q->tried_ns >= PAUSE_NS)
            ve_go_on(q, now, woken);
        if (ve_modes)
            ve_looked_at(e, q);
        if (q->head == q->tail && !q->rendezvous && (!ve_modes || !ve_holds(q))) {
            __atomic_store_n(at, q->next, __ATOMIC_RELAXED);
            q->listed = false;
        } else {
            at = &q->next;
        }
        ve_spin_unlock(&q->lock);
    }
    return e->waiting != NULL;
}

void ve_progress(struct ve_engine *e)
{
    uint64_t now;

    vp_maps_tidy(&e->w);
    vp_serve(&e->w);
    if (!__atomic_load_n(&e->waiting, __ATOMIC_RELAXED) || (ve_modes && !ve_polled(e)) || pthread_mutex_trylock(&e->lock))
        return;
    now = ve_now_ns();
    if (!ve_modes)
        __atomic_store_n(&e->polled_ns, now, __ATOMIC_RELAXED);
    go_on(e, now, true, !ve_modes);
    pthread_mutex_unlock(&e->lock);
}

void ve_before_event(struct ve_engine *e)
{
    for (unsigned i = 0; i < 2 && __atomic_load_n(&e->waiting, __ATOMIC_ACQUIRE); i++) {
        if (i && !ve_waits_awake(e))
            return;
        pthread_mutex_lock(&e->lock); /* its holder may have been descheduled */
        go_on(e, ve_now_ns(), true, false);
        pthread_mutex_unlock(&e->lock);
    }
}

static void *run(void *argument)
{
    struct ve_engine *e = argument;
    bool woken = true, idle = false, rndv_open;
    uint64_t nap;

    if (ve_modes)
        prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
    for (;;) {
        uint32_t before = vm_wakes(&e->w);

        nap = ve_leaves_it(e);
        if (nap && !__atomic_load_n(&e->stop, __ATOMIC_RELAXED)) {
            if (ve_modes)
                vm_sleep(&e->w, before, nap, &e->stop);
            else
                vm_doze(&e->w, before, nap);
            continue;
        }
        pthread_mutex_lock(&e->lock);
        rndv_open = e->tagged && ve_rndv_log_look(e);
        if (__atomic_load_n(&e->stop, __ATOMIC_RELAXED) || (!go_on(e, ve_now_ns(), woken, false) && idle && !e->tagged)) {
            e->timer_runs = false;
            pthread_mutex_unlock(&e->lock);
            return NULL;
        }
        idle = !e->waiting;
        pthread_mutex_unlock(&e->lock);
        nap = ve_modes ? ve_nap(e, idle) : 0;
        if (ve_modes && !idle && ve_waits_awake(e))
            continue;
        vm_sleep(&e->w, before, nap ? nap : !idle ? SOON_NS : rndv_open ? RNDV_LOOK_NS : IDLE_NS, &e->stop);
        woken = vm_wakes(&e->w) != before;
    }
}
