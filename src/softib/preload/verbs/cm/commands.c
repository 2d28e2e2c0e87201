/* The commands that a program writes to the device (linux/rdma_user_cm.h, ABI 4): the conditions of each command, and
 * the life cycle of an id, as in the kernel's ucma and rdma_cm. Addresses: addresses.c; connections: connections.c. */
#include "cm.h"

#include <errno.h>
#include <string.h>

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

int cm_ask_about(struct cm_id *id, struct softib_cm_ask *question, struct softib_cm_reply *answer)
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
    COMMAND(BIND_IP, rdma_ucm_bind_ip, cm_bind_ip),
    COMMAND(RESOLVE_IP, rdma_ucm_resolve_ip, cm_resolve_ip),
    COMMAND(RESOLVE_ROUTE, rdma_ucm_resolve_route, cm_resolve_route),
    COMMAND(QUERY_ROUTE, rdma_ucm_query, cm_query_route),
    GROWN(CONNECT, rdma_ucm_connect, ece, cm_connect),
    COMMAND(LISTEN, rdma_ucm_listen, cm_listen),
    GROWN(ACCEPT, rdma_ucm_accept, ece, cm_accept),
    COMMAND(REJECT, rdma_ucm_reject, cm_reject),
    COMMAND(DISCONNECT, rdma_ucm_disconnect, cm_disconnect),
    COMMAND(INIT_QP_ATTR, rdma_ucm_init_qp_attr, cm_init_qp_attr),
    COMMAND(GET_EVENT, rdma_ucm_get_event, cm_get_event),
    COMMAND(SET_OPTION, rdma_ucm_set_option, cm_set_option),
    COMMAND(NOTIFY, rdma_ucm_notify, cm_notify),
    COMMAND(JOIN_IP_MCAST, rdma_ucm_join_ip_mcast, cm_join_ip),
    COMMAND(LEAVE_MCAST, rdma_ucm_destroy_id, cm_leave),
    COMMAND(MIGRATE_ID, rdma_ucm_migrate_id, cm_migrate),
    COMMAND(QUERY, rdma_ucm_query, cm_query),
    COMMAND(BIND, rdma_ucm_bind, cm_bind),
    COMMAND(RESOLVE_ADDR, rdma_ucm_resolve_addr, cm_resolve_addr),
    COMMAND(JOIN_MCAST, rdma_ucm_join_mcast, cm_join),
    [CM_WRITE_EVENT] = { sizeof(struct cm_written_event), sizeof(struct cm_written_event), cm_write_event },
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
        return -ENOSYS; /* GET_OPTION: no kernel implements it either */
    if (head.in < commands[head.cmd].least)
        return -EINVAL;
    size_t in = head.in < commands[head.cmd].most ? head.in : commands[head.cmd].most;
    memset(&command, 0, sizeof command);
    if (cm_get(&command, (uintptr_t)buffer + sizeof head, in))
        return -EFAULT;
    struct cm_call call = { channel, fd, &command, in, head.out };
    if (head.cmd == RDMA_USER_CM_CMD_GET_EVENT)
        return cm_get_event(&call); /* cm_get_event may wait, so it takes the lock itself */
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
