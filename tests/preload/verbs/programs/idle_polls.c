/* idle_polls: how often the library gave the processor away in 100,000 polls that find nothing, and in 1,000 that each find something. */
#include "rig.h"

#include <sched.h>

static unsigned yields;

int sched_yield(void) /* in place of libc's */
{
    yields++;
    return 0;
}

int main(void)
{
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp *qp = rig_qp(pd, cq, IBV_QPT_RC);
    static uint64_t word;
    struct ibv_mr *mr = ibv_reg_mr(pd, &word, sizeof word, ALL);
    struct ibv_sge sge = { (uintptr_t)&word, sizeof word, mr->lkey };
    struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                                    .wr.rdma = { (uintptr_t)&word, mr->rkey } };
    struct ibv_wc wc;

    rig_init(qp, 1);
    rig_rtr(qp, 1, qp->qp_num, rig_lid(context, 1));
    rig_rts(qp, 14, 7);
    yields = 0;
    for (int i = 0; i < 100000; i++)
        MUST(ibv_poll_cq(cq, 1, &wc) == 0);
    printf("%u ", yields);
    yields = 0;
    for (int i = 0; i < 1000; i++) {
        MUST(!ibv_post_send(qp, &wr, &bad));
        while (!ibv_poll_cq(cq, 1, &wc))
            ;
        MUST(wc.status == IBV_WC_SUCCESS);
    }
    printf("%u\n", yields);
    return 0;
}
