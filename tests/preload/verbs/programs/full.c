/* Makes each kind of object until the file system is full: every call ends with ENOMEM, and what was made still works. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 200000

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *first;
static char memory[4096];

static void *make_qp(void)
{
    struct ibv_qp_init_attr a = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = { 16, 64, 1, 4, 0 } };
    struct ibv_qp *qp = ibv_create_qp(pd, &a);

    if (!first)
        first = qp;
    return qp;
}

static void *make_cq(void)
{
    return ibv_create_cq(context, 4095, NULL, NULL, 0);
}

static void *make_srq(void)
{
    return ibv_create_srq(pd, &(struct ibv_srq_init_attr){ .attr = { .max_wr = 64, .max_sge = 1 } });
}

static void *make_mr(void)
{
    return ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
}

static void *make_mw(void)
{
    return ibv_alloc_mw(pd, IBV_MW_TYPE_2);
}

static void until_full(const char *name, void *(*make)(void))
{
    int n = 0;

    errno = 0;
    while (n < MOST && make())
        n++;
    printf("%s %s\n", name, errno == ENOMEM ? "ENOMEM" : strerror(errno));
}

/* To itself: a send arrives although nothing more can be made. */
static void send_to_itself(struct ibv_port_attr *port, struct ibv_mr *mr, struct ibv_ah *ah)
{
    struct ibv_sge to = { (uintptr_t)memory, 2048, mr->lkey }, from = { (uintptr_t)memory + 2048, 64, mr->lkey };
    struct ibv_recv_wr receive = { .sg_list = &to, .num_sge = 1 }, *bad_receive;
    struct ibv_send_wr send = { .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
                                .wr.ud = { .ah = ah, .remote_qpn = first->qp_num, .remote_qkey = 1 } }, *bad;
    struct ibv_wc wc[2];
    int got = 0, error = ibv_post_recv(first, &receive, &bad_receive) | ibv_post_send(first, &send, &bad);

    (void)port;
    for (int i = 0; i < 100000 && got < 2 && !error; i++)
        got += ibv_poll_cq(cq, 2 - got, wc + got);
    printf("send %s\n", got == 2 && !wc[0].status && !wc[1].status ? "arrived" : error ? strerror(error) : "did not arrive");
}

int main(int argc, char **argv)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1 };
    struct ibv_port_attr port;
    struct ibv_mr *mr;
    struct ibv_ah *ah;

    context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    pd = context ? ibv_alloc_pd(context) : NULL;
    cq = pd ? ibv_create_cq(context, 100, NULL, NULL, 0) : NULL;
    mr = cq ? make_mr() : NULL;
    if (!mr || !make_qp() || ibv_query_port(context, 1, &port)) {
        puts("no room to begin");
        return argc > 1 && !strcmp(argv[1], "strict");
    }
    ah = ibv_create_ah(pd, &(struct ibv_ah_attr){ .dlid = port.lid, .port_num = 1 });
    ibv_modify_qp(first, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    a.qp_state = IBV_QPS_RTR;
    ibv_modify_qp(first, &a, IBV_QP_STATE);
    a.qp_state = IBV_QPS_RTS;
    ibv_modify_qp(first, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
    send_to_itself(&port, mr, ah);
    until_full("cq", make_cq);
    until_full("qp", make_qp);
    until_full("srq", make_srq);
    until_full("mw", make_mw);
    until_full("mr", make_mr);
    send_to_itself(&port, mr, ah);
    fflush(stdout);
    if (argc > 1)
        getchar();
    return 0;
}
