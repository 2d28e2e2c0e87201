/* What the engine must do, one scene a law; "laws FOLDER SCENE". IBA sections: see docs/verbs.md. */
#include "modify.h"
#include "timer.h"
#include "rig.h"

#include <string.h>
#include <unistd.h>

static struct rig one, two;
static struct cq c1, c2, r1, r2;
static char src[8192], dst[8192];
static uint32_t k1, k2;
static const struct options plain = { .timeout = 16, .retry_cnt = 2, .rnr_retry = 7, .min_rnr = 1, .psn = 0xFFFFFE };

static struct ve_wr send_of(struct ibv_sge *sge, uint32_t n, uint64_t id, enum ibv_wr_opcode op)
{
    *sge = (struct ibv_sge){ (uintptr_t)src, n, k1 };
    return (struct ve_wr){ .wr_id = id, .opcode = op, .flags = IBV_SEND_SIGNALED, .sges = 1, .sge = sge,
                           .remote = (uintptr_t)dst, .rkey = k2 };
}

static void both(enum ibv_qp_type type, struct ve_qp **a, struct ve_qp **b, const struct options *o)
{
    *a = rig_qp(&one, type, &c1, &r1, NULL, 16, 0);
    *b = rig_qp(&two, type, &c2, &r2, NULL, 16, 0);
    rig_connect(*a, *b, o);
}

static void none_left(void)
{
    struct softib_cqe cqe;

    MUST(!rig_poll(&c1, &cqe, 5) && !rig_poll(&c2, &cqe, 5) && !rig_poll(&r1, &cqe, 5) && !rig_poll(&r2, &cqe, 5));
}

static void expect(const struct cq *c, uint64_t id, enum ibv_wc_status status)
{
    struct softib_cqe cqe = rig_next(c);

    if (cqe.wr_id != id || cqe.status != status)
        fprintf(stderr, "wr_id %lu status %u, not %lu %u\n", cqe.wr_id, cqe.status, id, status);
    MUST(cqe.wr_id == id && cqe.status == status);
}

static void done(struct ve_qp *a, struct ve_qp *b)
{
    none_left();
    rig_destroy(a);
    rig_destroy(b);
}

/* An HCA translates the addresses of a receive as octets arrive: what no octet reaches, no key guards. */
static void unreached(struct ve_qp *a, struct ve_qp *b)
{
    struct ibv_sge sge;
    struct ve_wr wr = send_of(&sge, 0, 1, IBV_WR_SEND);

    MUST(!rig_recv(b, 1, NULL, 64, 0) && !rig_post(a, &wr));
    expect(&c1, 1, IBV_WC_SUCCESS);
    expect(&r2, 1, IBV_WC_SUCCESS);
    sge.length = 100;
    dst[8191] = 0;
    src[99] = 5;
    MUST(!rig_recv(b, 2, dst + 8092, 200, k2) && !rig_post(a, &wr)); /* it hangs over its region, the message does not */
    expect(&c1, 1, IBV_WC_SUCCESS);
    expect(&r2, 2, IBV_WC_SUCCESS);
    MUST(dst[8191] == 5);
    sge.length = 101;
    MUST(!rig_recv(b, 3, dst + 8092, 200, k2) && !rig_post(a, &wr));
    expect(&c1, 1, IBV_WC_REM_OP_ERR);
    expect(&r2, 3, IBV_WC_LOC_PROT_ERR);
    done(a, b);
}

static void rc(void)
{
    struct ve_qp *a, *b;
    struct ibv_sge sge;
    struct ve_wr wr;
    struct softib_cqe cqe;

    both(IBV_QPT_RC, &a, &b, &plain);
    unreached(a, b);
    both(IBV_QPT_RC, &a, &b, &plain);
    for (unsigned i = 0; i < 100; i++) { /* the PSN comes round */
        memset(src, (int)i, 5000);
        MUST(!rig_recv(b, i, dst, 6000, k2));
        wr = send_of(&sge, 5000, i, i % 2 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM);
        wr.imm = i;
        MUST(!rig_post(a, &wr));
        expect(&c1, i, IBV_WC_SUCCESS);
        cqe = rig_next(&r2);
        MUST(cqe.wr_id == i && cqe.byte_len == 5000 && cqe.src_qp == a->s->qpn && cqe.qpn == b->s->qpn);
        MUST(!memcmp(src, dst, 5000) && (i % 2 || (cqe.imm == i && cqe.flags & IBV_WC_WITH_IMM)));
    }
    MUST(a->sq_psn == b->s->rq_psn && a->sq_psn == ((0xFFFFFE + 500) & 0xFFFFFF));
    wr = send_of(&sge, 8192, 1, IBV_WR_RDMA_WRITE);
    for (int i = 0; i < 8192; i++)
        src[i] = (char)(i * 7);
    MUST(!rig_post(a, &wr));
    expect(&c1, 1, IBV_WC_SUCCESS);
    MUST(!memcmp(src, dst, 8192));
    memset(src, 0, 8192);
    wr = send_of(&sge, 8192, 2, IBV_WR_RDMA_READ);
    MUST(!rig_post(a, &wr));
    expect(&c1, 2, IBV_WC_SUCCESS);
    MUST(src[1] == 7 && !memcmp(src, dst, 8192));
    done(a, b);
}

static void rnr(void)
{
    struct options o = plain;
    struct ve_qp *a, *b;
    struct ibv_sge sge;
    struct ve_wr wr;
    uint64_t began;

    both(IBV_QPT_RC, &a, &b, &o); /* 7: for ever, and in order */
    for (unsigned i = 0; i < 4; i++) {
        wr = send_of(&sge, 10, i, IBV_WR_SEND);
        MUST(!rig_post(a, &wr));
    }
    usleep(30000);
    none_left();
    for (unsigned i = 0; i < 4; i++)
        MUST(!rig_recv(b, i, dst, 10, k2));
    for (unsigned i = 0; i < 4; i++) {
        expect(&c1, i, IBV_WC_SUCCESS);
        expect(&r2, i, IBV_WC_SUCCESS);
    }
    done(a, b);
    for (unsigned retries = 0; retries < 3; retries++) {
        o.rnr_retry = (uint8_t)retries;
        o.min_rnr = 19; /* 7.68 ms */
        both(IBV_QPT_RC, &a, &b, &o);
        began = ve_now_ns();
        for (unsigned i = 0; i < 2; i++) {
            wr = send_of(&sge, 10, i, IBV_WR_SEND);
            wr.flags = 0; /* errors are told all the same (10.7.3.1) */
            MUST(!rig_post(a, &wr));
        }
        expect(&c1, 0, IBV_WC_RNR_RETRY_EXC_ERR);
        expect(&c1, 1, IBV_WC_WR_FLUSH_ERR);
        MUST(ve_now_ns() - began >= retries * 7680000ull && ve_now_ns() - began < 60000000000u);
        MUST(rig_state(a) == IBV_QPS_ERR && rig_state(b) == IBV_QPS_RTS);
        done(a, b);
    }
}

static void lost(void)
{
    struct options o = plain;
    struct ve_qp *a, *b;
    struct ibv_sge sge;
    struct ve_wr wr;
    uint64_t began;

    o.timeout = 17; /* 0.5 s: also a busy machine mends it in time */
    both(IBV_QPT_RC, &a, &b, &o);
    stub_cut(true);
    wr = send_of(&sge, 10, 1, IBV_WR_SEND);
    MUST(!rig_recv(b, 1, dst, 10, k2) && !rig_post(a, &wr));
    usleep(10000);
    none_left();
    stub_cut(false); /* in time */
    expect(&c1, 1, IBV_WC_SUCCESS);
    expect(&r2, 1, IBV_WC_SUCCESS);
    done(a, b);
    o.timeout = 14; /* 67 ms */
    both(IBV_QPT_RC, &a, &b, &o);
    stub_cut(true);
    stub_packets = 0;
    began = ve_now_ns();
    MUST(!rig_post(a, &wr));
    expect(&c1, 1, IBV_WC_RETRY_EXC_ERR);
    MUST(ve_now_ns() - began >= 3 * 67108864ull && ve_now_ns() - began < 10 * 3 * 4 * 67108864ull);
    MUST(stub_packets >= 1 && stub_packets <= 3); /* the first and retry_cnt more, not one a poll; a busy machine may miss some */
    stub_cut(false);
    done(a, b);
}

/* Who errs, and which side looks first (IBA 9.7.4, 9.7.5, table 10.7.3). What is wrong with a request: */
enum { RKEY = 1, LONG = 2, ACCESS = 4, LKEY = 8, UNALIGNED = 16, REVOKES = 32 };

static void refused(void)
{
    static const struct {
        enum ibv_wr_opcode op;
        int wrong;
        enum ibv_wc_status status;
        enum ibv_wc_status receive; /* of what the responder has posted; SUCCESS: the responder is well */
    } cases[] = {
        { IBV_WR_RDMA_WRITE, RKEY, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR },
        { IBV_WR_RDMA_WRITE, LONG, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR },
        { IBV_WR_RDMA_WRITE, ACCESS, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR },
        { IBV_WR_RDMA_WRITE, LKEY, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS },
        { IBV_WR_RDMA_WRITE, LKEY | RKEY, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS }, /* nothing was sent */
        { IBV_WR_RDMA_WRITE_WITH_IMM, RKEY, IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR }, /* 11.6.2 */
        { IBV_WR_SEND, LKEY, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS },
        { IBV_WR_SEND, LONG, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR },
        { IBV_WR_SEND_WITH_INV, REVOKES, IBV_WC_RETRY_EXC_ERR, IBV_WC_LOC_PROT_ERR }, /* class J: no NAK (9.9.6.3) */
        { IBV_WR_RDMA_READ, RKEY, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR },
        { IBV_WR_RDMA_READ, ACCESS, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR },
        { IBV_WR_RDMA_READ, LKEY, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS },
        { IBV_WR_RDMA_READ, LKEY | RKEY, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR }, /* the responder is asked first */
        { IBV_WR_ATOMIC_FETCH_AND_ADD, UNALIGNED | RKEY, IBV_WC_REM_INV_REQ_ERR, IBV_WC_WR_FLUSH_ERR },
        { IBV_WR_ATOMIC_FETCH_AND_ADD, UNALIGNED | LKEY, IBV_WC_REM_INV_REQ_ERR, IBV_WC_WR_FLUSH_ERR },
        { IBV_WR_ATOMIC_FETCH_AND_ADD, RKEY, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR },
        { IBV_WR_ATOMIC_FETCH_AND_ADD, LKEY | RKEY, IBV_WC_REM_ACCESS_ERR, IBV_WC_WR_FLUSH_ERR },
        { IBV_WR_ATOMIC_FETCH_AND_ADD, LKEY, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS }, /* and it was executed */
    };

    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool atomic = cases[i].op == IBV_WR_ATOMIC_FETCH_AND_ADD;
        int wrong = cases[i].wrong;
        struct options o = plain;
        struct ve_qp *a, *b;
        struct ibv_sge sge;
        struct ve_wr wr;
        uint64_t there;

        if (wrong & ACCESS)
            o.access = IBV_ACCESS_LOCAL_WRITE;
        if (wrong & REVOKES)
            o.timeout = 10; /* 4 ms */
        both(IBV_QPT_RC, &a, &b, &o);
        memset(src, 0x33, sizeof src);
        memset(dst, 0x55, sizeof dst);
        wr = send_of(&sge, atomic ? 8 : wrong & REVOKES ? 0 : 100, i, cases[i].op);
        wr.compare = 1;
        wr.imm = k2; /* of a window? It is a region's */
        if (wrong & RKEY)
            wr.rkey ^= 1;
        if (wrong & LONG)
            wr.remote = (uintptr_t)dst + sizeof dst - 99;
        if (wrong & LKEY)
            sge.lkey ^= 1;
        if (wrong & UNALIGNED)
            wr.remote += 4;
        MUST(!rig_recv(b, 7, dst, 99, k2));
        MUST(!rig_post(a, &wr));
        expect(&c1, i, cases[i].status);
        MUST(!rig_post(a, &wr));
        expect(&c1, i, IBV_WC_WR_FLUSH_ERR);
        MUST(rig_state(a) == IBV_QPS_ERR && (rig_state(b) == IBV_QPS_ERR) == (cases[i].receive != IBV_WC_SUCCESS));
        if (cases[i].receive != IBV_WC_SUCCESS) {
            expect(&r2, 7, cases[i].receive);
            MUST(!rig_recv(b, 8, dst, 99, k2));
            expect(&r2, 8, IBV_WC_WR_FLUSH_ERR);
        }
        memcpy(&there, dst, 8);
        MUST(there == 0x5555555555555555ull + (atomic && wrong == LKEY ? 1 : 0));
        for (size_t o8 = 0; o8 < sizeof dst; o8++)
            MUST((dst[o8] == 0x55 || o8 < 8) && src[o8] == 0x33);
        done(a, b);
    }
}

static uint64_t counter __attribute__((aligned(8)));
#define THREADS 4
#define ADDS 2000

static void *adds(void *argument)
{
    struct rig *w = argument;
    struct cq c = rig_cq(w, 64), rc2 = rig_cq(&two, 64);
    struct ve_qp *a = rig_qp(w, IBV_QPT_RC, &c, &c, NULL, 16, 0);
    struct ve_qp *b = rig_qp(&two, IBV_QPT_RC, &rc2, &rc2, NULL, 16, 0);
    uint64_t old, last = 0;
    uint32_t lkey = rig_mr(w, &old, 8, ALL_ACCESS, DOMAIN), rkey = rig_mr(&two, &counter, 8, ALL_ACCESS, DOMAIN);
    struct ibv_sge sge = { (uintptr_t)&old, 8, lkey };
    struct ve_wr wr = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .flags = IBV_SEND_SIGNALED, .sges = 1, .sge = &sge,
                        .remote = (uintptr_t)&counter, .rkey = rkey, .compare = 3 };

    rig_connect(a, b, &plain);
    for (unsigned i = 0; i < ADDS; i++) {
        MUST(!rig_post(a, &wr));
        expect(&c, 0, IBV_WC_SUCCESS);
        MUST(old % 3 == 0 && (i == 0 || old >= last + 3));
        last = old;
    }
    rig_destroy(a);
    rig_destroy(b);
    rig_dereg(w, lkey);
    rig_dereg(&two, rkey);
    return NULL;
}

static void atomics(void)
{
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < THREADS; i++)
        MUST(!pthread_create(&threads[i], NULL, adds, i % 2 ? &two : &one)); /* foreign memory, and our own */
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    MUST(counter == 3ull * THREADS * ADDS);
}

static void uc(void)
{
    struct ve_qp *a, *b;
    struct ibv_sge sge;
    struct ve_wr wr;

    both(IBV_QPT_UC, &a, &b, &plain);
    wr = send_of(&sge, 10, 1, IBV_WR_SEND);
    MUST(!rig_post(a, &wr)); /* nothing posted: dropped */
    expect(&c1, 1, IBV_WC_SUCCESS);
    wr = send_of(&sge, 10, 2, IBV_WR_RDMA_WRITE);
    wr.rkey ^= 1;
    MUST(!rig_post(a, &wr)); /* a wrong key: dropped */
    expect(&c1, 2, IBV_WC_SUCCESS);
    MUST(rig_state(a) == IBV_QPS_RTS && rig_state(b) == IBV_QPS_RTS);
    stub_cut(true);
    MUST(!rig_recv(b, 3, dst, 10, k2));
    wr = send_of(&sge, 10, 3, IBV_WR_SEND);
    MUST(!rig_post(a, &wr));
    expect(&c1, 3, IBV_WC_SUCCESS);
    none_left();
    stub_cut(false);
    src[0] = 42;
    MUST(!rig_post(a, &wr));
    expect(&c1, 3, IBV_WC_SUCCESS);
    expect(&r2, 3, IBV_WC_SUCCESS);
    MUST(dst[0] == 42);
    sge.lkey ^= 1;
    MUST(!rig_post(a, &wr)); /* our own fault: SQE, and back */
    expect(&c1, 3, IBV_WC_LOC_PROT_ERR);
    MUST(rig_state(a) == IBV_QPS_SQE);
    MUST(!rig_post(a, &wr));
    expect(&c1, 3, IBV_WC_WR_FLUSH_ERR);
    MUST(!ve_modify(a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE));
    sge.lkey ^= 1;
    MUST(!rig_recv(b, 4, dst, 10, k2) && !rig_post(a, &wr));
    expect(&c1, 3, IBV_WC_SUCCESS);
    expect(&r2, 4, IBV_WC_SUCCESS);
    done(a, b);
}

static void ud(void)
{
    struct ve_qp *a = rig_qp(&one, IBV_QPT_UD, &c1, &r1, NULL, 16, 0), *b = rig_qp(&two, IBV_QPT_UD, &c2, &r2, NULL, 16, 0);
    struct ve_ah ah = { .attr = { .dlid = 2, .is_global = 1, .grh = { .hop_limit = 9, .flow_label = 0x12345 } }, .port = 0 };
    struct ibv_sge sge;
    struct ve_wr wr;
    struct softib_cqe cqe;

    ah.attr.grh.dgid.raw[15] = 2;
    pthread_mutex_init(&ah.lock, NULL);
    rig_datagrams(a);
    rig_datagrams(b);
    wr = send_of(&sge, 100, 1, IBV_WR_SEND);
    wr.ah = &ah;
    wr.qpn = b->s->qpn;
    wr.qkey = 0x11;
    memset(src, 7, 100);
    MUST(!rig_post(a, &wr)); /* no receive: dropped */
    expect(&c1, 1, IBV_WC_SUCCESS);
    MUST(!rig_recv(b, 2, dst, 139, k2) && !rig_post(a, &wr)); /* too small with its GRH: dropped, and it stays */
    expect(&c1, 1, IBV_WC_SUCCESS);
    none_left();
    wr.qkey = 0x12;
    MUST(!rig_post(a, &wr));
    expect(&c1, 1, IBV_WC_SUCCESS);
    MUST(stub_qkeys == 1);
    wr.qkey = 0x80000000; /* the QP's own */
    sge.length = 99;
    MUST(!rig_post(a, &wr));
    expect(&c1, 1, IBV_WC_SUCCESS);
    cqe = rig_next(&r2);
    MUST(cqe.wr_id == 2 && cqe.byte_len == 139 && cqe.flags & IBV_WC_GRH && cqe.src_qp == a->s->qpn && cqe.slid == 1);
    MUST(dst[0] == 0x60 && dst[6] == 0x1B && dst[7] == 9 && dst[39] == 2 && dst[23] == 1 && dst[40] == 7 && dst[138] == 7);
    sge.length = 4097; /* above the MTU */
    MUST(!rig_post(a, &wr));
    expect(&c1, 1, IBV_WC_LOC_LEN_ERR);
    MUST(rig_state(a) == IBV_QPS_SQE);
    done(a, b);
}

static void shared(bool xrc)
{
    struct srq s = rig_srq(&two, 16, xrc ? 9 : 0, xrc ? &r2 : NULL);
    struct ve_qp *a = rig_qp(&one, xrc ? IBV_QPT_XRC_SEND : IBV_QPT_RC, &c1, xrc ? NULL : &r1, NULL, 16, 0);
    struct ve_qp *b = xrc ? rig_qp(&two, IBV_QPT_XRC_RECV, NULL, NULL, NULL, 16, 9)
                          : rig_qp(&two, IBV_QPT_RC, &c2, &r2, &s, 16, 0);
    struct ibv_sge sge;
    struct ve_wr wr;
    struct softib_cqe cqe;

    rig_connect(a, b, &plain);
    wr = send_of(&sge, 64, 1, IBV_WR_SEND);
    wr.qpn = s.s->number;
    MUST(!rig_post(a, &wr));
    usleep(5000);
    none_left();
    for (unsigned i = 0; i < 8; i++)
        MUST(!rig_srq_recv(&s, i, dst + 64 * i, 64, k2));
    expect(&c1, 1, IBV_WC_SUCCESS);
    cqe = rig_next(&r2);
    MUST(cqe.wr_id == 0 && cqe.qpn == b->s->qpn);
    wr = send_of(&sge, 64, 2, IBV_WR_RDMA_WRITE);
    wr.qpn = s.s->number;
    MUST(!rig_post(a, &wr));
    expect(&c1, 2, IBV_WC_SUCCESS);
    if (xrc) {
        wr.qpn = s.s->number + 1000;
        MUST(!rig_post(a, &wr));
        expect(&c1, 2, IBV_WC_REM_INV_REQ_ERR);
    } else {
        wr.rkey ^= 1;
        MUST(!rig_post(a, &wr));
        expect(&c1, 2, IBV_WC_REM_ACCESS_ERR);
    }
    MUST(rig_state(b) == IBV_QPS_ERR && s.s->tail - s.s->head == 7); /* what is shared is not flushed */
    MUST(b->s->process == two.e.w.process && (xrc ? b->s->srq == 0 : b->s->srq == s.at));
    done(a, b);
}

static void srq(void)
{
    shared(false);
}

static void xrc(void)
{
    shared(true);
}

/* A QP without SQ waits is flushed when it goes to ERR, in order; RESET forgets, completions too. */
static void flush(void)
{
    struct ve_qp *a, *b;
    struct ibv_sge sge;
    struct ve_wr wr;

    for (int reset = 0; reset < 2; reset++) {
        both(IBV_QPT_RC, &a, &b, &plain);
        for (unsigned i = 0; i < 16; i++) {
            wr = send_of(&sge, 10, i, IBV_WR_SEND);
            MUST(!rig_post(a, &wr));
            MUST(!rig_recv(a, i, dst, 10, k2));
        }
        MUST(rig_post(a, &wr) == 12 && rig_recv(a, 0, dst, 10, k2) == 12); /* ENOMEM */
        MUST(!ve_modify(a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR }, IBV_QP_STATE));
        if (reset)
            MUST(!ve_modify(a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RESET }, IBV_QP_STATE));
        for (unsigned i = 0; i < 16 && !reset; i++) {
            expect(&c1, i, IBV_WC_WR_FLUSH_ERR);
            expect(&r1, i, IBV_WC_WR_FLUSH_ERR);
        }
        done(a, b);
    }
}

/* SQD: what is posted waits; receives go on. */
static void drain(void)
{
    struct ve_qp *a, *b;
    struct ibv_sge sge;
    struct ve_wr wr;

    both(IBV_QPT_RC, &a, &b, &plain);
    MUST(!ve_modify(a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_SQD }, IBV_QP_STATE));
    wr = send_of(&sge, 10, 1, IBV_WR_RDMA_WRITE);
    MUST(!rig_post(a, &wr));
    none_left();
    MUST(!ve_modify(a, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS }, IBV_QP_STATE));
    expect(&c1, 1, IBV_WC_SUCCESS);
    done(a, b);
}

/* dereg returns: nobody copies there any more. The memory is taken away at once: a late copy is seen. */
static bool over;

static void *writes(void *argument)
{
    struct ve_qp *a = argument;
    struct ibv_sge sge;
    struct softib_cqe cqe;
    struct ve_wr wr = send_of(&sge, 4096, 1, IBV_WR_RDMA_WRITE);

    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE) && rig_state(a) == IBV_QPS_RTS) {
        MUST(!rig_post(a, &wr));
        cqe = rig_next(&c1);
        MUST(cqe.status == IBV_WC_SUCCESS || cqe.status == IBV_WC_REM_ACCESS_ERR);
    }
    return NULL;
}

static void dereg(void)
{
    for (unsigned round = 0; round < 100; round++) {
        struct ve_qp *a, *b;
        pthread_t thread;

        k2 = rig_mr(&two, dst, sizeof dst, ALL_ACCESS, DOMAIN);
        memset(src, 1, sizeof src);
        both(IBV_QPT_RC, &a, &b, &plain);
        MUST(!pthread_create(&thread, NULL, writes, a));
        usleep(200);
        rig_dereg(&two, k2);
        memset(dst, 2, sizeof dst);
        usleep(100);
        for (unsigned i = 0; i < sizeof dst; i++)
            MUST(dst[i] == 2);
        __atomic_store_n(&over, true, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        over = false;
        done(a, b);
    }
}

/* ibv_modify_qp(3): what each step needs; IBA 10.3.1: which steps there are. SQE only where one request's error is not the end. */
enum {
    U = 1 << IBV_QPT_UD, C = 1 << IBV_QPT_UC, R = 1 << IBV_QPT_RC, XI = 1 << IBV_QPT_XRC_SEND, XT = 1 << IBV_QPT_XRC_RECV,
    ANY = U | C | R | XI | XT /* XRC's two halves: ib_core's table (drivers/infiniband/core/verbs.c), the man page has none */
};

static const struct {
    int from, to, types, needs;
} steps[] = {
    { IBV_QPS_RESET, IBV_QPS_INIT, U, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY },
    { IBV_QPS_RESET, IBV_QPS_INIT, C | R | XI | XT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
    { IBV_QPS_INIT, IBV_QPS_INIT, ANY, 0 },
    { IBV_QPS_INIT, IBV_QPS_RTR, U, 0 },
    { IBV_QPS_INIT, IBV_QPS_RTR, C | XI, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN },
    { IBV_QPS_INIT, IBV_QPS_RTR, R | XT,
      IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER },
    { IBV_QPS_RTR, IBV_QPS_RTS, U | C, IBV_QP_SQ_PSN },
    { IBV_QPS_RTR, IBV_QPS_RTS, XT, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT },
    { IBV_QPS_RTR, IBV_QPS_RTS, R | XI,
      IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC },
    { IBV_QPS_RTS, IBV_QPS_RTS, ANY, 0 }, { IBV_QPS_RTS, IBV_QPS_SQD, ANY, 0 },
    { IBV_QPS_SQD, IBV_QPS_RTS, ANY, 0 }, { IBV_QPS_SQD, IBV_QPS_SQD, ANY, 0 },
    { IBV_QPS_SQE, IBV_QPS_RTS, U | C, 0 },
};

/* -1: there is no such step. */
static int needs(enum ibv_qp_type type, int from, int to)
{
    if (from == IBV_QPS_RESET && to == IBV_QPS_ERR)
        return -1; /* the specification has it, ib_core does not */
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
        return 0;
    for (unsigned i = 0; i < sizeof steps / sizeof *steps; i++)
        if (steps[i].from == from && steps[i].to == to && steps[i].types & 1 << type)
            return steps[i].needs;
    return -1;
}

static int step(struct ve_qp *q, int to, int mask)
{
    struct ibv_qp_attr a = { .qp_state = to, .port_num = 1, .path_mtu = IBV_MTU_1024, .dest_qp_num = 2, .timeout = 14,
                             .ah_attr = { .dlid = 2, .port_num = 1 } };

    return ve_modify(q, &a, mask | IBV_QP_STATE);
}

static void to_state(struct ve_qp *q, int state)
{
    static const int states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
    struct ibv_sge sge;
    struct ve_wr wr;

    if (state == IBV_QPS_ERR)
        MUST(!step(q, IBV_QPS_INIT, needs(q->s->type, IBV_QPS_RESET, IBV_QPS_INIT)) && !step(q, IBV_QPS_ERR, 0));
    if (state == IBV_QPS_RESET || state == IBV_QPS_ERR)
        return;
    for (int i = 0; i < 3 && rig_state(q) != (enum ibv_qp_state)state; i++)
        MUST(!step(q, states[i], needs(q->s->type, (int)rig_state(q), states[i])));
    if (state == IBV_QPS_SQD)
        MUST(!step(q, state, 0));
    if (state == IBV_QPS_SQE) {
        wr = send_of(&sge, 10, 1, IBV_WR_SEND);
        sge.lkey ^= 1;
        MUST(!rig_post(q, &wr));
        expect(&c1, 1, IBV_WC_LOC_PROT_ERR);
    }
    MUST(rig_state(q) == (enum ibv_qp_state)state && q->state == (enum ibv_qp_state)state);
}

static void states(void)
{
    static const enum ibv_qp_type types[] = { IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RC, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV };
    unsigned tried = 0;

    for (unsigned t = 0; t < 5; t++)
        for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++)
            for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++)
                for (int bit = -1; bit <= 20; bit++) { /* all that it needs; without one; with IBV_QP_CAP */
                    struct ve_qp *q = rig_qp(&one, types[t], t < 4 ? &c1 : NULL, t < 3 ? &r1 : NULL, NULL, 16, 0);
                    int all = needs(types[t], from, to), mask = all < 0 ? 0 : all;
                    bool legal = all >= 0;

                    if (from == IBV_QPS_SQE && t >= 2) { /* an error breaks them */
                        rig_destroy(q);
                        continue;
                    }
                    to_state(q, from);
                    if (bit == 20)
                        mask |= IBV_QP_CAP, legal = false;
                    else if (bit >= 0 && mask & 1 << bit)
                        mask &= ~(1 << bit), legal = false;
                    MUST(step(q, to, mask) == (legal ? 0 : 22));
                    MUST(rig_state(q) == (enum ibv_qp_state)(legal ? to : from) && q->state == rig_state(q));
                    tried++;
                    rig_destroy(q);
                }
    MUST(tried == (5 * 49 - 3 * 7) * 22);
    none_left();
}

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = { { "rc", rc }, { "rnr", rnr }, { "lost", lost }, { "refused", refused }, { "atomics", atomics }, { "uc", uc },
               { "ud", ud }, { "srq", srq }, { "xrc", xrc }, { "flush", flush }, { "drain", drain }, { "states", states }, { "dereg", dereg } };

int main(int argc, char **argv)
{
    MUST(argc == 3);
    rig_open(&one, argv[1], 1, 0);
    rig_open(&two, argv[1], 2, 1);
    c1 = rig_cq(&one, 64);
    r1 = rig_cq(&one, 64);
    c2 = rig_cq(&two, 64);
    r2 = rig_cq(&two, 64);
    k1 = rig_mr(&one, src, sizeof src, ALL_ACCESS, DOMAIN);
    k2 = rig_mr(&two, dst, sizeof dst, ALL_ACCESS, DOMAIN);
    for (unsigned i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        if (!strcmp(argv[2], scenes[i].name)) {
            scenes[i].run();
            rig_close(&one);
            rig_close(&two);
            puts("ok");
            return 0;
        }
    }
    return 2;
}
