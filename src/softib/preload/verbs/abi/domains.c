/* Protection domains, thread domains, address handles, multicast; objects of other processes that share a domain. */
#include "abi.h"
#include "../engine/queue_pair/members.h"
#include "../engine/queue_pair/modify.h"
#include "../engine/queue_pair/strict.h"
#include "../engine/scheduling/sq_sched.h"
#include "../memory/heap/key_table.h"
#include "../memory/heap/number_table.h"
#include "../memory/locks.h"

#include <errno.h>
#include <netinet/ip.h>
#include <stdlib.h>
#include <string.h>

VA_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct va_pd *p = va_counted(context, VA_PD, sizeof *p);

    if (!p)
        return NULL;
    p->pd.context = context;
    p->pd.handle = p->domain = __atomic_add_fetch(&vm_head(&va_engine.w)->domain_next, 1, __ATOMIC_RELAXED);
    return &p->pd;
}

VA_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    struct va_pd *p = va_pd(pd);

    if (__atomic_load_n(&p->users, __ATOMIC_ACQUIRE) > p->imported)
        return errno = EBUSY;
    if (p->parent)
        va_pd_leave(p->parent);
    if (!p->imported)
        va_uncount(pd->context, VA_PD);
    free(p);
    return 0;
}

struct ibv_pd *va_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
    struct va_pd *p;

    if (!attr->pd || attr->comp_mask & ~(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)) {
        errno = attr->pd ? EOPNOTSUPP : EINVAL;
        return NULL;
    }
    p = va_counted(context, VA_PD, sizeof *p);
    if (!p)
        return NULL;
    p->pd.context = context;
    p->parent = va_pd(attr->pd);
    p->pd.handle = p->domain = p->parent->domain;
    va_pd_hold(p->parent);
    return &p->pd;
}

struct ibv_td *va_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    struct va_td *t = attr->comp_mask ? NULL : calloc(1, sizeof *t);

    if (!t) {
        errno = attr->comp_mask ? EINVAL : ENOMEM;
        return NULL;
    }
    t->td.context = context;
    return &t->td;
}

int va_dealloc_td(struct ibv_td *td)
{
    free(td);
    return 0;
}

/* Return another handle of this process for a domain that another process created; the process shares its device
 * descriptor. */
VA_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
    bool given = handle && handle <= __atomic_load_n(&vm_head(&va_engine.w)->domain_next, __ATOMIC_RELAXED);
    struct va_pd *p = given ? calloc(1, sizeof *p) : NULL;

    if (!p) {
        errno = given ? ENOMEM : EINVAL;
        return NULL;
    }
    p->pd.context = context;
    p->pd.handle = p->domain = handle;
    p->imported = true;
    p->users = 1; /* the import itself */
    return &p->pd;
}

void va_pd_leave(struct va_pd *p)
{
    if (__atomic_fetch_sub(&p->users, 1, __ATOMIC_ACQ_REL) == 1 && p->imported)
        free(p);
}

/* Objects created with the domain may outlive this handle, and use the domain when they are destroyed. */
VA_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
    va_pd_leave(va_pd(pd));
}

/* -- address handles -- */

VA_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct ve_ah *ah;
    uint32_t row = sv_port_row(va_context(pd->context)->device, attr->port_num);
    uint8_t gid[16];
    int error;

    if (!attr->port_num || row == SV_NO_PORT ||
        (attr->is_global && sv_port_gid(row, attr->grh.sgid_index, gid))) {
        errno = EINVAL;
        return NULL;
    }
    error = sv_address_error(row, attr->is_global, attr->grh.sgid_index, attr->grh.dgid.raw, attr->dlid);
    if (error) {
        errno = error;
        return NULL;
    }
    ah = va_counted(pd->context, VA_AH, sizeof *ah);
    if (!ah)
        return NULL;
    ah->ah.context = pd->context;
    ah->ah.pd = pd;
    ah->attr = ve_path_bits(attr);
    ah->attr.dlid = sv_address_lid(row, attr->grh.dgid.raw, attr->dlid);
    ah->port = row;
    if (ve_is_strict())
        ve_strict_address(attr);
    pthread_mutex_init(&ah->lock, NULL);
    va_pd_hold(va_pd(pd));
    return &ah->ah;
}

VA_EXPORT int ibv_destroy_ah(struct ibv_ah *handle)
{
    struct ve_ah *ah = (struct ve_ah *)handle;
    bool used = ve_modes && !ve_settle(&va_engine); /* a datagram that has not been sent yet may need it */

    sv_flow_end(&ah->flow);
    sv_tree_free(&ah->tree);
    va_uncount(handle->context, VA_AH);
    va_pd_leave(va_pd(handle->pd));
    if (!used)
        free(ah);
    return 0;
}

static bool is_ethernet(struct ibv_context *context, uint8_t portnum)
{
    uint32_t row = portnum ? sv_port_row(va_context(context)->device, portnum) : SV_NO_PORT;

    return row != SV_NO_PORT && sv_is_ethernet(&sv_shared_fabric, row);
}

/* Return the index of `gid` among the port's GIDs; on Ethernet among those of RoCE v2 or v1. */
static int gid_index(struct ibv_context *context, uint8_t portnum, const union ibv_gid *gid, bool v2)
{
    union ibv_gid mine;
    bool ethernet = is_ethernet(context, portnum);

    for (int i = 0; !ibv_query_gid(context, portnum, i, &mine); i++)
        if (!memcmp(&mine, gid, sizeof mine) && (ethernet && sv_roce_is_v2((unsigned)i)) == v2)
            return i;
    return -1;
}

/* With RoCE v2 over IPv4, the second half of the room for the GRH holds the IPv4 header. False: the header is IPv6. */
static bool read_ipv4(const struct ibv_grh *grh, union ibv_gid *source, union ibv_gid *target, uint8_t *tos)
{
    struct iphdr ip;

    if (be32toh(grh->version_tclass_flow) >> 28 == 6)
        return false;
    memcpy(&ip, (const char *)grh + sizeof *grh - sizeof ip, sizeof ip);
    memset(source, 0, sizeof *source);
    memset(source->raw + 10, 0xFF, 2);
    *target = *source;
    memcpy(source->raw + 12, &ip.saddr, 4);
    memcpy(target->raw + 12, &ip.daddr, 4);
    *tos = ip.tos;
    return true;
}

VA_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t portnum, struct ibv_wc *wc, struct ibv_grh *grh,
                                  struct ibv_ah_attr *attr)
{
    union ibv_gid target;
    int index;

    memset(attr, 0, sizeof *attr);
    attr->dlid = wc->slid;
    attr->sl = is_ethernet(context, portnum) ? 0 : wc->sl;
    attr->src_path_bits = wc->dlid_path_bits;
    attr->port_num = portnum;
    if (!(wc->wc_flags & IBV_WC_GRH))
        return 0;
    attr->is_global = 1;
    attr->grh.hop_limit = 0xFF;
    if (read_ipv4(grh, &attr->grh.dgid, &target, &attr->grh.traffic_class)) {
        index = gid_index(context, portnum, &target, true);
    } else {
        attr->grh.dgid = grh->sgid;
        attr->grh.flow_label = be32toh(grh->version_tclass_flow) & 0xFFFFF;
        attr->grh.traffic_class = (uint8_t)(be32toh(grh->version_tclass_flow) >> 20);
        index = gid_index(context, portnum, &grh->dgid, grh->next_hdr == IPPROTO_UDP);
    }
    if (index < 0)
        return errno = EINVAL, -1;
    attr->grh.sgid_index = (uint8_t)index;
    return 0;
}

VA_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t portnum)
{
    struct ibv_ah_attr attr;

    return ibv_init_ah_from_wc(pd->context, portnum, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}

/* -- multicast -- */

static struct softib_member *find_member(const struct ve_qp *q, const union ibv_gid *gid, uint16_t lid)
{
    struct softib_member *members = vm_members(&va_engine.w);

    for (uint32_t i = 0; i < vm_head(&va_engine.w)->member_high; i++)
        if (members[i].qpn == q->s->qpn && !memcmp(members[i].gid, gid, 16) && members[i].mlid == lid)
            return &members[i];
    return NULL;
}

VA_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    struct ve_qp *q = (struct ve_qp *)qp;
    struct softib_verbs *head = vm_head(&va_engine.w);
    struct softib_member *members = vm_members(&va_engine.w), member;
    uint32_t i = 0;
    int error = 0;

    if (q->s->type != IBV_QPT_UD || !sv_gid_is_group(gid->raw))
        return errno = EINVAL;
    vm_lock(&va_engine.w, &head->member_lock);
    if (!find_member(q, gid, lid)) {
        while (i < head->member_high && members[i].qpn)
            i++;
        if (i == SOFTIB_VERBS_MEMBERS_N ||
            !vm_reserve_entries(&va_engine.w, SOFTIB_VERBS_MEMBERS, sizeof member, head->member_high, i, 1)) {
            error = ENOMEM;
        } else {
            member = (struct softib_member){ .qpn = q->s->qpn, .port = q->s->port, .mlid = lid,
                                             .process = (uint16_t)va_engine.w.process };
            memcpy(member.gid, gid, 16);
            ve_write_member(&members[i], &member);
            if (i == head->member_high)
                __atomic_store_n(&head->member_high, i + 1, __ATOMIC_RELEASE);
        }
    }
    vm_unlock(&head->member_lock);
    return error ? (errno = error) : 0;
}

VA_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    struct softib_member *member;

    vm_lock(&va_engine.w, &vm_head(&va_engine.w)->member_lock);
    member = find_member((struct ve_qp *)qp, gid, lid);
    if (member)
        __atomic_store_n(&member->qpn, 0, __ATOMIC_RELEASE);
    vm_unlock(&vm_head(&va_engine.w)->member_lock);
    return member ? 0 : (errno = EINVAL);
}

/* Regions and device memory of other processes that share a context's descriptor (ibv_import_mr(3), ibv_import_dm(3)). */
/*
 * The region's addresses are those of the registering process; here only its keys are used. Every process that shares
 * the region may deregister it for all (dereg_mr). After that, the key is invalid for all of them: requests that use it
 * fail as with a wrong key, and the other processes can only unimport the region (see the man page).
 */
/* Return whether the region is in device memory that a third process allocated. Its import is refused, because
 * deregistration would have to wait for two processes. */
static bool is_borrowed(const struct softib_key *k)
{
    return k->qpn && vm_number_process(__atomic_load_n(vm_number(&va_engine.w, k->qpn), __ATOMIC_ACQUIRE)) != k->process;
}

VA_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
    struct softib_key *k = vm_key(&va_engine.w, handle);
    struct va_mr *m;

    if (!handle || __atomic_load_n(&k->key, __ATOMIC_ACQUIRE) != handle || k->kind != SOFTIB_KEY_REGION ||
        k->domain != va_domain(pd) || is_borrowed(k) || !vm_lives(&va_engine.w, k->process)) {
        errno = EINVAL;
        return NULL;
    }
    m = calloc(1, sizeof *m);
    if (!m) {
        errno = ENOMEM;
        return NULL;
    }
    __atomic_fetch_or(&k->access, SOFTIB_ACCESS_IMPORTED, __ATOMIC_SEQ_CST);
    m->imported = true;
    m->mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .length = k->length, .handle = handle, .lkey = handle,
                             .rkey = handle };
    va_pd_hold(va_pd(pd));
    return &m->mr;
}

VA_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
    va_forget_mr(mr);
}
