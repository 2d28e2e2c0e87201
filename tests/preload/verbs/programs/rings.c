/*
 * Queues longer than their memory: "rings" makes a CQ, a UD QP and an SRQ of the largest sizes, waits for a line, and fills them: the
 * receives until ENOMEM (or until the queue is full), the CQ until it breaks, both with what the specification has for it. "rings polls" polls
 * each completion: the CQ never breaks.
 */
#include "rig.h"

#include <poll.h>

#define RECEIVES 32768 /* of 4 SGEs: 2.6 MB; a completion is 64 octets: 4.2 MB */
#define COMPLETIONS 65535

static struct ibv_qp *datagrams(struct ibv_pd *pd, struct ibv_cq *cq, uint8_t port)
{
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = { RECEIVES, RECEIVES, 1, 4, 0 } };
    struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = port, .qkey = 1 };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);

    MUST(qp && !ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    a.qp_state = IBV_QPS_RTR;
    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE));
    a.qp_state = IBV_QPS_RTS;
    MUST(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
    return qp;
}

static void say(const char *what, int error, int n)
{
    printf("%s %s\n", what, error == ENOMEM && n < RECEIVES ? "ENOMEM" : error ? strerror(error) : "whole");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct ibv_context *context = rig_device();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, COMPLETIONS, NULL, NULL, 0);
    struct ibv_qp *qp = datagrams(pd, cq, 1);
    struct ibv_srq_init_attr shared = { .attr = { .max_wr = RECEIVES - 1, .max_sge = 4 } };
    struct ibv_srq *srq = ibv_create_srq(pd, &shared);
    struct ibv_ah *ah = ibv_create_ah(pd, &(struct ibv_ah_attr){ .dlid = rig_lid(context, 1), .port_num = 1 });
    static char buffer[64];
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge all = { (uintptr_t)buffer, sizeof buffer, mr->lkey };
    struct ibv_recv_wr receive = { .sg_list = &all, .num_sge = 1 }, *bad_receive;
    struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
                                .wr.ud = { .ah = ah, .remote_qpn = qp->qp_num, .remote_qkey = 1 } }, *bad;
    struct ibv_async_event event;
    struct ibv_wc wc;
    int error = 0, n, sent = 0, got = 0;

    MUST(cq && srq && ah && argv);
    puts("made");
    fflush(stdout);
    getchar();
    for (n = 0; n < RECEIVES && !error; n++)
        error = ibv_post_recv(qp, &receive, &bad_receive);
    say("receives", error, n);
    for (n = 0, error = 0; n < RECEIVES - 1 && !error; n++)
        error = ibv_post_srq_recv(srq, &receive, &bad_receive);
    say("shared", error, n);
    for (; argc > 1 && sent < 3 * COMPLETIONS; sent++) { /* a program that polls what it posts goes on in the room that there is */
        MUST(!ibv_post_send(qp, &send, &bad) && ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && ++got);
        while (ibv_poll_cq(cq, 1, &wc) == 1)
            ;
    }
    while (argc < 2 && sent < COMPLETIONS / 2 - 8 && !ibv_post_send(qp, &send, &bad)) /* two each, where a receive is left */
        sent++;
    while (ibv_poll_cq(cq, 1, &wc) == 1)
        got++;
    MUST(got);
    if (poll(&(struct pollfd){ .fd = context->async_fd, .events = POLLIN }, 1, 2000) == 1) {
        MUST(!ibv_get_async_event(context, &event));
        printf("completions %s\n", ibv_event_type_str(event.event_type));
        ibv_ack_async_event(&event);
    } else {
        printf("completions %s\n", got >= sent ? "whole" : "lost");
    }
    return 0;
}
