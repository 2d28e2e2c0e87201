/* One process of the crowd: legal and illegal requests at random, and what may come of them. */
#include "timer.h"
#include "many_processes.h"
#include "rng.h"

#include <string.h>
#include <sys/mman.h>

#define ARENA 32768
#define REGIONS 6
#define DEPTH 8
#define LINKS (SLOTS * KINDS)
#define HANGS_NS 60000000000ull

struct region {
    uint32_t key, access, from, length;
    uint64_t serial; /* 0: there is none */
};

struct request {
    uint64_t id, began, region; /* serial of the local region, 0: a wrong one */
    uint32_t rkey, length, needs;
    uint64_t remote;
    bool rdma;
};

struct link {
    struct ve_qp *q;
    uint32_t peer, connected;
    struct request requests[2 * DEPTH];
    uint32_t first, last;
};

static struct rig w;
static struct cq cq;
static uint32_t me;
static uint64_t serial;
static char *arena;
static struct region regions[REGIONS];
static struct link links[LINKS];
static const struct options options = { .timeout = 8, .retry_cnt = 1, .rnr_retry = 6, .min_rnr = 12, .psn = 77 };

/* -- memory: what no writable region holds is as it was -- */

static char canary(uint32_t at)
{
    return (char)(at * 31 + me * 7 + 5);
}

static bool may_change(uint32_t at)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].serial && regions[i].access & IBV_ACCESS_LOCAL_WRITE && at - regions[i].from < regions[i].length)
            return true;
    return false;
}

static void look_at_arena(void)
{
    for (uint32_t i = 0; i < ARENA; i++)
        MUST(arena[i] == canary(i) || may_change(i));
}

static void make_region(struct region *r)
{
    static const uint32_t rights[] = { 0, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, ALL_ACCESS, ALL_ACCESS };
    struct slot *s = &slots[me];
    uint32_t n = s->published_n;

    r->from = some(ARENA / 8) * 8;
    r->length = 1 + some(some(2) ? 4096 : ARENA);
    r->length = r->length > ARENA - r->from ? ARENA - r->from : r->length;
    r->access = rights[some(6)];
    r->serial = ++serial;
    r->key = rig_mr(&w, arena + r->from, r->length, r->access, DOMAIN);
    s->published[n % HISTORY] = (struct published){ r->key, r->access, (uintptr_t)arena + r->from, r->length };
    __atomic_store_n(&s->published_n, n + 1, __ATOMIC_RELEASE);
}

/* When it has returned nobody writes there: the canaries stand again. */
static void drop_region(struct region *r)
{
    rig_dereg(&w, r->key);
    r->serial = 0;
    for (uint32_t i = r->from; i < r->from + r->length; i++)
        if (!may_change(i))
            arena[i] = canary(i);
}

static struct region *region_of(uint64_t of)
{
    for (int i = 0; i < REGIONS; i++)
        if (of && regions[i].serial == of)
            return &regions[i];
    return NULL;
}

/* -- connections -- */

static void make_link(uint32_t i)
{
    struct link *l = &links[i];

    l->peer = i / KINDS;
    l->connected = l->first = l->last = 0;
    l->q = rig_qp(&w, i % KINDS ? IBV_QPT_UC : IBV_QPT_RC, &cq, &cq, NULL, DEPTH, 0);
    __atomic_store_n(&slots[me].qpn[l->peer][i % KINDS], l->q->s->qpn, __ATOMIC_RELEASE);
}

static void connect_link(uint32_t i)
{
    struct link *l = &links[i];
    uint32_t peer = __atomic_load_n(&slots[l->peer].qpn[me][i % KINDS], __ATOMIC_ACQUIRE);

    if (rig_state(l->q) == IBV_QPS_RESET && peer) {
        l->connected = peer;
        MUST(!rig_init(l->q, some(8) ? ALL_ACCESS : IBV_ACCESS_REMOTE_READ));
        MUST(!rig_rtr(l->q, peer, (uint16_t)(l->peer % 2 + 1), &options));
        MUST(!rig_rts(l->q, &options) || rig_state(l->q) == IBV_QPS_ERR); /* a request was faster, and wrong */
    } else if (rig_state(l->q) == IBV_QPS_ERR || (l->connected && l->connected != peer && !some(4)) || !some(2000)) {
        rig_destroy(l->q);
        make_link(i);
    }
}

/* -- requests -- */

static const struct {
    enum ibv_wr_opcode op;
    uint32_t needs, local;
    bool rdma;
} kinds[] = {
    { IBV_WR_SEND, 0, 0, false },
    { IBV_WR_SEND_WITH_IMM, 0, 0, false },
    { IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, 0, true },
    { IBV_WR_RDMA_WRITE_WITH_IMM, IBV_ACCESS_REMOTE_WRITE, 0, true },
    { IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE, true },
    { IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_LOCAL_WRITE, true },
};

/* A key and an address of the peer's, mostly; sometimes of another's, or of nobody's. */
static void aim(struct request *r, uint32_t peer)
{
    const struct slot *s = &slots[some(16) ? peer : some(SLOTS)];
    uint32_t n = __atomic_load_n(&s->published_n, __ATOMIC_ACQUIRE), back = 1 + some(5);
    struct published p = { .key = NO_KEY };

    if (n >= back && some(64))
        p = s->published[(n - back) % HISTORY];
    r->rkey = p.key;
    r->remote = p.address + (p.length ? some((uint32_t)p.length) : 0) - (some(16) ? 0 : some(64));
    if (some(64) && r->needs != IBV_ACCESS_REMOTE_ATOMIC && r->remote - p.address < p.length &&
        r->length > p.address + p.length - r->remote)
        r->length = (uint32_t)(p.address + p.length - r->remote);
    r->remote &= r->needs == IBV_ACCESS_REMOTE_ATOMIC ? ~7ull : ~0ull;
}

static void post(uint32_t i)
{
    struct link *l = &links[i];
    uint32_t kind = some(i % KINDS ? 4 : 6);
    const struct region *mine = &regions[some(REGIONS)];
    struct request r = { .id = ++serial << 8 | i, .began = ve_now_ns(), .needs = kinds[kind].needs, .rdma = kinds[kind].rdma };
    struct ibv_sge sge = { .lkey = NO_KEY };
    struct ve_wr wr = { .wr_id = r.id, .opcode = kinds[kind].op, .flags = IBV_SEND_SIGNALED, .sges = 1, .sge = &sge };

    if (rig_state(l->q) != IBV_QPS_RTS || l->last - l->first >= DEPTH)
        return;
    r.length = kinds[kind].needs == IBV_ACCESS_REMOTE_ATOMIC ? 8 : 1 + some(some(4) ? 200 : 4096);
    aim(&r, l->peer);
    sge.addr = (uintptr_t)arena + some(ARENA - 4096);
    if (mine->serial && some(64)) {
        sge.lkey = mine->key;
        sge.addr = (uintptr_t)arena + mine->from;
        if (r.length > mine->length || !some(64))
            sge.addr += some(mine->length);
        else
            sge.addr += some(mine->length - r.length + 1);
        if ((mine->access & kinds[kind].local) == kinds[kind].local &&
            sge.addr + r.length <= (uintptr_t)arena + mine->from + mine->length)
            r.region = mine->serial;
    }
    sge.length = r.length;
    wr.remote = r.remote;
    wr.rkey = r.rkey;
    wr.compare = 1;
    l->requests[l->last++ % (2 * DEPTH)] = r;
    MUST(!rig_post(l->q, &wr));
    slots[me].posted++;
}

static void post_receive(uint32_t i)
{
    const struct region *mine = &regions[some(REGIONS)];

    if (mine->serial && rig_state(links[i].q) == IBV_QPS_RTS)
        (void)rig_recv(links[i].q, 1ull << 63 | i, arena + mine->from, mine->length, some(32) ? mine->key : NO_KEY);
}

/* Did the peer, or those before it in its place, ever open this? */
static bool was_open(uint32_t peer, const struct request *r)
{
    const struct slot *s = &slots[peer];

    for (uint32_t i = 0; i < HISTORY; i++) {
        const struct published *p = &s->published[i];

        if (p->key == r->rkey && (p->access & r->needs) == r->needs && r->remote >= p->address &&
            r->remote + r->length <= p->address + p->length)
            return true;
    }
    return false;
}

static void judge(const struct link *l, const struct request *r, const struct softib_cqe *cqe)
{
    bool connected = l->q->s->type == IBV_QPT_RC;

    switch (cqe->status) {
    case IBV_WC_SUCCESS:
        MUST(r->region && (!connected || !r->rdma || was_open(l->peer, r)));
        slots[me].good++;
        return;
    case IBV_WC_LOC_PROT_ERR:
        MUST(!region_of(r->region)); /* it was wrong, or is gone */
        break;
    case IBV_WC_WR_FLUSH_ERR:
        break;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
        MUST(connected);
        break;
    default:
        fprintf(stderr, "status %u\n", cqe->status);
        MUST(false);
    }
    slots[me].bad++;
}

static void poll(void)
{
    struct softib_cqe cqe;

    for (int n = 0; n < 16 && rig_poll(&cq, &cqe, 0); n++) {
        struct link *l = &links[cqe.wr_id & 0xFF];

        if (cqe.wr_id >> 63) {
            MUST(cqe.status == IBV_WC_SUCCESS || cqe.status == IBV_WC_LOC_PROT_ERR || cqe.status == IBV_WC_LOC_LEN_ERR ||
                 cqe.status == IBV_WC_WR_FLUSH_ERR || cqe.status == IBV_WC_LOC_ACCESS_ERR); /* the last: WRITE with immediate, bad R_Key */
            continue;
        }
        MUST(l->first != l->last && l->requests[l->first % (2 * DEPTH)].id == cqe.wr_id); /* in order, once */
        judge(l, &l->requests[l->first++ % (2 * DEPTH)], &cqe);
    }
    for (uint32_t i = 0; i < LINKS; i++) /* nothing hangs */
        MUST(!links[i].q || links[i].first == links[i].last ||
             ve_now_ns() - links[i].requests[links[i].first % (2 * DEPTH)].began < HANGS_NS);
}

static void act(void)
{
    uint32_t what = some(100), i = some(LINKS);
    struct region *r = &regions[some(REGIONS)];

    if (what < 6 && !r->serial)
        make_region(r);
    else if (what == 0 && r->serial)
        drop_region(r);
    else if (what == 6 && !some(4))
        look_at_arena();
    else if (what < 20 && links[i].q)
        connect_link(i);
    else if (what < 60 && links[i].q)
        post(i);
    else if (what < 75 && links[i].q)
        post_receive(i);
    else
        poll();
}

void member(const char *folder, uint32_t slot, uint32_t number, uint64_t seed)
{
    me = slot;
    random_ = seed * 0x9E3779B97F4A7C15ull + 88172645463325252ull;
    arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(arena != MAP_FAILED);
    for (uint32_t i = 0; i < ARENA; i++)
        arena[i] = canary(i);
    rig_open(&w, folder, number, me % 2);
    cq = rig_cq(&w, 512);
    for (uint32_t i = 0; i < LINKS; i++)
        if (i / KINDS != me)
            make_link(i);
    while (!__atomic_load_n(&slots[me].stop, __ATOMIC_ACQUIRE)) {
        act();
        __atomic_fetch_add(&slots[me].heart, 1, __ATOMIC_RELAXED);
    }
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].serial)
            drop_region(&regions[i]);
    look_at_arena();
    for (uint32_t i = 0; i < LINKS; i++)
        if (links[i].q)
            rig_destroy(links[i].q);
    look_at_arena();
}
