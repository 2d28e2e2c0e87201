/*
 * "fuzz FOLDER SEED SECONDS": random programs. Each of four threads owns a pair of QPs between two worlds, which others share
 * CQs with, and posts, receives, polls, breaks, resets and destroys at random. Laws: whatever is posted on a QP that is not
 * reset completes once, in order, when signalled or wrong; nothing completes that was not posted; octets arrive equal.
 */
#include "modify.h"
#include "timer.h"
#include "rig.h"

#include <string.h>

#define THREADS 4
#define DEPTH 16
#define SLOT 256

static struct rig one, two;
static uint64_t deadline;
static uint32_t posted_n, received_n, lives_n, errors_n;

struct pair {
    uint64_t random;
    struct rig *wa, *wb;
    struct cq send, recv, other;
    char from[DEPTH * SLOT] __attribute__((aligned(8))), to[DEPTH * SLOT] __attribute__((aligned(8)));
    uint32_t lkey, rkey;
    struct ve_qp *a, *b;
    uint64_t posted[4096];      /* wr_id | 1 << 63 when signalled, in order */
    uint64_t taken[4096];       /* receives, in order */
    uint32_t first, last, first_recv, last_recv;
    uint64_t sums[4096];        /* of the sends whose receive is not polled yet */
    uint32_t first_sum, last_sum;
    uint64_t next;
};

static uint32_t some(struct pair *l, uint32_t n)
{
    l->random ^= l->random << 13;
    l->random ^= l->random >> 7;
    l->random ^= l->random << 17;
    return (uint32_t)(l->random >> 20) % n;
}

static void born(struct pair *l)
{
    struct options o = { .timeout = 10, .retry_cnt = 1, .rnr_retry = some(l, 4) ? 7 : 1, .min_rnr = 1, .psn = some(l, 1 << 24) };
    enum ibv_qp_type type = some(l, 4) ? IBV_QPT_RC : IBV_QPT_UC;

    l->a = rig_qp(l->wa, type, &l->send, &l->other, NULL, DEPTH, 0);
    l->b = rig_qp(l->wb, type, &l->other, &l->recv, NULL, DEPTH, 0);
    rig_connect(l->a, l->b, &o);
    l->first = l->last = l->first_recv = l->last_recv = l->first_sum = l->last_sum = 0;
    __atomic_fetch_add(&lives_n, 1, __ATOMIC_RELAXED);
}

static void check_send(struct pair *l, const struct softib_cqe *cqe)
{
    for (;; l->first++) {
        uint64_t at = l->posted[l->first % 4096];

        MUST(l->first != l->last); /* it was posted, once */
        if ((at & ~(1ull << 63)) == cqe->wr_id)
            break;
        MUST(!(at >> 63)); /* those before it were not signalled */
    }
    MUST(cqe->qpn == l->a->s->qpn);
    MUST(cqe->status != IBV_WC_SUCCESS || l->posted[l->first % 4096] >> 63);
    l->first++;
    if (cqe->status != IBV_WC_SUCCESS)
        __atomic_fetch_add(&errors_n, 1, __ATOMIC_RELAXED);
}

static void check_receive(struct pair *l, const struct softib_cqe *cqe)
{
    uint64_t sum = 0;

    MUST(l->first_recv != l->last_recv && l->taken[l->first_recv % 4096] == cqe->wr_id && cqe->qpn == l->b->s->qpn);
    l->first_recv++;
    if (cqe->status != IBV_WC_SUCCESS) {
        MUST(cqe->status == IBV_WC_WR_FLUSH_ERR);
        return;
    }
    memcpy(&sum, l->to + cqe->wr_id % DEPTH * SLOT, 8);
    while (l->b->s->type == IBV_QPT_UC && l->first_sum != l->last_sum && l->sums[l->first_sum % 4096] != sum)
        l->first_sum++; /* dropped */
    MUST(l->first_sum != l->last_sum && l->sums[l->first_sum % 4096] == sum);
    l->first_sum++;
    for (uint32_t i = 8; i < cqe->byte_len; i++)
        MUST(l->to[cqe->wr_id % DEPTH * SLOT + i] == (char)(sum + i));
    __atomic_fetch_add(&received_n, 1, __ATOMIC_RELAXED);
}

static void poll(struct pair *l, int ms)
{
    struct softib_cqe cqe;

    while (rig_poll(&l->recv, &cqe, 0))
        check_receive(l, &cqe);
    while (rig_poll(&l->send, &cqe, ms))
        check_send(l, &cqe);
    while (rig_poll(&l->recv, &cqe, 0))
        check_receive(l, &cqe);
}

static void post(struct pair *l)
{
    uint64_t id = l->next, value = id * 0x9E3779B97F4A7C15ull;
    uint32_t at = (uint32_t)(id % DEPTH) * SLOT, n = 8 + some(l, SLOT - 7), kind = some(l, 16);
    struct ibv_sge sge[2] = { { (uintptr_t)l->from + at, 4, l->lkey }, { (uintptr_t)l->from + at + 4, n - 4, l->lkey } };
    struct ve_wr wr = { .wr_id = id, .opcode = kind < 12 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM, .sges = 2, .sge = sge,
                        .flags = some(l, 2) ? IBV_SEND_SIGNALED : 0, .rkey = l->rkey, .remote = (uintptr_t)l->to };

    if (l->last - l->first >= 2 * DEPTH) /* unsignalled ones say nothing: now and then one does */
        wr.flags = IBV_SEND_SIGNALED;
    if (n <= 64 && some(l, 2))
        wr.flags |= IBV_SEND_INLINE;
    if (kind == 15 && !some(l, 20))
        sge[1].lkey ^= 1, wr.flags &= ~(uint32_t)IBV_SEND_INLINE; /* ours: wrong */
    memcpy(l->from + at, &value, 8);
    for (uint32_t i = 8; i < n; i++)
        l->from[at + i] = (char)(value + i);
    l->posted[l->last % 4096] = id | (uint64_t)(wr.flags & IBV_SEND_SIGNALED ? 1 : 0) << 63;
    l->sums[l->last_sum % 4096] = value;
    if (rig_post(l->a, &wr))
        return; /* full */
    l->last++;
    l->last_sum++;
    l->next++;
    if (wr.flags & IBV_SEND_INLINE)
        memset(l->from + at, 0xEE, n);
    __atomic_fetch_add(&posted_n, 1, __ATOMIC_RELAXED);
}

/* Everything that waits is flushed: then each has completed. */
static void ends(struct pair *l)
{
    bool resets = !some(l, 3);

    if (!resets) {
        MUST(!ve_modify(l->a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE));
        MUST(!ve_modify(l->b, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE));
        poll(l, 1);
        for (; l->first != l->last; l->first++)
            MUST(!(l->posted[l->first % 4096] >> 63));
        MUST(l->first_recv == l->last_recv);
    }
    rig_destroy(l->a);
    rig_destroy(l->b);
}

static void *lives(void *argument)
{
    struct pair *l = argument;

    born(l);
    while (ve_now_ns() < deadline) {
        uint32_t what = some(l, 100);
        uint32_t place = (uint32_t)l->last_recv;

        if (what < 45 && l->last - l->first < DEPTH / 2) { /* a slot of `from` is not used again while it waits */
            post(l);
        } else if (what < 85 && place - l->first_recv < DEPTH) {
            l->taken[place % 4096] = place;
            if (!rig_recv(l->b, place, l->to + place % DEPTH * SLOT, SLOT, l->rkey))
                l->last_recv++;
        } else if (what < 99) {
            poll(l, 0);
        }
        if (what == 99 || rig_state(l->a) == IBV_QPS_ERR || (l->last - l->first >= DEPTH / 2 && !some(l, 50))) {
            ends(l);
            born(l);
        }
    }
    ends(l);
    return NULL;
}

int main(int argc, char **argv)
{
    static struct pair pairs[THREADS];
    pthread_t threads[THREADS];

    MUST(argc == 4);
    rig_open(&one, argv[1], 1, 0);
    rig_open(&two, argv[1], 2, 1);
    deadline = ve_now_ns() + strtoull(argv[3], NULL, 10) * 1000000000;
    for (unsigned i = 0; i < THREADS; i++) {
        struct pair *l = &pairs[i];

        l->random = strtoull(argv[2], NULL, 10) * 1000 + i + 88172645463325252ull;
        l->wa = i % 2 ? &one : &two;
        l->wb = i < 2 ? &two : &one; /* foreign, and our own */
        l->send = rig_cq(l->wa, 256);
        l->other = rig_cq(&one, 4096);
        l->recv = rig_cq(l->wb, 256);
        l->lkey = rig_mr(l->wa, l->from, sizeof l->from, ALL_ACCESS, DOMAIN);
        l->rkey = rig_mr(l->wb, l->to, sizeof l->to, ALL_ACCESS, DOMAIN);
    }
    for (unsigned i = 0; i < THREADS; i++)
        MUST(!pthread_create(&threads[i], NULL, lives, &pairs[i]));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%u posted, %u received, %u lives, %u errors\n", posted_n, received_n, lives_n, errors_n);
    rig_close(&one);
    rig_close(&two);
    return 0;
}
