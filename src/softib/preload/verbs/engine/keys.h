/* Lookup of keys: regions, windows, imported regions. */
#ifndef SOFTIB_VERBS_ENGINE_KEYS_H
#define SOFTIB_VERBS_ENGINE_KEYS_H

#include "copy.h"
#include "queue_pair/qp.h"

/*
 * Look up [address, address + length) through `key` of `process`, with all rights of `access`, in
 * `domain`. A window of type 2 is valid only for the responder's QP `qpn`; local requests and
 * receives (`qpn` 0) cannot use windows. False: access denied.
 */
bool ve_resolve(struct ve_engine *e, uint32_t key, uint64_t address, uint64_t length, unsigned access, uint32_t domain,
                uint32_t process, uint32_t qpn, struct ve_part *part);
/* Hold the owner of the imported key of `part` until vm_hazard_end(*hazard). False: the key is no
 * longer valid, and nothing is held. */
bool ve_hold_part(struct ve_engine *e, const struct ve_part *part, uint64_t **hazard);
/* Bind `mw` to `info` (SQ, or ibv_bind_mw) with the new key `key`. */
enum ibv_wc_status ve_bind(struct ve_qp *q, struct ibv_mw *mw, uint32_t key, const struct ibv_mw_bind_info *info);
/* LOCAL_INV, SEND_WITH_INV: unbind the window of type 2 with `key`. */
bool ve_invalidate(struct ve_engine *e, uint32_t key, uint32_t process, uint32_t domain, uint32_t qpn);

#endif
