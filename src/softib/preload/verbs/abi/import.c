/* Regions and device memory of other processes that share a context's descriptor (ibv_import_mr(3), ibv_import_dm(3)). */
#include "abi.h"
#include "../memory/key_table.h"
#include "../memory/locks.h"
#include "../memory/number_table.h"

#include <errno.h>
#include <stdlib.h>

/*
 * The region's addresses are those of who registered it; here it is named by its keys alone. Each who has it may end it for all
 * (dereg_mr), and then nobody copies there any more; the others' requests fail like those with any wrong key, and they may
 * but unimport it (the man page).
 */
/* Of device memory of a third process: two would have to be waited for. */
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
