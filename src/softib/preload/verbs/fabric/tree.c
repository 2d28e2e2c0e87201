/* The paths of a multicast packet: breadth first through the switches' multicast tables, one copy per link. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "path.h"

struct list {
    uint32_t *rows;
    uint32_t n, room;
};

static bool push(struct list *list, uint32_t row)
{
    if (list->n == list->room) {
        uint32_t room = list->room ? 2 * list->room : 64;
        uint32_t *rows = realloc(list->rows, room * sizeof *rows);

        if (!rows)
            return false;
        list->rows = rows;
        list->room = room;
    }
    list->rows[list->n++] = row;
    return true;
}

struct walk {
    const struct sv_shared_fabric *b;
    const struct sv_route_key *route;
    struct sv_path *scratch;
    struct list dests, links, at; /* `at`: ports through which a copy entered a switch */
    uint8_t *seen;                /* a bit for each switch */
};

/* One copy leaves `egress`. False: out of memory. */
static bool send(struct walk *w, uint32_t egress, uint32_t in)
{
    w->scratch->links = 0;
    if (!sv_cross(w->b, w->route, egress, in, w->scratch) && !w->scratch->links)
        return true; /* the copy did not leave the port */
    if (!push(&w->links, egress))
        return false;
    if (w->scratch->reason != SV_OK) { /* lost on arrival */
        w->scratch->reason = SV_OK;
        return true;
    }
    uint32_t peer = (uint32_t)w->b->port_peer[egress], node = (uint32_t)w->b->port_node[peer];

    if (!sv_is_switch(w->b, node))
        return push(&w->dests, peer);
    uint32_t row = (uint32_t)w->b->switch_of_node[node];
    /* A loop in the tables would multiply packets forever; here each switch forwards only one copy. */
    if (w->seen[row >> 3] & 1 << (row & 7))
        return true;
    w->seen[row >> 3] |= (uint8_t)(1 << (row & 7));
    return push(&w->at, peer);
}

/* Forward a copy that entered a switch through `in`: send it through every port of the multicast mask except `in`. */
static bool forward(struct walk *w, uint32_t in)
{
    const struct sv_shared_fabric *b = w->b;
    uint32_t node = (uint32_t)b->port_node[in], row = (uint32_t)b->switch_of_node[node];
    unsigned mlid = w->route->dlid - SV_LID_MCAST_MIN;
    const uint8_t *info = b->switch_info + 64 * (size_t)row;

    unsigned top = sv_get16(info + SV_MCAST_FDB_TOP_AT);

    if (mlid >= b->mlids || mlid >= sv_get16(info + SV_MCAST_FDB_CAP_AT) || (top && w->route->dlid > top))
        return true;
    const uint16_t *masks = b->mft + ((size_t)row * b->mlids + mlid) * b->mft_positions;

    for (uint64_t position = 0; position < b->mft_positions; position++)
        for (unsigned mask = masks[position]; mask; mask &= mask - 1) {
            unsigned out = (unsigned)(16 * position) + (unsigned)__builtin_ctz(mask);
            uint32_t egress = (uint32_t)(b->node_base[node] + (int32_t)out);

            if (!out || out > b->node_nports[node] || egress == in) /* port 0: the switch itself, which runs no QP */
                continue;
            w->scratch->reason = SV_OK;
            if (!send(w, egress, in))
                return false;
        }
    return true;
}

int sv_tree_walk(const struct sv_shared_fabric *b, const struct sv_route_key *route, struct sv_tree *tree)
{
    struct sv_path scratch = { .reason = SV_OK, .mtu = 5 };
    struct walk w = { .b = b, .route = route, .scratch = &scratch };
    bool fine;

    memset(tree, 0, sizeof *tree);
    tree->epoch = sv_shared_fabric_epoch(b);
    if (route->dlid < SV_LID_MCAST_MIN || route->dlid == SV_LID_PERMISSIVE) {
        tree->reason = SV_NO_ROUTE;
        return 0;
    }
    w.seen = calloc(1, b->switches / 8 + 1);
    fine = w.seen && send(&w, route->port, SV_NO_PORT);
    if (!w.links.n)
        tree->reason = scratch.reason;
    for (uint32_t i = 0; fine && i < w.at.n; i++)
        fine = forward(&w, w.at.rows[i]);
    free(w.seen);
    free(w.at.rows);
    tree->dests = w.dests.rows;
    tree->dests_n = w.dests.n;
    tree->egress = w.links.rows;
    tree->links_n = w.links.n;
    if (!fine)
        sv_tree_free(tree);
    return fine ? 0 : -ENOMEM;
}

void sv_tree_free(struct sv_tree *tree)
{
    free(tree->dests);
    free(tree->egress);
    memset(tree, 0, sizeof *tree);
}
