/*
 * What mlx5's provider and its kernel driver do with values, places and overruns: rdma-core's providers/mlx5/{qp,cq,srq,verbs}.c,
 * Linux' core/{uverbs_cmd,verbs}.c and hw/mlx5/qp.c. The scene is named on the command line.
 */
#include "rig.h"

#define PLACES 8

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static uint16_t lid;
static char area[65536] __attribute__((aligned(4096)));

static void begin(int cqe)
{
    context = rig_device();
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, cqe, NULL, NULL, 0);
    mr = ibv_reg_mr(pd, area, sizeof area, ALL);
    lid = rig_lid(context, 1);
    MUST(pd && cq && mr);
}

static struct ibv_qp *qp_with(struct ibv_cq *send, struct ibv_cq *recv, struct ibv_srq *srq, uint32_t places)
{
    struct ibv_qp_init_attr init = { .send_cq = send, .recv_cq = recv, .srq = srq, .qp_type = IBV_QPT_RC,
                                     .cap = { .max_send_wr = 64, .max_recv_wr = places, .max_send_sge = 2, .max_recv_sge = 2,
                                              .max_inline_data = 32 } };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);

    MUST(qp);
    return qp;
}

static void connect_both(struct ibv_qp *a, struct ibv_qp *b)
{
    rig_init(a, 1);
    rig_init(b, 1);
    rig_rtr(a, 1, b->qp_num, lid);
    rig_rtr(b, 1, a->qp_num, lid);
    rig_rts(a, 10, 3);
    rig_rts(b, 10, 3);
}

static int post_recv(struct ibv_qp *qp, struct ibv_srq *srq, int sges)
{
    struct ibv_sge sge[4] = { { (uintptr_t)area, 64, mr->lkey }, { (uintptr_t)area + 64, 64, mr->lkey } };
    struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = sges }, *bad;

    return srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad);
}

static int post_send(struct ibv_qp *qp, enum ibv_wr_opcode op, unsigned flags, uint32_t length, int sges)
{
    struct ibv_sge sge[4];
    struct ibv_send_wr wr = { .sg_list = sge, .num_sge = sges, .opcode = op, .send_flags = flags | IBV_SEND_SIGNALED,
                              .wr.rdma = { (uintptr_t)area + 8192, mr->rkey } }, *bad;

    for (int i = 0; i < 4; i++)
        sge[i] = (struct ibv_sge){ (uintptr_t)area, length, mr->lkey };
    return ibv_post_send(qp, &wr, &bad);
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr init;

    MUST(!ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
    return a.qp_state;
}

/* -- attributes -- */

enum { TO_RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                IBV_QP_MIN_RNR_TIMER,
       TO_RTS = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC };

static struct ibv_qp_attr rtr(void)
{
    return (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 0x11, .max_dest_rd_atomic = 4,
                                 .min_rnr_timer = 1, .ah_attr = { .dlid = lid, .port_num = 1 } };
}

static struct ibv_qp *at_init(void)
{
    struct ibv_qp *qp = qp_with(cq, cq, NULL, PLACES);

    rig_init(qp, 1);
    return qp;
}

static int to_rtr(struct ibv_qp_attr a, int more)
{
    struct ibv_qp *qp = at_init();
    int error = ibv_modify_qp(qp, &a, TO_RTR | more);

    MUST(error == 0 || state_of(qp) == IBV_QPS_INIT);
    MUST(!ibv_destroy_qp(qp));
    return error;
}

/* Fields of the queue context are as wide as those of the wire: what does not fit is cut off. */
static void masked(void)
{
    struct ibv_qp *qp = at_init();
    struct ibv_qp_attr a = rtr(), b = { .qp_state = IBV_QPS_RTS, .timeout = 32 + 14, .retry_cnt = 8 + 3, .rnr_retry = 255,
                                        .max_rd_atomic = 3, .sq_psn = 0x5000007 };
    struct ibv_qp_init_attr init;

    a.min_rnr_timer = 32 + 12;
    a.rq_psn = 0xFF123456;
    a.dest_qp_num = 0xAB000011;
    a.max_dest_rd_atomic = 5;
    a.ah_attr.sl = 16 + 3;
    a.ah_attr.src_path_bits = 128 + 1;
    MUST(!ibv_modify_qp(qp, &a, TO_RTR) && !ibv_modify_qp(qp, &b, TO_RTS));
    MUST(!ibv_query_qp(qp, &a, IBV_QP_STATE, &init));
    MUST(a.min_rnr_timer == 12 && a.rq_psn == 0x123456 && a.dest_qp_num == 0x11 && a.ah_attr.sl == 3 && a.ah_attr.src_path_bits == 1);
    MUST(a.timeout == 14 && a.retry_cnt == 3 && a.rnr_retry == 7 && a.sq_psn == 7);
    MUST(a.max_rd_atomic == 4 && a.max_dest_rd_atomic == 8); /* the context holds logarithms */
    MUST(!ibv_destroy_qp(qp));
}

#define REFUSED(error, field, value)                                                                                         \
    do {                                                                                                                     \
        struct ibv_qp_attr refused_ = rtr();                                                                                 \
        refused_.field = (value);                                                                                            \
        MUST(to_rtr(refused_, 0) == (error));                                                                                \
    } while (0)

static void refused(void)
{
    struct ibv_qp *qp = qp_with(cq, cq, NULL, PLACES);
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR, .cur_qp_state = IBV_QPS_RESET }, beyond = rtr();

    MUST(!to_rtr(rtr(), 0));
    REFUSED(EINVAL, ah_attr.port_num, 0);           /* uverbs: the primary path names the QP's port */
    REFUSED(EINVAL, ah_attr.port_num, 9);
    REFUSED(EINVAL, ah_attr.static_rate, 1);        /* mlx5r_ib_rate: no such rate */
    REFUSED(EINVAL, path_mtu, 0);
    REFUSED(EINVAL, path_mtu, 6);
    REFUSED(EINVAL, max_dest_rd_atomic, 17);        /* beyond the device's 16 */
    REFUSED(EINVAL, qp_state, 7);
    beyond.pkey_index = 9999;
    MUST(to_rtr(beyond, IBV_QP_PKEY_INDEX) == EINVAL);
    beyond = rtr();
    beyond.ah_attr.is_global = 1;
    MUST(!to_rtr(beyond, 0));
    beyond.ah_attr.grh.sgid_index = 99;
    MUST(to_rtr(beyond, 0) == EINVAL);
    beyond = rtr();
    beyond.alt_port_num = 1;
    beyond.alt_ah_attr = beyond.ah_attr;
    MUST(!to_rtr(beyond, IBV_QP_ALT_PATH));
    beyond.alt_ah_attr.port_num = 0;                /* uverbs: both name one port */
    MUST(to_rtr(beyond, IBV_QP_ALT_PATH) == EINVAL);
    MUST(to_rtr(rtr(), IBV_QP_CAP) == EINVAL);      /* no transition takes them */
    MUST(to_rtr(rtr(), IBV_QP_RATE_LIMIT) == EINVAL);
    MUST(to_rtr(rtr(), 1 << 21) == EOPNOTSUPP);     /* ib_uverbs_modify_qp: beyond IB_QP_ATTR_STANDARD_BITS */
    MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE) == EINVAL); /* ib_modify_qp_is_ok: RESET does not go to ERR */
    rig_init(qp, 1);
    a.cur_qp_state = IBV_QPS_INIT;
    MUST(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_CUR_STATE) == EINVAL && state_of(qp) == IBV_QPS_INIT);
    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE) && state_of(qp) == IBV_QPS_ERR);
}

static void attributes(void)
{
    struct ibv_ah_attr ah = { .dlid = 1, .port_num = 1, .sl = 16 + 2 };

    begin(64);
    masked();
    refused();
    MUST(ibv_create_ah(pd, &ah));
    ah.port_num = 0;
    MUST(!ibv_create_ah(pd, &ah));
    MUST(!ibv_reg_mr(pd, area, 4096, 1 << 12) && errno == EINVAL);      /* ib_check_mr_access */
    MUST(!ibv_reg_mr(pd, area, 4096, IBV_ACCESS_REMOTE_WRITE) && errno == EINVAL);
    MUST(ibv_reg_mr(pd, area, 4096, IBV_ACCESS_RELAXED_ORDERING));      /* optional: may be ignored */
    MUST(!ibv_reg_mr_iova(pd, area, 4096, 0x1001, ALL) && errno == EINVAL); /* another offset in the page */
    MUST(!ibv_create_cq(context, 0, NULL, NULL, 0) && errno == EINVAL);
}

/* -- places -- */

static unsigned fill(struct ibv_qp *qp, struct ibv_srq *srq)
{
    unsigned n = 0;
    int error;

    while (!(error = post_recv(qp, srq, 1)))
        MUST(++n < 1000);
    MUST(error == ENOMEM);
    return n;
}

/* A receive's place is free when its completion is polled, in a queue of its own and in an SRQ; a QP in ERR has no more places. */
static void places_of(bool shared)
{
    struct ibv_cq *recv = ibv_create_cq(context, 512, NULL, NULL, 0);
    struct ibv_srq_init_attr init = { .attr = { .max_wr = PLACES, .max_sge = 2 } };
    struct ibv_srq *srq = shared ? ibv_create_srq(pd, &init) : NULL;
    struct ibv_qp *a = qp_with(cq, recv, srq, PLACES), *b = qp_with(cq, recv, srq, PLACES);
    struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR }, reset = { .qp_state = IBV_QPS_RESET };
    struct ibv_wc wc;
    unsigned n;

    connect_both(a, b);
    n = fill(b, srq);
    MUST(n >= PLACES);
    for (unsigned i = 0; i < n; i++)
        MUST(!post_send(a, IBV_WR_SEND, 0, 8, 1) && rig_poll(cq).status == IBV_WC_SUCCESS);
    MUST(post_recv(b, srq, 1) == ENOMEM);
    for (unsigned i = 0; i < 3; i++)
        MUST(ibv_poll_cq(recv, 1, &wc) == 1 && wc.opcode == IBV_WC_RECV);
    MUST(fill(b, srq) == 3);
    if (shared) { /* those of a QP that is reset are not polled any more */
        MUST(!ibv_modify_qp(b, &reset, IBV_QP_STATE) && fill(b, srq) == n - 3);
        MUST(post_recv(b, NULL, 1) == ENOMEM);
        return;
    }
    MUST(!ibv_modify_qp(b, &error, IBV_QP_STATE));
    for (unsigned i = 0; i < n; i++)
        MUST(ibv_poll_cq(recv, 1, &wc) == 1);
    MUST(!ibv_poll_cq(recv, 1, &wc) && fill(b, NULL) == n && post_recv(b, NULL, 1) == ENOMEM);
    for (unsigned i = 0; i < n; i++)
        MUST(ibv_poll_cq(recv, 1, &wc) == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
    MUST(!ibv_modify_qp(b, &reset, IBV_QP_STATE) && post_recv(b, NULL, 1) == EINVAL);
    rig_init(b, 1);
    MUST(fill(b, NULL) == n);
}

static void places(void)
{
    begin(64);
    places_of(false);
    places_of(true);
}

/* -- posting -- */

static void posting(void)
{
    struct ibv_qp *a, *b;

    begin(256);
    a = qp_with(cq, cq, NULL, PLACES);
    b = qp_with(cq, cq, NULL, PLACES);
    MUST(post_send(a, IBV_WR_SEND, 0, 8, 1) == ENOMEM && post_recv(a, NULL, 1) == EINVAL); /* RESET */
    rig_init(a, 1);
    MUST(post_send(a, IBV_WR_SEND, 0, 8, 1) == ENOMEM && !post_recv(a, NULL, 1));
    rig_rtr(a, 1, b->qp_num, lid);
    MUST(post_send(a, IBV_WR_SEND, 0, 8, 1) == ENOMEM);
    rig_rts(a, 10, 3);
    rig_init(b, 1);
    rig_rtr(b, 1, a->qp_num, lid);
    MUST(post_send(a, IBV_WR_RDMA_WRITE, 0, 8, 3) == ENOMEM && post_recv(a, NULL, 3) == EINVAL);
    MUST(post_send(a, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE, 33, 1) == ENOMEM);
    MUST(post_send(a, 99, 0, 8, 1) == EINVAL);
    MUST(!post_send(a, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE, 32, 1) && rig_poll(cq).status == IBV_WC_SUCCESS);
    for (int i = 0; i < 64; i++)
        MUST(!post_send(a, IBV_WR_RDMA_WRITE, 0, 8, 1));
    MUST(post_send(a, IBV_WR_RDMA_WRITE, 0, 8, 1) == ENOMEM);
}

/* -- overruns -- */

static void event_is(enum ibv_event_type type, const void *element)
{
    struct ibv_async_event e;

    MUST(!ibv_get_async_event(context, &e) && e.event_type == type && (const void *)e.element.cq == element);
    ibv_ack_async_event(&e);
}

/* Its CQ cannot say what became of a request: the QP is in ERR, with an event; so is one whose receives go there. */
static void overrun(void)
{
    struct ibv_cq *small, *others[3];
    struct ibv_qp *a, *b;
    int n;

    begin(512);
    for (int receiver = 0; receiver < 2; receiver++) {
        small = ibv_create_cq(context, 4, NULL, NULL, 0);
        for (int i = 0; i < 3; i++)
            others[i] = ibv_create_cq(context, 512, NULL, NULL, 0);
        a = qp_with(receiver ? others[0] : small, others[1], NULL, 64);
        b = qp_with(others[2], receiver ? small : others[2], NULL, 64);
        connect_both(a, b);
        for (int i = 0; i < 32; i++)
            MUST(!post_recv(b, NULL, 1));
        for (n = 0; n < 32; n++)
            MUST(!post_send(a, receiver ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, 0, 8, 1));
        event_is(IBV_EVENT_CQ_ERR, small);
        event_is(IBV_EVENT_QP_FATAL, receiver ? b : a);
        MUST(state_of(receiver ? b : a) == IBV_QPS_ERR);
        MUST(receiver || state_of(b) == IBV_QPS_RTS);
        if (receiver) { /* the next request meets a QP in error: its sender's timer ends it */
            struct ibv_wc wc;

            do
                wc = rig_poll(others[0]);
            while (wc.status == IBV_WC_SUCCESS);
            MUST(wc.status == IBV_WC_RETRY_EXC_ERR);
        }
        MUST(!ibv_destroy_qp(a) && !ibv_destroy_qp(b) && !ibv_destroy_cq(small));
    }
}

int main(int n, char **arguments)
{
    const char *scene = n > 1 ? arguments[1] : "";

    if (!strcmp(scene, "attributes"))
        attributes();
    else if (!strcmp(scene, "places"))
        places();
    else if (!strcmp(scene, "posting"))
        posting();
    else if (!strcmp(scene, "overrun"))
        overrun();
    else
        return 2;
    puts("ok");
    return 0;
}
