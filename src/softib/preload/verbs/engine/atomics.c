/* FETCH & ADD and COMPARE & SWAP at the responder (IBA 9.4.5). */
#include "keys.h"
#include "message.h"
#include "../memory/locks.h"

#include <errno.h>
#include <string.h>

static uint64_t changed(const struct ve_wr *wr, uint64_t old)
{
    if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        return old + wr->compare;
    return old == wr->compare ? wr->swap : old;
}

struct ve_outcome ve_atomic(struct message *m)
{
    struct ve_engine *e = m->q->e;
    struct ve_outcome outcome = ve_done(IBV_WC_SUCCESS);
    struct ve_part part;
    uint64_t old = 0, new;
    uint32_t *lock;
    int error = 0;

    if (m->wr->remote % 8 || !m->peer->dest_reads)
        return ve_refuse(m, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
    if (!ve_reach(m, IBV_ACCESS_REMOTE_ATOMIC, 8, &part))
        return ve_refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    lock = &vm_head(&e->w)->atomic_lock[m->peer->node % SOFTIB_VERBS_ATOMIC_LOCKS];
    vm_lock(&e->w, lock);
    if (part.here && !part.key) { /* in this case the operation is also atomic for the processor, at no cost */
        uint64_t *at = (uint64_t *)(void *)part.here;

        old = __atomic_load_n(at, __ATOMIC_ACQUIRE);
        while (!__atomic_compare_exchange_n(at, &old, changed(m->wr, old), false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            ;
    } else {
        struct iovec word = { &old, 8 };

        error = ve_get(e, m->process, &part, 1, &word, 1);
        new = changed(m->wr, old);
        word.iov_base = &new;
        if (!error && new != old)
            error = ve_put(e, m->process, &part, 1, &word, 1);
    }
    vm_unlock(lock);
    if (error == -EFAULT)
        return ve_refuse(m, IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    if (error)
        return ve_copy_failed(error, IBV_WC_REM_ACCESS_ERR);
    for (unsigned i = 0, n = 0; i < m->iov_n; n += (unsigned)m->iov[i++].iov_len)
        if (m->iov[i].iov_len)
            memcpy(m->iov[i].iov_base, (char *)&old + n, m->iov[i].iov_len);
    outcome.byte_len = 8;
    return outcome;
}
