/*
 * "batch": between ibv_start_poll and ibv_end_poll of a CQ its QPs are reset and destroyed, and the CQ is resized, by the thread
 * that polls. What was theirs is not in the batch any more; what is of others is.
 */
#include "rig.h"

static struct ibv_qp *connected(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_context *context)
{
    struct ibv_qp *qp = rig_qp(pd, cq, IBV_QPT_RC);

    rig_init(qp, 1);
    rig_rtr(qp, 1, qp->qp_num, rig_lid(context, 1)); /* to itself */
    rig_rts(qp, 14, 7);
    return qp;
}

int main(void)
{
    static char area[4096];
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
    struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &attr);
    struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
    struct ibv_mr *mr = ibv_reg_mr(pd, area, sizeof area, ALL);
    struct ibv_poll_cq_attr none = { 0 };
    struct ibv_qp *qps[3];

    for (int i = 0; i < 3; i++)
        qps[i] = connected(pd, cq, context);
    for (uint64_t id = 0; id < 9; id++) { /* 0 1 2 of the first, the second, the third QP, and so on */
        struct ibv_sge sge = { (uintptr_t)area, 8, mr->lkey };
        struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
                                  .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)area + 64, mr->rkey } }, *bad;

        MUST(!ibv_post_send(qps[id % 3], &wr, &bad));
    }
    MUST(!ibv_start_poll(ex, &none) && ex->wr_id == 0 && !ex->status);
    MUST(!ibv_destroy_qp(qps[1]));
    MUST(ibv_wc_read_qp_num(ex) == qps[0]->qp_num); /* the one in hand is the program's */
    MUST(!ibv_next_poll(ex) && ex->wr_id == 2);
    MUST(!ibv_modify_qp(qps[0], &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE));
    MUST(!ibv_resize_cq(cq, 40));
    MUST(!ibv_next_poll(ex) && ex->wr_id == 5 && !ibv_next_poll(ex) && ex->wr_id == 8);
    MUST(!ibv_destroy_qp(qps[2]) && !ibv_destroy_qp(qps[0]));
    MUST(ibv_next_poll(ex) == ENOENT);
    ibv_end_poll(ex);
    MUST(ibv_start_poll(ex, &none) == ENOENT && !ibv_destroy_cq(cq));
    puts("ok");
    return 0;
}
