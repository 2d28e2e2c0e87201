/*
 * Requests whose local memory belongs to another process (ibv_import_mr) and is not mapped here: data is copied in
 * before the request, and received data is copied back after it.
 */
#include "keys.h"
#include "request.h"

#include <stdlib.h>

struct ve_sge_bounce {
    uint32_t parts_n;
    uint64_t length;
    struct ve_part parts[VE_SGES];
    char data[];
};

/* Gather all memory of the request, including memory of this process, in one buffer. */
enum ibv_wc_status ve_bounce_in(struct ve_qp *q, const struct ve_wr *wr, unsigned access, struct iovec *iov, unsigned *n,
                             uint64_t *length)
{
    struct ve_sge_bounce *f;
    uint64_t at = 0;

    *length = 0;
    for (unsigned i = 0; i < wr->sges; i++)
        *length += wr->sge[i].length;
    if (*length > 1u << 31)
        return IBV_WC_LOC_LEN_ERR;
    f = malloc(sizeof *f + *length);
    if (!f)
        return IBV_WC_LOC_QP_OP_ERR;
    f->length = *length;
    f->parts_n = wr->sges;
    for (unsigned i = 0; i < wr->sges; at += wr->sge[i++].length) {
        struct iovec to = { f->data + at, wr->sge[i].length };

        f->parts[i] = (struct ve_part){ 0 };
        if (wr->sge[i].length &&
            (!ve_resolve(q->e, wr->sge[i].lkey, wr->sge[i].addr, wr->sge[i].length, access, q->s->domain, q->e->w.process, 0,
                         &f->parts[i]) ||
             ve_get(q->e, f->parts[i].process, &f->parts[i], 1, &to, 1))) {
            free(f);
            return IBV_WC_LOC_PROT_ERR;
        }
    }
    iov[0] = (struct iovec){ f->data, f->length };
    *n = 1;
    q->sge_bounce = f;
    return IBV_WC_SUCCESS;
}

enum ibv_wc_status ve_bounce_out(struct ve_qp *q, bool changed)
{
    struct ve_sge_bounce *f = q->sge_bounce;
    uint64_t at = 0;
    int error = 0;

    q->sge_bounce = NULL;
    for (unsigned i = 0; changed && !error && i < f->parts_n; at += f->parts[i++].length) {
        struct iovec from = { f->data + at, f->parts[i].length };

        if (f->parts[i].length)
            error = ve_put(q->e, f->parts[i].process, &f->parts[i], 1, &from, 1);
    }
    free(f);
    return error ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS;
}
