/* A path and the cell that counts its packets. */
#include "internal.h"

#include <errno.h>
#include <string.h>

static struct sv_direction direction_of(const struct sv_path *path)
{
    return (struct sv_direction){ path->egress, path->links, path->drop, path->counter };
}

/* Give the flow a cell that counts `directions`. */
static int settle(struct sv_flow *flow, const struct sv_direction directions[2], const struct sv_label *label)
{
    if (flow->cell && sv_cell_is_on(sv_fabric_cells, flow->cell, directions))
        return 0;
    sv_flow_end(flow);
    flow->cell = sv_cell_new(sv_fabric_cells, directions, label);
    return flow->cell ? 0 : -ENOSPC;
}

/* Sum the bit errors of all links on the path; column port_loss has the rate of packets arriving at
 * a port. */
static void add_losses(const struct sv_path *path, double loss[2])
{
    loss[0] = loss[1] = 0;
    for (unsigned i = 0; i < path->links; i++) {
        int32_t ingress = sv_shared_fabric.port_peer[path->egress[i]];

        if (ingress < 0)
            continue;
        loss[0] += sv_shared_fabric.port_loss[2 * (size_t)ingress];
        loss[1] += sv_shared_fabric.port_loss[2 * (size_t)ingress + 1];
    }
}

int sv_flow_walk(struct sv_flow *flow, const struct sv_route_key *forward, const struct sv_route_key *back, const uint32_t qp[2])
{
    struct sv_path paths[2];
    struct sv_direction directions[2] = { 0 };
    struct sv_label label = {
        .key = forward->pkey, .qp = { qp[0], qp[1] }, .slid = sv_lid(&sv_shared_fabric, forward->port), .dlid = forward->dlid,
        .sl = forward->sl,
    };

    sv_path_walk(&sv_shared_fabric, forward, &paths[0]);
    flow->epoch = paths[0].epoch;
    flow->dest = paths[0].dest;
    flow->mtu = paths[0].mtu;
    flow->vl = paths[0].vl;
    flow->choices = paths[0].choices;
    flow->keep_us = paths[0].keep_us;
    directions[0] = direction_of(&paths[0]);
    if (back) {
        sv_path_walk(&sv_shared_fabric, back, &paths[1]);
        directions[1] = direction_of(&paths[1]);
        if (paths[1].choices > flow->choices)
            flow->choices = paths[1].choices;
    } else {
        directions[1].drop = SV_NO_PORT;
    }
    for (int direction = 0; direction < 2; direction++) {
        flow->reason[direction] = direction && !back ? SV_OK : (uint8_t)paths[direction].reason;
        flow->links[direction] = (uint16_t)directions[direction].links;
        if (!direction || back)
            add_losses(&paths[direction], flow->loss[direction]);
    }
    return settle(flow, directions, &label);
}

int sv_flow_tree(struct sv_flow *flow, const struct sv_tree *tree, const struct sv_route_key *route, const uint32_t qp[2])
{
    struct sv_direction directions[2] = { { tree->egress, tree->links_n, SV_NO_PORT, SOFTIB_DROP_NONE },
                              { NULL, 0, SV_NO_PORT, SOFTIB_DROP_NONE } };
    struct sv_label label = {
        .key = route->pkey, .qp = { qp[0], qp[1] }, .slid = sv_lid(&sv_shared_fabric, route->port), .dlid = route->dlid,
        .sl = route->sl, .multicast = true,
    };

    flow->epoch = tree->epoch;
    flow->dest = SV_NO_PORT;
    flow->reason[0] = (uint8_t)tree->reason;
    flow->reason[1] = SV_OK;
    flow->links[0] = (uint16_t)(tree->links_n > UINT16_MAX ? UINT16_MAX : tree->links_n);
    flow->links[1] = 0;
    flow->mtu = 5;
    flow->vl = 0;
    flow->choices = 1;
    return settle(flow, directions, &label);
}

void sv_flow_end(struct sv_flow *flow)
{
    if (flow->cell)
        sv_cell_retire(flow->cell);
    flow->cell = NULL;
}
