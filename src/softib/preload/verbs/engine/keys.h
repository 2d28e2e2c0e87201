/* What keys open: regions, windows, imported regions. */
#ifndef SOFTIB_VERBS_ENGINE_KEYS_H
#define SOFTIB_VERBS_ENGINE_KEYS_H

#include "copy.h"
#include "queue_pair/qp.h"

/*
 * Memory behind `key` of `process`: [address, address + length) with every right of `access`, in `domain`. Windows of type 2
 * only for the responder's QP `qpn`; no windows at all for the process's own requests and receives (`qpn` 0). False where
 * it is not so.
 */
bool ve_resolve(struct ve_engine *e, uint32_t key, uint64_t address, uint64_t length, unsigned access, uint32_t domain,
                uint32_t process, uint32_t qpn, struct ve_part *part);
/* Does the imported key of `part` still open it? Its owner is held from now on, until vm_hazard_end(*hazard); false: it is not. */
bool ve_hold_part(struct ve_engine *e, const struct ve_part *part, uint64_t **hazard);
/* Binds `mw` as `info` says (SQ, or ibv_bind_mw); `key` is what it will have. */
enum ibv_wc_status ve_bind(struct ve_qp *q, struct ibv_mw *mw, uint32_t key, const struct ibv_mw_bind_info *info);
/* LOCAL_INV, SEND_WITH_INV: the window of type 2 with `key` is unbound. */
bool ve_invalidate(struct ve_engine *e, uint32_t key, uint32_t process, uint32_t domain, uint32_t qpn);

#endif
