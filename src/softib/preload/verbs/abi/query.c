/* Attributes of devices and ports. */
#include "abi.h"

#include <endian.h>
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

static void fill_device(const struct sv_device *d, struct ibv_device_attr *a)
{
    memset(a, 0, sizeof *a);
    snprintf(a->fw_ver, sizeof a->fw_ver, "%s", d->fw);
    a->node_guid = htobe64(d->node_guid);
    a->sys_image_guid = htobe64(d->sys_image_guid);
    a->max_mr_size = UINT64_MAX;
    a->page_size_cap = 0xFFFFFFFFFFFFF000;
    a->vendor_id = d->vendor_id;
    a->vendor_part_id = d->vendor_part_id;
    a->hw_ver = d->hw_ver;
    a->max_qp = va_most(VA_QP);
    a->max_qp_wr = VA_MAX_SEND;
    a->device_cap_flags = IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR | IBV_DEVICE_CHANGE_PHY_PORT |
                          IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                          IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS |
                          IBV_DEVICE_XRC | IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SRQ_RESIZE;
    a->max_sge = VA_MAX_SGES;
    a->max_sge_rd = VA_MAX_SGES;
    a->max_cq = va_most(VA_CQ);
    a->max_cqe = VA_MAX_CQE;
    a->max_mr = va_most(VA_MR);
    a->max_pd = va_most(VA_PD);
    a->max_qp_rd_atom = a->max_qp_init_rd_atom = VA_MAX_RD_ATOM;
    a->max_res_rd_atom = VA_MAX_RD_ATOM * a->max_qp;
    a->atomic_cap = IBV_ATOMIC_HCA;
    a->max_mw = va_most(VA_MW);
    a->max_mcast_grp = 16384;
    a->max_mcast_qp_attach = 65536;
    a->max_total_mcast_qp_attach = SOFTIB_VERBS_MEMBERS_N;
    a->max_ah = va_most(VA_AH);
    a->max_srq = va_most(VA_SRQ);
    a->max_srq_wr = VA_MAX_SEND - 1;
    a->max_srq_sge = VA_MAX_SGES;
    a->max_pkeys = 128;
    a->local_ca_ack_delay = 15;
    a->phys_port_cnt = d->ports;
}

VA_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    fill_device(va_context(context)->device, attr);
    return 0;
}

int va_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                       struct ibv_device_attr_ex *attr, size_t size)
{
    struct ibv_device_attr_ex all = { .completion_timestamp_mask = UINT64_MAX, .hca_core_clock = 1000000 };

    if (input && input->comp_mask)
        return errno = EINVAL;
    fill_device(va_context(context)->device, &all.orig_attr);
    all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
    all.phys_port_cnt_ex = all.orig_attr.phys_port_cnt;
    all.max_dm_size = VA_MAX_DM;
    all.tm_caps = (struct ibv_tm_caps){ .max_rndv_hdr_size = VA_MAX_RNDV_HEADER, .max_num_tags = VA_MAX_TAGS,
                                        .flags = IBV_TM_CAP_RC, .max_ops = VA_MAX_TAG_OPS, .max_sge = VA_MAX_TAG_SGES };
    va_odp_caps(&all);
    memset(attr, 0, size);
    memcpy(attr, &all, size < sizeof all ? size : sizeof all);
    return 0;
}

int va_query_port(struct ibv_context *context, uint8_t portnum, struct ibv_port_attr *attr, size_t size)
{
    struct ibv_port_attr a = { 0 };
    uint32_t row = sv_port_row(va_context(context)->device, portnum);
    struct sv_port p;

    if (!portnum || row == SV_NO_PORT)
        return errno = EINVAL;
    sv_port_read(row, &p);
    a.state = p.state;
    a.max_mtu = p.max_mtu;
    a.active_mtu = p.active_mtu;
    a.gid_tbl_len = p.gid_tbl_len;
    a.port_cap_flags = p.cap_mask;
    a.port_cap_flags2 = p.cap_mask2;
    a.max_msg_sz = 1u << 30;
    a.bad_pkey_cntr = p.bad_pkeys;
    a.qkey_viol_cntr = p.bad_qkeys;
    a.pkey_tbl_len = p.pkey_tbl_len;
    a.lid = p.lid;
    a.sm_lid = p.sm_lid;
    a.lmc = p.lmc;
    a.max_vl_num = p.max_vl_num;
    a.sm_sl = p.sm_sl;
    a.subnet_timeout = p.subnet_timeout;
    a.init_type_reply = p.init_type_reply;
    a.active_width = p.active_width;
    a.active_speed = (uint8_t)p.active_speed;
    a.phys_state = p.phys_state;
    a.link_layer = p.is_ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    a.flags = p.is_ethernet ? IBV_QPF_GRH_REQUIRED : 0;
    memcpy(attr, &a, size < sizeof a ? size : sizeof a);
    return 0;
}

VA_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t portnum, struct _compat_ibv_port_attr *attr)
{
    /* Programs linked with the older version of this symbol have a structure that ends before port_cap_flags2. */
    return va_query_port(context, portnum, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

VA_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t portnum, int index, union ibv_gid *gid)
{
    uint32_t row = sv_port_row(va_context(context)->device, portnum);

    if (!portnum || row == SV_NO_PORT || index < 0 || sv_port_gid(row, (unsigned)index, gid->raw)) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

VA_EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t portnum, unsigned index, int *type)
{
    union ibv_gid gid;
    uint32_t row = sv_port_row(va_context(context)->device, portnum);

    /* enum ibv_gid_type_sysfs: InfiniBand and RoCE v1 are 0, RoCE v2 is 1 */
    *type = portnum && row != SV_NO_PORT && sv_is_ethernet(&sv_shared_fabric, row) && sv_roce_is_v2(index);
    return ibv_query_gid(context, portnum, (int)index, &gid);
}

static int fill_gid(struct ibv_context *context, uint32_t portnum, uint32_t index, struct ibv_gid_entry *entry)
{
    uint32_t row = sv_port_row(va_context(context)->device, portnum);

    if (!portnum || row == SV_NO_PORT)
        return errno = EINVAL;
    memset(entry, 0, sizeof *entry);
    if (sv_port_gid(row, index, entry->gid.raw))
        return errno = EINVAL;
    entry->gid_index = index;
    entry->port_num = portnum;
    if (sv_is_ethernet(&sv_shared_fabric, row)) {
        entry->gid_type = sv_roce_is_v2(index) ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
        entry->ndev_ifindex = if_nametoindex("lo"); /* the interface that has the address */
    }
    return 0;
}

VA_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t portnum, uint32_t index, struct ibv_gid_entry *entry,
                                uint32_t flags, size_t size)
{
    static const union ibv_gid none;
    struct ibv_gid_entry e;
    int error = flags ? EOPNOTSUPP : fill_gid(context, portnum, index, &e);

    if (!error && !memcmp(e.gid.raw, none.raw, 16))
        return errno = ENODATA;
    if (!error)
        memcpy(entry, &e, size < sizeof e ? size : sizeof e);
    return error;
}

VA_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max, uint32_t flags,
                                       size_t size)
{
    static const union ibv_gid none;
    size_t n = 0;

    if (flags || size < sizeof *entries)
        return flags ? -EOPNOTSUPP : -EINVAL;
    for (unsigned portnum = 1; portnum <= va_context(context)->device->ports; portnum++) {
        struct ibv_gid_entry e;

        for (uint32_t i = 0; !fill_gid(context, portnum, i, &e); i++) {
            if (!memcmp(e.gid.raw, none.raw, 16))
                continue;
            if (n == max)
                return -EINVAL;
            memcpy((char *)entries + size * n++, &e, sizeof e);
        }
    }
    return (ssize_t)n;
}

VA_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t portnum, int index, __be16 *pkey)
{
    uint32_t row = sv_port_row(va_context(context)->device, portnum);
    uint16_t value;

    if (!portnum || row == SV_NO_PORT || index < 0 || sv_port_pkey(row, (unsigned)index, &value)) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htobe16(value);
    return 0;
}

VA_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t portnum, __be16 pkey)
{
    __be16 value;

    for (int i = 0; !ibv_query_pkey(context, portnum, i, &value); i++)
        if (value == pkey)
            return i;
    errno = EINVAL;
    return -1;
}
