/*
 * The paths of a queue pair whose packets switches route adaptively. Each message takes one of them. On a paced fabric
 * it is the path that the switches would prefer when the message is posted, according to the work waiting at their
 * links (scheduling/pace.c); otherwise messages take the paths in turn. The flow of the current path is q->flow, with
 * its cell, so that counters show where packets went.
 */
#ifndef SOFTIB_VERBS_ENGINE_FLOWS_H
#define SOFTIB_VERBS_ENGINE_FLOWS_H

#include "qp.h"

/* Take the path of the next message. */
void ve_flow_next(struct ve_qp *q);
/* After a walk: keep as many paths as the walk found. */
void ve_flows_fit(struct ve_qp *q);
/* The destination changes: release all paths but the current one. */
void ve_flows_drop(struct ve_qp *q);

#endif
