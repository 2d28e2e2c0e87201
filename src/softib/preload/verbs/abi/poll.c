/* Polling and arming of completion queues, with ibv_poll_cq and with the extended interface. */
#include "abi.h"
#include "../engine/completion/complete.h"
#include "../engine/completion/poll_batch.h"
#include "../engine/record.h"
#include "../engine/send.h"
#include "../engine/queue_pair/strict.h"
#include "../engine/scheduling/timer.h"
#include "../memory/hazards.h"
#include "../memory/locks.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/*
 * If a thread's polls return nothing and another such thread uses its processor, it yields, since the other thread may
 * have to produce the completion. It does not yield to other programs, which would keep the processor for a time slice.
 * With one processor per thread, no thread yields. If a yield took as long as a time slice, another program used the
 * processor. For a while the thread then sleeps instead of yielding, because a sleeping thread gets the processor back
 * as soon as its timer fires.
 */
#define IDLE_POLLS 500
#define COMPANY 8          /* number of yields after another thread was seen */
#define TIME_SLICE 1000000 /* ns; the smallest slices of Linux are about that long */
#define SLEEPS 64          /* number of sleeps after a yield of a time slice */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void yield_to_poller(void)
{
    static uint32_t threads;
    static __thread uint32_t mine, company, sleeps;
    int processor = sched_getcpu();
    uint32_t *last = &vm_head(&va_engine.w)->poller[(unsigned)processor % SOFTIB_VERBS_PROCESSORS], me, before;

    if (!mine)
        mine = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED);
    me = va_engine.w.process << 16 | (mine & 0xFFFF);
    before = __atomic_load_n(last, __ATOMIC_RELAXED);
    if (before != me)
        __atomic_store_n(last, me, __ATOMIC_RELAXED);
    if (before && before != me)
        company = COMPANY; /* one yield may not be enough for the scheduler */
    if (!company)
        return;
    company--;
    if (!sleeps) {
        uint64_t begin = now_ns();

        sched_yield();
        if (now_ns() - begin >= TIME_SLICE)
            sleeps = SLEEPS;
        if (__atomic_load_n(last, __ATOMIC_RELAXED) != me)
            return; /* otherwise the other one is in another session or control group, and a yield does not switch
                     * to it */
    } else {
        sleeps--;
    }
    nanosleep(&(struct timespec){ 0, 1 }, NULL);
}

/* End of a poll, after its locks are released. */
static void poll_ends(bool found)
{
    static __thread unsigned idle;

    if (found) {
        idle = 0;
    } else if (++idle >= IDLE_POLLS) {
        idle = 0;
        yield_to_poller();
    }
}

/* -- polling; s->polling is held -- */

/* Return the next completion; NULL: none. */
static const struct softib_cqe *next(struct va_cq *c)
{
    const struct softib_cqe *cqe = ve_next_completion(&va_engine, c->s);

    if (!cqe)
        return NULL;
    if (cqe->flags & IBV_WC_WITH_INV && cqe->status == IBV_WC_SUCCESS)
        vm_quiesce(&va_engine.w); /* a process that looked up the window earlier may still copy */
    return cqe;
}

static void taken(struct va_cq *c)
{
    __atomic_store_n(&c->s->consumer, c->s->consumer + 1, __ATOMIC_RELEASE);
}

static void fill(struct ibv_wc *wc, const struct softib_cqe *cqe)
{
    *wc = (struct ibv_wc){
        .wr_id = cqe->wr_id, .status = cqe->status, .opcode = cqe->opcode, .vendor_err = cqe->vendor_err,
        .byte_len = cqe->byte_len, .imm_data = cqe->imm, .qp_num = cqe->qpn, .src_qp = cqe->src_qp, .wc_flags = cqe->flags,
        .pkey_index = cqe->pkey_index, .slid = cqe->slid, .sl = cqe->sl, .dlid_path_bits = cqe->path_bits,
    };
}

int va_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    struct va_cq *c = (struct va_cq *)cq;
    const struct softib_cqe *cqe;
    int got = 0;

    ve_progress(&va_engine);
    if (ve_is_strict())
        ve_strict_cq_polled(&va_engine, c->at);
    vm_lock(&va_engine.w, &c->s->polling);
    for (; got < n && (cqe = next(c)); got++) {
        fill(&wc[got], cqe);
        if (ve_modes && cqe->status && ve_is_strict())
            ve_scramble_wc(&wc[got]);
        ve_free_place(cqe);
        taken(c);
    }
    vm_unlock(&c->s->polling);
    poll_ends(got != 0);
    return got;
}

int va_req_notify_cq(struct ibv_cq *cq, int solicited)
{
    struct softib_cq *s = ((struct va_cq *)cq)->s;

    ve_lock_cq(&va_engine, s);
    if (s->armed < (solicited ? 1u : 2u)) /* "any" overrides "solicited" */
        __atomic_store_n(&s->armed, solicited ? 1 : 2, __ATOMIC_RELAXED);
    vm_unlock(&s->lock);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (ve_modes)
        ve_will_sleep(&va_engine);
    return 0;
}

/* -- the extended interface -- */

static int look(struct va_cq *c)
{
    const struct softib_cqe *cqe = next(c);

    if (!cqe)
        return ENOENT;
    c->now = *cqe;
    ve_free_place(cqe);
    taken(c);
    if (ve_modes && c->now.status && ve_is_strict())
        ve_scramble(&c->now);
    c->ex.status = c->now.status;
    c->ex.wr_id = c->now.wr_id;
    return 0;
}

int va_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    struct va_cq *c = (struct va_cq *)ex;
    int error;

    if (attr && attr->comp_mask)
        return EINVAL;
    ve_progress(&va_engine);
    if (ve_is_strict())
        ve_strict_cq_polled(&va_engine, c->at);
    vm_lock(&va_engine.w, &c->s->polling);
    error = look(c);
    if (error)
        vm_unlock(&c->s->polling);
    else
        ve_batch_begin(c->s);
    poll_ends(!error);
    return error;
}

int va_next_poll(struct ibv_cq_ex *ex)
{
    return look((struct va_cq *)ex);
}

static void end_poll(struct ibv_cq_ex *ex)
{
    struct softib_cq *s = ((struct va_cq *)ex)->s;

    ve_batch_end(s);
    vm_unlock(&s->polling);
}

/* After an error only wr_id, status, qp_num and vendor_err are defined. */
static const struct softib_cqe *defined(struct ibv_cq_ex *ex, const char *reader)
{
    const struct softib_cqe *now = &((const struct va_cq *)ex)->now;

    if (now->status && ve_is_strict())
        ve_warn("%s of a completion with status %u: the field is undefined", reader, now->status);
    return now;
}

#define READS_IF_RIGHT(type, name, what)                                                                                     \
    static type read_##name(struct ibv_cq_ex *ex)                                                                            \
    {                                                                                                                        \
        return defined(ex, "ibv_wc_read_" #name)->what;                                                                      \
    }

#define READS(type, name, what)                                                                                              \
    static type read_##name(struct ibv_cq_ex *ex)                                                                            \
    {                                                                                                                        \
        return ((const struct va_cq *)ex)->now.what;                                                                         \
    }

READS_IF_RIGHT(enum ibv_wc_opcode, opcode, opcode)
READS(uint32_t, vendor_err, vendor_err)
READS_IF_RIGHT(uint32_t, byte_len, byte_len)
READS_IF_RIGHT(__be32, imm_data, imm)
READS(uint32_t, qp_num, qpn)
READS_IF_RIGHT(uint32_t, src_qp, src_qp)
READS_IF_RIGHT(unsigned int, wc_flags, flags)
READS_IF_RIGHT(uint32_t, slid, slid)
READS_IF_RIGHT(uint8_t, sl, sl)
READS_IF_RIGHT(uint8_t, dlid_path_bits, path_bits)
READS(uint64_t, completion_ts, stamp)

static uint64_t read_wallclock(struct ibv_cq_ex *ex)
{
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)wall.tv_sec * 1000000000 + (uint64_t)wall.tv_nsec - (ve_now_ns() - ((struct va_cq *)ex)->now.stamp);
}

/* Set in the first completion of a matched message; 0 in others
 * (engine/tag_matching/tag_matching.c). */
static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
    const struct softib_cqe *now = &((struct va_cq *)ex)->now;
    bool matched = now->status == IBV_WC_SUCCESS && now->opcode == IBV_WC_TM_RECV && now->flags & IBV_WC_TM_MATCH;

    *info = (struct ibv_wc_tm_info){ .priv = matched ? now->vendor_err : 0 };
    if (matched)
        memcpy(&info->tag, (const char *)now + offsetof(struct softib_cqe, sl), sizeof info->tag);
}

/* Readers of fields that were not requested stay NULL, as in a driver. */
void va_fill_cq_ex(struct ibv_cq_ex *ex, uint64_t wc_flags)
{
    ex->start_poll = ve_recording ? va_record_start_poll : va_start_poll;
    ex->next_poll = ve_recording ? va_record_next_poll : va_next_poll;
    ex->end_poll = end_poll;
    ex->read_opcode = read_opcode;
    ex->read_vendor_err = read_vendor_err;
    ex->read_wc_flags = read_wc_flags;
    ex->read_byte_len = wc_flags & IBV_WC_EX_WITH_BYTE_LEN ? read_byte_len : NULL;
    ex->read_imm_data = wc_flags & IBV_WC_EX_WITH_IMM ? read_imm_data : NULL;
    ex->read_qp_num = wc_flags & IBV_WC_EX_WITH_QP_NUM ? read_qp_num : NULL;
    ex->read_src_qp = wc_flags & IBV_WC_EX_WITH_SRC_QP ? read_src_qp : NULL;
    ex->read_slid = wc_flags & IBV_WC_EX_WITH_SLID ? read_slid : NULL;
    ex->read_sl = wc_flags & IBV_WC_EX_WITH_SL ? read_sl : NULL;
    ex->read_dlid_path_bits = wc_flags & IBV_WC_EX_WITH_DLID_PATH_BITS ? read_dlid_path_bits : NULL;
    ex->read_tm_info = wc_flags & IBV_WC_EX_WITH_TM_INFO ? read_tm_info : NULL;
    ex->read_completion_ts = wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP ? read_completion_ts : NULL;
    ex->read_completion_wallclock_ns =
        wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK ? read_wallclock : NULL;
}
