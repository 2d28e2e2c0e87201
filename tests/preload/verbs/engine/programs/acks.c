/*
 * "acks FOLDER SEED COUNT": answers are lost (one in five), requests too (one in fifty). Atomics are executed exactly once and
 * tell what was there before, sends arrive once and in order, writes in order; a way on which no answer ever comes ends with
 * RETRY_EXC, though the request was executed.
 */
#include "number_table.h"
#include "qp.h"
#include "rig.h"

#include <math.h>
#include <string.h>

static uint64_t counter, results[1];
static char from[64], to[64];

static void run(struct rig *a, struct rig *b, uint32_t count)
{
    static const struct options patient = { .timeout = 8, .retry_cnt = 7, .rnr_retry = 7, .min_rnr = 1, .psn = 0xFFFFFA };
    struct cq ca = rig_cq(a, 64), cb = rig_cq(b, 64);
    struct ve_qp *qa = rig_qp(a, IBV_QPT_RC, &ca, &ca, NULL, 8, 0), *qb = rig_qp(b, IBV_QPT_RC, &cb, &cb, NULL, 8, 0);
    uint32_t lkey = rig_mr(a, results, 8, ALL_ACCESS, DOMAIN), rkey = rig_mr(b, &counter, 8, ALL_ACCESS, DOMAIN);
    uint32_t sends = rig_mr(a, from, sizeof from, ALL_ACCESS, DOMAIN), receives = rig_mr(b, to, sizeof to, ALL_ACCESS, DOMAIN);
    uint32_t waited = 0, gave_up = 0;

    counter = 0;
    rig_connect(qa, qb, &patient);
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
            MUST(!rig_recv(qb, i, to, sizeof to, receives));
        }
        MUST(!rig_post(qa, &wr));
        waited += qa->head != qa->tail; /* it waits for its timer, 1 ms */
        cqe = rig_next(&ca);
        MUST(cqe.wr_id == i);
        if (cqe.status != IBV_WC_SUCCESS) { /* eight in a row were lost */
            MUST(cqe.status == IBV_WC_RETRY_EXC_ERR && gave_up++ < count / 1000 + 2);
            rig_destroy(qa);
            rig_destroy(qb);
            qa = rig_qp(a, IBV_QPT_RC, &ca, &ca, NULL, 8, 0);
            qb = rig_qp(b, IBV_QPT_RC, &cb, &cb, NULL, 8, 0);
            rig_connect(qa, qb, &patient);
            MUST(counter - before <= 1); /* it may have been executed, but not twice */
            continue;
        }
        MUST(counter == before + !sent && (sent || results[0] == before));
        if (sent) { /* once: one completion, and the octets of just this one */
            MUST(rig_poll(&cb, &cqe, 0) && cqe.wr_id == i && !memcmp(from, to, sizeof to));
            MUST(!rig_poll(&cb, &cqe, 0));
        }
    }
    MUST(counter <= (count + 1) / 2 && counter + gave_up >= (count + 1) / 2);
    printf("late %u\ngave up %u\n", waited, gave_up);
    rig_destroy(qa);
    rig_destroy(qb);
}

/* Nothing ever comes back. */
static void never(struct rig *a, struct rig *b)
{
    static const struct options quick = { .timeout = 1, .retry_cnt = 3, .rnr_retry = 7, .min_rnr = 1, .psn = 1 };
    struct cq ca = rig_cq(a, 64), cb = rig_cq(b, 64);
    struct ve_qp *qa = rig_qp(a, IBV_QPT_RC, &ca, &ca, NULL, 8, 0), *qb = rig_qp(b, IBV_QPT_RC, &cb, &cb, NULL, 8, 0);
    struct ibv_sge sge = { (uintptr_t)results, 8, rig_mr(a, results, 8, ALL_ACCESS, DOMAIN) };
    struct ve_wr wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .flags = IBV_SEND_SIGNALED, .sges = 1, .sge = &sge,
                        .rkey = rig_mr(b, &counter, 8, ALL_ACCESS, DOMAIN), .remote = (uintptr_t)&counter, .compare = 1 };
    uint64_t before = counter;

    stub_loss[1] = 1000;
    rig_connect(qa, qb, &quick);
    MUST(!rig_post(qa, &wr));
    MUST(rig_next(&ca).status == IBV_WC_RETRY_EXC_ERR && counter == before + 1);
    rig_destroy(qa);
    rig_destroy(qb);
}

int main(int argc, char **argv)
{
    static struct rig a, b;

    MUST(argc == 4);
    rig_open(&a, argv[1], 1, 0);
    rig_open(&b, argv[1], 2, 1);
    for (unsigned i = 0; i < strtoul(argv[2], NULL, 10); i++) /* other QPNs, other rng_state */
        MUST(vm_number_take(&a.e.w, 64));
    stub_loss[0] = -log(1 - 0.02);
    stub_loss[1] = -log(1 - 0.2);
    run(&a, &b, (uint32_t)strtoul(argv[3], NULL, 10));
    never(&a, &b);
    rig_close(&a);
    rig_close(&b);
    return 0;
}
