/* Tag matching, one scene a law; "tags FOLDER SCENE". The list is the application's side of it, too: abi/tags.c. */
#include "tag_matching.h"
#include "abi/abi.h"
#include "rig.h"

#include <endian.h>
#include <errno.h>
#include <infiniband/tm_types.h>
#include <string.h>
#include <unistd.h>

struct ve_engine va_engine;

uint32_t va_power_of_two(uint32_t n)
{
    uint32_t size = 1;

    while (size < n)
        size *= 2;
    return size;
}

#define MATCHED (IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID)
#define PLACES 64

static struct rig one, two; /* `two` has the list, and its engine is va_engine */
static struct cq c1, c2, r1;
static struct srq pool;
static struct va_srq list;
static struct ve_qp *a, *b;
static char src[8192], dst[8192];
static uint32_t k1, k2;
static uint16_t seen;
static const struct options plain = { .timeout = 16, .retry_cnt = 2, .rnr_retry = 7, .min_rnr = 1 };

static void begin(const char *folder, uint32_t max)
{
    rig_open(&one, folder, 1, 0);
    rig_open(&two, folder, 2, 1);
    va_engine = two.e;
    c1 = rig_cq(&one, 256);
    r1 = rig_cq(&one, 256);
    c2 = rig_cq(&two, 4096);
    pool = rig_srq(&two, PLACES, 0, NULL);
    pool.s->cq = c2.at;
    list.s = pool.s;
    MUST(!va_make_tags(pool.s, max));
    k1 = rig_mr(&one, src, sizeof src, ALL_ACCESS, DOMAIN);
    k2 = rig_mr(&two, dst, sizeof dst, ALL_ACCESS, DOMAIN);
    a = rig_qp(&one, IBV_QPT_RC, &c1, &r1, NULL, 64, 0);
    b = rig_qp(&two, IBV_QPT_RC, &c2, &c2, &pool, 64, 0);
    rig_connect(a, b, &plain);
}

static struct ibv_ops_wr ops(enum ibv_ops_wr_opcode opcode, uint64_t id, bool sync)
{
    return (struct ibv_ops_wr){ .wr_id = id, .opcode = opcode, .flags = IBV_OPS_SIGNALED | (sync ? IBV_OPS_TM_SYNC : 0),
                                .tm = { .unexpected_cnt = seen } };
}

static int change(struct ibv_ops_wr *wr)
{
    struct ibv_ops_wr *bad;

    return va_post_srq_ops(&list.srq, wr, &bad);
}

static int add(uint64_t id, uint64_t tag, uint64_t mask, uint32_t octets, bool sync, uint32_t *handle)
{
    struct ibv_sge sge = { (uintptr_t)dst, octets, k2 };
    struct ibv_ops_wr wr = ops(IBV_WR_TAG_ADD, id, sync);
    int error;

    wr.tm.add.recv_wr_id = id;
    wr.tm.add.sg_list = &sge;
    wr.tm.add.num_sge = 1;
    wr.tm.add.tag = tag;
    wr.tm.add.mask = mask;
    error = change(&wr);
    if (handle)
        *handle = wr.tm.handle;
    return error;
}

static struct softib_cqe expect(const struct cq *c, uint32_t opcode, uint64_t id, enum ibv_wc_status status, uint32_t flags)
{
    struct softib_cqe cqe = rig_next(c);

    if (cqe.opcode != opcode || cqe.wr_id != id || cqe.status != status || cqe.flags != flags)
        fprintf(stderr, "opcode %u wr_id %lu status %u flags %u, not %u %lu %u %u\n", cqe.opcode, cqe.wr_id, cqe.status,
                cqe.flags, opcode, id, status, flags);
    MUST(cqe.opcode == opcode && cqe.wr_id == id && cqe.status == status && cqe.flags == flags);
    return cqe;
}

static uint64_t tag_of(const struct softib_cqe *cqe)
{
    uint64_t tag;

    memcpy(&tag, (const char *)cqe + offsetof(struct softib_cqe, sl), sizeof tag);
    return tag;
}

/* A message of `octets` behind its header, which is `op`, `tag` and the user's 0x55AA. */
static int send_tagged(enum ibv_tmh_op op, uint64_t tag, uint32_t octets, uint64_t id)
{
    struct ibv_tmh header = { .opcode = (uint8_t)op, .app_ctx = 0x55AA, .tag = htobe64(tag) };
    struct ibv_sge sge = { (uintptr_t)src, (uint32_t)sizeof header + octets, k1 };
    struct ve_wr wr = { .wr_id = id, .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .sges = 1, .sge = &sge };

    memcpy(src, &header, sizeof header);
    return rig_post(a, &wr);
}

static int send_rendezvous(uint64_t tag, uint32_t rkey, uint32_t octets)
{
    struct ibv_rvh header = { .va = htobe64((uintptr_t)src + 64), .rkey = htobe32(rkey), .len = htobe32(octets) };

    memcpy(src + sizeof(struct ibv_tmh), &header, sizeof header);
    return send_tagged(IBV_TMH_RNDV, tag, sizeof header, 7);
}

static void sent(void)
{
    expect(&c1, IBV_WC_SEND, 7, IBV_WC_SUCCESS, 0);
}

/* The first that matches takes the payload; the rest goes to ordinary receives, whole. */
static void matching(void)
{
    struct softib_cqe cqe;

    MUST(!add(1, 0x1200, 0xFF00, 100, true, NULL) && !add(2, 0x1234, ~0ull, 100, true, NULL) && !add(3, 0, 0, 100, true, NULL));
    for (uint64_t i = 1; i <= 3; i++)
        expect(&c2, IBV_WC_TM_ADD, i, IBV_WC_SUCCESS, 0);
    for (uint64_t i = 1; i <= 3; i++) { /* 0x1234 fits all three, in the order of posting */
        memset(src, (int)i, 200);
        memset(dst, 0, 200);
        MUST(!send_tagged(IBV_TMH_EAGER, 0x1234, 40, 7));
        sent();
        cqe = expect(&c2, IBV_WC_TM_RECV, i, IBV_WC_SUCCESS, MATCHED);
        MUST(cqe.byte_len == 40 && tag_of(&cqe) == 0x1234 && cqe.vendor_err == 0x55AA && cqe.qpn == b->s->qpn);
        MUST(dst[0] == (char)i && dst[39] == (char)i && !dst[40]);
    }
    for (uint64_t i = 10; i < 13; i++)
        MUST(!rig_srq_recv(&pool, i, dst, 100, k2));
    MUST(!send_tagged(IBV_TMH_EAGER, 0x1234, 40, 7));
    sent();
    cqe = expect(&c2, IBV_WC_TM_RECV, 10, IBV_WC_SUCCESS, 0);
    MUST(cqe.byte_len == 56 && dst[0] == IBV_TMH_EAGER && dst[16] == 3);
    MUST(!send_tagged(IBV_TMH_NO_TAG, 0x1234, 40, 7));
    sent();
    expect(&c2, IBV_WC_TM_NO_TAG, 11, IBV_WC_SUCCESS, 0);
    MUST(ve_unexpected_n(&va_engine, pool.s) == 1); /* what has no tag is not unexpected */
    MUST(!send_tagged(IBV_TMH_EAGER, 1, 200, 7)); /* and does not fit */
    expect(&c1, IBV_WC_SEND, 7, IBV_WC_REM_INV_REQ_ERR, 0);
    expect(&c2, IBV_WC_RECV, 12, IBV_WC_LOC_LEN_ERR, 0);
}

/* After an unexpected message new entries do not match until its owner has said that it saw it. */
static void phases(void)
{
    struct ibv_ops_wr wr;
    uint32_t handle;

    MUST(!add(1, 1, ~0ull, 100, true, NULL));
    expect(&c2, IBV_WC_TM_ADD, 1, IBV_WC_SUCCESS, 0);
    for (uint64_t i = 10; i < 14; i++)
        MUST(!rig_srq_recv(&pool, i, dst, 100, k2));
    MUST(!send_tagged(IBV_TMH_EAGER, 2, 1, 7));
    sent();
    expect(&c2, IBV_WC_TM_RECV, 10, IBV_WC_SUCCESS, 0);
    MUST(!add(2, 2, ~0ull, 100, true, &handle)); /* it was added before that was known */
    expect(&c2, IBV_WC_TM_ADD, 2, IBV_WC_SUCCESS, IBV_WC_TM_SYNC_REQ);
    MUST(!send_tagged(IBV_TMH_EAGER, 2, 1, 7)); /* would overtake the one before */
    sent();
    expect(&c2, IBV_WC_TM_RECV, 11, IBV_WC_SUCCESS, 0);
    MUST(!send_tagged(IBV_TMH_EAGER, 1, 1, 7)); /* what was there before still matches */
    sent();
    expect(&c2, IBV_WC_TM_RECV, 1, IBV_WC_SUCCESS, MATCHED);
    seen = 1;
    wr = ops(IBV_WR_TAG_SYNC, 5, true);
    MUST(!change(&wr));
    expect(&c2, IBV_WC_TM_SYNC, 5, IBV_WC_SUCCESS, IBV_WC_TM_SYNC_REQ); /* two came */
    seen = 2;
    wr = ops(IBV_WR_TAG_SYNC, 6, true);
    MUST(!change(&wr));
    expect(&c2, IBV_WC_TM_SYNC, 6, IBV_WC_SUCCESS, 0);
    MUST(!send_tagged(IBV_TMH_EAGER, 2, 1, 7));
    sent();
    expect(&c2, IBV_WC_TM_RECV, 2, IBV_WC_SUCCESS, MATCHED);
    wr = ops(IBV_WR_TAG_DEL, 8, false);
    wr.tm.handle = handle; /* too late */
    wr.flags = 0;          /* an error is told all the same */
    MUST(!change(&wr));
    expect(&c2, IBV_WC_TM_DEL, 8, IBV_WC_TM_ERR, 0);
}

/* Data comes by READ, the FIN to the sender's receive; without a receive it waits. */
static void rendezvous(void)
{
    struct softib_cqe cqe;
    struct ibv_tmh *fin = (void *)src;

    for (int round = 0; round < 2; round++) {
        memset(dst, 0, sizeof dst);
        for (int i = 64; i < 5064; i++)
            src[i] = (char)(i + round);
        MUST(!add(1, 9, ~0ull, 5000, true, NULL));
        expect(&c2, IBV_WC_TM_ADD, 1, IBV_WC_SUCCESS, 0);
        if (!round)
            MUST(!rig_recv(a, 20, src, 16, k1));
        MUST(!send_rendezvous(9, k1, 5000));
        sent();
        cqe = expect(&c2, IBV_WC_TM_RECV, 1, IBV_WC_SUCCESS, IBV_WC_TM_MATCH);
        MUST(cqe.byte_len == 5000 && tag_of(&cqe) == 9);
        if (round) {
            MUST(!rig_poll(&r1, &cqe, 20) && !rig_poll(&c2, &cqe, 1)); /* no receive for the FIN */
            MUST(!rig_recv(a, 20, src, 16, k1));
        }
        cqe = expect(&r1, IBV_WC_RECV, 20, IBV_WC_SUCCESS, 0);
        MUST(cqe.byte_len == 16 && fin->opcode == IBV_TMH_FIN && fin->app_ctx == 0x55AA && be64toh(fin->tag) == 9);
        cqe = expect(&c2, IBV_WC_TM_RECV, 1, IBV_WC_SUCCESS, IBV_WC_TM_DATA_VALID);
        MUST(cqe.byte_len == 5000 && !memcmp(dst, src + 64, 5000) && !dst[5000]);
    }
    MUST(!rig_srq_recv(&pool, 10, dst, 100, k2) && !send_rendezvous(8, k1, 100)); /* unexpected: left to software */
    sent();
    expect(&c2, IBV_WC_TM_RECV, 10, IBV_WC_SUCCESS, 0);
    seen = 1;
    MUST(!add(2, 9, ~0ull, 5000, true, NULL) && !add(3, 9, ~0ull, 5000, true, NULL));
    expect(&c2, IBV_WC_TM_ADD, 2, IBV_WC_SUCCESS, 0);
    expect(&c2, IBV_WC_TM_ADD, 3, IBV_WC_SUCCESS, 0);
    MUST(!send_rendezvous(9, k1 ^ 1, 5000)); /* a wrong key: the READ fails */
    sent();
    expect(&c2, IBV_WC_TM_RECV, 2, IBV_WC_SUCCESS, IBV_WC_TM_MATCH);
    expect(&c2, IBV_WC_TM_RECV, 2, IBV_WC_TM_RNDV_INCOMPLETE, IBV_WC_TM_DATA_VALID);
    MUST(rig_state(a) == IBV_QPS_ERR && rig_state(b) == IBV_QPS_ERR);
}

/* Against a list that is plainly searched: random tags and masks, deletions, synchronizations, until the list is full. */
static void model(void)
{
    struct { uint64_t tag, mask, id; uint32_t handle; } entry[16];
    uint32_t n = 0, armed = 0, unexpected = 0, posted = 0, taken = 0;
    uint64_t rng_state = 88172645463325252ull;

    for (uint64_t step = 0; step < 60000; step++) {
        struct softib_cqe cqe;
        struct ibv_ops_wr wr;
        uint32_t i = 0;

        rng_state ^= rng_state << 13, rng_state ^= rng_state >> 7, rng_state ^= rng_state << 17;
        while (posted - taken < 8)
            MUST(!rig_srq_recv(&pool, 1000000 + posted++, dst, 100, k2));
        if (rng_state % 8 < 3) {
            uint64_t mask = (rng_state >> 8) % 4 ? 7 : 3, tag = (rng_state >> 16) & mask;
            uint32_t handle;
            int error = add(step, tag, mask, 100, rng_state >> 24 & 1, &handle);

            MUST(error == (n == 10 ? ENOMEM : 0));
            if (error)
                continue;
            entry[n].tag = tag, entry[n].mask = mask, entry[n].id = step, entry[n++].handle = handle;
            armed = ((struct softib_tags *)vm_at(&va_engine.w, pool.s->tags))->handled == unexpected % 0x10000 ? n : armed;
            expect(&c2, IBV_WC_TM_ADD, step, IBV_WC_SUCCESS, armed == n ? 0 : IBV_WC_TM_SYNC_REQ);
        } else if (rng_state % 8 == 3 && n) {
            i = (uint32_t)(rng_state >> 8) % n;
            wr = ops(IBV_WR_TAG_DEL, step, false);
            wr.tm.handle = entry[i].handle;
            MUST(!change(&wr));
            cqe = rig_next(&c2);
            MUST(cqe.opcode == IBV_WC_TM_DEL && cqe.status == IBV_WC_SUCCESS && cqe.wr_id == step);
            memmove(&entry[i], &entry[i + 1], (--n - i) * sizeof entry[0]);
            armed -= i < armed;
            armed = cqe.flags ? armed : n;
        } else if (rng_state % 8 == 4) {
            seen = (uint16_t)unexpected;
            wr = ops(IBV_WR_TAG_SYNC, step, true);
            MUST(!change(&wr));
            expect(&c2, IBV_WC_TM_SYNC, step, IBV_WC_SUCCESS, 0);
            armed = n;
        } else {
            uint64_t tag = (rng_state >> 8) & 7;

            MUST(!send_tagged(IBV_TMH_EAGER, tag, 4, 7));
            sent();
            while (i < armed && (tag & entry[i].mask) != entry[i].tag)
                i++;
            if (i < armed) {
                expect(&c2, IBV_WC_TM_RECV, entry[i].id, IBV_WC_SUCCESS, MATCHED);
                memmove(&entry[i], &entry[i + 1], (--n - i) * sizeof entry[0]);
                armed--;
            } else {
                expect(&c2, IBV_WC_TM_RECV, 1000000 + taken++, IBV_WC_SUCCESS, 0);
                unexpected++;
            }
        }
    }
    MUST(unexpected > 5000);
}

#define MANY 3000

static void *sends(void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < MANY; i++) {
        MUST(!send_tagged(IBV_TMH_EAGER, i % 3, 4, 7));
        sent();
    }
    return NULL;
}

/*
 * One sends while the other changes the list: every message arrives once, at an entry or at a receive. The first comes before
 * there is an entry. While entries wait for a synchronization no receives are given: whoever sends must wait in the end,
 * so that the synchronization holds, and the next messages match, however the two threads take turns.
 */
static void race(void)
{
    unsigned matched = 0, plainly = 0, added = 0, deleted = 0, waited = 0, posted = 0;
    bool behind = false;
    uint32_t handle = 0;
    pthread_t thread;

    pthread_create(&thread, NULL, sends, NULL);
    while (matched + plainly < MANY) {
        struct softib_cqe cqe;

        for (; !behind && posted - plainly < PLACES; posted++)
            MUST(!rig_srq_recv(&pool, 1, dst + 4096, 100, k2));
        if (behind) {
            struct ibv_ops_wr wr = ops(IBV_WR_TAG_SYNC, 4, true);

            MUST(!change(&wr));
        } else if (plainly && added - matched - deleted < 4) {
            struct ibv_ops_wr wr = ops(IBV_WR_TAG_DEL, 3, true);

            MUST(!add(2, added % 3, 3, 100, true, &handle));
            added++;
            wr.tm.handle = handle;
            if (added % 5 == 0)
                MUST(!change(&wr));
        }
        while (rig_poll(&c2, &cqe, 0)) {
            MUST(cqe.status == IBV_WC_SUCCESS || (cqe.opcode == IBV_WC_TM_DEL && cqe.status == IBV_WC_TM_ERR));
            if (cqe.opcode == IBV_WC_TM_RECV) {
                MUST(cqe.flags == MATCHED || !cqe.flags);
                matched += cqe.flags == MATCHED;
                plainly += !cqe.flags;
            } else {
                behind = cqe.flags & IBV_WC_TM_SYNC_REQ;
                deleted += cqe.opcode == IBV_WC_TM_DEL && cqe.status == IBV_WC_SUCCESS;
                waited += cqe.status == IBV_WC_TM_ERR;
            }
            seen = (uint16_t)plainly;
        }
    }
    pthread_join(thread, NULL);
    if (!matched || !plainly || matched + plainly != MANY || waited >= added)
        fprintf(stderr, "matched %u plainly %u added %u deleted %u waited %u\n", matched, plainly, added, deleted, waited);
    MUST(matched && plainly && matched + plainly == MANY && waited < added);
}

static const struct {
    const char *name;
    void (*run)(void);
} scenes[] = { { "matching", matching }, { "phases", phases }, { "rendezvous", rendezvous }, { "model", model },
               { "race", race } };

int main(int argc, char **argv)
{
    struct softib_cqe cqe;

    MUST(argc == 3);
    begin(argv[1], 10);
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (!strcmp(argv[2], scenes[i].name)) {
            scenes[i].run();
            MUST(!rig_poll(&c1, &cqe, 5) && !rig_poll(&c2, &cqe, 5) && !rig_poll(&r1, &cqe, 5));
            rig_destroy(a);
            rig_destroy(b);
            va_free_tags(pool.s);
            rig_close(&one);
            rig_close(&two);
            puts("ok");
        }
    return 0;
}
