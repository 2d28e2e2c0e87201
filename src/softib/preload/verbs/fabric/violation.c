/*
 * Key violations at the end of a path: this process has one cell for each port and kind of violation. The cell
 * increments only the counter of that kind; the daemon raises the trap (agents/kernels/app_traffic.py).
 */
#include "internal.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define VIOLATION_CELLS 64
#define NAMED_NS 10000000 /* minimum time for which a cell keeps the data of one violator (traps are sent less often) */

struct violation_cell {
    struct softib_cell *cell;
    uint32_t port;
    uint8_t kind;           /* SOFTIB_DROP_* */
    uint64_t since;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct violation_cell violation_cells[VIOLATION_CELLS];
static uint32_t owner;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool names(const struct softib_cell *cell, const struct sv_label *label)
{
    return cell->key == label->key && !memcmp(cell->qp, label->qp, sizeof label->qp) && cell->slid == label->slid &&
           cell->dlid == label->dlid && cell->sl == label->sl;
}

static void count(uint8_t kind, uint32_t port, const struct sv_label *label)
{
    struct violation_cell *at = &violation_cells[(port * 2 + kind) % VIOLATION_CELLS];
    struct sv_direction directions[2] = { { NULL, 0, port, kind }, { NULL, 0, SV_NO_PORT, SOFTIB_DROP_NONE } };

    if (owner != sv_fabric_process()) /* a forked child does not write the parent's cells */
        memset(violation_cells, 0, sizeof violation_cells);
    owner = sv_fabric_process();
    if (at->cell && (at->port != port || at->kind != kind ||
                     (!names(at->cell, label) && now_ns() - at->since > NAMED_NS))) {
        sv_cell_retire(at->cell);
        at->cell = NULL;
    }
    if (!at->cell)
        *at = (struct violation_cell){ sv_cell_new(sv_fabric_cells, directions, label), port, kind, now_ns() };
    if (at->cell)
        sv_cell_count(at->cell, 0, 1, 0);
}

static void violation(uint8_t kind, uint32_t port, const struct sv_route_key *route, uint32_t key, const uint32_t qp[2])
{
    struct sv_label label = {
        .key = key, .qp = { qp[0], qp[1] }, .slid = sv_lid(&sv_shared_fabric, route->port), .dlid = route->dlid, .sl = route->sl,
    };

    pthread_mutex_lock(&lock);
    count(kind, port, &label);
    pthread_mutex_unlock(&lock);
}

void sv_qkey_violation(uint32_t port, const struct sv_route_key *route, uint32_t qkey, const uint32_t qp[2])
{
    violation(SOFTIB_DROP_QKEY, port, route, qkey, qp);
}

void sv_pkey_violation(uint32_t port, const struct sv_route_key *route, uint32_t pkey, const uint32_t qp[2])
{
    violation(SOFTIB_DROP_PKEY, port, route, pkey, qp);
}
