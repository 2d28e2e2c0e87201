/* Connection commands: listen, connect, accept, reject, disconnect (as the kernel's ucma and rdma_cm do). */
#include "cm.h"

#include <errno.h>
#include <string.h>

/* Room for the consumer's private data: in the REQ and SIDR_REQ after the CMA header of 36 bytes (IBA annex A11), and
 * in the other messages (IBA 12.6: REQ 92, REP 196, REJ 148, SIDR_REQ 216, SIDR_REP 136). */
enum { CMA_HEAD = 36, REQ_ROOM = 92, REP_ROOM = 196, REJ_ROOM = 148, SIDR_REQ_ROOM = 216, SIDR_REP_ROOM = 136 };
enum { REJ_CONSUMER = 28, REJ_VENDOR_OPTION = 35, MOST_BACKLOG = 1024, FAMILY_IB = 27, EVENT_COMM_EST = 4 };

int cm_listen(struct cm_call *call)
{
    const struct rdma_ucm_listen *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct softib_cm_ask question;
    struct softib_cm_reply reply;

    if (!id)
        return -ENOENT;
    if (id->connecting || id->at.paths)
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_LISTEN);
    question.other = c->backlog > 0 && c->backlog < MOST_BACKLOG ? c->backlog : MOST_BACKLOG;
    int error = cm_ask_about(id, &question, &reply);
    if (error)
        return error;
    id->at = reply;
    id->bound = id->listening = true;
    return 0;
}

static void copy_param(struct cm_id *id, const struct rdma_ucm_conn_param *p, struct softib_cm_ask *question)
{
    question->qpn = p->qp_num & 0xffffff;
    question->qkey = p->qkey;
    question->srq = p->srq;
    question->responder_resources = id->responder_resources = p->responder_resources;
    question->initiator_depth = id->initiator_depth = p->initiator_depth;
    question->flow_control = p->flow_control;
    question->retry_count = p->retry_count < 7 ? p->retry_count : 7;
    question->rnr_retry_count = p->rnr_retry_count < 7 ? p->rnr_retry_count : 7;
    question->psn = id->psn;
    question->private_length = p->private_data_len;
    memcpy(question->private_data, p->private_data, p->private_data_len);
}

static bool too_long(struct cm_id *id, const struct rdma_ucm_conn_param *p, bool request)
{
    unsigned room = id->qp_type == CM_QPT_UD ? request ? SIDR_REQ_ROOM : SIDR_REP_ROOM : request ? REQ_ROOM : REP_ROOM;

    if (request && id->at.target[0] != FAMILY_IB)
        room -= CMA_HEAD;
    return p->private_data_len > room;
}

int cm_connect(struct cm_call *call)
{
    const struct rdma_ucm_connect *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct softib_cm_ask question;

    if (!id)
        return -ENOENT;
    if (!c->conn_param.valid || !id->at.paths || id->connecting || too_long(id, &c->conn_param, true))
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_CONNECT);
    id->psn = (id->number * 0x9e3779b1u) >> 8 & 0xffffff;
    copy_param(id, &c->conn_param, &question);
    question.ece_vendor = c->ece.vendor_id;
    question.ece_options = c->ece.attr_mod;
    id->retry_count = question.retry_count;
    id->rnr_retry_count = 0;
    id->connecting = true;
    return cm_ask_about(id, &question, NULL);
}

/* With parameters: answer a request. Without: confirm the peer's answer ("ready to use"). */
int cm_accept(struct cm_call *call)
{
    const struct rdma_ucm_accept *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct softib_cm_ask question;
    bool answering = c->conn_param.valid;

    if (!id)
        return -ENOENT;
    if (!id->connecting || !id->has_peer || (answering && (id->accepted || too_long(id, &c->conn_param, false))))
        return -EINVAL;
    cm_fill(id, &question, answering ? SOFTIB_CM_ACCEPT : SOFTIB_CM_READY);
    if (answering) {
        uint8_t retry_count = id->retry_count;
        id->uid = c->uid;
        copy_param(id, &c->conn_param, &question);
        id->retry_count = retry_count; /* the request contained the retry count for this side */
        question.ece_vendor = c->ece.vendor_id;
        question.ece_options = c->ece.attr_mod;
        id->accepted = true;
    }
    return cm_ask_about(id, &question, NULL);
}

int cm_reject(struct cm_call *call)
{
    const struct rdma_ucm_reject *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct softib_cm_ask question;

    if (!id)
        return -ENOENT;
    if (!id->connecting || !id->has_peer)
        return -EINVAL;
    if (c->reason && c->reason != REJ_CONSUMER && c->reason != REJ_VENDOR_OPTION)
        return -EINVAL;
    if (c->private_data_len > (id->qp_type == CM_QPT_UD ? SIDR_REP_ROOM : REJ_ROOM))
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_REJECT);
    question.other = c->reason ? c->reason : REJ_CONSUMER;
    question.private_length = c->private_data_len;
    memcpy(question.private_data, c->private_data, c->private_data_len);
    return cm_ask_about(id, &question, NULL);
}

int cm_disconnect(struct cm_call *call)
{
    const struct rdma_ucm_disconnect *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct softib_cm_ask question;

    if (!id)
        return -ENOENT;
    if (!id->connecting || id->qp_type == CM_QPT_UD)
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_DISCONNECT);
    return cm_ask_about(id, &question, NULL);
}

int cm_notify(struct cm_call *call)
{
    const struct rdma_ucm_notify *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct softib_cm_ask question;

    if (!id)
        return -ENOENT;
    if (!id->connecting || c->event != EVENT_COMM_EST)
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_NOTIFY);
    question.other = c->event;
    return cm_ask_about(id, &question, NULL);
}
