/*
 * All-reduce of integers over a ring of RC queue pairs, by verbs alone, whose ranks sleep until an event comes (ibv_get_cq_event) instead of polling:
 *
 *     verbs_allreduce FOLDER RANK RANKS ROUNDS OCTETS
 *
 * Ranks meet by files in FOLDER. Each round adds up OCTETS octets of every rank: RANKS - 1 steps in which a block goes to the next rank and what comes is added,
 * then as many that hand the sums on (reduce-scatter and all-gather). Each rank checks the sums, and exits with 1 where one is wrong.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "rank %d: %s failed\n", rank, #what); exit(1); } } while (0)

struct end { uint32_t qpn; uint16_t lid; };

static int rank, ranks;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;

static struct ibv_qp *queue_pair(void)
{
    struct ibv_qp_init_attr with = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                     .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    struct ibv_qp *qp = ibv_create_qp(pd, &with);

    CHECK(qp);
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    return qp;
}

static void connect_to(struct ibv_qp *qp, struct end peer)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_4096, .dest_qp_num = peer.qpn, .min_rnr_timer = 12,
                                .ah_attr = { .dlid = peer.lid, .port_num = 1 } };

    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 20, .retry_cnt = 7, .rnr_retry = 7 };
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Write down one's own end for a neighbour to read. */
static void publish(const char *folder, const char *side, struct end mine)
{
    char path[512], part[520];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s.%d", folder, side, rank);
    snprintf(part, sizeof part, "%s.part", path);
    CHECK((f = fopen(part, "w")) && fwrite(&mine, sizeof mine, 1, f) == 1 && !fclose(f) && !rename(part, path));
}

static struct end published(const char *folder, const char *side, int of)
{
    char path[512];
    struct end got;
    FILE *f;

    snprintf(path, sizeof path, "%s/%s.%d", folder, side, of);
    while (!(f = fopen(path, "r")))
        usleep(10000);
    CHECK(fread(&got, sizeof got, 1, f) == 1 && !fclose(f));
    return got;
}

static int sent, received;

static bool polled(void)
{
    struct ibv_wc wc;
    int got = ibv_poll_cq(cq, 1, &wc);

    CHECK(got >= 0 && (!got || wc.status == IBV_WC_SUCCESS));
    if (got && wc.opcode & IBV_WC_RECV)
        received++;
    else
        sent += got;
    return got;
}

/* Sleep until so many have been sent and received since the begin. */
static void wait_for(int many)
{
    struct ibv_cq *of;
    void *none;

    while (sent < many || received < many) {
        if (polled())
            continue;
        CHECK(!ibv_req_notify_cq(cq, 0));
        if (polled()) /* what came before the request for an event brings none */
            continue;
        CHECK(!ibv_get_cq_event(channel, &of, &none));
        ibv_ack_cq_events(of, 1);
    }
}

static int32_t *values, *came;
static struct ibv_mr *of_values, *of_came;
static size_t block;

static size_t modulo(int n)
{
    return (size_t)((n + 2 * ranks) % ranks);
}

/* Where what comes in `step` goes: a block to be added has one of two places, so that it may come while the last is added. */
static int32_t *place(int step)
{
    return step < ranks - 1 ? came + (size_t)(step % 2) * block : values + modulo(rank - step - 1) * block;
}

static void post_receive(struct ibv_qp *left, int step)
{
    struct ibv_sge in = { (uintptr_t)place(step), (uint32_t)(block * sizeof *values), step < ranks - 1 ? of_came->lkey : of_values->lkey };
    struct ibv_recv_wr receive = { .sg_list = &in, .num_sge = 1 }, *bad;

    CHECK(!ibv_post_recv(left, &receive, &bad));
}

static void post_send(struct ibv_qp *right, int step)
{
    struct ibv_sge out = { (uintptr_t)(values + modulo(rank - step) * block), (uint32_t)(block * sizeof *values), of_values->lkey };
    struct ibv_send_wr send = { .sg_list = &out, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;

    CHECK(!ibv_post_send(right, &send, &bad));
}

/* One all-reduce, the `round`-th. The receive of each step is posted a step ahead. */
static void allreduce(struct ibv_qp *right, struct ibv_qp *left, int round)
{
    int steps = 2 * (ranks - 1);

    for (int step = 0; step < steps; step++) {
        post_receive(left, (step + 1) % steps);
        post_send(right, step);
        wait_for(round * steps + step + 1);
        for (size_t i = 0; step < ranks - 1 && i < block; i++)
            values[modulo(rank - step - 1) * block + i] += place(step)[i];
    }
}

int main(int argc, char **argv)
{
    struct ibv_qp *right, *left;
    struct ibv_port_attr port;
    size_t all;

    CHECK(argc == 6);
    rank = atoi(argv[2]);
    ranks = atoi(argv[3]);
    block = (size_t)atol(argv[5]) / sizeof *values / (size_t)ranks;
    all = block * (size_t)ranks;
    values = calloc(all, sizeof *values);
    came = calloc(2 * block, sizeof *came);
    CHECK(values && came);
    CHECK((context = ibv_open_device(ibv_get_device_list(NULL)[0])));
    CHECK((pd = ibv_alloc_pd(context)) && (channel = ibv_create_comp_channel(context)));
    CHECK((cq = ibv_create_cq(context, 64, NULL, channel, 0)) && !ibv_query_port(context, 1, &port));
    CHECK((of_values = ibv_reg_mr(pd, values, all * sizeof *values, IBV_ACCESS_LOCAL_WRITE)));
    CHECK((of_came = ibv_reg_mr(pd, came, 2 * block * sizeof *came, IBV_ACCESS_LOCAL_WRITE)));
    right = queue_pair();
    left = queue_pair();
    post_receive(left, 0);
    publish(argv[1], "right", (struct end){ right->qp_num, port.lid });
    publish(argv[1], "left", (struct end){ left->qp_num, port.lid });
    connect_to(right, published(argv[1], "left", (rank + 1) % ranks));
    connect_to(left, published(argv[1], "right", (rank + ranks - 1) % ranks));
    sleep(1); /* all are connected */
    for (int round = 0; round <= atoi(argv[4]); round++) {
        for (size_t i = 0; i < all; i++)
            values[i] = rank + round + (int32_t)(i & 1023);
        allreduce(right, left, round);
        for (size_t i = 0; i < all; i++)
            CHECK(values[i] == ranks * (round + (int32_t)(i & 1023)) + ranks * (ranks - 1) / 2);
    }
    return 0;
}
