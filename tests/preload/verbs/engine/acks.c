/*
 * "acks FOLDER SEED COUNT": answers are lost (one in five), requests too (one in fifty). Atomics are executed exactly once and
 * tell what was there before, sends arrive once and in order, writes in order; a way on which no answer ever comes ends with
 * RETRY_EXC, though the request was executed.
 */
#include "number_table.h"
#include "qp.h"
#include "world.h"

#include <math.h>
#include <string.h>

static uint64_t counter, results[1];
static char from[64], to[64];

static void run(struct world *a, struct world *b, uint32_t count)
{
    static const struct options patient = { .timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr = 1, .psn = 0xFFFFFA };
    struct cq ca = world_cq(a, 64), cb = world_cq(b, 64);
    struct ve_qp *qa = world_qp(a, IBV_QPT_RC, &ca, &ca, NULL, 8, 0), *qb = world_qp(b, IBV_QPT_RC, &cb, &cb, NULL, 8, 0);
    uint32_t lkey = world_mr(a, results, 8, ALL_ACCESS, DOMAIN), rkey = world_mr(b, &counter, 8, ALL_ACCESS, DOMAIN);
    uint32_t sends = world_mr(a, from, sizeof from, ALL_ACCESS, DOMAIN), receives = world_mr(b, to, sizeof to, ALL_ACCESS, DOMAIN);
    uint32_t late = 0, gave_up = 0;

    counter = 0;
    world_connect(qa, qb, &patient);
    for (uint32_t i = 0; i < count; i++) {
        bool sent = i % 2;
        struct ibv_sge sge = { (uintptr_t)results, 8, lkey };
        struct ve_wr wr = { .wr_id = i, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .flags = IBV_SEND_SIGNALED, .sges = 1,
                            .sge = &sge, .rkey = rkey, .remote = (uintptr_t)&counter, .compare = 1 };
        struct softib_cqe cqe;
        uint64_t before = counter;

        if (sent) {
            memset(from, (int)i, sizeof from);
            sge = (struct ibv_sge){ (uintptr_t)from, sizeof from, sends };
            wr.opcode = IBV_WR_SEND;
            MUST(!world_recv(qb, i, to, sizeof to, receives));
        }
        MUST(!world_post(qa, &wr));
        late += qa->head != qa->tail; /* it waits for its timer, 1 ms */
        cqe = world_next(&ca);
        MUST(cqe.wr_id == i);
        if (cqe.status != IBV_WC_SUCCESS) { /* eight in a row were lost */
            MUST(cqe.status == IBV_WC_RETRY_EXC_ERR && gave_up++ < count / 1000 + 2);
            world_destroy(qa);
            world_destroy(qb);
            qa = world_qp(a, IBV_QPT_RC, &ca, &ca, NULL, 8, 0);
            qb = world_qp(b, IBV_QPT_RC, &cb, &cb, NULL, 8, 0);
            world_connect(qa, qb, &patient);
            MUST(counter - before <= 1); /* it may have been executed, but not twice */
            continue;
        }
        MUST(counter == before + !sent && (sent || results[0] == before));
        if (sent) { /* once: one completion, and the octets of just this one */
            MUST(world_poll(&cb, &cqe, 0) && cqe.wr_id == i && !memcmp(from, to, sizeof to));
            MUST(!world_poll(&cb, &cqe, 0));
        }
    }
    MUST(counter <= (count + 1) / 2 && counter + gave_up >= (count + 1) / 2);
    printf("late %u\ngave up %u\n", late, gave_up);
    world_destroy(qa);
    world_destroy(qb);
}

/* Nothing ever comes back. */
static void never(struct world *a, struct world *b)
{
    static const struct options quick = { .timeout = 1, .retry_cnt = 3, .rnr_retry = 7, .min_rnr = 1, .psn = 1 };
    struct cq ca = world_cq(a, 64), cb = world_cq(b, 64);
    struct ve_qp *qa = world_qp(a, IBV_QPT_RC, &ca, &ca, NULL, 8, 0), *qb = world_qp(b, IBV_QPT_RC, &cb, &cb, NULL, 8, 0);
    struct ibv_sge sge = { (uintptr_t)results, 8, world_mr(a, results, 8, ALL_ACCESS, DOMAIN) };
    struct ve_wr wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .flags = IBV_SEND_SIGNALED, .sges = 1, .sge = &sge,
                        .rkey = world_mr(b, &counter, 8, ALL_ACCESS, DOMAIN), .remote = (uintptr_t)&counter, .compare = 1 };
    uint64_t before = counter;

    stub_loss[1] = 1000;
    world_connect(qa, qb, &quick);
    MUST(!world_post(qa, &wr));
    MUST(world_next(&ca).status == IBV_WC_RETRY_EXC_ERR && counter == before + 1);
    world_destroy(qa);
    world_destroy(qb);
}

int main(int argc, char **argv)
{
    static struct world a, b;

    MUST(argc == 4);
    world_open(&a, argv[1], 1, 0);
    world_open(&b, argv[1], 2, 1);
    for (unsigned i = 0; i < strtoul(argv[2], NULL, 10); i++) /* other QPNs, other rng_state */
        MUST(vm_number_take(&a.e.w, 64));
    stub_loss[0] = -log(1 - 0.02);
    stub_loss[1] = -log(1 - 0.2);
    run(&a, &b, (uint32_t)strtoul(argv[3], NULL, 10));
    never(&a, &b);
    world_close(&a);
    world_close(&b);
    return 0;
}
