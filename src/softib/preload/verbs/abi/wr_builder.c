/* ibv_wr_*: requests are collected between wr_start and wr_complete, then all or none are posted. */
#include "abi.h"
#include "../engine/record.h"
#include "../engine/send.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct builder {
    struct ve_wr *wrs;
    uint32_t n, room;
    struct ibv_sge *sges;           /* q->max_sges for each request */
    char *data;                     /* for each request q->max_inline bytes, or the 8 of an atomic write */
    int error;                      /* first error; wr_complete returns it */
};

static struct ve_qp *qp_of(struct ibv_qp_ex *ex)
{
    return (struct ve_qp *)ex;
}

static uint32_t data_room(const struct ve_qp *q)
{
    return q->max_inline > 8 ? q->max_inline : 8;
}

static void start(struct ibv_qp_ex *ex)
{
    struct ve_qp *q = qp_of(ex);
    struct builder *b = q->builder;

    ve_spin_lock(&q->lock);
    b->n = 0;
    b->error = 0;
}

/* Begin another request, which ends the previous one. NULL: the queue is full. */
static struct ve_wr *add(struct ibv_qp_ex *ex, uint32_t opcode)
{
    struct ve_qp *q = qp_of(ex);
    struct builder *b = q->builder;
    struct ve_wr *wr;

    if (b->n == b->room || ve_sq_used(q) + b->n >= q->max_send) {
        b->error = b->error ? b->error : ENOMEM;
        return NULL;
    }
    wr = &b->wrs[b->n];
    *wr = (struct ve_wr){ .wr_id = ex->wr_id, .flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE, .opcode = opcode,
                          .sge = b->sges + (size_t)b->n * q->max_sges };
    b->n++;
    return wr;
}

/* Return the request that the setters fill. */
static struct ve_wr *last(struct ibv_qp_ex *ex)
{
    struct builder *b = qp_of(ex)->builder;

    return b->n && !b->error ? &b->wrs[b->n - 1] : NULL;
}

static void fail(struct ibv_qp_ex *ex, int error)
{
    struct builder *b = qp_of(ex)->builder;

    b->error = b->error ? b->error : error;
}

static void remote(struct ibv_qp_ex *ex, uint32_t opcode, uint32_t rkey, uint64_t address, uint32_t imm)
{
    struct ve_wr *wr = add(ex, opcode);

    if (wr) {
        wr->rkey = rkey;
        wr->remote = address;
        wr->imm = imm;
    }
}

static void wr_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address)
{
    remote(ex, IBV_WR_RDMA_WRITE, rkey, address, 0);
}

static void wr_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address, __be32 imm)
{
    remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, address, imm);
}

static void wr_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address)
{
    remote(ex, IBV_WR_RDMA_READ, rkey, address, 0);
}

static void wr_send(struct ibv_qp_ex *ex)
{
    add(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    remote(ex, IBV_WR_SEND_WITH_IMM, 0, 0, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    remote(ex, IBV_WR_SEND_WITH_INV, 0, 0, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    remote(ex, IBV_WR_LOCAL_INV, 0, 0, rkey);
}

static void wr_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap)
{
    struct ve_wr *wr = add(ex, IBV_WR_ATOMIC_CMP_AND_SWP);

    if (wr) {
        wr->rkey = rkey;
        wr->remote = address;
        wr->compare = compare;
        wr->swap = swap;
    }
}

static void wr_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address, uint64_t n)
{
    struct ve_wr *wr = add(ex, IBV_WR_ATOMIC_FETCH_AND_ADD);

    if (wr) {
        wr->rkey = rkey;
        wr->remote = address;
        wr->compare = n;
    }
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
    struct ve_wr *wr = add(ex, IBV_WR_BIND_MW);

    if (wr) {
        wr->mw = mw;
        wr->rkey = rkey;
        wr->bind = *info;
    }
}

/* -- data of the request -- */

static void set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct ve_wr *wr = last(ex);

    if (wr) {
        wr->ah = (struct ve_ah *)ah;
        wr->qpn = qpn;
        wr->qkey = qkey;
    }
}

static void set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t number)
{
    struct ve_wr *wr = last(ex);

    if (wr)
        wr->qpn = number;
}

static void set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
    struct ve_wr *wr = last(ex);

    if (!wr)
        return;
    if (n > qp_of(ex)->max_sges) {
        fail(ex, ENOMEM);
        return;
    }
    memcpy((struct ibv_sge *)wr->sge, list, n * sizeof *list);
    wr->sges = (uint32_t)n;
}

static void set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t address, uint32_t length)
{
    struct ibv_sge sge = { address, length, lkey };

    set_sge_list(ex, 1, &sge);
}

/* Copy the data now: the application may reuse its buffer when the call returns. */
static void set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
    struct ve_qp *q = qp_of(ex);
    struct builder *b = q->builder;
    struct ve_wr *wr = last(ex);
    size_t octets = 0;
    char *to;

    if (!wr)
        return;
    to = b->data + (size_t)(b->n - 1) * data_room(q);
    for (size_t i = 0; i < n; octets += list[i++].length) {
        if (list[i].length > q->max_inline - octets) {
            fail(ex, ENOMEM);
            return;
        }
        memcpy(to + octets, list[i].addr, list[i].length);
    }
    *(struct ibv_sge *)wr->sge = (struct ibv_sge){ (uintptr_t)to, (uint32_t)octets, 0 };
    wr->sges = 1;
    wr->flags |= IBV_SEND_INLINE;
}

static void set_inline_data(struct ibv_qp_ex *ex, void *address, size_t length)
{
    struct ibv_data_buf one = { address, length };

    set_inline_data_list(ex, 1, &one);
}

/* The 8 bytes are always inline. */
static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t address, const void *value)
{
    struct ve_qp *q = qp_of(ex);
    struct builder *b = q->builder;
    struct ve_wr *wr;
    char *to;

    remote(ex, IBV_WR_ATOMIC_WRITE, rkey, address, 0);
    wr = last(ex);
    if (!wr)
        return;
    to = b->data + (size_t)(b->n - 1) * data_room(q);
    memcpy(to, value, 8);
    *(struct ibv_sge *)wr->sge = (struct ibv_sge){ (uintptr_t)to, 8, 0 };
    wr->sges = 1;
    wr->flags |= IBV_SEND_INLINE;
}

static inline int post_all(struct ibv_qp_ex *ex, bool recorded)
{
    struct ve_qp *q = qp_of(ex);
    struct builder *b = q->builder;
    int error = q->state <= IBV_QPS_RTR ? EINVAL : b->error;

    for (uint32_t i = 0; !error && i < b->n; i++)
        error = b->wrs[i].opcode == IBV_WR_ATOMIC_WRITE ? 0 : va_check(q, &b->wrs[i]);
    for (uint32_t i = 0; !error && i < b->n; i++) {
        error = ve_post(q, &b->wrs[i]);
        if (recorded && !error)
            va_record_request(q, &b->wrs[i]);
    }
    ve_spin_unlock(&q->lock);
    return error;
}

static int complete(struct ibv_qp_ex *ex)
{
    return post_all(ex, false);
}

static int complete_recorded(struct ibv_qp_ex *ex)
{
    int error;

    ve_record_enter(true);
    error = post_all(ex, true);
    ve_record_leave(false);
    return error;
}

static void abort_(struct ibv_qp_ex *ex)
{
    ve_spin_unlock(&qp_of(ex)->lock);
}

void va_free_builder(struct ve_qp *q)
{
    struct builder *b = q->builder;

    if (!b)
        return;
    free(b->wrs);
    free(b->sges);
    free(b->data);
    free(b);
    q->builder = NULL;
}

#define WRITES (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
#define SENDS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define OF_UC (SENDS | WRITES | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV)
#define OF_RC (OF_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
               IBV_QP_EX_WITH_ATOMIC_WRITE)

static uint64_t possible(enum ibv_qp_type type)
{
    switch (type) {
    case IBV_QPT_UD: return SENDS;
    case IBV_QPT_UC: return OF_UC;
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND: return OF_RC;
    default: return 0;
    }
}

int va_fill_builder(struct ve_qp *q, uint64_t flags)
{
    struct ibv_qp_ex *ex = &q->ex;
    struct builder *b;

    if (flags & ~possible(ex->qp_base.qp_type))
        return EOPNOTSUPP;
    b = q->builder = calloc(1, sizeof *b);
    if (!b)
        return ENOMEM;
    b->room = q->max_send ? q->max_send : 1;
    b->wrs = calloc(b->room, sizeof *b->wrs);
    b->sges = calloc((size_t)b->room * (q->max_sges ? q->max_sges : 1), sizeof *b->sges);
    b->data = malloc((size_t)b->room * data_room(q));
    if (!b->wrs || !b->sges || !b->data) {
        va_free_builder(q);
        return ENOMEM;
    }
    ex->wr_start = start;
    ex->wr_complete = ve_recording ? complete_recorded : complete;
    ex->wr_abort = abort_;
    ex->wr_set_ud_addr = set_ud_addr;
    ex->wr_set_xrc_srqn = set_xrc_srqn;
    ex->wr_set_sge = set_sge;
    ex->wr_set_sge_list = set_sge_list;
    ex->wr_set_inline_data = set_inline_data;
    ex->wr_set_inline_data_list = set_inline_data_list;
    ex->wr_rdma_write = flags & IBV_QP_EX_WITH_RDMA_WRITE ? wr_write : NULL;
    ex->wr_rdma_write_imm = flags & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM ? wr_write_imm : NULL;
    ex->wr_rdma_read = flags & IBV_QP_EX_WITH_RDMA_READ ? wr_read : NULL;
    ex->wr_send = flags & IBV_QP_EX_WITH_SEND ? wr_send : NULL;
    ex->wr_send_imm = flags & IBV_QP_EX_WITH_SEND_WITH_IMM ? wr_send_imm : NULL;
    ex->wr_send_inv = flags & IBV_QP_EX_WITH_SEND_WITH_INV ? wr_send_inv : NULL;
    ex->wr_local_inv = flags & IBV_QP_EX_WITH_LOCAL_INV ? wr_local_inv : NULL;
    ex->wr_bind_mw = flags & IBV_QP_EX_WITH_BIND_MW ? wr_bind_mw : NULL;
    ex->wr_atomic_cmp_swp = flags & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP ? wr_cmp_swp : NULL;
    ex->wr_atomic_fetch_add = flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD ? wr_fetch_add : NULL;
    ex->wr_atomic_write = flags & IBV_QP_EX_WITH_ATOMIC_WRITE ? wr_atomic_write : NULL;
    return 0;
}
