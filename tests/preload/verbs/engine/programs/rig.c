#include "complete.h"
#include "hazards.h"
#include "key_table.h"
#include "locks.h"
#include "modify.h"
#include "number_table.h"
#include "quiesce.h"
#include "receive.h"
#include "send.h"
#include "timer.h"
#include "wake.h"
#include "rig.h"

#include <errno.h>
#include <string.h>
#include <time.h>

void rig_open(struct rig *w, const char *folder, uint32_t number, uint32_t row)
{
    memset(w, 0, sizeof *w);
    MUST(!vm_open(&w->e.w, folder, -1, number));
    pthread_mutex_init(&w->e.lock, NULL);
    ve_quiesce_begin(&w->e);
    w->device.node = row;
    w->device.ports = 1;
}

void rig_close(struct rig *w)
{
    bool runs = true;

    pthread_mutex_lock(&w->e.lock);
    __atomic_store_n(&w->e.stop, true, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&w->e.lock);
    while (runs) {
        vm_wake(&w->e.w, w->e.w.process);
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        pthread_mutex_lock(&w->e.lock);
        runs = w->e.timer_runs;
        pthread_mutex_unlock(&w->e.lock);
    }
    nanosleep(&(struct timespec){ 0, 20000000 }, NULL); /* its thread is gone */
    vm_close(&w->e.w);
}

struct cq rig_cq(struct rig *w, uint32_t size)
{
    struct cq c = { .w = w, .at = vm_alloc(&w->e.w, sizeof(struct softib_cq)) };
    struct softib_cq *s = ve_cq(&w->e, c.at);

    MUST(c.at);
    s->size = s->room = size;
    s->ring = vm_alloc_ring(&w->e.w, size * sizeof(struct softib_cqe), &s->there);
    s->process = (uint16_t)w->e.w.process;
    MUST(s->ring);
    return c;
}

static size_t ring(uint32_t size, uint32_t sges)
{
    return size * (sizeof(struct softib_receive) + sges * sizeof(struct softib_sge));
}

struct srq rig_srq(struct rig *w, uint32_t size, uint32_t xrcd, const struct cq *cq)
{
    struct srq q = { .w = w, .at = vm_alloc(&w->e.w, sizeof(struct softib_srq)) };

    q.s = vm_at(&w->e.w, q.at);
    *q.s = (struct softib_srq){
        .is = SOFTIB_IS_SRQ, .size = size, .sges = 1, .domain = DOMAIN, .process = (uint16_t)w->e.w.process, .xrcd = xrcd,
        .cq = cq ? cq->at : 0, .ring = vm_alloc(&w->e.w, ring(size, 1)),
    };
    if (cq)
        q.s->number = vm_number_take(&w->e.w, q.at);
    pthread_mutex_init(&q.lock, NULL);
    return q;
}

uint32_t rig_mr(struct rig *w, void *address, uint64_t length, uint32_t access, uint32_t domain)
{
    uint32_t key;
    struct softib_key *k = vm_key_take(&w->e.w, &key);

    MUST(k);
    k->access = access;
    k->address = k->iova = (uintptr_t)address;
    k->length = length;
    k->domain = domain;
    k->kind = SOFTIB_KEY_REGION;
    k->users = k->qpn = 0;
    k->file = 0;
    vm_key_publish(k, key);
    return key;
}

void rig_dereg(struct rig *w, uint32_t key)
{
    struct softib_key *k = vm_key(&w->e.w, key);

    vm_key_give(k);
    ve_quiesce(&w->e);
    __atomic_store_n(&k->process, 0, __ATOMIC_RELEASE);
}

struct ve_qp *rig_qp(struct rig *w, enum ibv_qp_type type, const struct cq *send, const struct cq *recv,
                       const struct srq *srq, uint32_t depth, uint32_t xrcd)
{
    struct ve_qp *q = calloc(1, sizeof *q);

    q->e = &w->e;
    q->device = &w->device;
    q->at = vm_alloc(&w->e.w, sizeof *q->s);
    q->s = vm_at(&w->e.w, q->at);
    *q->s = (struct softib_qp){
        .is = SOFTIB_IS_QP, .type = (uint8_t)type, .state = IBV_QPS_RESET, .process = (uint16_t)w->e.w.process,
        .port = SV_NO_PORT, .domain = DOMAIN, .xrcd = xrcd, .recv_cq = recv ? recv->at : 0, .srq = srq ? srq->at : 0,
        .user = (uintptr_t)q, .freed = (uintptr_t)&q->receives_freed, .node = w->device.node, .rq_size = recv && !srq ? depth : 0, .rq_sges = 1,
    };
    q->s->rq = q->s->rq_size ? vm_alloc(&w->e.w, ring(depth, 1)) : 0;
    q->send_cq = send ? send->at : 0;
    q->max_send = send ? depth : 0;
    q->max_sges = 4;
    q->max_inline = 64;
    q->s->qpn = vm_number_take(&w->e.w, q->at);
    MUST(q->s->qpn);
    q->ex.qp_base.qp_num = q->s->qpn;
    q->state = IBV_QPS_RESET;
    ve_spin_init(&q->lock);
    ve_quiesce_add(q);
    return q;
}

void rig_destroy(struct ve_qp *q)
{
    struct vm_heap *w = &q->e->w;
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

    MUST(!ve_modify(q, &a, IBV_QP_STATE));
    vm_number_give(w, q->s->qpn);
    ve_unlist(q);
    ve_quiesce_drop(q);
    vm_quiesce(w);
    if (q->send_cq)
        ve_purge(q->e, q->send_cq, q->s->qpn);
    if (q->s->recv_cq)
        ve_purge(q->e, q->s->recv_cq, q->s->qpn);
    for (uint32_t i = 0; q->slots && i < q->max_send; i++) {
        free(q->slots[i].sge);
        free(q->slots[i].data);
    }
    free(q->slots);
    q->s->is = 0;
    if (q->s->rq)
        vm_free(w, q->s->rq, ring(q->s->rq_size, 1));
    vm_free(w, q->at, sizeof *q->s);
    free(q);
}

int rig_init(struct ve_qp *q, uint32_t access)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11, .qp_access_flags = access };

    return ve_modify(q, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                (q->s->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static bool has(const struct ve_qp *q, enum ibv_qp_type one, enum ibv_qp_type two)
{
    return q->s->type == one || q->s->type == two;
}

int rig_rtr(struct ve_qp *q, uint32_t dest, uint16_t dlid, const struct options *o)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = dest, .rq_psn = o->psn,
        .max_dest_rd_atomic = o->no_reads ? 0 : 4, .min_rnr_timer = o->min_rnr, .ah_attr = { .dlid = dlid, .port_num = 1 },
    };

    return ve_modify(q, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                (has(q, IBV_QPT_RC, IBV_QPT_XRC_RECV) ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
}

int rig_rts(struct ve_qp *q, const struct options *o)
{
    struct ibv_qp_attr a = {
        .qp_state = IBV_QPS_RTS, .sq_psn = o->psn, .timeout = o->timeout, .retry_cnt = o->retry_cnt,
        .rnr_retry = o->rnr_retry, .max_rd_atomic = 4,
    };
    int more = has(q, IBV_QPT_RC, IBV_QPT_XRC_SEND)
                   ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0;

    return ve_modify(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | (q->s->type == IBV_QPT_XRC_RECV ? IBV_QP_TIMEOUT : more));
}

void rig_connect(struct ve_qp *a, struct ve_qp *b, const struct options *o)
{
    uint32_t access = o->access ? o->access : ALL_ACCESS;

    MUST(!rig_init(a, access) && !rig_init(b, access));
    MUST(!rig_rtr(a, b->s->qpn, (uint16_t)(b->device->node + 1), o));
    MUST(!rig_rtr(b, a->s->qpn, (uint16_t)(a->device->node + 1), o));
    MUST(!rig_rts(a, o) && !rig_rts(b, o));
}

void rig_datagrams(struct ve_qp *q)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };

    MUST(!rig_init(q, 0) && !ve_modify(q, &a, IBV_QP_STATE));
    a.qp_state = IBV_QPS_RTS;
    MUST(!ve_modify(q, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void write_receive(struct vm_heap *w, uint64_t ring_at, uint32_t place, uint64_t id, void *to, uint32_t length,
                          uint32_t lkey)
{
    struct softib_receive *r = vm_at(w, ring_at + place * ring(1, 1));

    r->wr_id = id;
    r->sges = 1;
    *(struct softib_sge *)(void *)(r + 1) = (struct softib_sge){ (uintptr_t)to, length, lkey };
}

static void wake(struct vm_heap *w, uint16_t *waiter)
{
    uint16_t who = __atomic_load_n(waiter, __ATOMIC_SEQ_CST) ? __atomic_exchange_n(waiter, 0, __ATOMIC_SEQ_CST) : 0;

    if (who)
        vm_wake(w, who);
}

int rig_recv(struct ve_qp *q, uint64_t id, void *to, uint32_t length, uint32_t lkey)
{
    struct softib_qp *s = q->s;

    if (s->rq_tail - __atomic_load_n(&s->rq_head, __ATOMIC_ACQUIRE) >= s->rq_size)
        return ENOMEM;
    write_receive(&q->e->w, s->rq, s->rq_tail % s->rq_size, id, to, length, lkey);
    __atomic_store_n(&s->rq_tail, s->rq_tail + 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&s->state, __ATOMIC_SEQ_CST) == IBV_QPS_ERR) {
        vm_lock(&q->e->w, &s->lock);
        while (ve_next_receive(q->e, s, NULL)) {
            struct softib_cqe cqe = { .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV };

            ve_take_receive(q->e, s, NULL, &cqe, false);
        }
        vm_unlock(&s->lock);
    }
    wake(&q->e->w, &s->waiter);
    return 0;
}

int rig_srq_recv(struct srq *q, uint64_t id, void *to, uint32_t length, uint32_t lkey)
{
    struct softib_srq *s = q->s;
    int error = ENOMEM;

    pthread_mutex_lock(&q->lock);
    if (s->tail - __atomic_load_n(&s->head, __ATOMIC_ACQUIRE) < s->size) {
        write_receive(&q->w->e.w, s->ring, s->tail % s->size, id, to, length, lkey);
        __atomic_store_n(&s->tail, s->tail + 1, __ATOMIC_SEQ_CST);
        error = 0;
    }
    pthread_mutex_unlock(&q->lock);
    wake(&q->w->e.w, &s->waiter);
    return error;
}

int rig_post(struct ve_qp *q, const struct ve_wr *wr)
{
    int error;

    ve_spin_lock(&q->lock);
    error = ve_post(q, wr);
    ve_spin_unlock(&q->lock);
    return error;
}

static bool take(const struct cq *c, struct softib_cqe *cqe)
{
    struct softib_cq *s = ve_cq(&c->w->e, c->at);
    const struct softib_cqe *there;

    vm_lock(&c->w->e.w, &s->polling);
    there = ve_next_completion(&c->w->e, s);
    if (there) {
        *cqe = *there;
        ve_free_place(cqe);
        __atomic_store_n(&s->consumer, s->consumer + 1, __ATOMIC_RELEASE);
    }
    vm_unlock(&s->polling);
    return there;
}

bool rig_poll(const struct cq *c, struct softib_cqe *cqe, int ms)
{
    uint64_t end = ve_now_ns() + (uint64_t)ms * 1000000;
    bool got;

    for (unsigned n = 1;; n++) {
        ve_progress(&c->w->e);
        got = take(c, cqe);
        if (got || (n % 16 == 0 && ve_now_ns() >= end) || !ms)
            return got;
        if (n % 64 == 0)
            nanosleep(&(struct timespec){ 0, 20000 }, NULL);
    }
}

enum ibv_qp_state rig_state(struct ve_qp *q)
{
    return __atomic_load_n(&q->s->state, __ATOMIC_ACQUIRE);
}
