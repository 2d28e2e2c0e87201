/* Address commands: bind an id, resolve an address, resolve the route (as the kernel's ucma and rdma_cm do). */
#include "cm.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum { FAMILY_IB = 27 };

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
    int error = cm_ask_about(id, &question, &reply);
    if (error)
        return error;
    id->at = reply;
    id->bound = true;
    return 0;
}

int cm_bind_ip(struct cm_call *call)
{
    const struct rdma_ucm_bind_ip *c = call->command;

    return address_size(&c->addr) && address_size(&c->addr) <= sizeof c->addr ? bind_to(call, c->id, &c->addr) : -EINVAL;
}

int cm_bind(struct cm_call *call)
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
    return cm_ask_about(id, &question, NULL);
}

int cm_resolve_ip(struct cm_call *call)
{
    const struct rdma_ucm_resolve_ip *c = call->command;
    size_t source = address_size(&c->src_addr), target = address_size(&c->dst_addr);

    if (source > sizeof c->src_addr || (c->src_addr.sin6_family && !source) || !target || target > sizeof c->dst_addr)
        return -EINVAL;
    return resolve(call, c->id, &c->src_addr, &c->dst_addr, c->timeout_ms);
}

int cm_resolve_addr(struct cm_call *call)
{
    const struct rdma_ucm_resolve_addr *c = call->command;

    if (c->reserved || (c->src_size && c->src_size != address_size(&c->src_addr)) || !c->dst_size
        || c->dst_size != address_size(&c->dst_addr))
        return -EINVAL;
    return resolve(call, c->id, &c->src_addr, &c->dst_addr, c->timeout_ms);
}

int cm_resolve_route(struct cm_call *call)
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
    return cm_ask_about(id, &question, NULL);
}
