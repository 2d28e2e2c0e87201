/* When a posted request is executed, when it completes, and which thread checks it. */
#include "sq_sched.h"
#include "../completion/complete.h"
#include "sq_sched_internal.h"
#include "../queue_pair/strict.h"
#include "timer.h"
#include "../../memory/wake.h"

#include <stdlib.h>
#include <string.h>

#define LAZY_NS 200000u     /* the timer thread leaves all work to a thread that polled within this time */
#define HOLD_NS 50000u      /* strict: maximum delay of execution, which applies to programs that neither poll nor sleep
                             * */
#define SHORT_NS 20000u     /* shortest sleep */
#define BASE_MOST 150.0     /* ns: a small request takes longer only if its thread was interrupted */
#define MOST_POLLS 4u       /* strict: number of polls for which a request may stay unexecuted */

unsigned ve_modes;

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value && strcmp(value, "0") != 0;
}

void ve_modes_read(void)
{
    ve_modes = (is_set("SOFTIB_PACE") ? VE_PACED : 0) | (is_set("SOFTIB_STRICT") ? VE_STRICT : 0);
    if (ve_modes & VE_STRICT)
        ve_strict_begin();
}

static struct ve_sq_sched *sched_of(struct ve_qp *q)
{
    struct ve_sq_sched *l = q->sched;

    if (l)
        return l;
    l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->when = calloc(q->max_send, sizeof *l->when);
    l->held = calloc(q->max_send, sizeof *l->held);
    if (!l->when || !l->held) {
        free(l->when);
        free(l->held);
        free(l);
        return NULL;
    }
    l->byte_ns = 0.1; /* assumed until a few copies were measured */
    l->base_ns = 100;
    l->epoch = UINT64_MAX;
    return q->sched = l;
}

void ve_schedule(struct ve_qp *q, const struct ve_wr *wr)
{
    struct ve_sq_sched *l = sched_of(q);
    struct ve_when *when;
    uint64_t now = ve_now_ns();

    if (!l) { /* out of memory: execute the request at once */
        ve_missed(q->e);
        return;
    }
    when = &l->when[(q->tail - 1) % q->max_send];
    *when = (struct ve_when){ .posted = now, .run = now, .done = now };
    if (ve_modes & VE_PACED)
        ve_pace(q, l, wr, when);
    if (when->run < l->last_run)
        when->run = l->last_run; /* in order, after earlier requests (9.7) */
    if (when->done < when->run)
        when->done = when->run;
    l->last_run = when->run;
    if (ve_modes & VE_STRICT) {
        when->polls = __atomic_load_n(&q->e->polls, __ATOMIC_RELAXED) + 1 + ve_strict_roll() % MOST_POLLS;
        when->latest = now + HOLD_NS;
        ve_strict_posted(q, wr);
    }
    ve_looked_at(q->e, q);
}

/* Return how many ns earlier a request must start, so that its data arrives on time. */
static uint64_t lead(const struct ve_sq_sched *l, const struct ve_when *when)
{
    double takes = l->base_ns + l->byte_ns * (double)when->octets, most = (double)(when->run - when->posted);

    return (uint64_t)(takes < most ? takes : most);
}

bool ve_is_due(struct ve_qp *q, uint64_t now)
{
    struct ve_sq_sched *l = q->sched;
    const struct ve_when *when;

    if (!l)
        return true;
    when = &l->when[q->head % q->max_send];
    if (now + lead(l, when) < when->run)
        return false;
    if (ve_modes & VE_STRICT && now < when->latest && (int32_t)(__atomic_load_n(&q->e->polls, __ATOMIC_RELAXED) - when->polls) < 0)
        return false;
    l->done = when->done;
    l->octets = when->octets;
    l->path_number = when->path_number;
    return true;
}

/*
 * Update the estimate of a copy's cost with a measurement. Quick copies have more weight than interrupted ones, because
 * a copy that starts early completes early.
 */
static void learn(double *mean, double seen)
{
    if (seen > 2 * *mean)
        seen = 2 * *mean;
    *mean += (seen - *mean) / (seen < *mean ? 2 : 32);
}

void ve_ran(struct ve_qp *q, uint64_t began, bool done)
{
    struct ve_sq_sched *l = q->sched;
    double took;

    if (!l)
        return;
    l->done = 0;
    if (!done || !(ve_modes & VE_PACED))
        return;
    took = (double)(ve_now_ns() - began);
    if (l->octets < 4096)
        learn(&l->base_ns, took < BASE_MOST ? took : BASE_MOST);
    else if (took > l->base_ns)
        learn(&l->byte_ns, (took - l->base_ns) / l->octets);
}

unsigned ve_scheduled_path(const struct ve_qp *q)
{
    return q->sched ? q->sched->path_number : 0;
}

bool ve_hold_back(struct ve_qp *q, const struct softib_cqe *cqe)
{
    struct ve_sq_sched *l = q->sched;

    if (!l || (l->held_head == l->held_tail && l->done <= ve_now_ns()))
        return false;
    if (l->held_tail - l->held_head >= q->max_send) { /* more than a correct program ever posts */
        q->overran |= !ve_complete(q->e, q->send_cq, &l->held[l->held_head % q->max_send].cqe, false);
        l->held_head++;
    }
    l->held[l->held_tail % q->max_send].cqe = *cqe;
    l->held[l->held_tail++ % q->max_send].ns = l->done;
    return true;
}

void ve_let_go(struct ve_qp *q, uint64_t now)
{
    struct ve_sq_sched *l = q->sched;

    while (l && l->held_head != l->held_tail && l->held[l->held_head % q->max_send].ns <= now) {
        q->overran |= !ve_complete(q->e, q->send_cq, &l->held[l->held_head % q->max_send].cqe, false);
        l->held_head++;
    }
}

bool ve_holds(const struct ve_qp *q)
{
    return q->sched && q->sched->held_head != q->sched->held_tail;
}

void ve_sched_reset(struct ve_qp *q)
{
    if (!q->sched)
        return;
    q->sched->held_head = q->sched->held_tail;
    q->sched->last_run = q->sched->last_read = 0;
}

void ve_sched_free(struct ve_qp *q)
{
    struct ve_sq_sched *l = q->sched;

    if (!l)
        return;
    for (unsigned i = 0; i < l->trips_n; i++) {
        sv_timed_path_free(&l->trips[i].there);
        sv_timed_path_free(&l->trips[i].back);
    }
    free(l->trips);
    free(l->when);
    free(l->held);
    free(l);
    q->sched = NULL;
}

/* -- which thread checks, and when -- */

static void not_after(struct ve_engine *e, uint64_t ns)
{
    uint64_t due = __atomic_load_n(&e->due_ns, __ATOMIC_RELAXED);

    while (ns < due && !__atomic_compare_exchange_n(&e->due_ns, &due, ns, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
}

void ve_look_begins(struct ve_engine *e)
{
    __atomic_store_n(&e->due_ns, UINT64_MAX, __ATOMIC_SEQ_CST);
}

void ve_looked_at(struct ve_engine *e, struct ve_qp *q)
{
    const struct ve_sq_sched *l = q->sched;
    const struct ve_when *when;

    if (!l || q->rendezvous || (q->head != q->tail && q->waits)) {
        ve_missed(e);
        return;
    }
    if (l->held_head != l->held_tail)
        not_after(e, l->held[l->held_head % q->max_send].ns);
    if (q->head == q->tail)
        return;
    when = &l->when[q->head % q->max_send];
    not_after(e, ve_modes & VE_STRICT && when->latest > when->run ? when->latest : when->run - lead(l, when));
}

void ve_missed(struct ve_engine *e)
{
    not_after(e, 0);
}

bool ve_polled(struct ve_engine *e)
{
    uint64_t now = ve_now_ns();

    /* After arming a CQ, a program polls again and then sleeps, so a single poll does not show that it spins. */
    __atomic_store_n(&e->polled_ns, __atomic_load_n(&e->polled_ns, __ATOMIC_RELAXED) ? now : 1, __ATOMIC_RELAXED);
    if (!(ve_modes & VE_STRICT))
        return now >= __atomic_load_n(&e->due_ns, __ATOMIC_RELAXED);
    __atomic_fetch_add(&e->polls, 1, __ATOMIC_RELAXED);
    return true;
}

uint64_t ve_leaves_it(struct ve_engine *e)
{
    uint64_t now = ve_now_ns();

    if (now - __atomic_load_n(&e->polled_ns, __ATOMIC_RELAXED) >= LAZY_NS) {
        __atomic_store_n(&e->awake_ns, UINT64_MAX, __ATOMIC_SEQ_CST);
        return 0;
    }
    __atomic_store_n(&e->awake_ns, now + LAZY_NS, __ATOMIC_SEQ_CST);
    return LAZY_NS;
}

uint64_t ve_nap(struct ve_engine *e, bool idle)
{
    uint64_t now = ve_now_ns(), due = __atomic_load_n(&e->due_ns, __ATOMIC_SEQ_CST), nap;
    bool lazy = now - __atomic_load_n(&e->polled_ns, __ATOMIC_RELAXED) < LAZY_NS;

    if (lazy)
        nap = !idle && due != UINT64_MAX && due > now + LAZY_NS ? due - now : LAZY_NS;
    else
        nap = idle || due <= now ? 0 : due - now;
    __atomic_store_n(&e->awake_ns, nap ? now + nap : UINT64_MAX, __ATOMIC_SEQ_CST);
    return nap;
}

bool ve_waits_awake(struct ve_engine *e)
{
    uint64_t due = __atomic_load_n(&e->due_ns, __ATOMIC_SEQ_CST), now = ve_now_ns();

    if (due <= now || due > now + SHORT_NS || now - __atomic_load_n(&e->polled_ns, __ATOMIC_RELAXED) < LAZY_NS)
        return false;
    while (ve_now_ns() < due && !__atomic_load_n(&e->stop, __ATOMIC_RELAXED))
        vm_relax();
    return true;
}

bool ve_wakes_in_time(struct ve_engine *e)
{
    uint64_t now = ve_now_ns();

    return __atomic_load_n(&e->awake_ns, __ATOMIC_SEQ_CST) <= now + LAZY_NS &&
           now - __atomic_load_n(&e->polled_ns, __ATOMIC_RELAXED) < LAZY_NS;
}

#define SETTLE_NS 5000000u

bool ve_settle(struct ve_engine *e)
{
    uint64_t end = ve_now_ns() + SETTLE_NS;

    while (__atomic_load_n(&e->waiting, __ATOMIC_ACQUIRE) && ve_now_ns() < end)
        ve_progress(e);
    return !__atomic_load_n(&e->waiting, __ATOMIC_ACQUIRE);
}

void ve_will_sleep(struct ve_engine *e)
{
    __atomic_store_n(&e->polled_ns, 0, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&e->waiting, __ATOMIC_ACQUIRE))
        vm_rouse(&e->w);
}
