/* The functions of ops.c, cq.c, qp.c and qp_states.c for a recorded program (engine/record.h): each
 * calls the plain function and records the call. */
#include "abi.h"
#include "../../collectives.h"
#include "../engine/record.h"

static uint32_t octets_of(const struct ibv_sge *sge, int n)
{
    uint64_t octets = 0;

    for (int i = 0; i < n; i++)
        octets += sge[i].length;
    return octets > UINT32_MAX ? UINT32_MAX : (uint32_t)octets;
}

void va_record_request(const struct ve_qp *q, const struct ve_wr *wr)
{
    ve_record(SOFTIB_EVENT_POST, (uint16_t)wr->opcode, q->s->qpn, q->s->type == IBV_QPT_UD ? wr->qpn : q->s->dest_qpn,
              octets_of(wr->sge, (int)wr->sges));
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    const struct ve_qp *q = (const struct ve_qp *)qp;
    int error;

    ve_record_enter(true);
    error = va_post_send(qp, wr, bad);
    for (; wr && !(error && wr == *bad); wr = wr->next)
        ve_record(SOFTIB_EVENT_POST, (uint16_t)wr->opcode, qp->qp_num,
                  qp->qp_type == IBV_QPT_UD ? wr->wr.ud.remote_qpn : q->s->dest_qpn, octets_of(wr->sg_list, wr->num_sge));
    ve_record_leave(false);
    return error;
}

static void completion(uint32_t qpn, uint32_t opcode, uint32_t src_qp, uint32_t octets, uint32_t imm)
{
    if (opcode & IBV_WC_RECV)
        ve_record(SOFTIB_EVENT_RECEIVED, (uint16_t)opcode, qpn, src_qp, octets);
    else
        ve_record(SOFTIB_EVENT_SENT, (uint16_t)opcode, qpn, 0, imm);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
    int got;

    ve_record_enter(false);
    got = va_poll_cq(cq, n, wc);
    if (got > 0)
        ve_record_taken();
    for (int i = 0; i < got; i++)
        if (wc[i].status == IBV_WC_SUCCESS)
            completion(wc[i].qp_num, wc[i].opcode, wc[i].src_qp, wc[i].byte_len, wc[i].imm_data);
    ve_record_leave(got == 0);
    return got;
}

void va_record_ops(struct ibv_context_ops *ops)
{
    ops->post_send = post_send;
    ops->poll_cq = poll_cq;
}

/* -- the extended interface: each call of the plain function takes at most one completion -- */

static void taken(struct ibv_cq_ex *ex)
{
    const struct softib_cqe *now = &((const struct va_cq *)ex)->now;

    ve_record_taken();
    if (now->status == IBV_WC_SUCCESS)
        completion(now->qpn, now->opcode, now->src_qp, now->byte_len, now->imm);
}

int va_record_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
    int error;

    ve_record_enter(false);
    error = va_start_poll(ex, attr);
    if (!error)
        taken(ex);
    ve_record_leave(error);
    return error;
}

int va_record_next_poll(struct ibv_cq_ex *ex)
{
    int error;

    ve_record_enter(false);
    error = va_next_poll(ex);
    if (!error)
        taken(ex);
    ve_record_leave(false);
    return error;
}

void va_record_qp(const struct ve_qp *q)
{
    ve_record_enter(false);
    ve_record(SOFTIB_EVENT_QP, q->s->type, q->s->qpn, 0, 0);
    ve_record_leave(false);
}

VA_EXPORT void softib_record_collective(uint32_t number, uint32_t octets, int begins)
{
    if (!ve_recording)
        return;
    ve_record_enter(begins);
    ve_record(begins ? SOFTIB_EVENT_BEGIN : SOFTIB_EVENT_END, 0, number, 0, octets);
    ve_record_leave(false);
}
