/* PathRecord (IBA 15.2.5.16) as the SA sends it, and its conversion to an address vector. */
#include "cm.h"

#include <string.h>

static uint16_t be16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

void cm_read_path(const uint8_t r[64], struct cm_path *path)
{
    memcpy(path->dgid, r + 8, 16);
    memcpy(path->sgid, r + 24, 16);
    path->dlid = be16(r + 40);
    path->slid = be16(r + 42);
    path->flow_label = (uint32_t)(r[44] & 15) << 16 | be16(r + 45);
    path->hop_limit = r[47];
    path->traffic_class = r[48];
    path->reversible = r[49] >> 7;
    path->numb_path = r[49] & 127;
    path->pkey = be16(r + 50);
    path->sl = r[53] & 15;
    path->mtu_selector = r[54] >> 6;
    path->mtu = r[54] & 63;
    path->rate_selector = r[55] >> 6;
    path->rate = r[55] & 63;
    path->life_time_selector = r[56] >> 6;
    path->life_time = r[56] & 63;
    path->preference = r[57];
}

void cm_fill_ah(const struct softib_cm_reply *at, struct ib_uverbs_ah_attr *ah)
{
    struct cm_path path;

    cm_read_path(at->path, &path);
    memset(ah, 0, sizeof *ah);
    memcpy(ah->grh.dgid, path.dgid, 16);
    ah->grh.flow_label = path.flow_label;
    ah->grh.sgid_index = at->gid_index;
    ah->grh.hop_limit = path.hop_limit;
    ah->grh.traffic_class = path.traffic_class;
    ah->dlid = path.dlid;
    ah->sl = path.sl;
    ah->src_path_bits = at->path_bits;
    ah->static_rate = path.rate;
    ah->is_global = at->is_global;
    ah->port_num = at->portnum;
}
