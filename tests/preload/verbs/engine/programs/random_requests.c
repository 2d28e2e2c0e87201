/*
 * "random_requests FOLDER SEED COUNT": random requests with right and wrong keys, addresses, rights, protection domains, P_Keys and
 * Q_Keys. random_requests_oracle.c says what the specification lets each do, from its own notes of what was registered; after each
 * request every octet of everybody's memory is as it says, and so is the status. Around the memory no page can be touched.
 */
#include "key_table.h"
#include "modify.h"
#include "random_requests.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct rig one, two;
static uint64_t random_, tries_n, by_status[64], refused_n, by_keys;
static struct arena arenas[2];          /* of worlds one and two */
static char shadow[2][ARENA];
static struct key keys[KEYS];
static struct pair pairs[PAIRS];
static struct ve_ah ah;

static uint64_t any(void)
{
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ * 0x2545F4914F6CDD1Dull >> 16;
}

static uint32_t some(uint32_t n)
{
    return (uint32_t)(any() % n);
}

static void arena_make(struct arena *a)
{
    long page = sysconf(_SC_PAGESIZE);
    char *at = mmap(NULL, (size_t)(ARENA + 2 * page), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(at != MAP_FAILED && !mprotect(at + page, ARENA, PROT_READ | PROT_WRITE));
    a->at = at + page;
}

/* -- keys: some stand, some are gone, some are windows -- */

static struct rig *rig_of(unsigned w)
{
    return w ? &two : &one;
}

static void forget(struct key *k)
{
    if (k->key)
        rig_dereg(rig_of(k->rig), k->key);
    k->removed = k->key ? k->key : k->removed;
    k->key = 0;
}

static void remember(struct key *k)
{
    static const unsigned rights[] = {
        ALL_ACCESS, ALL_ACCESS, IBV_ACCESS_LOCAL_WRITE, 0, IBV_ACCESS_REMOTE_READ,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
    };
    struct rig *w = rig_of(k->rig);
    struct softib_key *s;
    uint32_t from = some(ARENA), length = 1 + some(some(4) ? 300 : ARENA);

    if (length > ARENA - from)
        length = ARENA - from;
    k->at = (uint64_t)(uintptr_t)arenas[k->rig].at + from;
    k->length = length;
    k->access = rights[some(sizeof rights / sizeof *rights)];
    k->domain = some(4) ? DOMAIN : DOMAIN + 1;
    k->key = rig_mr(w, (void *)(uintptr_t)k->at, length, k->access, k->domain);
    s = vm_key(&w->e.w, k->key);
    k->iova = some(3) ? k->at : some(2) ? 0 : (uint64_t)-(int64_t)length; /* up to the very end of the addresses */
    s->iova = k->iova;
    k->qpn = 0;
    k->window = !some(4);
    if (k->window && some(2)) {
        s->kind = SOFTIB_KEY_WINDOW;
    } else if (k->window) { /* of type 2: bound to one QP */
        k->qpn = pairs[some(PAIRS)].b->s->qpn;
        s->kind = SOFTIB_KEY_WINDOW_2;
        s->qpn = k->qpn;
    }
}

/* -- QPs -- */

static void connect_pair(struct pair *l)
{
    struct options o = {
        .timeout = 1, .retry_cnt = 0, .rnr_retry = 0, .min_rnr = 1, .psn = 100, .access = l->access, .no_reads = l->no_reads,
    };

    if (l->type == IBV_QPT_UD) {
        rig_datagrams(l->a);
        rig_datagrams(l->b);
        return;
    }
    rig_connect(l->a, l->b, &o);
    MUST(l->b->s->access == l->access); /* 0 is meant, too */
}

static void reset(struct ve_qp *q)
{
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

    MUST(!ve_modify(q, &a, IBV_QP_STATE));
}

static void reset_pair(struct pair *l)
{
    static const unsigned rights[] = {
        ALL_ACCESS, ALL_ACCESS, ALL_ACCESS, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
        IBV_ACCESS_REMOTE_ATOMIC,
    };

    reset(l->a);
    reset(l->b);
    l->access = rights[some(sizeof rights / sizeof *rights)];
    l->no_reads = !some(8);
    connect_pair(l);
    l->received = 0;
}

static void pair_make(struct pair *l, unsigned i)
{
    static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

    l->wa = 0;
    l->wb = (i / 5) % 2; /* to itself, and to another process */
    l->type = types[i % 5];
    l->domain = i % 3 ? DOMAIN : DOMAIN + 1;
    l->access = ALL_ACCESS;
    l->send = rig_cq(&one, 64);
    l->recv = rig_cq(rig_of(l->wb), 64);
    l->a = rig_qp(&one, l->type, &l->send, &l->send, NULL, 8, 0);
    l->b = rig_qp(rig_of(l->wb), l->type, &l->recv, &l->recv, NULL, 8, 0);
    l->a->s->domain = l->domain;
    l->b->s->domain = l->domain;
    connect_pair(l);
}

/* -- one try -- */

/* Mostly one of `rig` and `domain` that may be written, `local` or with `access`. */
static uint32_t some_key(unsigned rig, uint32_t domain, unsigned access, bool local, const struct key **named)
{
    struct key *k = &keys[some(KEYS)];
    uint32_t choice = some(local ? 128 : 24);

    *named = NULL;
    if (choice < 12 || choice > 15) {
        for (unsigned i = 0; i < 100 && choice && (k->rig != rig || !k->key || k->domain != domain || (local && k->window) ||
                                                (k->access & access) != access); i++)
            k = &keys[some(KEYS)];
        if (k->key)
            *named = k;
        return k->key;
    }
    if (choice == 12)
        return k->removed;
    if (choice == 13)
        return k->key ^ 1u << some(32);
    return choice == 14 ? some(1u << 20) : (uint32_t)any();
}

/* Mostly near the bounds of the region. */
static void some_place(const struct key *k, uint64_t *address, uint32_t *length)
{
    *length = some(4) ? some(65) : k && !some(3) ? (uint32_t)k->length : some(2 * ARENA);
    if (!k || !some(12))
        *address = some(2) ? any() << 16 ^ any() : (uint64_t)(uintptr_t)arenas[some(2)].at + some(ARENA);
    else if (some(2))
        *address = k->iova + some((uint32_t)k->length);
    else if (some(2))
        *address = k->iova + k->length - *length;
    else
        *address = k->iova + some(9) - 4;
    if (k && some(2) && k->length >= *length && some(6)) /* inside */
        *address = k->iova + some((uint32_t)(k->length - *length) + 1);
}

static void some_request(struct pair *l, struct try *t)
{
    static const uint8_t opcodes[] = {
        IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP,
    };
    const struct key *k;
    uint32_t length;

    memset(&t->wr, 0, sizeof t->wr);
    t->wr.wr_id = tries_n;
    t->wr.flags = IBV_SEND_SIGNALED;
    t->wr.opcode = l->type == IBV_QPT_UD ? IBV_WR_SEND : opcodes[some(l->type == IBV_QPT_UC ? 2 : 8)];
    t->atomic = t->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || t->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    t->wr.rkey = some_key(l->wb, l->domain, some(4) ? ALL_ACCESS : 0, false, &k);
    some_place(k, &t->wr.remote, &length);
    if (t->atomic && some(3))
        t->wr.remote &= ~7ull;
    t->wr.compare = any();
    t->wr.swap = any();
    t->wr.sges = 1 + !some(3);
    t->wr.sge = t->sge;
    for (uint32_t i = 0; i < t->wr.sges; i++) {
        uint64_t address;
        uint32_t mine;

        t->sge[i].lkey = some_key(0, l->domain, IBV_ACCESS_LOCAL_WRITE, true, &k);
        some_place(k, &address, &mine);
        if (some(64) && k && k->access & IBV_ACCESS_LOCAL_WRITE && k->length) { /* mostly right, and as long as it should be */
            mine = t->atomic && some(8) ? (i ? 0 : 8) : length / t->wr.sges;
            mine = mine > k->length ? (uint32_t)k->length : mine;
            address = k->iova + some((uint32_t)(k->length - mine) + 1);
        }
        t->sge[i].addr = address;
        t->sge[i].length = mine;
    }
    t->wr.ah = &ah;
    t->wr.qpn = l->b->s->qpn;
    t->wr.qkey = some(4) ? 0x11 : some(2) ? 0x12 : (uint32_t)any() & 0x7FFFFFFF;
}

static void some_receive(struct pair *l, struct try *t)
{
    const struct key *k;
    uint32_t length;

    t->posted = false;
    if (t->wr.opcode != IBV_WR_SEND && t->wr.opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
        return;
    t->receive.lkey = some_key(l->wb, l->domain, IBV_ACCESS_LOCAL_WRITE, true, &k);
    some_place(k, &t->receive.addr, &length);
    if (some(16) && k && k->length) {
        length = (uint32_t)k->length;
        t->receive.addr = k->iova;
    }
    t->receive.length = length;
    if (!some(10))
        return; /* none is there: not ready */
    t->posted = true;
    MUST(!rig_recv(l->b, tries_n, (void *)(uintptr_t)t->receive.addr, length, t->receive.lkey));
}

static void same_octets(const struct try *t, const struct verdict *v)
{
    for (int i = 0; i < 2; i++)
        if (v->loose[i])
            memcpy(shadow[v->rig] + v->at[i], arenas[v->rig].at + v->at[i], (size_t)v->n[i]);
    for (int w = 0; w < 2; w++) {
        if (!memcmp(arenas[w].at, shadow[w], ARENA))
            continue;
        for (unsigned i = 0; i < ARENA; i++)
            if (arenas[w].at[i] != shadow[w][i]) {
                fprintf(stderr, "try %llu: octet %u of world %d is not what it may be (opcode %u, rkey %x, address %llx; "
                        "status %u, arena %p, %u requests' parts: %llx+%u %llx+%u)\n", (unsigned long long)tries_n, i, w,
                        t->wr.opcode, t->wr.rkey, (unsigned long long)t->wr.remote, v->status, (void *)arenas[w].at,
                        t->wr.sges, (unsigned long long)t->sge[0].addr, t->sge[0].length,
                        (unsigned long long)t->sge[1].addr, t->sge[1].length);
                abort();
            }
    }
}

static void one_try(void)
{
    struct pair *l = &pairs[some(PAIRS)];
    struct try t;
    struct verdict v;
    struct softib_cqe cqe;

    if (!some(50)) {
        struct key *k = &keys[some(KEYS)];

        forget(k);
        if (some(8))
            remember(k);
    }
    some_request(l, &t);
    some_receive(l, &t);
    t.strange = l->type != IBV_QPT_UC && !some(l->type == IBV_QPT_RC ? 4000 : 8);
    if (t.strange) { /* the responder's QP is in another partition */
        l->b->s->pkey_index = 1;
        l->b->s->pkey = 0x8001;
    }
    v = oracle(l, &t, keys, arenas, shadow);
    MUST(!rig_post(l->a, &t.wr));
    cqe = rig_next(&l->send);
    if (cqe.status != v.status) {
        fprintf(stderr, "try %llu: status %u, should be %u (opcode %u, type %d, rkey %x, address %llx)\n",
                (unsigned long long)tries_n, cqe.status, v.status, t.wr.opcode, l->type, t.wr.rkey,
                (unsigned long long)t.wr.remote);
        abort();
    }
    same_octets(&t, &v);
    by_status[cqe.status & 63]++;
    refused_n += v.refused;
    by_keys += v.by_key;
    if (t.strange) {
        l->b->s->pkey_index = 0;
        l->b->s->pkey = 0xFFFF;
    }
    if (cqe.status || l->type != IBV_QPT_RC || t.posted || !some(64))
        reset_pair(l);
    tries_n++;
}

int main(int argc, char **argv)
{
    uint64_t count = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;

    MUST(argc == 4);
    random_ = strtoull(argv[2], NULL, 10) * 0x9E3779B97F4A7C15ull | 1;
    rig_open(&one, argv[1], 1, 0);
    rig_open(&two, argv[1], 2, 1);
    for (int w = 0; w < 2; w++) {
        arena_make(&arenas[w]);
        for (unsigned i = 0; i < ARENA; i++)
            shadow[w][i] = arenas[w].at[i] = (char)any();
    }
    for (unsigned i = 0; i < PAIRS; i++)
        pair_make(&pairs[i], i);
    pthread_mutex_init(&ah.lock, NULL);
    for (unsigned i = 0; i < KEYS; i++) {
        keys[i].rig = i % 2;
        remember(&keys[i]);
    }
    while (tries_n < count) {
        ah.attr.dlid = (uint16_t)(1 + some(2)); /* sometimes not where the QP is */
        ah.flow.epoch = UINT64_MAX;
        one_try();
    }
    printf("%llu tries, %llu refused, %llu by their key", (unsigned long long)tries_n, (unsigned long long)refused_n,
           (unsigned long long)by_keys);
    for (unsigned i = 0; i < 64; i++)
        if (by_status[i])
            printf(", status %u: %llu", i, (unsigned long long)by_status[i]);
    printf("; %u P_Keys, %u Q_Keys\n", stub_pkeys, stub_qkeys);
    return 0;
}
