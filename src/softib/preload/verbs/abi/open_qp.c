/* Handles of XRC targets (ibv_open_qp(3)). */
#include "abi.h"
#include "../engine/quiesce.h"
#include "../memory/hazards.h"
#include "../memory/number_table.h"

#include <errno.h>
#include <stdlib.h>

/* A handle's own part. */
static struct va_qp *handle_of(struct ibv_context *context, const struct ibv_qp_open_attr *attr, struct va_qp *root,
                               struct softib_qp *s)
{
    struct va_qp *v = calloc(1, sizeof *v);

    if (!v)
        return NULL;
    v->root = root;
    v->xrcd = (struct va_xrcd *)attr->xrcd;
    v->q.e = &va_engine;
    v->q.s = s;
    v->q.at = (uint64_t)((char *)s - va_engine.w.base);
    v->q.device = va_context(context)->device;
    v->q.init = (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_XRC_RECV };
    v->q.state = s->state;
    v->q.ex.qp_base = (struct ibv_qp){
        .context = context, .qp_context = attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL,
        .handle = attr->qp_num, .qp_num = attr->qp_num, .state = s->state, .qp_type = IBV_QPT_XRC_RECV,
    };
    ve_spin_init(&v->q.lock);
    pthread_mutex_init(&v->q.ex.qp_base.mutex, NULL);
    pthread_cond_init(&v->q.ex.qp_base.cond, NULL);
    return v;
}

/* One more process has it open. False: the last has just closed it. */
static bool join(struct softib_qp *s)
{
    uint16_t n = __atomic_load_n(&s->handles, __ATOMIC_ACQUIRE);

    while (n && !__atomic_compare_exchange_n(&s->handles, &n, (uint16_t)(n + 1), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return n;
}

/* An XRC target, of this process or of another: each handle keeps it alive (ibv_open_qp(3)). */
struct ibv_qp *va_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
    const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    struct va_qp *v = NULL, *root;
    struct softib_qp *s;
    uint64_t *hazard;

    errno = EINVAL;
    if ((attr->comp_mask & needed) != needed || attr->qp_type != IBV_QPT_XRC_RECV)
        return NULL;
    s = vm_number_hold(&va_engine.w, attr->qp_num, &hazard);
    if (!s)
        return NULL;
    if (s->is == SOFTIB_IS_QP && s->type == IBV_QPT_XRC_RECV && s->xrcd == ((struct va_xrcd *)attr->xrcd)->domain) {
        root = s->process == va_engine.w.process ? (struct va_qp *)(uintptr_t)s->user : NULL;
        if (root || join(s))
            v = handle_of(context, attr, root, s);
        if (v)
            __atomic_fetch_add(root ? &root->handles : &v->xrcd->users, 1, __ATOMIC_ACQ_REL);
    }
    vm_hazard_end(hazard);
    return v ? &v->q.ex.qp_base : NULL;
}
