/*
 * Programs with a bug each, by name: `strict_bugs NAME`. Two QPs of one port talk to each other. Exit 0: the program saw nothing
 * wrong; 1: its bug bit it. What strict mode warns of is on stderr.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIZE 4096
#define DEPTH 16

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *a, *b; /* requests go from a to b */
static struct ibv_mr *mr;
static struct ibv_port_attr port;
static char *out, *in;

static void must(int right, const char *what)
{
    if (!right) {
        perror(what);
        exit(2);
    }
}

#define MUST(x) must(!!(x), #x)

static struct ibv_qp *make(enum ibv_qp_type type, struct ibv_srq *with)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq, .recv_cq = cq, .srq = with, .qp_type = type,
        .cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 64 },
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &attr);

    MUST(qp);
    return qp;
}

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |        \
                  IBV_QP_MIN_RNR_TIMER)

static void connect_to(struct ibv_qp *qp, uint32_t dest)
{
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL };
    struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = dest, .min_rnr_timer = 1,
                               .max_dest_rd_atomic = 4, .ah_attr = { .dlid = port.lid, .port_num = 1 } };
    struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4 };

    MUST(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    MUST(!ibv_modify_qp(qp, &rtr, RTR_MASK));
    MUST(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                      IBV_QP_MAX_QP_RD_ATOMIC));
}

static void datagrams(struct ibv_qp *qp, uint32_t qkey)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey };

    MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    attr.qp_state = IBV_QPS_RTR;
    MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    attr.qp_state = IBV_QPS_RTS;
    MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void open_all(int cqes)
{
    int n;
    struct ibv_device **devices = ibv_get_device_list(&n);

    MUST(devices && n);
    MUST(context = ibv_open_device(devices[0]));
    MUST(!ibv_query_port(context, 1, &port));
    MUST(pd = ibv_alloc_pd(context));
    MUST(cq = ibv_create_cq(context, cqes, NULL, NULL, 0));
    MUST(out = calloc(2, DEPTH * SIZE));
    in = out + DEPTH * SIZE;
    MUST(mr = ibv_reg_mr(pd, out, 2 * DEPTH * SIZE, ALL));
}

static void pair(struct ibv_srq *with)
{
    a = make(IBV_QPT_RC, NULL);
    b = make(IBV_QPT_RC, with);
    connect_to(a, b->qp_num);
    connect_to(b, a->qp_num);
}

static int send_one(enum ibv_wr_opcode opcode, char *from, uint32_t length, unsigned flags, uint64_t id)
{
    struct ibv_sge sge = { (uintptr_t)from, length, mr->lkey };
    struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = flags }, *bad;

    wr.wr.rdma.remote_addr = (uintptr_t)in;
    wr.wr.rdma.rkey = mr->rkey;
    return ibv_post_send(a, &wr, &bad);
}

static int receive_one(char *to, uint32_t length, uint64_t id)
{
    struct ibv_sge sge = { (uintptr_t)to, length, mr->lkey };
    struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

    return srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(b, &wr, &bad);
}

static struct ibv_wc next(void)
{
    struct ibv_wc wc;
    time_t end = time(NULL) + 20;

    while (!ibv_poll_cq(cq, 1, &wc))
        must(time(NULL) < end, "a completion");
    return wc;
}

/* -- bugs that bite -- */

/* The buffer is used again before the completion. */
static int reuse(void)
{
    open_all(64);
    pair(NULL);
    memset(out, 'A', SIZE);
    MUST(!send_one(IBV_WR_RDMA_WRITE, out, SIZE, IBV_SEND_SIGNALED, 1));
    memset(out, 'B', SIZE);
    next();
    return in[0] != 'A';
}

/* The same with an inline buffer is right. */
static int reuse_inline(void)
{
    open_all(64);
    pair(NULL);
    memset(out, 'A', 64);
    MUST(!send_one(IBV_WR_RDMA_WRITE, out, 64, IBV_SEND_SIGNALED | IBV_SEND_INLINE, 1));
    memset(out, 'B', 64);
    next();
    return in[0] != 'A';
}

/* Data of a READ is looked at before its completion. */
static int read_before_completion(void)
{
    open_all(64);
    pair(NULL);
    memset(in, 'A', SIZE);
    MUST(!send_one(IBV_WR_RDMA_READ, out, SIZE, IBV_SEND_SIGNALED, 1));
    return out[0] != 'A' || next().status;
}

/* The opcode of a completion in error says what failed. */
static int error_fields(void)
{
    struct ibv_wc wc;

    open_all(64);
    pair(NULL);
    mr->rkey ^= 0x5500; /* somebody else's */
    MUST(!send_one(IBV_WR_RDMA_WRITE, out, 8, IBV_SEND_SIGNALED, 7));
    wc = next();
    must(wc.status == IBV_WC_REM_ACCESS_ERR && wc.wr_id == 7 && wc.qp_num == a->qp_num, "what is defined");
    return wc.opcode != IBV_WC_RDMA_WRITE;
}

/* Receives of an SRQ come in the order in which they were posted. */
static int srq_order(void)
{
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = DEPTH, .max_sge = 1 } };
    int wrong = 0;

    open_all(64);
    MUST(srq = ibv_create_srq(pd, &attr));
    pair(srq);
    for (int i = 0; i < DEPTH; i++)
        MUST(!receive_one(in + i * SIZE, SIZE, (uint64_t)i));
    for (int i = 0; i < DEPTH; i++) {
        struct ibv_wc wc;

        out[0] = (char)('a' + i);
        MUST(!send_one(IBV_WR_SEND, out, 8, IBV_SEND_SIGNALED, 100));
        for (int both = 0; both < 2; both++) {
            wc = next();
            must(wc.status == 0, "a message arrives");
            if (wc.opcode == IBV_WC_RECV) {
                must(in[wc.wr_id * SIZE] == 'a' + i, "it is where its completion says");
                wrong += wc.wr_id != (uint64_t)i;
            }
        }
    }
    return wrong != 0;
}

/* -- bugs that are told -- */

static int unsignalled(void)
{
    open_all(64);
    pair(NULL);
    for (int i = 0; i < DEPTH; i++)
        MUST(!send_one(IBV_WR_RDMA_WRITE, out, 8, 0, 1));
    return 0;
}

static int no_room(void)
{
    open_all(64);
    pair(NULL);
    for (int i = 0; i < DEPTH + 1; i++)
        receive_one(in, SIZE, 1);
    return 0;
}

static int attributes(void)
{
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

    open_all(64);
    a = make(IBV_QPT_RC, NULL);
    MUST(ibv_modify_qp(a, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_TIMEOUT)); /* it is refused */
    return 0;
}

static int cut_off(void)
{
    struct ibv_qp_attr attr = { .min_rnr_timer = 40 };

    open_all(64);
    pair(NULL);
    MUST(!ibv_modify_qp(a, &attr, IBV_QP_MIN_RNR_TIMER));
    return 0;
}

/* Both at one place in the program, as in a function that wraps the call. */
static int cut_twice(void)
{
    struct ibv_qp_attr steps[] = {
        { .qp_state = IBV_QPS_INIT, .port_num = 1 },
        { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .min_rnr_timer = 40, .ah_attr = { .dlid = 1, .port_num = 1 } },
        { .qp_state = IBV_QPS_RTS, .timeout = 46 },
    };
    static const int masks[] = {
        IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
        IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
        IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
    };

    open_all(64);
    a = make(IBV_QPT_RC, NULL);
    for (int i = 0; i < 3; i++)
        MUST(!ibv_modify_qp(a, &steps[i], masks[i]));
    return 0;
}

/* Their messages have come, and nobody has polled the completions. */
static int not_polled(void)
{
    open_all(64);
    pair(NULL);
    for (int i = 0; i < DEPTH; i++)
        MUST(!receive_one(in, 8, (uint64_t)i) && !send_one(IBV_WR_SEND, out, 8, IBV_SEND_SIGNALED, 1));
    usleep(50000);
    MUST(receive_one(in, 8, 0));
    return 0;
}

static int inline_too_long(void)
{
    open_all(64);
    pair(NULL);
    MUST(send_one(IBV_WR_SEND, out, 65, IBV_SEND_SIGNALED | IBV_SEND_INLINE, 1));
    return 0;
}

static int overrun(void)
{
    struct ibv_wc wc;

    open_all(3);
    pair(NULL);
    for (int i = 0; i < 8; i++)
        MUST(!send_one(IBV_WR_RDMA_WRITE, out, 8, IBV_SEND_SIGNALED, 1));
    usleep(50000);
    MUST(ibv_poll_cq(cq, 1, &wc) == 1);
    return 0;
}

static int without_reads(void)
{
    struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL };
    struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = 5, .min_rnr_timer = 1,
                               .ah_attr = { .dlid = port.lid, .port_num = 1 } };

    open_all(64);
    a = make(IBV_QPT_RC, NULL);
    MUST(!ibv_modify_qp(a, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    MUST(!ibv_modify_qp(a, &rtr, RTR_MASK));
    return 0;
}

static int nearly_full(void)
{
    struct ibv_wc wc;

    open_all(15);
    pair(NULL);
    for (int i = 0; i < 14; i++)
        MUST(!send_one(IBV_WR_RDMA_WRITE, out, 8, IBV_SEND_SIGNALED, 1));
    usleep(50000);
    MUST(ibv_poll_cq(cq, 1, &wc) >= 0);
    return 0;
}

static int dereg_posted(void)
{
    open_all(64);
    pair(NULL);
    MUST(!receive_one(in, SIZE, 1));
    MUST(!ibv_dereg_mr(mr));
    return 0;
}

static int destroy_unpolled(void)
{
    struct ibv_wc wc;

    open_all(64);
    pair(NULL);
    MUST(!send_one(IBV_WR_RDMA_WRITE, out, 8, IBV_SEND_SIGNALED, 1));
    MUST(!send_one(IBV_WR_RDMA_WRITE, out, 8, IBV_SEND_SIGNALED, 2));
    usleep(50000);
    MUST(ibv_poll_cq(cq, 1, &wc) >= 0);
    MUST(!ibv_destroy_qp(a));
    return 0;
}

static int extended_field(void)
{
    struct ibv_cq_init_attr_ex attr = { .cqe = 64, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
    struct ibv_poll_cq_attr none = { 0 };
    struct ibv_cq_ex *ex;
    volatile uint32_t length;

    open_all(64);
    MUST(ex = ibv_create_cq_ex(context, &attr));
    cq = ibv_cq_ex_to_cq(ex);
    pair(NULL);
    mr->rkey ^= 0x5500;
    MUST(!send_one(IBV_WR_RDMA_WRITE, out, 8, IBV_SEND_SIGNALED, 7));
    while (ibv_start_poll(ex, &none))
        ;
    length = ibv_wc_read_byte_len(ex);
    (void)length;
    ibv_end_poll(ex);
    return 0;
}

static int datagram(uint32_t qkey, uint32_t room)
{
    struct ibv_ah_attr to = { .dlid = port.lid, .port_num = 1 };
    struct ibv_sge sge = { (uintptr_t)out, 64, mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

    a = make(IBV_QPT_UD, NULL);
    b = make(IBV_QPT_UD, NULL);
    datagrams(a, 0x1111);
    datagrams(b, 0x1111);
    MUST(!receive_one(in, room, 1));
    MUST(wr.wr.ud.ah = ibv_create_ah(pd, &to));
    wr.wr.ud.remote_qpn = b->qp_num;
    wr.wr.ud.remote_qkey = qkey;
    MUST(!ibv_post_send(a, &wr, &bad));
    return next().status != IBV_WC_SUCCESS; /* the sender is told that all is well */
}

static int wrong_qkey(void)
{
    open_all(64);
    return datagram(0x2222, 256);
}

static int no_grh_room(void)
{
    open_all(64);
    return datagram(0x1111, 64);
}

static int never_ready(void)
{
    struct ibv_wc wc;

    open_all(64);
    pair(NULL);
    MUST(!send_one(IBV_WR_SEND, out, 8, IBV_SEND_SIGNALED, 1));
    for (int i = 0; i < 150; i++) {
        MUST(!ibv_poll_cq(cq, 1, &wc));
        usleep(10000);
    }
    return 0;
}

static const struct { const char *name; int (*run)(void); } bugs[] = {
    { "reuse", reuse }, { "reuse_inline", reuse_inline }, { "read_early", read_before_completion }, { "error_fields", error_fields },
    { "srq_order", srq_order }, { "unsignalled", unsignalled }, { "no_room", no_room }, { "attributes", attributes },
    { "without_reads", without_reads }, { "nearly_full", nearly_full }, { "dereg_posted", dereg_posted },
    { "destroy_unpolled", destroy_unpolled }, { "extended_field", extended_field }, { "wrong_qkey", wrong_qkey },
    { "no_grh_room", no_grh_room }, { "never_ready", never_ready },
    { "cut_off", cut_off }, { "cut_twice", cut_twice }, { "not_polled", not_polled }, { "inline_too_long", inline_too_long }, { "overrun", overrun },
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof bugs / sizeof *bugs; i++)
        if (!strcmp(bugs[i].name, argv[1]))
            return bugs[i].run();
    return 3;
}
