/*
 * Automatic path migration (IBA 17.2.8). A QP with an alternate path is set to REARM; when a packet
 * passes between two QPs in REARM, both become ARMED. An armed QP migrates when it is modified to
 * MIGRATED, when its retries are exhausted, or when a request arrives from a QP that has migrated:
 * the alternate path replaces the primary one, and event PATH_MIG is raised once.
 *
 * State, port and the data for peers are in shared memory, so the process that detects the reason migrates the QP under
 * its lock. Address and timeout belong to the owner, which updates them before its next request.
 */
#include "migrate.h"
#include "../completion/events.h"
#include "modify.h"
#include "flows.h"
#include "../../memory/locks.h"

#include <string.h>

void ve_move(struct ve_engine *e, struct softib_qp *s)
{
    s->port = s->alt_port;
    s->lid = s->alt_lid;
    s->pkey_index = s->alt_pkey_index;
    sv_port_pkey(s->port, s->pkey_index, &s->pkey);
    s->alt_lid = 0; /* a new path must be loaded before the QP can be armed again */
    __atomic_store_n(&s->mig, IBV_MIG_MIGRATED, __ATOMIC_RELAXED);
    __atomic_store_n(&s->moves, (uint16_t)(s->moves + 1), __ATOMIC_RELEASE);
    ve_event(e, s->process, s->async, IBV_EVENT_PATH_MIG, s->user);
}

void ve_adopt(struct ve_qp *q)
{
    struct ibv_qp_attr *a = &q->attr;
    uint16_t moves = __atomic_load_n(&q->s->moves, __ATOMIC_ACQUIRE);

    if (moves == q->moves)
        return;
    q->moves = moves;
    a->ah_attr = a->alt_ah_attr;
    a->port_num = a->alt_port_num;
    a->pkey_index = a->alt_pkey_index;
    a->timeout = q->timeout = a->alt_timeout;
    q->route.dlid = a->ah_attr.dlid;
    q->route.sl = a->ah_attr.sl;
    q->route.is_global = a->ah_attr.is_global;
    memcpy(q->route.dgid, a->ah_attr.grh.dgid.raw, 16);
    ve_flows_drop(q);
    ve_qp_walk(q);
}

bool ve_migrate(struct ve_qp *q)
{
    bool armed;

    vm_lock(&q->e->w, &q->s->lock);
    armed = __atomic_load_n(&q->s->mig, __ATOMIC_RELAXED) == IBV_MIG_ARMED;
    if (armed)
        ve_move(q->e, q->s);
    vm_unlock(&q->s->lock);
    if (armed)
        ve_adopt(q);
    return armed;
}

/* REARM becomes ARMED; a peer may do this at the same time. */
static void arm(struct softib_qp *s)
{
    uint8_t rearm = IBV_MIG_REARM;

    __atomic_compare_exchange_n(&s->mig, &rearm, IBV_MIG_ARMED, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool ve_migration(struct ve_qp *q, struct softib_qp *peer)
{
    uint8_t mine = __atomic_load_n(&q->s->mig, __ATOMIC_RELAXED), its = __atomic_load_n(&peer->mig, __ATOMIC_RELAXED);
    uint16_t lid = sv_lid(&sv_shared_fabric, q->s->port), within = (uint16_t)((1u << sv_lmc(&sv_shared_fabric, q->s->port)) - 1);

    if (mine == IBV_MIG_MIGRATED && its == IBV_MIG_ARMED) { /* MigReq = 1 */
        if (q->flow.dest == peer->alt_port && (uint16_t)(peer->alt_lid - lid) <= within) {
            ve_move(q->e, peer);
            return true;
        }
        if (!q->early)
            ve_event(q->e, peer->process, peer->async, IBV_EVENT_PATH_MIG_ERR, peer->user);
        return false;
    }
    if (q->flow.dest != peer->port)
        return false;
    if (mine != IBV_MIG_MIGRATED && its != IBV_MIG_MIGRATED) {
        arm(peer);
        if (q->s->type != IBV_QPT_UC) /* by the acknowledgement */
            arm(q->s);
    }
    return true;
}
