/*
 * "events any|solicited TURNS": two processes send each other bursts, and each sleeps in poll(2) on its completion channel whenever
 * there is nothing to do: armed, polled once more, then asleep (ibv_req_notify_cq(3)). No wake-up may get lost; what poll(2) calls
 * readable has an event, so ibv_get_cq_event does not block; and there is no event for what was not asked for.
 */
#include "rig.h"

#include <poll.h>
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

static void send_burst(unsigned n)
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
static void wait_for_burst(bool solicited)
{
    struct pollfd readable = { .fd = channel->fd, .events = POLLIN };

    while (!take()) {
        MUST(!ibv_req_notify_cq(cq, solicited));
        armed++;
        if (take())
            return; /* the event of an arming may come later */
        doing = "in poll";
        MUST(poll(&readable, 1, -1) == 1);
        do {
            fetch_event();
        } while (some(2) && poll(&readable, 1, 0) == 1);
    }
}

int main(int argc, char **argv)
{
    int pair[2], status, turns = argc == 3 ? atoi(argv[2]) : 0;
    bool solicited = argc == 3 && !strcmp(argv[1], "solicited");
    struct end mine = { 0 }, other;
    struct ibv_context *context;
    struct ibv_pd *pd;
    pid_t child;

    MUST(argc == 3 && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    child = fork();
    line = pair[!child];
    close(pair[!!child]);
    random_ = child ? 1 : 2;
    signal(SIGALRM, stuck);
    context = rig_device();
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
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
    for (int i = 0; i < turns; i++) {
        alarm(60);
        if (child || i)
            wait_for_burst(solicited);
        while (sent_now - completed > 16 - MOST) /* room in the send queue */
            MUST(!take());
        send_burst(1 + some(MOST));
    }
    if (!child)
        wait_for_burst(solicited);
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
