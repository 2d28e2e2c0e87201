/*
 * "events many TURNS": many CQs share a channel, and all have an event before the first is fetched. Each gives one, and then poll(2)
 * calls the channel readable no more.
 *
 * "events any|solicited TURNS": two processes send each other bursts, and each sleeps in poll(2) on its completion channel whenever
 * there is nothing to do: armed, polled once more, then asleep (ibv_req_notify_cq(3)). No wake-up may get lost; what poll(2) calls
 * readable has an event, so that ibv_get_cq_event would not block; and there is no event for what was not asked for.
 */
#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MOST 12 /* of a burst */

static int line;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static char area[64];
static uint32_t random_;
static unsigned received, sent_now, completed, events, armed;
static const char *doing = "";

static uint32_t some(uint32_t n)
{
    random_ = random_ * 1664525u + 1013904223u;
    return (random_ >> 10) % n;
}

static void stuck(int signal)
{
    (void)signal;
    fprintf(stderr, "process %d hangs %s: %u received, %u events, %u times armed\n", (int)getpid(), doing, received, events, armed);
    _exit(1);
}

static void post_receives(int n)
{
    while (n--)
        rig_recv(qp, (uintptr_t)area, sizeof area, mr->lkey);
}

static void send_several(unsigned n)
{
    for (unsigned i = 1; i <= n; i++) {
        struct ibv_sge sge = { (uintptr_t)area, 1 + some(8), mr->lkey };
        struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = i == n,
                                  .send_flags = IBV_SEND_SIGNALED | (i == n ? IBV_SEND_SOLICITED : 0) }, *bad;

        MUST(!ibv_post_send(qp, &wr, &bad));
    }
    sent_now += n;
}

/* Takes what is there. True: the last of the other's burst was among it. */
static bool take(void)
{
    struct ibv_wc wc;
    bool last = false;

    while (ibv_poll_cq(cq, 1, &wc) == 1) {
        MUST(wc.status == IBV_WC_SUCCESS);
        if (wc.opcode == IBV_WC_SEND) {
            completed++;
            continue;
        }
        received++;
        last = last || wc.imm_data;
        post_receives(1);
    }
    return last;
}

static void fetch_event(void)
{
    struct ibv_cq *of;
    void *context;

    doing = "in ibv_get_cq_event";
    MUST(!ibv_get_cq_event(channel, &of, &context) && of == cq);
    if (++events % 100 == 0)
        ibv_ack_cq_events(cq, 100);
}

/* Until the other's burst is here. */
static void wait_for_several(bool solicited)
{
    struct pollfd readable = { .fd = channel->fd, .events = POLLIN };

    while (!take()) {
        MUST(!ibv_req_notify_cq(cq, solicited));
        armed++;
        doing = "without sleep";
        if (some(4) == 0) { /* its event is fetched later */
            while (!take())
                sched_yield();
            return;
        }
        if (take())
            return;
        doing = "in poll";
        MUST(poll(&readable, 1, -1) == 1);
        do {
            fetch_event();
        } while (some(2) && poll(&readable, 1, 0) == 1);
    }
}

/* -- many -- */

#define MANY 40 /* more than a socket's queue holds (net.unix.max_dgram_qlen) */

static void many(struct ibv_context *context, int rounds)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_comp_channel *one = ibv_create_comp_channel(context);
    struct ibv_cq *cqs[MANY], *sent = ibv_create_cq(context, MANY, NULL, NULL, 0), *of;
    struct pollfd readable = { .fd = one->fd, .events = POLLIN };
    struct ibv_qp *from[MANY], *to[MANY];
    void *index;

    mr = ibv_reg_mr(pd, area, sizeof area, ALL);
    MUST(!fcntl(one->fd, F_SETFL, O_NONBLOCK));
    for (intptr_t i = 0; i < MANY; i++) {
        cqs[i] = ibv_create_cq(context, 4, (void *)i, one, 0);
        from[i] = rig_qp(pd, sent, IBV_QPT_RC);
        to[i] = rig_qp(pd, cqs[i], IBV_QPT_RC);
        rig_init(from[i], 1);
        rig_init(to[i], 1);
        rig_rtr(from[i], 1, to[i]->qp_num, rig_lid(context, 1));
        rig_rtr(to[i], 1, from[i]->qp_num, rig_lid(context, 1));
        rig_rts(from[i], 14, 7);
    }
    for (int round_n = 0; round_n < rounds; round_n++) {
        uint64_t seen = 0;

        for (int i = 0; i < MANY; i++) {
            rig_recv(to[i], (uintptr_t)area, sizeof area, mr->lkey);
            MUST(!ibv_req_notify_cq(cqs[i], 0));
            MUST(rig_send(from[i], sent, IBV_WR_SEND, (uintptr_t)area, 1, mr->lkey, 0, 0, 0).status == IBV_WC_SUCCESS);
        }
        for (int i = 0; i < MANY; i++) {
            MUST(poll(&readable, 1, 20000) == 1 && !ibv_get_cq_event(one, &of, &index));
            MUST(of == cqs[(intptr_t)index] && !(seen >> (intptr_t)index & 1) && rig_poll(of).status == IBV_WC_SUCCESS);
            seen |= 1ull << (intptr_t)index;
            ibv_ack_cq_events(of, 1);
        }
        MUST(!poll(&readable, 1, 0));
    }
    for (int i = 0; i < MANY; i++) { /* events that nobody fetches go with their CQ */
        rig_recv(to[i], (uintptr_t)area, sizeof area, mr->lkey);
        MUST(!ibv_req_notify_cq(cqs[i], 0));
        MUST(rig_send(from[i], sent, IBV_WR_SEND, (uintptr_t)area, 1, mr->lkey, 0, 0, 0).status == IBV_WC_SUCCESS);
    }
    for (int i = 0; i < MANY; i++)
        MUST(!ibv_destroy_qp(to[i]) && !ibv_destroy_qp(from[i]) && !ibv_destroy_cq(cqs[i]));
    MUST(!poll(&readable, 1, 0) && !ibv_destroy_comp_channel(one));
    printf("ok %d events\n", rounds * MANY);
}

int main(int argc, char **argv)
{
    int pair[2], status, rounds = argc == 3 ? atoi(argv[2]) : 0;
    bool solicited = argc == 3 && !strcmp(argv[1], "solicited");
    struct end mine = { 0 }, other;
    struct ibv_context *context;
    struct ibv_pd *pd;
    pid_t child;

    MUST(argc == 3 && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    if (!strcmp(argv[1], "many")) {
        many(rig_device(), rounds);
        return 0;
    }
    child = fork();
    line = pair[!child];
    close(pair[!!child]);
    random_ = child ? 1 : 2;
    signal(SIGALRM, stuck);
    context = rig_device();
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    MUST(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
    cq = ibv_create_cq(context, 256, NULL, channel, 0);
    mr = ibv_reg_mr(pd, area, sizeof area, ALL);
    qp = rig_qp(pd, cq, IBV_QPT_RC);
    mine = (struct end){ .qpn = qp->qp_num, .lid = rig_lid(context, 1) };
    MUST(write(line, &mine, sizeof mine) == sizeof mine && recv(line, &other, sizeof other, MSG_WAITALL) == sizeof other);
    rig_init(qp, 1);
    rig_rtr(qp, 1, other.qpn, other.lid);
    rig_rts(qp, 14, 7);
    post_receives(16);
    MUST(write(line, "", 1) == 1 && recv(line, &status, 1, MSG_WAITALL) == 1);
    for (int i = 0; i < rounds; i++) {
        alarm(60);
        if (child || i)
            wait_for_several(solicited);
        while (sent_now - completed > 16 - MOST) /* room in the send queue */
            MUST(!take());
        send_several(1 + some(MOST));
    }
    if (!child)
        wait_for_several(solicited);
    else
        for (; sent_now != completed; take())
            ;
    MUST(events <= armed);
    if (!child)
        return 0;
    MUST(waitpid(child, &status, 0) == child && status == 0);
    printf("ok %u events\n", events);
    return 0;
}
