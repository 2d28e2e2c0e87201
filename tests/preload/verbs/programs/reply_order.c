/*
 * "reply_order rc|ud ROUNDS": two processes that poll one CQ each for sends and receives. The answer to a message comes after the
 * completion of the message, as the ACK is on the wire before it.
 */
#include "rig.h"

#include <sys/wait.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint16_t lid;
static char area[8192] __attribute__((aligned(4096)));

struct peer {
    struct end end;
    struct ibv_qp *qp;
    struct ibv_ah *ah;
};

static void exchange(struct peer *p, enum ibv_qp_type type, int to, int from)
{
    struct ibv_qp_attr ud = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x11 };
    struct ibv_ah_attr address = { .port_num = 1 };
    struct end mine;

    p->qp = rig_qp(pd, cq, type);
    mine = (struct end){ .qpn = p->qp->qp_num, .lid = lid };
    MUST(write(to, &mine, sizeof mine) == sizeof mine && read(from, &p->end, sizeof p->end) == sizeof p->end);
    if (type == IBV_QPT_RC) {
        rig_init(p->qp, 1);
        rig_rtr(p->qp, 1, p->end.qpn, p->end.lid);
        rig_rts(p->qp, 14, 7);
        return;
    }
    MUST(!ibv_modify_qp(p->qp, &ud, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    ud.qp_state = IBV_QPS_RTR;
    MUST(!ibv_modify_qp(p->qp, &ud, IBV_QP_STATE));
    ud.qp_state = IBV_QPS_RTS;
    MUST(!ibv_modify_qp(p->qp, &ud, IBV_QP_STATE | IBV_QP_SQ_PSN));
    address.dlid = p->end.lid;
    p->ah = ibv_create_ah(pd, &address);
}

static void send_one(struct peer *p)
{
    struct ibv_sge sge = { (uintptr_t)area, 8, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

    if (p->ah) {
        wr.wr.ud.ah = p->ah;
        wr.wr.ud.remote_qpn = p->end.qpn;
        wr.wr.ud.remote_qkey = 0x11;
    }
    MUST(!ibv_post_send(p->qp, &wr, &bad));
}

static void order_of(enum ibv_qp_type type, unsigned rounds)
{
    int there[2], back[2], status;
    struct peer p = { 0 };
    pid_t child;

    MUST(!pipe(there) && !pipe(back));
    child = fork();
    context = rig_device();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    mr = ibv_reg_mr(pd, area, sizeof area, ALL);
    lid = rig_lid(context, 1);
    MUST(pd && cq && mr);
    exchange(&p, type, child ? there[1] : back[1], child ? back[0] : there[0]);
    rig_recv(p.qp, (uintptr_t)area + 4096, 64, mr->lkey);
    MUST(write(child ? there[1] : back[1], "", 1) == 1 && read(child ? back[0] : there[0], &status, 1) == 1);
    for (unsigned i = 0; i < rounds; i++) {
        struct ibv_wc wc;

        if (child)
            send_one(&p);
        wc = rig_poll(cq);
        MUST(wc.status == IBV_WC_SUCCESS && wc.opcode == (child ? IBV_WC_SEND : IBV_WC_RECV));
        rig_recv(p.qp, (uintptr_t)area + 4096, 64, mr->lkey);
        if (!child)
            send_one(&p);
        wc = rig_poll(cq);
        MUST(wc.status == IBV_WC_SUCCESS && wc.opcode == (child ? IBV_WC_RECV : IBV_WC_SEND));
    }
    if (!child)
        exit(0);
    MUST(waitpid(child, &status, 0) == child && !status);
}

int main(int n, char **arguments)
{
    MUST(n == 3);
    order_of(strcmp(arguments[1], "ud") ? IBV_QPT_RC : IBV_QPT_UD, (unsigned)atoi(arguments[2]));
    puts("ok");
    return 0;
}
