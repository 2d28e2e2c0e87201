/* Executes one request of a queue pair. */
#ifndef SOFTIB_VERBS_ENGINE_REQUEST_H
#define SOFTIB_VERBS_ENGINE_REQUEST_H

#include <sys/uio.h>

#include "outcome.h"
#include "queue_pair/qp.h"

struct ve_outcome ve_request(struct ve_qp *q, const struct ve_wr *wr);
struct ve_outcome ve_datagram(struct ve_qp *q, const struct ve_wr *wr);
/* Look up the local memory of a request. LOC_PROT_ERR if a key is wrong. */
enum ibv_wc_status ve_gather(struct ve_qp *q, const struct ve_wr *wr, unsigned access, struct iovec *iov, unsigned *n,
                             uint64_t *length);

/* -- sge_bounce.c: local memory of another process that is not mapped here -- */

enum ibv_wc_status ve_bounce_in(struct ve_qp *q, const struct ve_wr *wr, unsigned access, struct iovec *iov, unsigned *n,
                             uint64_t *length);
enum ibv_wc_status ve_bounce_out(struct ve_qp *q, bool changed);

#endif
