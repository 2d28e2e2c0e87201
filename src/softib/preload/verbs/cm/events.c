/* GET_EVENT: convert messages of the daemon to events of the ABI, and update the ids. */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"

enum { DAEMON_ENDED_US = 100000 };

static void fill_conn(const struct softib_cm_reply *e, struct rdma_ucm_conn_param *p)
{
    p->qp_num = e->qpn;
    p->qkey = e->qkey;
    p->srq = e->srq;
    p->responder_resources = e->responder_resources;
    p->initiator_depth = e->initiator_depth;
    p->flow_control = e->flow_control;
    p->retry_count = e->retry_count;
    p->rnr_retry_count = e->rnr_retry_count;
    p->private_data_len = e->private_length;
    memcpy(p->private_data, e->private_data, e->private_length);
}

static void fill_ud(const struct softib_cm_reply *e, struct rdma_ucm_ud_param *p)
{
    p->qp_num = e->qpn;
    p->qkey = e->qkey;
    if (e->paths)
        cm_fill_ah(e, &p->ah_attr);
    p->private_data_len = e->private_length;
    memcpy(p->private_data, e->private_data, e->private_length);
}

/* Update the id from an event. */
static void learn(struct cm_id *id, const struct softib_cm_reply *e)
{
    switch (e->event) {
    case CM_ADDR_RESOLVED:
        id->at = *e;
        id->bound = true;
        break;
    case CM_ROUTE_RESOLVED:
        id->at = *e;
        break;
    case CM_CONNECT_REQUEST:
        id->at = *e;
        id->connecting = id->has_peer = true;
        id->psn = (id->number * 0x9e3779b1u) >> 8 & 0xffffff;
        id->responder_resources = e->responder_resources;
        id->initiator_depth = e->initiator_depth;
        id->retry_count = e->retry_count;
        id->rnr_retry_count = e->rnr_retry_count;
        break;
    case CM_CONNECT_RESPONSE:
        id->at.qpn = e->qpn;
        id->at.qkey = e->qkey;
        id->at.psn = e->psn;
        id->responder_resources = e->responder_resources;
        id->initiator_depth = e->initiator_depth;
        id->rnr_retry_count = e->rnr_retry_count;
        id->has_peer = true;
        break;
    default:
        break;
    }
}

static bool is_multicast(const struct softib_cm_reply *e)
{
    return e->event == CM_MULTICAST_JOIN || e->event == CM_MULTICAST_ERROR;
}

/* Queue an event that the program raises on its own id: librdmacm's rdma_write_cm_event and rdma_resolve_addrinfo. */
int cm_write_event(struct cm_call *call)
{
    const struct cm_written_event *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct softib_cm_ask question;

    if (c->event != CM_USER && c->event != CM_INTERNAL)
        return -EINVAL;
    if (!id)
        return -ENOENT;
    cm_fill(id, &question, SOFTIB_CM_WRITE_EVENT);
    question.other = c->event;
    question.timeout_ms = c->status;
    question.private_length = sizeof c->argument;
    memcpy(question.private_data, c->argument, sizeof c->argument);
    return cm_ask_about(id, &question, NULL);
}

/* Convert one event for the program. 0; -ENOENT: its id no longer exists; -errno. */
static int hand_over(struct cm_call *call, const struct softib_cm_reply *e)
{
    const struct rdma_ucm_get_event *c = call->command;
    struct rdma_ucm_event_resp answer;
    struct cm_id *id = cm_by_number(e->event == CM_CONNECT_REQUEST ? e->listener : e->number), *child = NULL;
    size_t room = call->out < sizeof answer ? call->out : sizeof answer;

    if (!id || (!id->uid && !id->parent))
        return -ENOENT;
    memset(&answer, 0, sizeof answer);
    answer.uid = id->uid;
    answer.id = id->handle;
    answer.event = e->event;
    answer.status = e->error;
    answer.ece.vendor_id = e->ece_vendor;
    answer.ece.attr_mod = e->ece_options;
    if (e->event == CM_CONNECT_REQUEST) {
        if (!(child = cm_create(id->channel, e->number)))
            return -ENOENT; /* the caller retries */
        child->ps = id->ps;
        child->qp_type = id->qp_type;
        child->bound = true;
        answer.id = child->handle;
        learn(child, e);
    } else
        learn(id, e);
    if (e->event == CM_USER || e->event == CM_INTERNAL)
        memcpy(&answer.param, e->private_data, e->private_length);
    else if (id->qp_type == CM_QPT_UD || is_multicast(e))
        fill_ud(e, &answer.param.ud);
    else
        fill_conn(e, &answer.param.conn);
    id->events_reported++;
    if (id->parent)
        id->parent->events_reported++;
    return cm_put(c->response, &answer, room);
}

/* The daemon has ended: report device removal once for each id that has a device. */
static int removal(struct cm_call *call)
{
    for (struct cm_id *id = cm_next_of(call->channel, NULL); id; id = cm_next_of(call->channel, id)) {
        if (id->parent || !id->at.devices || id->removed || !id->uid)
            continue;
        struct softib_cm_reply event = { .number = id->number, .event = CM_DEVICE_REMOVAL };
        id->removed = true;
        return hand_over(call, &event);
    }
    return -EIO;
}

/*
 * Another thread closed the channel during this call. In the kernel the call keeps the file open, and no more events
 * arrive: the call waits forever, or until a signal handler runs. rping's client relies on this: its main thread closes
 * the channel and returns while another thread waits for events, and an error there would become its exit code.
 */
static int closed_under(void)
{
    pause();
    return -EINTR;
}

int cm_get_event(struct cm_call *call)
{
    uint32_t number = call->channel->number;

    /* Programs built before the reserved field and ECE existed pass a shorter buffer. */
    if (call->out < offsetof(struct rdma_ucm_event_resp, reserved))
        return -ENOSPC;
    for (;;) {
        struct softib_cm_reply event;

        cm_lock();
        bool open = call->channel->users && call->channel->number == number; /* closed objects are reused */
        int fd = call->channel->fd, got = open ? cm_take(call->channel, fd, &event) : -EBADF;
        if (!got)
            got = hand_over(call, &event);
        else if (got == -EIO)
            got = removal(call);
        cm_unlock();
        if (!open)
            return closed_under();
        if (got == -EIO)
            usleep(DAEMON_ENDED_US); /* a program that polls continuously would spin */
        if (got == -ENOENT)
            continue;
        if (got != -EAGAIN)
            return got;
        if (cm_real()->fcntl(fd, F_GETFL) & O_NONBLOCK)
            return -EAGAIN;
        struct pollfd wait = { fd, POLLIN, 0 };
        if (poll(&wait, 1, -1) < 0)
            return -errno;
    }
}
