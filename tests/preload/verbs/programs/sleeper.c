/*
 * A datagram from a program that began later: `b` sleeps in its completion channel, `a` sends one datagram and no more. Private memory.
 *
 * sleeper a|b FILE
 */
#include "rig.h"

#define QKEY 0x1234
#define GRH 40

static struct ibv_qp *datagram_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp *qp = rig_qp(pd, cq, IBV_QPT_UD);
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };

    MUST(qp && !ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    a.qp_state = IBV_QPS_RTR;
    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
    a.qp_state = IBV_QPS_RTS;
    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
    return qp;
}

int main(int n, char **arguments)
{
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel, 0), *which;
    char *m = calloc(1, 4096);
    struct ibv_mr *mr = ibv_reg_mr(pd, m, 4096, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp *qp = datagram_qp(pd, cq);
    struct end end = { .qpn = qp->qp_num, .lid = rig_lid(context, 1) };
    void *of;
    FILE *file;

    MUST(n == 3 && mr);
    if (*arguments[1] == 'b') {
        rig_recv(qp, (uintptr_t)m, 2048, mr->lkey);
        MUST(!ibv_req_notify_cq(cq, 0));
        MUST((file = fopen(arguments[2], "w")) && fwrite(&end, sizeof end, 1, file) == 1 && !fclose(file));
        puts("b: sleeps");
        fflush(stdout);
        MUST(!ibv_get_cq_event(channel, &which, &of) && which == cq);
        ibv_ack_cq_events(cq, 1);
        MUST(rig_poll(cq).status == IBV_WC_SUCCESS && !strcmp(m + GRH, "hello"));
        puts("b: right");
        return 0;
    }
    MUST((file = fopen(arguments[2], "r")) && fread(&end, sizeof end, 1, file) == 1);
    struct ibv_ah_attr to = { .dlid = end.lid, .port_num = 1 };
    struct ibv_sge sge = { (uintptr_t)strcpy(m, "hello"), 6, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
                              .wr.ud = { ibv_create_ah(pd, &to), end.qpn, QKEY } }, *bad;

    MUST(wr.wr.ud.ah && !ibv_post_send(qp, &wr, &bad) && rig_poll(cq).status == IBV_WC_SUCCESS);
    puts("a: right");
    return 0;
}
