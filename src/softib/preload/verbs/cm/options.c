/* Commands for multicast, for options, and for moving an id to another channel. */
#include "cm.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum { FAMILY_IB = 27, MOST_ACK_TIMEOUT = 31, FULL_MEMBER = 1, SEND_ONLY_FULL_MEMBER = 8, OPTION_ROOM = 512 };

static int join(struct cm_call *call, uint32_t handle, uint64_t uid, uint64_t response, const void *address, size_t size,
                uint8_t join_state)
{
    struct cm_id *id = cm_find(call->channel, handle);
    struct rdma_ucm_create_id_resp answer;
    struct softib_cm_ask question;

    if (call->out < sizeof answer)
        return -ENOSPC;
    if (!id)
        return -ENOENT;
    if (id->qp_type != CM_QPT_UD || !id->at.devices)
        return -EINVAL;
    struct cm_id *membership = cm_create(call->channel, 0);
    if (!membership)
        return -ENOMEM;
    membership->parent = id;
    id->memberships++;
    membership->uid = uid;
    membership->ps = id->ps;
    membership->qp_type = id->qp_type;
    answer.id = membership->handle;
    int error = cm_put(response, &answer, sizeof answer);
    if (!error) {
        cm_fill(membership, &question, SOFTIB_CM_JOIN);
        question.other = id->number;
        question.join_state = join_state;
        memcpy(question.target, address, size);
        id->known = membership->known = true;
        error = cm_ask(&question, NULL);
    }
    if (error)
        cm_free(membership);
    return error;
}

int cm_join_ip(struct cm_call *call)
{
    const struct rdma_ucm_join_ip_mcast *c = call->command;
    size_t size = c->addr.sin6_family == AF_INET  ? sizeof(struct sockaddr_in)
                : c->addr.sin6_family == AF_INET6 ? sizeof(struct sockaddr_in6) : 0;

    return size ? join(call, c->id, c->uid, c->response, &c->addr, size, FULL_MEMBER) : -EINVAL;
}

int cm_join(struct cm_call *call)
{
    const struct rdma_ucm_join_mcast *c = call->command;
    uint16_t family = c->addr.ss_family;
    size_t size = family == AF_INET ? sizeof(struct sockaddr_in) : family == AF_INET6 ? sizeof(struct sockaddr_in6)
                : family == FAMILY_IB ? 48 : 0;

    if (!size || size != c->addr_size || c->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
        return -EINVAL;
    return join(call, c->id, c->uid, c->response, &c->addr, size,
                c->join_flags == RDMA_MC_JOIN_FLAG_FULLMEMBER ? FULL_MEMBER : SEND_ONLY_FULL_MEMBER);
}

int cm_leave(struct cm_call *call)
{
    const struct rdma_ucm_destroy_id *c = call->command;
    struct rdma_ucm_destroy_id_resp answer;
    struct cm_id *membership = cm_find_membership(call->channel, c->id);
    struct softib_cm_ask question;
    struct softib_cm_reply reply;

    if (call->out < sizeof answer)
        return -ENOSPC;
    if (!membership)
        return -ENOENT;
    cm_fill(membership, &question, SOFTIB_CM_LEAVE);
    if (!cm_ask(&question, &reply))
        cm_sweep(membership, reply.sent, NULL);
    answer.events_reported = membership->events_reported;
    cm_free(membership);
    return cm_put(c->response, &answer, sizeof answer);
}

/* -- options -- */

static bool has_target(const struct cm_id *id)
{
    return id->at.target[0] || id->at.target[1];
}

static int set_id_option(struct cm_id *id, uint32_t name, const uint8_t *value, size_t length)
{
    int number = 0;

    if (length == sizeof number)
        memcpy(&number, value, sizeof number);
    switch (name) {
    case RDMA_OPTION_ID_TOS:
        if (length != 1)
            return -EINVAL;
        id->tos = *value;
        return 0;
    case RDMA_OPTION_ID_REUSEADDR:
        if (length != sizeof number || (!number && id->bound))
            return -EINVAL;
        id->flags = (uint8_t)(number ? id->flags | SOFTIB_CM_REUSE : id->flags & ~SOFTIB_CM_REUSE);
        return 0;
    case RDMA_OPTION_ID_AFONLY:
        if (length != sizeof number || id->listening || id->connecting || has_target(id))
            return -EINVAL;
        id->flags = (uint8_t)(number ? id->flags | SOFTIB_CM_AF_ONLY : id->flags & ~SOFTIB_CM_AF_ONLY) | SOFTIB_CM_AF_GIVEN;
        return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        if (length != 1 || *value > MOST_ACK_TIMEOUT || id->qp_type != CM_QPT_RC)
            return -EINVAL;
        id->ack_timeout = *value;
        id->has_ack_timeout = true;
        return 0;
    }
    return -ENOSYS;
}

/* Resolve the route with a path that the program supplies. */
static int set_path(struct cm_id *id, const uint8_t *value, size_t length)
{
    const struct ib_path_rec_data *path = (const void *)value;
    const uint32_t wanted = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    struct softib_cm_ask question;

    if (!length || length % sizeof *path)
        return -EINVAL;
    while (length && (path->flags & wanted) != wanted) {
        path++;
        length -= sizeof *path;
    }
    if (!length || !id->at.devices || id->connecting)
        return -EINVAL;
    cm_fill(id, &question, SOFTIB_CM_SET_PATH);
    memcpy(question.path, path->path_rec, sizeof question.path);
    id->known = true;
    return cm_ask(&question, NULL);
}

int cm_set_option(struct cm_call *call)
{
    const struct rdma_ucm_set_option *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    uint64_t value[OPTION_ROOM / 8];

    if (!id)
        return -ENOENT;
    if (c->optlen > sizeof value)
        return -EINVAL;
    if (cm_get(value, c->optval, c->optlen))
        return -EFAULT;
    switch (c->level) {
    case RDMA_OPTION_ID:
        return set_id_option(id, c->optname, (const uint8_t *)value, c->optlen);
    case RDMA_OPTION_IB:
        return c->optname == RDMA_OPTION_IB_PATH ? set_path(id, (const uint8_t *)value, c->optlen) : -ENOSYS;
    }
    return -ENOSYS;
}

/* -- moving -- */

int cm_migrate(struct cm_call *call)
{
    const struct rdma_ucm_migrate_id *c = call->command;
    struct rdma_ucm_migrate_resp answer;
    struct cm_channel *from = cm_channel_of((int)c->fd);
    struct cm_id *id = from ? cm_find(from, c->id) : NULL;

    if (call->out < sizeof answer)
        return -ENOSPC;
    if (!from)
        return -EINVAL;
    if (!id)
        return -ENOENT;
    if (id->known && from != call->channel) {
        struct softib_cm_ask question;
        struct softib_cm_reply reply;
        cm_fill(id, &question, SOFTIB_CM_MIGRATE);
        question.other = call->channel->number;
        int error = cm_ask(&question, &reply);
        if (error)
            return error;
        cm_sweep(id, reply.sent, call->channel);
    }
    for (struct cm_id *m = cm_next_of(from, NULL); m; m = cm_next_of(from, m))
        if (m->parent == id)
            m->channel = call->channel;
    id->channel = call->channel;
    answer.events_reported = id->events_reported;
    return cm_put(c->response, &answer, sizeof answer);
}
