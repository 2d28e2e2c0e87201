/*
 * "orphans FOLDER SEED ROUNDS": the sender of rendezvous is killed at any moment. The receiver gets the end of every request
 * whose beginning it got: once, and never twice.
 */
#include "complete.h"
#include "tag_matching.h"
#include "abi/abi.h"
#include "rig.h"
#include "rng.h"

#include <endian.h>
#include <infiniband/tm_types.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct ve_engine va_engine;

uint32_t va_power_of_two(uint32_t n)
{
    uint32_t size = 1;

    while (size < n)
        size *= 2;
    return size;
}

#define OCTETS 4096
#define IDS 32

enum { BEGUN = 1, ENDED = 2 };

static struct meeting {
    uint32_t state, qpn, peer, sent, without_receive;
} *meeting;

static const char *folder;
static struct rig two;
static struct cq c2;
static struct srq pool;
static struct va_srq list;
static struct ve_qp *b;
static char dst[OCTETS];
static uint32_t k2, incomplete;
static uint64_t next_id = 1;
static uint8_t seen[1 << 20];
static const struct options plain = { .timeout = 8, .retry_cnt = 2, .rnr_retry = 7, .min_rnr = 1 };

static void wait_until(const uint32_t *word, uint32_t least)
{
    for (int i = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) < least; i++) {
        MUST(i < 600000);
        rest_us(100);
    }
}

/* -- the sender -- */

static void sends(uint32_t number)
{
    static struct rig w;
    static char src[OCTETS + 64];
    struct ibv_tmh header = { .opcode = IBV_TMH_RNDV, .tag = htobe64(9) };
    struct ibv_sge sge = { (uintptr_t)src, sizeof header + sizeof(struct ibv_rvh), 0 };
    struct ve_wr wr = { .opcode = IBV_WR_SEND, .flags = IBV_SEND_SIGNALED, .sges = 1, .sge = &sge };
    struct ibv_rvh data = { .va = htobe64((uintptr_t)src + 64), .len = htobe32(OCTETS) };
    struct cq cq, received;
    struct ve_qp *a;

    rig_open(&w, folder, number, 0);
    cq = rig_cq(&w, 64);
    received = rig_cq(&w, 64);
    sge.lkey = rig_mr(&w, src, sizeof src, ALL_ACCESS, DOMAIN);
    data.rkey = htobe32(sge.lkey);
    memcpy(src, &header, sizeof header);
    memcpy(src + sizeof header, &data, sizeof data);
    a = rig_qp(&w, IBV_QPT_RC, &cq, &received, NULL, 16, 0);
    meeting->qpn = a->s->qpn;
    __atomic_store_n(&meeting->state, 1, __ATOMIC_RELEASE);
    wait_until(&meeting->state, 2);
    MUST(!rig_init(a, ALL_ACCESS) && !rig_rtr(a, meeting->peer, 2, &plain) && !rig_rts(a, &plain));
    for (uint32_t n = 0; n < IDS; n++) {
        if (n != meeting->without_receive) /* the FIN of this one, and of those behind it, waits */
            MUST(!rig_recv(a, n, src, 16, sge.lkey));
        MUST(!rig_post(a, &wr));
        __atomic_store_n(&meeting->sent, n + 1, __ATOMIC_RELEASE);
        if (n >= meeting->without_receive)
            break;
        rig_next(&received);
        memcpy(src, &header, sizeof header);
        rig_next(&cq);
    }
    for (;;)
        pause();
}

/* -- the receiver -- */

static void add_tags(void)
{
    const struct softib_tags *tags = vm_at(&va_engine.w, pool.s->tags);

    while (tags->tail - tags->head < IDS) {
        struct ibv_sge sge = { (uintptr_t)dst, OCTETS, k2 };
        struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_ADD, .tm = { .add = { next_id, &sge, 1, 0, 0 } } }, *bad;

        MUST(next_id < sizeof seen && !va_post_srq_ops(&list.srq, &wr, &bad));
        next_id++;
    }
}

/* What came within `ms`; it stops earlier where `all` that has begun has ended. */
static void collect(int ms, bool all)
{
    struct softib_cqe cqe;
    time_t end = time(NULL) + 60;
    bool open = all;

    do {
        while (rig_poll(&c2, &cqe, open ? 100 : ms)) {
            uint8_t what = cqe.flags & IBV_WC_TM_MATCH ? BEGUN : ENDED;

            MUST(cqe.opcode == IBV_WC_TM_RECV && cqe.wr_id < next_id && !(seen[cqe.wr_id] & (what | ENDED)));
            MUST(what == ENDED || cqe.status == IBV_WC_SUCCESS);
            MUST(cqe.status == IBV_WC_SUCCESS || cqe.status == IBV_WC_TM_RNDV_INCOMPLETE);
            seen[cqe.wr_id] |= what;
            incomplete += cqe.status != IBV_WC_SUCCESS;
        }
        open = false;
        for (uint64_t id = 1; all && id < next_id; id++)
            open = open || seen[id] == BEGUN;
        MUST(time(NULL) < end); /* nothing hangs */
    } while (open);
}

static pid_t begin(uint32_t number)
{
    pid_t pid;

    memset(meeting, 0, sizeof *meeting);
    meeting->without_receive = some(2) ? some(IDS) : IDS;
    pid = fork();
    if (!pid)
        sends(number);
    add_tags();
    wait_until(&meeting->state, 1);
    b = rig_qp(&two, IBV_QPT_RC, &c2, &c2, &pool, 16, 0);
    MUST(!rig_init(b, ALL_ACCESS) && !rig_rtr(b, meeting->qpn, 1, &plain) && !rig_rts(b, &plain));
    meeting->peer = b->s->qpn;
    __atomic_store_n(&meeting->state, 2, __ATOMIC_RELEASE);
    wait_until(&meeting->sent, 1);
    return pid;
}

static void kill_it(pid_t pid)
{
    int status;

    kill(pid, SIGKILL);
    MUST(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void one_round(uint32_t number)
{
    pid_t pid = begin(number);

    rest_us(some(800));
    if (some(2))
        collect(0, false);
    kill_it(pid);
    collect(0, true);
    collect(120, false); /* and no second end; a look of the timer's thread is in it */
    rig_destroy(b);
}

/* It is killed where its process would be between two stores: what the records say then is played. */
static void between(uint32_t number, bool settled)
{
    struct softib_tags *tags = vm_at(&va_engine.w, pool.s->tags);
    struct softib_rndv_record *rndv_log = vm_at(&va_engine.w, tags->rndv_log);
    struct ve_engine ghost = va_engine;
    struct softib_cqe end = { .opcode = IBV_WC_TM_RECV, .flags = IBV_WC_TM_DATA_VALID };
    uint32_t before = incomplete;
    pid_t pid;

    do {
        pid = begin(number); /* until one stands with a FIN that waits */
        wait_until(&meeting->sent, meeting->without_receive < IDS ? meeting->without_receive + 1 : IDS);
        rest_us(50000);
        collect(0, false);
        if (__atomic_load_n(&rndv_log->owner, __ATOMIC_ACQUIRE))
            break;
        kill_it(pid);
        collect(0, true);
        rig_destroy(b);
        number++;
    } while (true);
    kill(pid, SIGSTOP);
    ghost.w.owner = rndv_log->owner;
    if (settled) { /* it has completed the request, and not closed the record */
        end.wr_id = rndv_log->wr_id;
        end.qpn = end.owner = rndv_log->qpn;
        ve_rndv_log_settling(&ghost, pool.s, rndv_log);
        ve_complete(&ghost, pool.s->cq, &end, false);
    } else { /* it has written a record, and not taken the tag */
        const struct softib_tag *entry = ve_tag_entry(&va_engine, tags, tags->head);

        MUST(ve_rndv_log_open(&ghost, pool.s, &(struct softib_rndv_record){ .handle = entry->handle, .wr_id = entry->wr_id,
                                                                 .qpn = b->s->qpn, .src_qp = meeting->qpn }));
    }
    kill_it(pid);
    collect(0, true);
    for (uint32_t i = 0; i < tags->rndv_log_high; i++)
        for (int n = 0; __atomic_load_n(&rndv_log[i].owner, __ATOMIC_ACQUIRE); n++) {
            MUST(n < 300000);
            rest_us(100);
        }
    collect(0, false);
    MUST(incomplete == before + !settled);
    rig_destroy(b);
}

int main(int argc, char **argv)
{
    uint32_t rounds = argc == 4 ? (uint32_t)atoi(argv[3]) : 0;

    MUST(argc == 4);
    folder = argv[1];
    random_ = strtoull(argv[2], NULL, 10) + 88172645463325252ull;
    meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(meeting != MAP_FAILED);
    rig_open(&two, folder, 2, 1);
    va_engine = two.e;
    c2 = rig_cq(&two, 4096);
    pool = rig_srq(&two, 64, 0, NULL);
    pool.s->cq = c2.at;
    list.s = pool.s;
    MUST(!va_make_tags(pool.s, 2 * IDS));
    k2 = rig_mr(&two, dst, sizeof dst, ALL_ACCESS, DOMAIN);
    between(1000, true);
    between(2000, false);
    for (uint32_t i = 0; i < rounds; i++)
        one_round(3 + i % 900);
    fprintf(stderr, "%u of %u ended by the receiver\n", incomplete, rounds);
    puts("ok");
    return 0;
}
