/*
 * What is posted behind a long READ on a paced link: "fence write 0|1" posts a WRITE, "fence read 0|1" a READ of a word that changes
 * meanwhile; 1: with IBV_SEND_FENCE. Prints how long the READ took, when the WRITE had its effect or the word changed, both in microseconds, and the word that was moved.
 */
#include "rig.h"

#define LONG (16u << 20)

static struct ibv_context *contexts[2];
static struct ibv_pd *pds[2];
static struct ibv_cq *cqs[2];
static struct ibv_qp *qps[2];
static struct ibv_mr *mrs[2];
static char *buffers[2]; /* LONG octets, and two words behind */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void set_up(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    MUST(list && list[0] && list[1]);
    for (int i = 0; i < 2; i++) {
        contexts[i] = ibv_open_device(list[i]);
        MUST(contexts[i] && (pds[i] = ibv_alloc_pd(contexts[i])) && (cqs[i] = ibv_create_cq(contexts[i], 16, NULL, NULL, 0)));
        MUST((buffers[i] = malloc(LONG + 4096)) && memset(buffers[i], i, LONG + 4096) && (mrs[i] = ibv_reg_mr(pds[i], buffers[i], LONG + 4096, ALL)));
        qps[i] = rig_qp(pds[i], cqs[i], IBV_QPT_RC);
        rig_init(qps[i], 1);
    }
    for (int i = 0; i < 2; i++) {
        rig_rtr(qps[i], 1, qps[1 - i]->qp_num, rig_lid(contexts[1 - i], 1));
        rig_rts(qps[i], 14, 7);
    }
}

static void post(enum ibv_wr_opcode op, unsigned at, unsigned octets, uint64_t id, int flags)
{
    struct ibv_sge sge = { (uintptr_t)buffers[0] + at, octets, mrs[0]->lkey };
    struct ibv_send_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = op, .send_flags = IBV_SEND_SIGNALED | (unsigned)flags,
                              .wr.rdma = { (uintptr_t)buffers[1] + at, mrs[1]->rkey } }, *bad;

    MUST(!ibv_post_send(qps[0], &wr, &bad));
}

int main(int n, char **words)
{
    bool writes = n == 3 && !strcmp(words[1], "write");
    int fence = n == 3 && words[2][0] == '1' ? IBV_SEND_FENCE : 0;
    volatile uint64_t *mine, *there;
    double began, posted, took[2] = { 0, 0 }, seen = 0;
    unsigned polls = 0;
    struct ibv_wc wc;

    set_up();
    mine = (volatile uint64_t *)(buffers[0] + LONG);
    there = (volatile uint64_t *)(buffers[1] + LONG);
    *mine = writes ? 7 : 1;
    *there = 0;
    began = now();
    post(IBV_WR_RDMA_READ, 0, LONG, 0, 0);
    post(writes ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, LONG, 8, 1, fence);
    posted = now();
    while (!took[0] || !took[1]) {
        int got;

        if (!writes && !seen && polls++ > 100 && now() - posted > 1000) {
            *there = 9; /* while the READ's octets are under way, and long after the second request came */
            seen = now() - began;
        }
        got = ibv_poll_cq(cqs[0], 1, &wc);
        MUST(got >= 0 && now() - began < 20e6);
        if (got) {
            MUST(wc.status == IBV_WC_SUCCESS);
            took[wc.wr_id] = now() - began;
        }
        if (writes && !seen && *there == 7)
            seen = now() - began;
    }
    printf("%.0f %.0f %d\n", took[0], seen, (int)(writes ? *there : *mine));
    return 0;
}
