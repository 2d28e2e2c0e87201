/* The commands that a program writes to the device (linux/rdma_user_cm.h, ABI 4): what each needs, and those that change
 * an id. The rules are those of the kernel's ucma and rdma_cm. */
#include "cm.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

/* Private data of the consumer that fits behind the CMA's own 36 octets (IBA annex A11), and into the other messages
 * (IBA 12.6: REQ 92, REP 196, REJ 148, SIDR_REQ 216, SIDR_REP 136). */
enum { CMA_HEAD = 36, REQ_ROOM = 92, REP_ROOM = 196, REJ_ROOM = 148, SIDR_REQ_ROOM = 216, SIDR_REP_ROOM = 136 };
enum { REJ_CONSUMER = 28, REJ_VENDOR_OPTION = 35, MOST_BACKLOG = 1024, FAMILY_IB = 27, EVENT_COMM_EST = 4 };

void cm_fill(struct cm_id *id, struct softib_cm_ask *question, uint32_t op)
{
    memset(question, 0, sizeof *question);
    question->op = op;
    question->number = id->number;
    question->channel = id->channel->number;
    question->ps = id->ps;
    question->qp_type = id->qp_type;
    question->flags = id->flags;
    question->tos = id->tos;
}

static int ask_about(struct cm_id *id, struct softib_cm_ask *question, struct softib_cm_reply *answer)
{
    id->known = true;
    return cm_ask(question, answer);
}

/* -- life -- */

static int create_id(struct cm_call *call)
{
    const struct rdma_ucm_create_id *c = call->command;
    struct rdma_ucm_create_id_resp answer;

    if (call->out < sizeof answer)
        return -ENOSPC;
    if (c->ps != RDMA_PS_TCP && c->ps != RDMA_PS_UDP && c->ps != RDMA_PS_IPOIB && c->ps != RDMA_PS_IB)
        return -EINVAL;
    struct cm_id *id = cm_create(call->channel, 0);
    if (!id)
        return -ENOMEM;
    id->uid = c->uid;
    id->ps = c->ps;
    id->qp_type = c->ps == RDMA_PS_IB ? c->qp_type : c->ps == RDMA_PS_TCP ? CM_QPT_RC : CM_QPT_UD;
    answer.id = id->handle;
    int error = cm_put(c->response, &answer, sizeof answer);
    if (error)
        cm_free(id);
    return error;
}

static int destroy_id(struct cm_call *call)
{
    const struct rdma_ucm_destroy_id *c = call->command;
    struct rdma_ucm_destroy_id_resp answer;
    struct cm_id *id = cm_find(call->channel, c->id);

    if (call->out < sizeof answer)
        return -ENOSPC;
    if (!id)
        return -ENOENT;
    if (id->known) {
        struct softib_cm_ask question;
        struct softib_cm_reply reply;
        cm_fill(id, &question, SOFTIB_CM_DESTROY);
        if (!cm_ask(&question, &reply))
            cm_sweep(id, reply.sent, NULL);
    }
    answer.events_reported = id->events_reported;
    cm_free(id);
    return cm_put(c->response, &answer, sizeof answer);
}

/* -- addresses -- */

static size_t address_size(const void *address)
{
    sa_family_t family;

    memcpy(&family, address, sizeof family);
    return family == AF_INET ? sizeof(struct sockaddr_in) : family == AF_INET6 ? sizeof(struct sockaddr_in6)
         : family == FAMILY_IB ? 48 : 0;
}

static int bind_to(struct cm_call *call, uint32_t handle, const void *address)
{
    struct cm_id *id = cm_find(call->channel, handle);
    struct softib_cm_ask question;
    struct softib_cm_reply reply;

    if (!id)
        return -ENOENT;
    if (id->bound)
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_BIND);
    memcpy(question.source, address, address_size(address));
    int error = ask_about(id, &question, &reply);
    if (error)
        return error;
    id->at = reply;
    id->bound = true;
    return 0;
}

static int bind_ip(struct cm_call *call)
{
    const struct rdma_ucm_bind_ip *c = call->command;

    return address_size(&c->addr) && address_size(&c->addr) <= sizeof c->addr ? bind_to(call, c->id, &c->addr) : -EINVAL;
}

static int bind_any(struct cm_call *call)
{
    const struct rdma_ucm_bind *c = call->command;

    if (c->reserved || !c->addr_size || c->addr_size != address_size(&c->addr))
        return -EINVAL;
    return bind_to(call, c->id, &c->addr);
}

static int resolve(struct cm_call *call, uint32_t handle, const void *source, const void *target, uint32_t timeout_ms)
{
    struct cm_id *id = cm_find(call->channel, handle);
    struct softib_cm_ask question;

    if (!id)
        return -ENOENT;
    if (id->listening || id->connecting || id->at.paths)
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_RESOLVE_ADDR);
    question.timeout_ms = timeout_ms;
    memcpy(question.source, source, address_size(source));
    memcpy(question.target, target, address_size(target));
    return ask_about(id, &question, NULL);
}

static int resolve_ip(struct cm_call *call)
{
    const struct rdma_ucm_resolve_ip *c = call->command;
    size_t source = address_size(&c->src_addr), target = address_size(&c->dst_addr);

    if (source > sizeof c->src_addr || (c->src_addr.sin6_family && !source) || !target || target > sizeof c->dst_addr)
        return -EINVAL;
    return resolve(call, c->id, &c->src_addr, &c->dst_addr, c->timeout_ms);
}

static int resolve_addr(struct cm_call *call)
{
    const struct rdma_ucm_resolve_addr *c = call->command;

    if (c->reserved || (c->src_size && c->src_size != address_size(&c->src_addr)) || !c->dst_size
        || c->dst_size != address_size(&c->dst_addr))
        return -EINVAL;
    return resolve(call, c->id, &c->src_addr, &c->dst_addr, c->timeout_ms);
}

static int resolve_route(struct cm_call *call)
{
    const struct rdma_ucm_resolve_route *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct softib_cm_ask question;

    if (!id)
        return -ENOENT;
    if (!id->at.devices || id->connecting || id->listening)
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_RESOLVE_ROUTE);
    question.timeout_ms = c->timeout_ms;
    return ask_about(id, &question, NULL);
}

/* -- connections -- */

static int listen_on(struct cm_call *call)
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
    int error = ask_about(id, &question, &reply);
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

static int connect_to(struct cm_call *call)
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
    return ask_about(id, &question, NULL);
}

/* With parameters the answer to a request; without, "ready to use" after the other side's answer. */
static int accept_it(struct cm_call *call)
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
        id->retry_count = retry_count; /* the request says how often this side tries again */
        question.ece_vendor = c->ece.vendor_id;
        question.ece_options = c->ece.attr_mod;
        id->accepted = true;
    }
    return ask_about(id, &question, NULL);
}

static int reject_it(struct cm_call *call)
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
    return ask_about(id, &question, NULL);
}

static int disconnect_it(struct cm_call *call)
{
    const struct rdma_ucm_disconnect *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct softib_cm_ask question;

    if (!id)
        return -ENOENT;
    if (!id->connecting || id->qp_type == CM_QPT_UD)
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_DISCONNECT);
    return ask_about(id, &question, NULL);
}

static int notify_it(struct cm_call *call)
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
    return ask_about(id, &question, NULL);
}

/* -- the device -- */

#define COMMAND(number, structure, function) [RDMA_USER_CM_CMD_##number] = { sizeof(struct structure), sizeof(struct structure), function }
#define GROWN(number, structure, member, function) \
    [RDMA_USER_CM_CMD_##number] = { offsetof(struct structure, member), sizeof(struct structure), function }

static const struct {
    size_t least, most;
    int (*function)(struct cm_call *);
} commands[] = {
    COMMAND(CREATE_ID, rdma_ucm_create_id, create_id),
    COMMAND(DESTROY_ID, rdma_ucm_destroy_id, destroy_id),
    COMMAND(BIND_IP, rdma_ucm_bind_ip, bind_ip),
    COMMAND(RESOLVE_IP, rdma_ucm_resolve_ip, resolve_ip),
    COMMAND(RESOLVE_ROUTE, rdma_ucm_resolve_route, resolve_route),
    COMMAND(QUERY_ROUTE, rdma_ucm_query, cm_query_route),
    GROWN(CONNECT, rdma_ucm_connect, ece, connect_to),
    COMMAND(LISTEN, rdma_ucm_listen, listen_on),
    GROWN(ACCEPT, rdma_ucm_accept, ece, accept_it),
    COMMAND(REJECT, rdma_ucm_reject, reject_it),
    COMMAND(DISCONNECT, rdma_ucm_disconnect, disconnect_it),
    COMMAND(INIT_QP_ATTR, rdma_ucm_init_qp_attr, cm_init_qp_attr),
    COMMAND(GET_EVENT, rdma_ucm_get_event, cm_get_event),
    COMMAND(SET_OPTION, rdma_ucm_set_option, cm_set_option),
    COMMAND(NOTIFY, rdma_ucm_notify, notify_it),
    COMMAND(JOIN_IP_MCAST, rdma_ucm_join_ip_mcast, cm_join_ip),
    COMMAND(LEAVE_MCAST, rdma_ucm_destroy_id, cm_leave),
    COMMAND(MIGRATE_ID, rdma_ucm_migrate_id, cm_migrate),
    COMMAND(QUERY, rdma_ucm_query, cm_query),
    COMMAND(BIND, rdma_ucm_bind, bind_any),
    COMMAND(RESOLVE_ADDR, rdma_ucm_resolve_addr, resolve_addr),
    COMMAND(JOIN_MCAST, rdma_ucm_join_mcast, cm_join),
};

static int run(struct cm_channel *channel, int fd, const void *buffer, size_t count)
{
    union {
        char room[1024];
        uint64_t aligned;
    } command;
    struct rdma_ucm_cmd_hdr head;

    if (count < sizeof head)
        return -EINVAL;
    if (cm_get(&head, (uintptr_t)buffer, sizeof head))
        return -EFAULT;
    if (head.cmd >= sizeof commands / sizeof *commands || sizeof head + head.in > count)
        return -EINVAL;
    if (!commands[head.cmd].function)
        return -ENOSYS; /* GET_OPTION: no kernel has it either */
    if (head.in < commands[head.cmd].least)
        return -EINVAL;
    size_t in = head.in < commands[head.cmd].most ? head.in : commands[head.cmd].most;
    memset(&command, 0, sizeof command);
    if (cm_get(&command, (uintptr_t)buffer + sizeof head, in))
        return -EFAULT;
    struct cm_call call = { channel, fd, &command, in, head.out };
    if (head.cmd == RDMA_USER_CM_CMD_GET_EVENT)
        return cm_get_event(&call); /* it waits, and locks itself */
    cm_lock();
    int error = channel->generation == cm_generation() ? commands[head.cmd].function(&call) : -EIO;
    cm_unlock();
    return error;
}

ssize_t cm_write(struct cm_channel *channel, int fd, const void *buffer, size_t count)
{
    int error = run(channel, fd, buffer, count);

    if (!error)
        return (ssize_t)count;
    errno = -error;
    return -1;
}
