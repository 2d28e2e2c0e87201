/* Adaptive routing: the path that the next message of a queue pair takes. */
#include "flows.h"

#include "../scheduling/sq_sched.h"

#include <stdlib.h>

static void take(struct ve_qp *q, unsigned number)
{
    if (number == q->route.number)
        return;
    q->flows[q->route.number] = q->flow;
    q->flow = q->flows[number];
    q->flows[number].cell = NULL; /* the current flow uses it */
    q->route.number = q->return_route.number = (uint16_t)number;
}

void ve_flow_next(struct ve_qp *q)
{
    unsigned n = q->flows_n, number;

    if (n < 2)
        return;
    if (ve_modes & VE_PACED)
        number = ve_scheduled_path(q);
    else if (q->flow.keep_us)
        number = q->s->qpn; /* BOUNDED: different QPs between two ports take different paths */
    else
        number = q->route.number + 1u;
    take(q, number % n);
}

void ve_flows_fit(struct ve_qp *q)
{
    struct sv_flow *flows;

    if (q->flow.choices < 2)
        ve_flows_drop(q);
    if (q->flow.choices < 2 || q->flow.choices <= q->flows_n)
        return;
    flows = realloc(q->flows, q->flow.choices * sizeof *flows);
    if (!flows)
        return; /* the flow keeps its paths */
    q->flows = flows;
    while (q->flows_n < q->flow.choices)
        flows[q->flows_n++] = (struct sv_flow){ .epoch = UINT64_MAX }; /* walked when a message takes it */
}

void ve_flows_drop(struct ve_qp *q)
{
    for (unsigned i = 0; i < q->flows_n; i++)
        sv_flow_end(&q->flows[i]);
    free(q->flows);
    q->flows = NULL;
    q->flows_n = 0;
    q->route.number = q->return_route.number = 0;
}
