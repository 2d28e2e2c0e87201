#include "ways.h"

#include "../scheduling/sq_sched.h"

#include <stdlib.h>

static void take(struct ve_qp *q, unsigned way)
{
    if (way == q->route.way)
        return;
    q->ways[q->route.way] = q->flow;
    q->flow = q->ways[way];
    q->ways[way].cell = NULL; /* the current flow has it */
    q->route.way = q->return_route.way = (uint16_t)way;
}

void ve_way_next(struct ve_qp *q)
{
    unsigned n = q->ways_n, way;

    if (n < 2)
        return;
    if (ve_modes & VE_PACED)
        way = ve_scheduled_way(q);
    else if (q->flow.keep_us)
        way = q->s->qpn; /* BOUNDED: the flows of a pair of ports spread */
    else
        way = q->route.way + 1u;
    take(q, way % n);
}

void ve_ways_fit(struct ve_qp *q)
{
    struct sv_flow *ways;

    if (q->flow.ways < 2)
        ve_ways_drop(q);
    if (q->flow.ways < 2 || q->flow.ways <= q->ways_n)
        return;
    ways = realloc(q->ways, q->flow.ways * sizeof *ways);
    if (!ways)
        return; /* the flow stays on the paths that it has */
    q->ways = ways;
    while (q->ways_n < q->flow.ways)
        ways[q->ways_n++] = (struct sv_flow){ .epoch = UINT64_MAX }; /* walked when it is taken */
}

void ve_ways_drop(struct ve_qp *q)
{
    for (unsigned i = 0; i < q->ways_n; i++)
        sv_flow_end(&q->ways[i]);
    free(q->ways);
    q->ways = NULL;
    q->ways_n = 0;
    q->route.way = q->return_route.way = 0;
}
