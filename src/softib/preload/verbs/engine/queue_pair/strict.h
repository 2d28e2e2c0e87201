/*
 * SOFTIB_STRICT: vary all behaviour that the specification leaves open, and report incorrect use on
 * stderr with the call's backtrace. Each problem is reported once per code location. Callers check
 * ve_modes first.
 */
#ifndef SOFTIB_VERBS_STRICT_H
#define SOFTIB_VERBS_STRICT_H

#include <infiniband/verbs.h>

#include "../scheduling/sq_sched.h"

struct softib_srq;

/* Print one line and the program's backtrace. */
void ve_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Like ve_warn, but once per code location and `kind` (compared by address): for formats that report several kinds of
 * problems. */
void ve_warn_of(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline bool ve_is_strict(void)
{
    return ve_modes & VE_STRICT;
}

/* Scramble the undefined fields of a completion in error: all but wr_id, status, qpn and vendor_err
 * (IBA 11.4.2.1; ibv_poll_cq(3)). */
void ve_scramble(struct softib_cqe *cqe);
void ve_scramble_wc(struct ibv_wc *wc);
/* The order of receives in an SRQ is unspecified: move another posted receive to the front. The SRQ
 * is locked. */
void ve_shuffle(struct ve_engine *e, struct softib_srq *srq);
/* Return the seed of an SRQ's order (0: order of posting). */
uint32_t ve_shuffle_seed(void);

/* -- pitfalls -- */

void ve_strict_made(struct ve_qp *q);
void ve_strict_destroyed(struct ve_qp *q);
void ve_strict_modified(struct ve_qp *q, const struct ibv_qp_attr *attr, int mask, int ignored, enum ibv_qp_state from, int error);
/* Address handles: check a new one. */
void ve_strict_address(const struct ibv_ah_attr *ah);
void ve_strict_posted(struct ve_qp *q, const struct ve_wr *wr);
/* ibv_post_send returns `error` for `wr`. */
void ve_strict_not_posted(const struct ve_qp *q, const struct ibv_send_wr *wr, int error);
/* A receive queue of `size` entries is full: `waiting` of them wait for a message. */
void ve_strict_no_place(const char *call, uint32_t number, uint32_t size, uint32_t waiting);
/* A region with `key` is deregistered: report posted requests that use it. */
void ve_strict_dereg(uint32_t key);
/* A CQ is destroyed, or polled. */
void ve_strict_cq_ends(struct ve_engine *e, uint64_t cq);
void ve_strict_cq_polled(struct ve_engine *e, uint64_t cq);
/* The first pending request found no receive again. */
void ve_strict_not_ready(struct ve_qp *q, uint64_t now);

#endif
