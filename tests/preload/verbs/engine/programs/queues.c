/* Places in queues, and what happens to queues while others use them; "queues FOLDER SCENE". */
#include "complete.h"
#include "members.h"
#include "modify.h"
#include "timer.h"
#include "rig.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define DEPTH 16
#define ROUNDS 400

static struct rig one, two;
static struct cq c1, c2, r1, r2;
static char src[4096], dst[4096];
static uint32_t k1, k2;
static const struct options plain = { .timeout = 16, .retry_cnt = 2, .rnr_retry = 7, .min_rnr = 1 };
static const struct options impatient = { .timeout = 1, .retry_cnt = 0, .rnr_retry = 7, .min_rnr = 1 };

static int post(struct ve_qp *q, enum ibv_wr_opcode op, uint64_t id, bool signaled)
{
    struct ibv_sge sge = { (uintptr_t)src, 8, k1 };
    struct ve_wr wr = { .wr_id = id, .opcode = op, .flags = signaled ? IBV_SEND_SIGNALED : 0, .sges = 1, .sge = &sge,
                        .remote = (uintptr_t)dst, .rkey = k2 };

    return rig_post(q, &wr);
}

static void end(struct ve_qp *q, int state)
{
    struct ibv_qp_attr a = { .qp_state = (enum ibv_qp_state)state };

    MUST(!ve_modify(q, &a, IBV_QP_STATE));
}

/* A place is free when its completion is polled, or that of one behind it (10.8.5.1); against a count. */
static void wqes(void)
{
    struct ve_qp *a = rig_qp(&one, IBV_QPT_RC, &c1, &r1, NULL, DEPTH, 0);
    struct ve_qp *b = rig_qp(&two, IBV_QPT_RC, &c2, &r2, NULL, DEPTH, 0);
    uint64_t rng_state = 88172645463325252ull, posted = 0, freed = 0, refused = 0, seen = 0;
    struct softib_cqe cqe;

    rig_connect(a, b, &plain);
    for (int step = 0; step < 20000; step++) {
        rng_state ^= rng_state << 13, rng_state ^= rng_state >> 7, rng_state ^= rng_state << 17;
        if (rng_state % 4) {
            bool last = posted - freed == DEPTH - 1; /* else nobody would ever free a place */
            int error = post(a, IBV_WR_RDMA_WRITE, posted, last || rng_state % 8 == 1);

            MUST(error == (posted - freed == DEPTH ? ENOMEM : 0));
            refused += error == ENOMEM;
            posted += !error;
        } else if (rig_poll(&c1, &cqe, 0)) {
            MUST(cqe.wr_id >= freed && cqe.wr_id < posted);
            freed = cqe.wr_id + 1;
            seen++;
        }
    }
    MUST(refused > 500 && seen > 500 && posted > seen);
    end(a, IBV_QPS_RESET);
    end(b, IBV_QPS_RESET);
    rig_connect(a, b, &plain);
    for (unsigned i = 0; i < DEPTH; i++) /* reset forgets; now requests wait for a receive: the same places */
        MUST(!post(a, IBV_WR_SEND, i, false));
    MUST(post(a, IBV_WR_SEND, DEPTH, true) == ENOMEM);
    end(a, IBV_QPS_ERR);
    MUST(post(a, IBV_WR_SEND, DEPTH, true) == ENOMEM); /* all were flushed, none was polled */
    for (unsigned i = 0; i < DEPTH; i++) {
        cqe = rig_next(&c1);
        MUST(cqe.wr_id == i && cqe.status == IBV_WC_WR_FLUSH_ERR);
        MUST(!post(a, IBV_WR_SEND, DEPTH + i, false));
        MUST(post(a, IBV_WR_SEND, 0, false) == ENOMEM);
    }
    rig_destroy(a);
    rig_destroy(b);
}

static uint64_t oldest; /* generation of the QP that may still complete */
static bool over;
static unsigned got;

static void *polls(void *argument)
{
    (void)argument;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        uint64_t least = __atomic_load_n(&oldest, __ATOMIC_ACQUIRE);
        struct softib_cqe cqe;

        if (!rig_poll(&c1, &cqe, 0))
            continue;
        MUST(cqe.status == IBV_WC_SUCCESS && cqe.wr_id >= least);
        __atomic_fetch_add(&got, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* When reset has returned nobody gets a completion of before, also who was just polling. */
static void purge(void)
{
    struct ve_qp *a = rig_qp(&one, IBV_QPT_RC, &c1, &r1, NULL, DEPTH, 0);
    struct ve_qp *b = rig_qp(&two, IBV_QPT_RC, &c2, &r2, NULL, DEPTH, 0);
    pthread_t thread;

    pthread_create(&thread, NULL, polls, NULL);
    for (uint64_t round = 0; round < ROUNDS || __atomic_load_n(&got, __ATOMIC_RELAXED) < ROUNDS; round++) {
        rig_connect(a, b, &plain);
        for (unsigned i = 0; i < DEPTH; i++)
            MUST(!post(a, IBV_WR_RDMA_WRITE, round, true));
        end(a, IBV_QPS_RESET);
        end(b, IBV_QPS_RESET);
        __atomic_store_n(&oldest, round + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    MUST(!ve_cq(&one.e, c1.at)->overrun); /* what is purged takes no room */
    rig_destroy(a);
    rig_destroy(b);
}

static uint32_t target; /* QPN that senders send to */
static struct ve_ah handle = { .attr = { .dlid = 2, .port_num = 1 } };

static void *datagrams(void *argument)
{
    struct ve_qp *q = rig_qp(&one, IBV_QPT_UD, &c1, &r1, NULL, DEPTH, 0);
    struct ibv_sge sge = { (uintptr_t)src, 8, k1 };
    struct softib_cqe cqe;

    (void)argument;
    rig_datagrams(q);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        struct ve_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM, .flags = IBV_SEND_SIGNALED, .sges = 1, .sge = &sge, .ah = &handle,
                            .qpn = __atomic_load_n(&target, __ATOMIC_ACQUIRE), .qkey = 0x11 };

        wr.imm = wr.qpn;
        MUST(!rig_post(q, &wr));
        cqe = rig_next(&c1);
        MUST(cqe.status == IBV_WC_SUCCESS);
    }
    rig_destroy(q);
    return NULL;
}

/* Datagrams arrive at a QP while it is destroyed: at the QP, or nowhere; its memory is another's at once. */
static void destroy(void)
{
    pthread_t thread;
    uint64_t arrived = 0;
    struct softib_cqe cqe;

    pthread_mutex_init(&handle.lock, NULL);
    pthread_create(&thread, NULL, datagrams, NULL);
    for (unsigned round = 0; round < ROUNDS || (!arrived && round < 1000 * ROUNDS); round++) {
        struct ve_qp *b = rig_qp(&two, IBV_QPT_UD, &c2, &r2, NULL, DEPTH, 0);
        uint32_t qpn = b->s->qpn;

        rig_datagrams(b);
        for (unsigned i = 0; i < DEPTH; i++)
            MUST(!rig_recv(b, i, dst, 100, k2));
        __atomic_store_n(&target, qpn, __ATOMIC_RELEASE);
        for (unsigned i = 0; i < 4 && rig_poll(&r2, &cqe, round % 3); i++, arrived++)
            MUST(cqe.qpn == qpn && cqe.imm == qpn && cqe.wr_id < DEPTH && cqe.status == IBV_WC_SUCCESS);
        rig_destroy(b);
        MUST(!rig_poll(&r2, &cqe, 0)); /* nothing of it is left, and nothing comes */
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    MUST(arrived);
}

static void *writes(void *argument)
{
    (void)argument;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        struct ve_qp *a = rig_qp(&one, IBV_QPT_RC, &c1, &r1, NULL, DEPTH, 0);
        struct softib_cqe cqe = { .status = IBV_WC_SUCCESS };

        MUST(!rig_init(a, ALL_ACCESS) && !rig_rtr(a, __atomic_load_n(&target, __ATOMIC_ACQUIRE), 2, &impatient));
        MUST(!rig_rts(a, &impatient));
        __atomic_store_n(&oldest, a->s->qpn, __ATOMIC_RELEASE); /* whom `target` expects */
        while (cqe.status == IBV_WC_SUCCESS && !__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
            MUST(!post(a, IBV_WR_RDMA_WRITE_WITH_IMM, 0, true));
            cqe = rig_next(&c1);
        }
        MUST(cqe.status == IBV_WC_SUCCESS || cqe.status == IBV_WC_RETRY_EXC_ERR);
        rig_destroy(a);
    }
    return NULL;
}

/* The same with a connection: RETRY_EXC when the other end is gone, and it comes back as another QP. */
static void disconnect(void)
{
    pthread_t thread;
    unsigned arrived = 0;
    struct softib_cqe cqe;

    pthread_create(&thread, NULL, writes, NULL);
    for (unsigned round = 0; round < ROUNDS || (!arrived && round < 100 * ROUNDS); round++) {
        struct ve_qp *b = rig_qp(&two, IBV_QPT_RC, &c2, &r2, NULL, DEPTH, 0);

        MUST(!rig_init(b, ALL_ACCESS));
        __atomic_store_n(&target, b->s->qpn, __ATOMIC_RELEASE);
        usleep(round % 4 * 100);
        MUST(!rig_rtr(b, (uint32_t)__atomic_load_n(&oldest, __ATOMIC_ACQUIRE), 1, &plain));
        for (unsigned i = 0; i < DEPTH; i++)
            MUST(!rig_recv(b, i, dst, 100, k2));
        for (unsigned i = 0; i < 4 && rig_poll(&r2, &cqe, round % 3); i++, arrived++)
            MUST(cqe.qpn == b->s->qpn && cqe.status == IBV_WC_SUCCESS);
        rig_destroy(b);
        MUST(!rig_poll(&r2, &cqe, 0));
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    MUST(arrived);
}

/* Who adds dies with the lock: before anything, while it writes, when the completion is there and does not count yet. */
static void inherited(uint32_t from)
{
    struct cq c = rig_cq(&two, DEPTH);
    struct softib_cq *s = ve_cq(&one.e, c.at);
    struct softib_cqe *ring = vm_at(&one.e.w, s->ring), cqe;
    uint64_t added = 0, polled = 0;

    s->producer = s->consumer = s->seen = from;
    for (unsigned round = 0; round < 10 * DEPTH + 3; round++) {
        struct softib_cqe *at = &ring[s->producer & (DEPTH - 1)];

        s->lock = round % 4 ? 9 | 1 << 16 : 0; /* of a process that does not live */
        if (round % 4 > 1)
            memset(at, 'x', offsetof(struct softib_cqe, seq));
        if (round % 4 == 3) {
            at->wr_id = added++;
            at->opcode = IBV_WC_RECV;
            __atomic_store_n(&at->seq, ve_cqe_seq(s->producer), __ATOMIC_RELEASE);
        }
        if (round % 3 == 0) {
            MUST(rig_poll(&c, &cqe, 0) == (round % 4 == 3));
            MUST(round % 4 != 3 || cqe.wr_id == polled++);
        }
        ve_complete(&one.e, c.at, &(struct softib_cqe){ .wr_id = added++, .opcode = IBV_WC_RECV }, false);
        while (rig_poll(&c, &cqe, 0))
            MUST(cqe.wr_id == polled++);
        MUST(polled == added && s->producer == s->consumer && s->producer == from + (uint32_t)added && !s->overrun);
    }
}

/* Also where the counts come round. */
static void inherits(void)
{
    inherited(0);
    inherited(UINT32_MAX - 2 * DEPTH);
    inherited((1u << 31) - 2 * DEPTH);
}

static void *joins(void *argument)
{
    struct softib_member *at = vm_members(&two.e.w), member = { 0 };

    (void)argument;
    for (uint32_t i = 1; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); i++) { /* each field follows from the port */
        member = (struct softib_member){ .qpn = 5, .port = i, .mlid = (uint16_t)i, .process = (uint16_t)i };
        memset(member.gid, (int)(i & 0xFF), 16);
        ve_write_member(at, &member);
        __atomic_store_n(&at->qpn, 0, __ATOMIC_RELEASE);
    }
    return NULL;
}

/* A sender sees a member whole or not at all. */
static void members(void)
{
    struct softib_member *at = vm_members(&one.e.w), m;
    unsigned whole = 0;
    pthread_t thread;

    pthread_create(&thread, NULL, joins, NULL);
    for (uint64_t end_ns = ve_now_ns() + 500000000u; ve_now_ns() < end_ns || !whole;) {
        if (!ve_read_member(at, &m))
            continue;
        whole++;
        MUST(m.qpn == 5 && m.mlid == (uint16_t)m.port && m.process == (uint16_t)m.port);
        for (int i = 0; i < 16; i++)
            MUST(m.gid[i] == (uint8_t)m.port);
    }
    __atomic_store_n(&over, true, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = { { "wqes", wqes }, { "purge", purge }, { "destroy", destroy }, { "disconnect", disconnect },
               { "inherits", inherits }, { "members", members } };

int main(int argc, char **argv)
{
    MUST(argc == 3);
    rig_open(&one, argv[1], 1, 0);
    rig_open(&two, argv[1], 2, 1);
    c1 = rig_cq(&one, 256);
    r1 = rig_cq(&one, 256);
    c2 = rig_cq(&two, 256);
    r2 = rig_cq(&two, 1024);
    k1 = rig_mr(&one, src, sizeof src, ALL_ACCESS, DOMAIN);
    k2 = rig_mr(&two, dst, sizeof dst, ALL_ACCESS, DOMAIN);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(argv[2], scenes[i].name)) {
            scenes[i].run();
            rig_close(&one);
            rig_close(&two);
            puts("ok");
        }
    return 0;
}
