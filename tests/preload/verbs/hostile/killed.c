/*
 * "killed FILE 0 COUNT SEED" and "killed FILE 1": in each round both fork a peer, the peers transfer, and the first program
 * kills one of them at a random moment. What the survivor must see (IBA 9.7.6.1.3): RC with requests outstanding RETRY_EXC
 * within (retry_cnt + 1) * 4 * 4.096 us * 2^timeout, by rdma_cm DISCONNECTED; all others nothing. All must be able to
 * destroy what they have and end.
 */
#include "killed.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct shared *s;

static bool reliable(uint32_t kind)
{
    return kind != UNRELIABLE && kind != DATAGRAMS;
}

void post_one(struct shared *s, struct host *h, struct ibv_qp *qp, struct ibv_mr *mr, struct ibv_ah *ah,
              const struct place *peer, uint64_t *random)
{
    static const enum ibv_wr_opcode of[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD };
    uint32_t kind = s->round.kind == MIXED ? (uint32_t)(next_random(random) % 4) : s->round.kind == BY_CM ? (uint32_t)WRITES
                    : s->round.kind == PASSIVE ? (uint32_t)SENDS : s->round.kind;
    struct ibv_sge sge = { (uintptr_t)mr->addr, 1 + (uint32_t)(next_random(random) % s->round.size), mr->lkey };
    struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED }, *bad;

    wr.opcode = kind == UNRELIABLE ? IBV_WR_RDMA_WRITE : kind == DATAGRAMS ? IBV_WR_SEND : of[kind];
    if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        sge.length = 8;
        wr.wr.atomic.remote_addr = peer->address;
        wr.wr.atomic.rkey = peer->rkey;
        wr.wr.atomic.compare_add = 1;
    } else if (wr.opcode != IBV_WR_SEND) {
        wr.wr.rdma.remote_addr = peer->address;
        wr.wr.rdma.rkey = peer->rkey;
    }
    if (kind == DATAGRAMS) {
        sge.length = sge.length % (128u << h->port.active_mtu) + 1;
        wr.wr.ud.ah = ah;
        wr.wr.ud.remote_qpn = peer->qpn;
        wr.wr.ud.remote_qkey = QKEY;
    }
    MUST(!ibv_post_send(qp, &wr, &bad));
}

/* Sends until an error, or until the victim is dead and nothing more comes. */
static int until_dead(int side, struct host *h, struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, struct ibv_ah *ah)
{
    struct place *mine = &s->place[side];
    const struct place *peer = &s->place[!side];
    bool sends = s->round.kind != PASSIVE || side == 1;
    uint64_t random = s->round.seed * 2 + (unsigned)side + 88172645463325252ull, quiet_since = 0;
    uint64_t before = 0;
    uint32_t out = 0;
    struct ibv_wc wc;

    set_flag(&mine->state, 2);
    while (__atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) < 2 && !__atomic_load_n(&s->dead, __ATOMIC_ACQUIRE))
        nanosleep(&(struct timespec){ 0, 20000 }, NULL); /* a request to a QP that is not ready yet is lost */
    for (;;) {
        before = __atomic_load_n(&s->dead, __ATOMIC_ACQUIRE) ? before : starved_ns();
        while (sends && out < OUTSTANDING && (reliable(s->round.kind) || !__atomic_load_n(&s->dead, __ATOMIC_ACQUIRE))) {
            post_one(s, h, qp, mr, ah, peer, &random);
            out++;
        }
        if (await(cq, &wc, 0)) {
            if (wc.status != IBV_WC_SUCCESS) {
                if (!sends || !reliable(s->round.kind) || wc.status != IBV_WC_RETRY_EXC_ERR) {
                    fprintf(stderr, "kind %u: %s, dead %u\n", s->round.kind, ibv_wc_status_str(wc.status), s->dead);
                    abort();
                }
                __atomic_store_n(&s->reported_ns, now_ns(), __ATOMIC_RELEASE);
                __atomic_fetch_add(&s->starved_ns, starved_ns() - before, __ATOMIC_RELAXED);
                MUST(__atomic_load_n(&s->dead, __ATOMIC_ACQUIRE)); /* not before it was killed */
                while (--out) {
                    do
                        MUST(await(cq, &wc, 10000));
                    while (wc.opcode & IBV_WC_RECV && wc.status != IBV_WC_SUCCESS); /* receives are flushed, too */
                    MUST(wc.status == IBV_WC_WR_FLUSH_ERR);
                }
                return 0;
            }
            if (wc.opcode & IBV_WC_RECV)
                post_receive(qp, 0, mr->addr, BUFFER, mr->lkey);
            else
                out--;
            __atomic_fetch_add(&mine->moved, 1, __ATOMIC_RELAXED);
        } else if (__atomic_load_n(&s->dead, __ATOMIC_ACQUIRE)) {
            quiet_since = quiet_since ? quiet_since : now_ns();
            if ((!sends || (!reliable(s->round.kind) && !out)) && now_ns() - quiet_since > 30000000)
                return 0; /* nothing came, and nothing had to */
            MUST(now_ns() - quiet_since < 20000000000ull);
        }
    }
}

static int by_hand(int side)
{
    struct place *mine = &s->place[side];
    const struct place *peer = &s->place[!side];
    enum ibv_qp_type type = s->round.kind == UNRELIABLE ? IBV_QPT_UC : s->round.kind == DATAGRAMS ? IBV_QPT_UD : IBV_QPT_RC;
    struct host h = host_open();
    struct ibv_cq *cq = ibv_create_cq(h.context, 256, NULL, NULL, 0);
    struct ibv_qp *qp = host_qp(&h, type, cq, NULL, 64);
    char *buffer = aligned_alloc(4096, BUFFER);
    struct ibv_mr *mr = ibv_reg_mr(h.pd, buffer, BUFFER, ALL_ACCESS);
    struct ibv_ah *ah = NULL;
    struct ibv_ah_attr to = { .port_num = 1 };
    struct link l = { .timeout = (uint8_t)s->round.timeout, .retry_cnt = (uint8_t)s->round.retry_cnt, .rnr_retry = 7,
                      .pkey_index = 0, .psn = s->round.seed & 0xFFFFFF };
    int code;

    MUST(cq && mr);
    mine->qpn = qp->qp_num;
    mine->lid = h.port.lid;
    mine->rkey = mr->rkey;
    mine->address = (uintptr_t)buffer;
    set_flag(&mine->state, 1);
    while (__atomic_load_n(&peer->state, __ATOMIC_ACQUIRE) < 1)
        if (__atomic_load_n(&s->dead, __ATOMIC_ACQUIRE))
            goto end; /* it died before it was there */
    l.qpn = peer->qpn;
    to.dlid = l.lid = (uint16_t)peer->lid;
    MUST(!to_init(qp, 0) && !to_rtr(qp, &l));
    for (int i = 0; i < 32; i++)
        post_receive(qp, 0, buffer, BUFFER, mr->lkey);
    MUST(!to_rts(qp, &l));
    ah = ibv_create_ah(h.pd, &to);
    MUST(ah);
    code = until_dead(side, &h, qp, cq, mr, ah);
    if (code)
        return code;
end:
    MUST(!ah || !ibv_destroy_ah(ah));
    MUST(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(cq) && !ibv_dealloc_pd(h.pd));
    MUST(!ibv_close_device(h.context));
    return 0;
}

static void fork_peer(int side)
{
    struct place *mine = &s->place[side];
    pid_t pid;

    mine->moved = 0;
    __atomic_store_n(&mine->exit, -1, __ATOMIC_RELEASE);
    pid = fork();
    MUST(pid >= 0);
    if (!pid)
        _exit(s->round.kind == BY_CM ? by_cm(s, side) : by_hand(side));
    mine->pid = pid;
    set_flag(&mine->forked, s->number);
}

static void reap_peer(int side)
{
    int status;

    MUST(waitpid(s->place[side].pid, &status, 0) == s->place[side].pid);
    s->place[side].ended_ns = now_ns();
    __atomic_store_n(&s->place[side].exit, WIFSIGNALED(status) ? 256 + WTERMSIG(status) : WEXITSTATUS(status),
                     __ATOMIC_RELEASE);
}

static void helper(void)
{
    for (uint32_t done = 0;; done++) {
        while (__atomic_load_n(&s->number, __ATOMIC_ACQUIRE) == done) {
            if (__atomic_load_n(&s->over, __ATOMIC_ACQUIRE))
                return;
            nanosleep(&(struct timespec){ 0, 200000 }, NULL);
        }
        fork_peer(1);
        reap_peer(1);
    }
}

static void pause_us(uint64_t us)
{
    nanosleep(&(struct timespec){ (time_t)(us / 1000000), (long)(us % 1000000 * 1000) }, NULL);
}

struct sums {
    uint32_t reported, by_cm, silent, early, overdue;
    double worst;           /* of the allowed time */
    uint64_t moved;
};

static void one_round(uint64_t *random, struct sums *sums)
{
    uint64_t before;
    int victim, waits = 0;
    bool early;

    s->round = (struct round){
        .kind = (uint32_t)(next_random(random) % KINDS), .size = next_random(random) % 3 ? 4096 : BUFFER,
        .timeout = 12 + (uint32_t)(next_random(random) % 3), .retry_cnt = (uint32_t)(next_random(random) % 2),
        .seed = (uint32_t)next_random(random),
    };
    victim = (int)(next_random(random) % 2);
    early = s->round.kind != BY_CM && !(next_random(random) % 10);
    s->limit_ns = (s->round.retry_cnt + 1) * 4 * (4096ull << s->round.timeout);
    s->dead = 0;
    s->reported_ns = s->killed_ns = s->starved_ns = 0;
    s->place[0].state = s->place[1].state = 0;
    set_flag(&s->number, s->number + 1);
    fork_peer(0);
    wait_for(&s->place[1].forked, s->number);
    while (!early && (__atomic_load_n(&s->place[0].state, __ATOMIC_ACQUIRE) < 2 ||
                      __atomic_load_n(&s->place[1].state, __ATOMIC_ACQUIRE) < 2)) {
        MUST(waits++ < 100000);
        pause_us(100);
    }
    pause_us(next_random(random) % (early ? 20000 : 4000));
    before = starved_ns();
    s->killed_ns = now_ns();
    set_flag(&s->dead, 1);
    MUST(!kill(s->place[victim].pid, SIGKILL));
    __atomic_fetch_add(&s->starved_ns, starved_ns() - before, __ATOMIC_RELAXED);
    reap_peer(0);
    for (waits = 0; __atomic_load_n(&s->place[1].exit, __ATOMIC_ACQUIRE) < 0; waits++) {
        if (waits == 200000) {
            fprintf(stderr, "round %u, kind %u, victim %d, early %d: %d does not end\n", s->number, s->round.kind, victim,
                    early, s->place[1].pid);
            abort();
        }
        pause_us(100);
    }
    if (s->place[!victim].exit || s->place[victim].exit != 256 + SIGKILL) {
        fprintf(stderr, "round %u, kind %u, victim %d: ended with %d and %d\n", s->number, s->round.kind, victim,
                s->place[0].exit, s->place[1].exit);
        abort();
    }
    sums->moved += s->place[0].moved + s->place[1].moved;
    sums->early += early;
    sums->silent += !s->reported_ns;
    if (s->round.kind == BY_CM) {
        sums->by_cm++;
        MUST(s->reported_ns);
    } else if (s->reported_ns) {
        /* Who is killed ends when it has a processor again. */
        double part = ((double)s->reported_ns - (double)s->place[victim].ended_ns - (double)s->starved_ns) / (double)s->limit_ns;

        sums->reported++;
        sums->overdue += s->reported_ns - s->killed_ns > s->limit_ns;
        sums->worst = part > sums->worst ? part : sums->worst;
        if (part > 1)
            fprintf(stderr, "round %u, kind %u, timeout %u, retry %u: told %.1f ms after the end, %.1f after the kill\n",
                    s->number, s->round.kind, s->round.timeout, s->round.retry_cnt,
                    ((double)s->reported_ns - (double)s->place[victim].ended_ns) / 1e6,
                    (double)(s->reported_ns - s->killed_ns) / 1e6);
    } else if (!early && reliable(s->round.kind) && (s->round.kind != PASSIVE || victim == 0)) {
        fprintf(stderr, "round %u, kind %u, victim %d: nobody told the survivor\n", s->number, s->round.kind, victim);
        abort();
    }
}

int main(int argc, char **argv)
{
    struct sums sums = { 0 };
    uint64_t random;

    MUST(argc >= 3);
    s = meet(argv[1], sizeof *s);
    if (!strcmp(argv[2], "1")) {
        helper();
        return 0;
    }
    random = strtoull(argv[4], NULL, 10) * 0x9E3779B97F4A7C15ull | 1;
    for (uint64_t i = 0, count = strtoull(argv[3], NULL, 10); i < count; i++)
        one_round(&random, &sums);
    set_flag(&s->over, 1);
    printf("rounds %u\ntold %u\ncm %u\nsilent %u\nearly %u\nlate %u\nmoved %llu\nworst %d\n", s->number, sums.reported, sums.by_cm,
           sums.silent, sums.early, sums.overdue, (unsigned long long)sums.moved, (int)(sums.worst * 1000));
    return 0;
}
