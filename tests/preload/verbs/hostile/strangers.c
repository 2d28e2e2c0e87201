/*
 * "strangers victim FILE" and "strangers attacker FILE COUNT SEED" on two hosts. Every QP of the attacker is connected with one
 * of the victim in all but the partition: the victim's red or limited one against the attacker's blue, limited or common
 * one. Nothing may arrive. A last kind shares the common partition: there everything arrives, save with a wrong Q_Key.
 */
#include "peers.h"

#include <string.h>

#define RED 0x8001
#define BLUE 0x8002
#define COMMON 0x8003
#define LIMITED 0x7FFF

static const struct { uint16_t victim, attacker; const char *name; } kinds[] = {
    { RED, BLUE, "blue" }, { RED, LIMITED, "limited" }, { LIMITED, LIMITED, "both limited" }, { RED, COMMON, "aside" },
    { COMMON, COMMON, "common" },
};
static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

#define KINDS 5
#define TYPES 3
#define SLOTS (KINDS * TYPES)
#define DEPTH 64
#define ROOM 4096

struct side {
    uint32_t ready, rkey;
    uint64_t address;
    uint32_t qpn[SLOTS];
    uint16_t lid;
};

struct shared {
    struct side victim, attacker;
    uint32_t over, counted;
};

static struct shared *s;
static struct host h;
static struct ibv_cq *strange_cq, *common_cq;
static struct ibv_qp *qps[SLOTS];
static char memory[ROOM * (1 + DEPTH)] __attribute__((aligned(8)));
static struct ibv_mr *mr;

static bool is_common(unsigned slot)
{
    return slot / TYPES == KINDS - 1;
}

static void make(struct side *mine)
{
    h = host_open();
    strange_cq = ibv_create_cq(h.context, 1024, NULL, NULL, 0);
    common_cq = ibv_create_cq(h.context, 1024, NULL, NULL, 0);
    mr = ibv_reg_mr(h.pd, memory, sizeof memory, ALL_ACCESS);
    MUST(strange_cq && common_cq && mr);
    for (unsigned i = 0; i < SLOTS; i++) {
        qps[i] = host_qp(&h, types[i % TYPES], is_common(i) ? common_cq : strange_cq, NULL, DEPTH);
        mine->qpn[i] = qps[i]->qp_num;
    }
    mine->rkey = mr->rkey;
    mine->address = (uintptr_t)memory;
    mine->lid = h.port.lid;
    set_flag(&mine->ready, 1);
}

static struct link link_of(unsigned slot, const struct side *other, uint16_t pkey)
{
    return (struct link){ .qpn = other->qpn[slot], .lid = other->lid, .pkey_index = host_pkey(&h, pkey), .timeout = 1,
                          .retry_cnt = 0, .rnr_retry = 7, .psn = 77 };
}

static void victim(void)
{
    uint64_t arrived[TYPES] = { 0 }, wrong = 0;
    struct ibv_wc wc;
    bool over;

    for (unsigned i = 0; i < sizeof memory; i++)
        memory[i] = (char)(i * 7);
    make(&s->victim);
    wait_for(&s->attacker.ready, 1);
    for (unsigned i = 0; i < SLOTS; i++) {
        struct link l = link_of(i, &s->attacker, kinds[i / TYPES].victim);

        connect_qp(qps[i], &l);
        for (unsigned j = 0; j < DEPTH; j++)
            post_receive(qps[i], j, memory + ROOM * (1 + j), ROOM, mr->lkey);
    }
    set_flag(&s->victim.ready, 2);
    do {
        over = __atomic_load_n(&s->over, __ATOMIC_ACQUIRE);
        while (ibv_poll_cq(common_cq, 1, &wc) == 1) {
            MUST(wc.status == IBV_WC_SUCCESS);
            for (unsigned t = 0; t < TYPES; t++) {
                struct ibv_qp *qp = qps[SLOTS - TYPES + t];

                if (wc.qp_num != qp->qp_num)
                    continue;
                arrived[t]++;
                /* The receives share their places with those of strangers. */
                for (unsigned j = 0; j < ROOM; j++)
                    memory[ROOM * (1 + wc.wr_id) + j] = (char)((ROOM * (1 + wc.wr_id) + j) * 7);
                post_receive(qp, wc.wr_id, memory + ROOM * (1 + wc.wr_id), ROOM, mr->lkey);
            }
            __atomic_fetch_add(&s->counted, 1, __ATOMIC_RELEASE);
        }
    } while (!over);
    for (unsigned i = 0; i < sizeof memory; i++)
        wrong += memory[i] != (char)(i * 7);
    MUST(!ibv_poll_cq(strange_cq, 1, &wc));
    for (unsigned i = 0; i < SLOTS; i++) {
        struct ibv_qp_attr a;
        struct ibv_qp_init_attr init;

        MUST(!ibv_query_qp(qps[i], &a, IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_RTS);
    }
    printf("wrong %llu\narrived rc %llu\narrived uc %llu\narrived ud %llu\n", (unsigned long long)wrong,
           (unsigned long long)arrived[0], (unsigned long long)arrived[1], (unsigned long long)arrived[2]);
}

static enum ibv_wc_status attempt(unsigned slot, struct ibv_ah *ah, uint64_t *random, uint32_t qkey)
{
    static const enum ibv_wr_opcode rc[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                             IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP };
    static const enum ibv_wr_opcode uc[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM };
    struct ibv_qp *qp = qps[slot];
    struct ibv_sge sge = { (uintptr_t)memory, (uint32_t)(8 + next_random(random) % 500), mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED }, *bad;
    uint64_t remote = s->victim.address + next_random(random) % ROOM / 8 * 8;
    struct ibv_wc wc;

    wr.opcode = is_common(slot) || qp->qp_type == IBV_QPT_UD ? IBV_WR_SEND
                : qp->qp_type == IBV_QPT_RC ? rc[next_random(random) % 6] : uc[next_random(random) % 3];
    if (qp->qp_type == IBV_QPT_UD) {
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = s->victim.qpn[slot];
        wr.wr.ud.remote_qkey = qkey;
    } else if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
        sge.length = 8;
        wr.wr.atomic.remote_addr = remote;
        wr.wr.atomic.rkey = s->victim.rkey;
        wr.wr.atomic.compare_add = next_random(random);
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = s->victim.rkey;
    }
    MUST(!ibv_post_send(qp, &wr, &bad));
    MUST(await(is_common(slot) ? common_cq : strange_cq, &wc, 30000));
    MUST(wc.qp_num == qp->qp_num);
    return wc.status;
}

static void attacker(uint64_t count, uint64_t seed)
{
    uint64_t random = seed * 0x9E3779B97F4A7C15ull | 1, tried[SLOTS] = { 0 }, qkeys = 0, commons = 0;
    struct ibv_ah_attr to = { .port_num = 1 };
    struct link links[SLOTS];
    struct ibv_ah *ah;

    make(&s->attacker);
    wait_for(&s->victim.ready, 2);
    to.dlid = s->victim.lid;
    ah = ibv_create_ah(h.pd, &to);
    MUST(ah);
    for (unsigned i = 0; i < SLOTS; i++) {
        links[i] = link_of(i, &s->victim, kinds[i / TYPES].attacker);
        if (is_common(i))
            links[i].timeout = 22; /* the victim is only slow */
        connect_qp(qps[i], &links[i]);
    }
    for (uint64_t n = 0; n < count; n++) {
        unsigned slot = (unsigned)(next_random(&random) % (SLOTS - TYPES));
        enum ibv_wc_status status = attempt(slot, ah, &random, QKEY);

        tried[slot]++;
        MUST(status == (types[slot % TYPES] == IBV_QPT_RC ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS));
        if (status) {
            to_reset(qps[slot]);
            connect_qp(qps[slot], &links[slot]);
        }
        if (n % 100 == 50) { /* a wrong Q_Key in the right partition */
            MUST(attempt(SLOTS - 1, ah, &random, QKEY + 1 + (uint32_t)(next_random(&random) % 1000)) == IBV_WC_SUCCESS);
            qkeys++;
        }
        if (n % 100 == 99) { /* and what is right arrives; one after the other, for there is no flow control in UC and UD */
            slot = SLOTS - TYPES + (unsigned)(next_random(&random) % TYPES);
            MUST(attempt(slot, ah, &random, QKEY) == IBV_WC_SUCCESS);
            tried[slot]++;
            commons++;
            wait_for(&s->counted, (uint32_t)commons);
        }
    }
    for (unsigned i = 0; i < SLOTS; i++)
        printf("%s %s %llu\n", kinds[i / TYPES].name, i % TYPES == 0 ? "rc" : i % TYPES == 1 ? "uc" : "ud",
               (unsigned long long)tried[i]);
    printf("qkeys %llu\n", (unsigned long long)qkeys);
    set_flag(&s->over, 1);
}

int main(int argc, char **argv)
{
    MUST(argc >= 3);
    s = meet(argv[2], sizeof *s);
    if (!strcmp(argv[1], "victim"))
        victim();
    else
        attacker(strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
    return 0;
}
