/* A fabric of two ports for the engine alone: row 0 with LID 1 and row 1 with LID 2. `stub_cut` loses everything. */
#include "rig.h"

#include <errno.h>
#include <string.h>

static struct softib_shared_fabric head;
static uint8_t info[2][64] = {
    { [SV_LID_AT + 1] = 1, [SV_NEIGHBOR_MTU_AT] = 5 << 4 },
    { [SV_LID_AT + 1] = 2, [SV_NEIGHBOR_MTU_AT] = 5 << 4 },
};
static const int32_t nodes[2] = { 0, 0 };
static const uint8_t infiniband[1];
struct sv_shared_fabric sv_shared_fabric = {
    .head = &head, .port_info = &info[0][0], .port_node = nodes, .node_ethernet = infiniband,
};
double stub_loss[2];
uint32_t stub_qkeys, stub_pkeys, stub_packets;
static bool cut;

void stub_cut(bool yes)
{
    __atomic_store_n(&cut, yes, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&head.epoch, 1, __ATOMIC_SEQ_CST);
}

static enum sv_reason reason_of(const struct sv_route_key *route, uint32_t *dest)
{
    bool there = route->dlid >= 1 && route->dlid <= 2 && !__atomic_load_n(&cut, __ATOMIC_SEQ_CST);

    *dest = there ? route->dlid - 1u : SV_NO_PORT;
    return there ? SV_OK : SV_NO_ROUTE;
}

enum sv_reason sv_path_walk(const struct sv_shared_fabric *fabric, const struct sv_route_key *route, struct sv_path *path)
{
    (void)fabric;
    memset(path, 0, sizeof *path);
    return path->reason = reason_of(route, &path->dest);
}

int sv_flow_walk(struct sv_flow *flow, const struct sv_route_key *forward, const struct sv_route_key *back, const uint32_t qp[2])
{
    uint32_t none;

    (void)qp;
    flow->loss[0][0] = stub_loss[0];
    flow->loss[1][0] = stub_loss[1];
    flow->epoch = sv_shared_fabric_epoch(&sv_shared_fabric);
    flow->reason[0] = (uint8_t)reason_of(forward, &flow->dest);
    flow->reason[1] = (uint8_t)(back ? reason_of(back, &none) : SV_OK);
    return 0;
}

int sv_flow_tree(struct sv_flow *flow, const struct sv_tree *tree, const struct sv_route_key *route, const uint32_t qp[2])
{
    (void)tree, (void)route, (void)qp;
    flow->epoch = sv_shared_fabric_epoch(&sv_shared_fabric);
    return 0;
}

void sv_flow_end(struct sv_flow *flow)
{
    (void)flow;
}

int sv_tree_walk(const struct sv_shared_fabric *fabric, const struct sv_route_key *route, struct sv_tree *tree)
{
    static uint32_t everybody[] = { 0, 1 };

    (void)fabric, (void)route;
    tree->dests = everybody;
    tree->dests_n = 2;
    return 0;
}

void sv_tree_free(struct sv_tree *tree)
{
    tree->dests = NULL;
    tree->dests_n = 0;
}

int sv_address_error(uint32_t port, bool is_global, unsigned sgid_index, const uint8_t dgid[16], uint16_t dlid)
{
    (void)port, (void)is_global, (void)sgid_index, (void)dgid, (void)dlid;
    return 0;
}

uint16_t sv_address_lid(uint32_t port, const uint8_t dgid[16], uint16_t dlid)
{
    (void)port, (void)dgid;
    return dlid;
}

bool sv_gid_is_ipv4(const uint8_t gid[16])
{
    (void)gid;
    return false;
}

bool sv_gid_is_group(const uint8_t gid[16])
{
    return gid[0] == 0xFF;
}

int sv_port_gid(uint32_t port, unsigned index, uint8_t gid[16])
{
    memset(gid, 0, 16);
    gid[0] = 0xFE;
    gid[1] = 0x80;
    gid[15] = (uint8_t)(port + 1);
    return index ? -EINVAL : 0;
}

int sv_port_pkey(uint32_t port, unsigned index, uint16_t *pkey)
{
    (void)port;
    *pkey = index ? 0x8001 : 0xFFFF;
    return index > 1 ? -EINVAL : 0;
}

bool sv_port_has_pkey(const struct sv_shared_fabric *fabric, uint32_t port, unsigned pkey)
{
    (void)fabric;
    (void)port;
    return sv_pkeys_match(0xFFFF, pkey) || sv_pkeys_match(0x8001, pkey);
}

uint32_t sv_port_row(const struct sv_device *device, unsigned portnum)
{
    return portnum == 1 ? device->node : SV_NO_PORT;
}

void sv_qkey_violation(uint32_t port, const struct sv_route_key *route, uint32_t qkey, const uint32_t qp[2])
{
    (void)port, (void)route, (void)qkey, (void)qp;
    __atomic_fetch_add(&stub_qkeys, 1, __ATOMIC_RELAXED);
}

void sv_pkey_violation(uint32_t port, const struct sv_route_key *route, uint32_t pkey, const uint32_t qp[2])
{
    (void)port, (void)route, (void)pkey, (void)qp;
    __atomic_fetch_add(&stub_pkeys, 1, __ATOMIC_RELAXED);
}

/* Not the right ones (test_fabric_words.py has those): some for each message, and its payload. */
struct sv_wire_size sv_wire_size_of(enum sv_message message, unsigned flags, uint64_t length, uint32_t mtu)
{
    (void)mtu;
    __atomic_fetch_add(&stub_packets, 1, __ATOMIC_RELAXED);
    return (struct sv_wire_size){ 1, 1 + message + flags + (message < SV_MSG_READ_REQUEST ? (length + 3) / 4 : 0) };
}

/* No lanes: nothing is paced. */
bool sv_timed_path_lay(struct sv_timed_path *path, const uint32_t *egress, unsigned links, unsigned sl)
{
    (void)sl;
    (void)path, (void)egress, (void)links;
    return false;
}

void sv_timed_path_free(struct sv_timed_path *path)
{
    (void)path;
}

bool sv_timed_path_is_freer(const struct sv_timed_path *path, const struct sv_timed_path *than, uint64_t now)
{
    (void)path, (void)than, (void)now;
    return false;
}

uint64_t sv_timed_path_pass(const struct sv_timed_path *path, uint64_t now, uint64_t octets)
{
    (void)path, (void)octets;
    return now;
}
