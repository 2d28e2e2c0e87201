/* Memory windows. Binding one of type 2 by a work request: engine/request.c. */
#include "abi.h"
#include "../engine/keys.h"
#include "../engine/send.h"
#include "../memory/heap/key_table.h"

#include <errno.h>
#include <stdlib.h>

struct ibv_mw *va_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct ibv_mw *mw;
    struct softib_key *k;
    uint32_t key;

    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
        errno = EINVAL;
        return NULL;
    }
    if (!va_count(pd->context, VA_MW))
        return NULL;
    mw = calloc(1, sizeof *mw);
    k = mw ? vm_key_take(&va_engine.w, &key) : NULL;
    if (!k) {
        free(mw);
        va_uncount(pd->context, VA_MW);
        errno = ENOMEM;
        return NULL;
    }
    k->access = 0;
    k->address = k->iova = k->length = k->users = 0;
    k->file = 0;
    k->domain = va_domain(pd);
    k->kind = type == IBV_MW_TYPE_2 ? SOFTIB_KEY_WINDOW_2 : SOFTIB_KEY_WINDOW;
    k->qpn = 0;
    vm_key_publish(k, key);
    *mw = (struct ibv_mw){ .context = pd->context, .pd = pd, .rkey = key, .handle = key, .type = type };
    va_pd_hold(va_pd(pd));
    return mw;
}

int va_dealloc_mw(struct ibv_mw *mw)
{
    struct softib_key *k = vm_key(&va_engine.w, mw->handle);

    k->file = 0; /* the file is the region's */
    if (k->length && k->users)
        __atomic_fetch_sub(&vm_key(&va_engine.w, k->users)->users, 1, __ATOMIC_RELEASE);
    k->users = 0;
    vm_key_give(k);
    va_free_key(k);
    va_uncount(mw->context, VA_MW);
    va_pd_leave(va_pd(mw->pd));
    free(mw);
    return 0;
}

int va_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct ve_qp *q = (struct ve_qp *)qp;
    struct ve_wr wr = {
        .wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW, .flags = bind->send_flags, .mw = mw, .bind = bind->bind_info,
        .rkey = (mw->rkey & ~0xFFu) | ((mw->rkey + 1) & 0xFF),
    };
    int error;

    if (mw->type != IBV_MW_TYPE_1 || (bind->bind_info.mr && bind->bind_info.mr->pd != mw->pd))
        return errno = EINVAL;
    ve_spin_lock(&q->lock);
    error = va_check(q, &wr);
    if (!error)
        error = ve_post(q, &wr);
    ve_spin_unlock(&q->lock);
    if (!error)
        mw->rkey = wr.rkey;
    return error ? (errno = error) : 0;
}
