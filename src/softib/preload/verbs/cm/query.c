/* The queries about an id. */
#include "cm.h"

#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

enum { FAMILY_IB = 27, NO_INDEX = -1 };

/* struct sockaddr_ib (librdmacm's rdma/ib.h). */
struct address_ib {
    uint16_t family, pkey;
    uint32_t flow;
    uint8_t gid[16];
    uint64_t sid, sid_mask, scope;
};

static size_t address_size(const uint8_t *address)
{
    switch (address[0]) {
    case AF_INET:
        return sizeof(struct sockaddr_in);
    case AF_INET6:
        return sizeof(struct sockaddr_in6);
    case FAMILY_IB:
        return sizeof(struct address_ib);
    }
    return 0;
}

/* Return the P_Key in host order, as the kernel's answer to this query has it (path records have it in network
 * order). */
static uint16_t wire_pkey(uint16_t pkey)
{
    return htobe16(pkey);
}

static int query_addr(struct cm_call *call, struct cm_id *id, uint64_t response)
{
    struct rdma_ucm_query_addr_resp answer = { .ibdev_index = (uint32_t)NO_INDEX };

    if (call->out < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
        return -ENOSPC;
    answer.src_size = (uint16_t)address_size(id->at.source);
    memcpy(&answer.src_addr, id->at.source, answer.src_size);
    answer.dst_size = (uint16_t)address_size(id->at.target);
    memcpy(&answer.dst_addr, id->at.target, answer.dst_size);
    if (id->at.devices) {
        answer.node_guid = id->at.node_guid;
        answer.port_num = id->at.portnum;
        answer.pkey = wire_pkey(id->at.pkey);
    }
    return cm_put(response, &answer, call->out < sizeof answer ? call->out : sizeof answer);
}

static void fill_ib(struct address_ib *to, const uint8_t *gid, const struct cm_id *id)
{
    memset(to, 0, sizeof *to);
    to->family = FAMILY_IB;
    to->pkey = htobe16(id->at.pkey);
    memcpy(to->gid, gid, 16);
    to->sid_mask = ~0ull;
}

static int query_gid(struct cm_call *call, struct cm_id *id, uint64_t response)
{
    struct rdma_ucm_query_addr_resp answer = { .ibdev_index = (uint32_t)NO_INDEX };
    static const uint8_t none[16];

    if (call->out < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
        return -ENOSPC;
    if (id->at.devices) {
        answer.node_guid = id->at.node_guid;
        answer.port_num = id->at.portnum;
        answer.pkey = wire_pkey(id->at.pkey);
    }
    answer.src_size = answer.dst_size = sizeof(struct address_ib);
    fill_ib((struct address_ib *)&answer.src_addr, id->at.devices ? id->at.sgid : none, id);
    fill_ib((struct address_ib *)&answer.dst_addr, id->at.devices ? id->at.dgid : none, id);
    return cm_put(response, &answer, call->out < sizeof answer ? call->out : sizeof answer);
}

static int query_path(struct cm_call *call, struct cm_id *id, uint64_t response)
{
    struct rdma_ucm_query_path_resp head = { .num_paths = id->at.paths ? 1 : 0 };
    struct ib_path_rec_data path = { .flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL };
    char answer[sizeof head + sizeof path]; /* the head ends in an array of paths */
    size_t size = sizeof head;

    if (call->out < sizeof head)
        return -ENOSPC;
    memcpy(answer, &head, sizeof head);
    if (id->at.paths && call->out >= sizeof answer) {
        memcpy(path.path_rec, id->at.path, sizeof id->at.path);
        memcpy(answer + sizeof head, &path, sizeof path);
        size = sizeof answer;
    }
    return cm_put(response, answer, size);
}

int cm_query(struct cm_call *call)
{
    const struct rdma_ucm_query *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);

    if (!id)
        return -ENOENT;
    switch (c->option) {
    case RDMA_USER_CM_QUERY_ADDR:
        return query_addr(call, id, c->response);
    case RDMA_USER_CM_QUERY_PATH:
        return query_path(call, id, c->response);
    case RDMA_USER_CM_QUERY_GID:
        return query_gid(call, id, c->response);
    }
    return -ENOSYS;
}

static void fill_route(const uint8_t record[64], struct ib_user_path_rec *to)
{
    struct cm_path path;

    cm_read_path(record, &path);
    memcpy(to->dgid, path.dgid, 16);
    memcpy(to->sgid, path.sgid, 16);
    to->dlid = htobe16(path.dlid);
    to->slid = htobe16(path.slid);
    to->flow_label = htobe32(path.flow_label);
    to->reversible = path.reversible;
    to->mtu = path.mtu;
    to->pkey = htobe16(path.pkey);
    to->hop_limit = path.hop_limit;
    to->traffic_class = path.traffic_class;
    to->numb_path = path.numb_path;
    to->sl = path.sl;
    to->mtu_selector = path.mtu_selector;
    to->rate_selector = path.rate_selector;
    to->rate = path.rate;
    to->packet_life_time_selector = path.life_time_selector;
    to->packet_life_time = path.life_time;
    to->preference = path.preference;
}

int cm_query_route(struct cm_call *call)
{
    const struct rdma_ucm_query *c = call->command;
    struct cm_id *id = cm_find(call->channel, c->id);
    struct rdma_ucm_query_route_resp answer = { .ibdev_index = (uint32_t)NO_INDEX };

    if (!id)
        return -ENOENT;
    if (call->out < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
        return -ENOSPC;
    if (address_size(id->at.source) <= sizeof answer.src_addr)
        memcpy(&answer.src_addr, id->at.source, address_size(id->at.source));
    if (address_size(id->at.target) <= sizeof answer.dst_addr)
        memcpy(&answer.dst_addr, id->at.target, address_size(id->at.target));
    if (id->at.devices) {
        answer.node_guid = id->at.node_guid;
        answer.port_num = id->at.portnum;
        memcpy(answer.ib_route[0].sgid, id->at.sgid, 16);
        memcpy(answer.ib_route[0].dgid, id->at.dgid, 16);
        answer.ib_route[0].pkey = htobe16(id->at.pkey);
    }
    if (id->at.paths) {
        answer.num_paths = 1;
        fill_route(id->at.path, &answer.ib_route[0]);
    }
    return cm_put(c->response, &answer, call->out < sizeof answer ? call->out : sizeof answer);
}
