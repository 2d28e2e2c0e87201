/*
 * "async_events EVENTS": asynchronous events of two contexts that nobody reads yet, more than a socket takes. A child raises them
 * (it sends to QPs in RTR: COMM_EST) and ends; then each is there, once and in its order, and what poll(2) calls readable has one.
 */
#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define MOST 4096

static struct ibv_qp *qp[MOST];

static bool is_readable(struct ibv_context *context)
{
    struct pollfd readable = { .fd = context->async_fd, .events = POLLIN };

    return poll(&readable, 1, 0) == 1;
}

/* The next event, which must be there. */
static struct ibv_qp *next(struct ibv_context *context)
{
    struct ibv_async_event event;

    MUST(is_readable(context) && !ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_COMM_EST);
    ibv_ack_async_event(&event);
    return event.element.qp;
}

static void raise_all(int line, int n)
{
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    static char area[8];
    struct ibv_mr *mr = ibv_reg_mr(pd, area, sizeof area, ALL);
    uint32_t qpn;

    for (int i = 0; i < n; i++) {
        struct ibv_qp *from = rig_qp(pd, cq, IBV_QPT_RC);

        MUST(recv(line, &qpn, sizeof qpn, MSG_WAITALL) == sizeof qpn);
        rig_init(from, 1);
        rig_rtr(from, 1, qpn, rig_lid(context, 1));
        rig_rts(from, 14, 7);
        MUST(write(line, &from->qp_num, sizeof from->qp_num) == sizeof from->qp_num);
        MUST(recv(line, &qpn, 1, MSG_WAITALL) == 1); /* the other end is ready */
        MUST(rig_send(from, cq, IBV_WR_SEND, (uintptr_t)area, 1, mr->lkey, 0, 0, 0).status == IBV_WC_SUCCESS);
    }
    MUST(write(line, "", 1) == 1 && recv(line, &qpn, 1, MSG_WAITALL) == 1); /* until the events are counted */
    _exit(0);
}

int main(int argc, char **argv)
{
    int line[2], status, n = argc == 2 ? atoi(argv[1]) : 0;
    struct ibv_context *context[2];
    struct ibv_pd *pd[2];
    struct ibv_cq *cq[2];
    struct ibv_mr *mr[2];
    static char area[8];
    pid_t child;
    uint32_t qpn;

    MUST(n > 0 && n <= MOST && n % 2 == 0 && !socketpair(AF_UNIX, SOCK_STREAM, 0, line));
    child = fork();
    if (!child)
        raise_all(line[1], n);
    for (int i = 0; i < 2; i++) {
        context[i] = rig_device();
        pd[i] = ibv_alloc_pd(context[i]);
        cq[i] = ibv_create_cq(context[i], n, NULL, NULL, 0);
        mr[i] = ibv_reg_mr(pd[i], area, sizeof area, ALL);
        MUST(!fcntl(context[i]->async_fd, F_SETFL, O_NONBLOCK));
    }
    for (int i = 0; i < n; i++) {
        qp[i] = rig_qp(pd[i & 1], cq[i & 1], IBV_QPT_RC);
        MUST(write(line[0], &qp[i]->qp_num, sizeof qpn) == sizeof qpn && recv(line[0], &qpn, sizeof qpn, MSG_WAITALL) == sizeof qpn);
        rig_init(qp[i], 1);
        rig_rtr(qp[i], 1, qpn, rig_lid(context[0], 1));
        rig_recv(qp[i], (uintptr_t)area, sizeof area, mr[i & 1]->lkey);
        MUST(write(line[0], "", 1) == 1);
    }
    MUST(recv(line[0], &status, 1, MSG_WAITALL) == 1 && write(line[0], "", 1) == 1);
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(!ibv_destroy_qp(qp[n - 1])); /* what is gone has no event */
    for (int i = 1; i < n - 1; i += 2) /* the second context is not behind the first */
        MUST(next(context[1]) == qp[i]);
    for (int i = 0; i < n; i += 2)
        MUST(next(context[0]) == qp[i]);
    for (int i = 0; i < 2; i++) {
        struct ibv_async_event event;

        MUST(ibv_get_async_event(context[i], &event) == -1 && errno == EAGAIN && !is_readable(context[i]));
    }
    for (int i = 0; i < n - 1; i++)
        MUST(!ibv_destroy_qp(qp[i]));
    printf("ok %d events\n", n);
    return 0;
}
