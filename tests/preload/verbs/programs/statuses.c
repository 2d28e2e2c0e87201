/*
 * Where adapters answer otherwise than a simple model would: the cases that google/rdma-unit-test tells apart, by libibverbs alone.
 * "statuses keys", "statuses invalidate", "statuses immediate", "statuses notify", "statuses windows", "statuses datagrams",
 * "statuses bounds".
 */
#include "rig.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cqs[2]; /* of the requester, of the responder */
static struct ibv_mr *mr;
static char buffer[4096];
#define THERE ((uintptr_t)buffer + 2048)

/* Two QPs of this process, connected, each with its own completion queue. */
static void connect(struct ibv_qp *qps[2])
{
    for (int i = 0; i < 2; i++) {
        qps[i] = rig_qp(pd, cqs[i], IBV_QPT_RC);
        rig_init(qps[i], 1);
    }
    for (int i = 0; i < 2; i++) {
        rig_rtr(qps[i], 1, qps[1 - i]->qp_num, rig_lid(context, 1));
        rig_rts(qps[i], 10, 3); /* 4 ms */
    }
}

static enum ibv_wc_status status(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t lkey, uint32_t rkey)
{
    return rig_send(qp, cqs[0], op, (uintptr_t)buffer, 8, lkey, THERE, rkey, 0).status;
}

static bool broken(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr a;

    MUST(!ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
    return a.qp_state == IBV_QPS_ERR;
}

/* A READ's own key is needed when the answer comes: with both keys bad the responder has refused before. A WRITE's is needed first. */
static void keys(void)
{
    uint32_t wrong = mr->lkey ^ 1;
    struct ibv_qp *qps[2];

    connect(qps);
    MUST(status(qps[0], IBV_WR_RDMA_READ, wrong, mr->rkey ^ 1) == IBV_WC_REM_ACCESS_ERR && broken(qps[0]) && broken(qps[1]));
    connect(qps);
    MUST(status(qps[0], IBV_WR_RDMA_READ, wrong, mr->rkey) == IBV_WC_LOC_PROT_ERR && broken(qps[0]) && !broken(qps[1]));
    connect(qps);
    MUST(status(qps[0], IBV_WR_ATOMIC_FETCH_AND_ADD, wrong, mr->rkey ^ 1) == IBV_WC_REM_ACCESS_ERR && broken(qps[1]));
    connect(qps);
    MUST(status(qps[0], IBV_WR_RDMA_WRITE, wrong, mr->rkey ^ 1) == IBV_WC_LOC_PROT_ERR && broken(qps[0]) && !broken(qps[1]));
}

/*
 * SEND with invalidate of a key that is no window's: the responder's receive ends in error; a class J error has no NAK (IBA 9.9.6.3), so
 * the sender's timers run out. It never succeeds.
 */
static void invalidate(void)
{
    struct ibv_sge sge = { (uintptr_t)buffer, 8, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED,
                              .invalidate_rkey = 0xBAD00, }, *bad;
    struct ibv_qp *qps[2];

    connect(qps);
    rig_recv(qps[1], THERE, 64, mr->lkey);
    MUST(!ibv_post_send(qps[0], &wr, &bad));
    MUST(rig_poll(cqs[0]).status == IBV_WC_RETRY_EXC_ERR);
    MUST(rig_poll(cqs[1]).status == IBV_WC_LOC_PROT_ERR && broken(qps[0]) && broken(qps[1]));
}

/* The receive of a WRITE with immediate whose R_Key opens nothing ends with the access error; no data, and those behind it are flushed. */
static void immediate(void)
{
    struct ibv_qp *qps[2];

    connect(qps);
    for (int i = 0; i < 2; i++)
        rig_recv(qps[1], THERE, 64, mr->lkey);
    memset(buffer, 7, 8);
    MUST(status(qps[0], IBV_WR_RDMA_WRITE_WITH_IMM, mr->lkey, mr->rkey ^ 1) == IBV_WC_REM_ACCESS_ERR);
    MUST(rig_poll(cqs[1]).status == IBV_WC_LOC_ACCESS_ERR && rig_poll(cqs[1]).status == IBV_WC_WR_FLUSH_ERR && !buffer[2048]);
}

/* mlx5, mlx4 and EFA arm a CQ that has no channel, and nothing happens. */
static void notify(void)
{
    struct ibv_qp *qps[2];

    connect(qps);
    MUST(!cqs[0]->channel && !ibv_req_notify_cq(cqs[0], 0) && !ibv_req_notify_cq(cqs[0], 1));
    MUST(status(qps[0], IBV_WR_RDMA_WRITE, mr->lkey, mr->rkey) == IBV_WC_SUCCESS);
}

/* A window of type 2 holds its domain as long as it is, and its region as long as it is bound. */
static void windows(void)
{
    struct ibv_pd *own = ibv_alloc_pd(context);
    struct ibv_mw *mw = ibv_alloc_mw(own, IBV_MW_TYPE_2);
    struct ibv_mr *region = ibv_reg_mr(pd, buffer, 64, ALL | IBV_ACCESS_MW_BIND);
    struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;
    struct ibv_send_wr revoke = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED };
    struct ibv_qp *qps[2];

    MUST(mw && ibv_dealloc_pd(own) == EBUSY && !ibv_dealloc_mw(mw) && !ibv_dealloc_pd(own));
    connect(qps);
    mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ region, (uintptr_t)buffer, 64, IBV_ACCESS_REMOTE_READ };
    MUST(!ibv_post_send(qps[0], &wr, &bad) && rig_poll(cqs[0]).status == IBV_WC_SUCCESS);
    MUST(ibv_dereg_mr(region) == EBUSY);
    revoke.invalidate_rkey = mw->rkey;
    MUST(!ibv_post_send(qps[0], &revoke, &bad) && rig_poll(cqs[0]).status == IBV_WC_SUCCESS);
    MUST(!ibv_dereg_mr(region) && !ibv_dealloc_mw(mw));
}

/* A datagram with a GRH: the receive says so, and the 40 octets are before the data. Without: no flag. */
static void datagrams(void)
{
    struct ibv_qp *qps[2];
    union ibv_gid gid;

    MUST(!ibv_query_gid(context, 1, 0, &gid));
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1111 };

        qps[i] = rig_qp(pd, cqs[i], IBV_QPT_UD);
        MUST(!ibv_modify_qp(qps[i], &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
        a.qp_state = IBV_QPS_RTR;
        MUST(!ibv_modify_qp(qps[i], &a, IBV_QP_STATE));
        a.qp_state = IBV_QPS_RTS;
        MUST(!ibv_modify_qp(qps[i], &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
    }
    for (unsigned global = 0; global < 2; global++) {
        struct ibv_ah_attr to = { .dlid = rig_lid(context, 1), .port_num = 1, .is_global = (uint8_t)global, .grh.dgid = gid };
        struct ibv_sge sge = { (uintptr_t)buffer, 8, mr->lkey };
        struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
                                  .wr.ud = { ibv_create_ah(pd, &to), qps[1]->qp_num, 0x1111 } }, *bad;
        struct ibv_wc wc;

        MUST(wr.wr.ud.ah);
        memset(buffer, 3, 8);
        rig_recv(qps[1], THERE, 64, mr->lkey);
        MUST(!ibv_post_send(qps[0], &wr, &bad) && rig_poll(cqs[0]).status == IBV_WC_SUCCESS);
        wc = rig_poll(cqs[1]);
        MUST(wc.status == IBV_WC_SUCCESS && wc.byte_len == 48 && !!(wc.wc_flags & IBV_WC_GRH) == !!global);
        MUST(!memcmp(buffer + 2048 + 40, buffer, 8) && (!global || !memcmp(buffer + 2048 + 24, &gid, 16)));
    }
}

/* What a device says of one object: as much is made, and nothing more. */
static void bounds(void)
{
    struct ibv_device_attr says;
    struct ibv_port_attr port;

    MUST(!ibv_query_device(context, &says) && !ibv_query_port(context, 1, &port));
    MUST(says.max_pkeys >= port.pkey_tbl_len && says.phys_port_cnt >= 1 && port.max_msg_sz >= 1u << 30);
    MUST(says.max_total_mcast_qp_attach >= says.max_mcast_qp_attach && says.max_res_rd_atom >= says.max_qp_rd_atom);
    for (int over = 0; over < 2; over++) {
        struct ibv_cq *big = ibv_create_cq(context, says.max_cqe + over, NULL, NULL, 0);
        struct ibv_srq_init_attr shared = { .attr = { (uint32_t)(says.max_srq_wr + over), (uint32_t)says.max_srq_sge, 0 } };
        struct ibv_srq *srq = ibv_create_srq(pd, &shared);

        MUST((big == NULL) == over && (srq == NULL) == over);
        for (int field = 0; field < 4; field++) {
            struct ibv_qp_init_attr init = { .send_cq = cqs[0], .recv_cq = cqs[1], .qp_type = IBV_QPT_RC,
                                             .cap = { (uint32_t)says.max_qp_wr, (uint32_t)says.max_qp_wr, (uint32_t)says.max_sge,
                                                      (uint32_t)says.max_sge, 0 } };
            struct ibv_qp *qp;

            (&init.cap.max_send_wr)[field] += (uint32_t)over;
            errno = 0;
            qp = ibv_create_qp(pd, &init);
            MUST((qp == NULL) == over && (!over || errno == EINVAL));
            MUST(!qp || !ibv_destroy_qp(qp));
        }
        MUST((!big || !ibv_destroy_cq(big)) && (!srq || !ibv_destroy_srq(srq)));
    }
    for (int over = 0; over < 2; over++) {
        struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .max_dest_rd_atomic = (uint8_t)(says.max_qp_rd_atom + over),
                                 .min_rnr_timer = 1, .ah_attr = { .dlid = rig_lid(context, 1), .port_num = 1 } };
        struct ibv_qp *qp = rig_qp(pd, cqs[0], IBV_QPT_RC);

        rig_init(qp, 1);
        MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == (over ? EINVAL : 0));
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = { { "keys", keys }, { "invalidate", invalidate }, { "immediate", immediate }, { "notify", notify },
                   { "windows", windows }, { "datagrams", datagrams }, { "bounds", bounds } };

    context = rig_device();
    pd = ibv_alloc_pd(context);
    for (int i = 0; i < 2; i++)
        cqs[i] = ibv_create_cq(context, 64, NULL, NULL, 0);
    mr = ibv_reg_mr(pd, buffer, sizeof buffer, ALL);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        if (argc == 2 && !strcmp(argv[1], scenes[i].name)) {
            scenes[i].run();
            puts("ok");
            return 0;
        }
    }
    return 2;
}
