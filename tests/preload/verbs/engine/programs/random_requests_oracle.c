/*
 * What the specification says of one request, in the words of its tables and without the library: IBA 9.7.4, 9.7.5 (which
 * side errs, table 10.7.3), 10.6 (keys), 9.8 (UC), 9.8.4 (UD). Only what was registered is believed.
 */
#include "random_requests.h"

#include <string.h>

/* Where `length` octets at `address` behind `name` lie in the memory of `rig`; -1: not there. */
static long place(const struct key *keys, const struct arena *arenas, unsigned rig, uint32_t name, uint64_t address,
                  uint64_t length, unsigned access, uint32_t domain, uint32_t qpn)
{
    for (unsigned i = 0; i < KEYS; i++) {
        const struct key *k = &keys[i];
        __uint128_t from = address, to = from + length, first = k->iova, last = first + k->length;

        if (!name || k->key != name)
            continue;
        if (k->rig != rig || k->domain != domain || (k->access & access) != access || (k->window && !qpn) || (k->qpn && k->qpn != qpn))
            return -1;
        if (from < first || to > last)
            return -1;
        return (long)(k->at - (uint64_t)(uintptr_t)arenas[rig].at + (address - k->iova));
    }
    return -1;
}

static struct verdict says(enum ibv_wc_status status)
{
    return (struct verdict){ .status = status, .refused = status != IBV_WC_SUCCESS };
}

/* The responder refuses: UC and UD senders are not told. */
static struct verdict refuses(const struct pair *l, enum ibv_wc_status status, bool by_key)
{
    return (struct verdict){ .status = l->type == IBV_QPT_RC ? status : IBV_WC_SUCCESS, .refused = true, .by_key = by_key };
}

/* The message: octets of the requester's own memory, in order. -1: a local key is wrong (`at` of that part is -1). */
static long gather(const struct pair *l, const struct try *t, const struct key *keys, const struct arena *arenas,
                   unsigned access, long at[2])
{
    long length = 0;

    for (uint32_t i = 0; i < t->wr.sges; i++) {
        const struct ibv_sge *s = &t->sge[i];

        at[i] = 0;
        if (s->length)
            at[i] = place(keys, arenas, 0, s->lkey, s->addr, s->length, access, l->domain, 0);
        if (at[i] < 0)
            return -1;
        length += s->length;
    }
    return length;
}

/* Octet by octet, ascending, as the sender's list and then the receiver's say. */
static struct verdict move_to(const struct try *t, char shadow[2][ARENA], const long from[2], unsigned rig, long to)
{
    static char message[4 * ARENA];
    struct verdict v = { .status = IBV_WC_SUCCESS, .rig = rig };
    long n = 0;

    for (uint32_t i = 0; i < t->wr.sges; i++) {
        memcpy(message + n, shadow[0] + from[i], t->sge[i].length);
        n += t->sge[i].length;
    }
    memcpy(shadow[rig] + to, message, (size_t)n);
    for (uint32_t i = 0; i < t->wr.sges; i++)
        v.loose[0] |= !rig && from[i] < to + n && to < from[i] + (long)t->sge[i].length;
    v.at[0] = to;
    v.n[0] = n;
    return v;
}

static struct verdict move_from(const struct try *t, char shadow[2][ARENA], unsigned rig, long from, const long to[2])
{
    static char message[4 * ARENA];
    struct verdict v = { .status = IBV_WC_SUCCESS };
    long n = 0, all;

    for (uint32_t i = 0; i < t->wr.sges; i++)
        n += t->sge[i].length;
    memcpy(message, shadow[rig] + from, (size_t)n);
    all = n;
    n = 0;
    for (uint32_t i = 0; i < t->wr.sges; i++) {
        memcpy(shadow[0] + to[i], message + n, t->sge[i].length);
        n += t->sge[i].length;
        v.loose[i] = !rig && to[i] < from + all && from < to[i] + (long)t->sge[i].length;
        v.at[i] = to[i];
        v.n[i] = t->sge[i].length;
    }
    if (v.loose[0] || v.loose[1])
        v.loose[0] = v.loose[1] = true;
    return v;
}

static struct verdict send(const struct pair *l, const struct try *t, const struct key *keys, const struct arena *arenas,
                           char shadow[2][ARENA], const long from[2], long length)
{
    long room = t->receive.length, header = l->type == IBV_QPT_UD ? 40 : 0, to = 0;
    long reached = length + header < room ? length + header : room; /* nobody looks at the key of what is not written to */
    struct verdict v;

    if (!t->posted)
        return refuses(l, IBV_WC_RNR_RETRY_EXC_ERR, false);
    if (reached)
        to = place(keys, arenas, l->wb, t->receive.lkey, t->receive.addr, (uint64_t)reached, IBV_ACCESS_LOCAL_WRITE, l->domain, 0);
    if (to < 0)
        return refuses(l, IBV_WC_REM_OP_ERR, true);
    if (length + header > room)
        return refuses(l, IBV_WC_REM_INV_REQ_ERR, false);
    if (header)
        memset(shadow[l->wb] + to, 0, 40); /* no GRH came: nothing defined; the library clears it */
    v = move_to(t, shadow, from, l->wb, to + header);
    for (uint32_t i = 0; header && i < t->wr.sges; i++) /* the header comes first */
        v.loose[0] |= !l->wb && from[i] < to + header && to < from[i] + (long)t->sge[i].length;
    v.at[0] -= header;
    v.n[0] += header;
    return v;
}

static struct verdict atomic(const struct pair *l, const struct try *t, const struct key *keys, const struct arena *arenas,
                             char shadow[2][ARENA], const long mine[2])
{
    uint64_t old, new;
    long at;

    if (t->wr.remote % 8 || l->no_reads)
        return refuses(l, IBV_WC_REM_INV_REQ_ERR, false);
    if (!(l->access & IBV_ACCESS_REMOTE_ATOMIC))
        return refuses(l, IBV_WC_REM_ACCESS_ERR, false);
    at = place(keys, arenas, l->wb, t->wr.rkey, t->wr.remote, 8, IBV_ACCESS_REMOTE_ATOMIC, l->domain, l->b->s->qpn);
    if (at < 0)
        return refuses(l, IBV_WC_REM_ACCESS_ERR, true);
    memcpy(&old, shadow[l->wb] + at, 8);
    new = t->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? old + t->wr.compare : old == t->wr.compare ? t->wr.swap : old;
    memcpy(shadow[l->wb] + at, &new, 8);
    if (!mine)
        return says(IBV_WC_LOC_PROT_ERR);
    for (uint32_t i = 0, n = 0; i < t->wr.sges; n += t->sge[i++].length)
        memcpy(shadow[0] + mine[i], (char *)&old + n, t->sge[i].length);
    return says(IBV_WC_SUCCESS);
}

static struct verdict datagram(const struct pair *l, const struct try *t, const struct key *keys, const struct arena *arenas,
                               char shadow[2][ARENA], const long from[2], long length)
{
    if (length > 4096)
        return says(IBV_WC_LOC_LEN_ERR);
    if (t->wr.ah->attr.dlid != l->wb + 1 || t->strange || t->wr.qkey != 0x11)
        return (struct verdict){ .refused = true };
    return send(l, t, keys, arenas, shadow, from, length);
}

struct verdict oracle(const struct pair *l, const struct try *t, const struct key *keys, const struct arena *arenas,
                      char shadow[2][ARENA])
{
    bool reads = t->wr.opcode == IBV_WR_RDMA_READ;
    unsigned right = reads ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    long mine[2], at = 0, length = gather(l, t, keys, arenas, reads || t->atomic ? IBV_ACCESS_LOCAL_WRITE : 0, mine);

    bool lost = length < 0; /* what comes back of a READ or an atomic has no place: the responder is asked all the same */

    if (lost && !reads && !t->atomic)
        return (struct verdict){ .status = IBV_WC_LOC_PROT_ERR, .refused = true, .by_key = true };
    if (lost)
        length = 0;
    for (uint32_t i = 0; lost && i < t->wr.sges; i++)
        length += t->sge[i].length;
    if (t->atomic && length != 8)
        return says(IBV_WC_LOC_LEN_ERR);
    if (l->type == IBV_QPT_UD)
        return datagram(l, t, keys, arenas, shadow, mine, length);
    if (t->strange)
        return refuses(l, IBV_WC_RETRY_EXC_ERR, false);
    if (t->atomic)
        return atomic(l, t, keys, arenas, shadow, lost ? NULL : mine);
    if (t->wr.opcode == IBV_WR_SEND)
        return send(l, t, keys, arenas, shadow, mine, length);
    if (t->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && !t->posted)
        return refuses(l, IBV_WC_RNR_RETRY_EXC_ERR, false);
    if (reads && l->no_reads)
        return refuses(l, IBV_WC_REM_INV_REQ_ERR, false);
    if (!(l->access & right))
        return refuses(l, IBV_WC_REM_ACCESS_ERR, false);
    if (length)
        at = place(keys, arenas, l->wb, t->wr.rkey, t->wr.remote, (uint64_t)length, right, l->domain, l->b->s->qpn);
    if (at < 0)
        return refuses(l, IBV_WC_REM_ACCESS_ERR, true);
    if (lost)
        return (struct verdict){ .status = IBV_WC_LOC_PROT_ERR, .refused = true, .by_key = true };
    if (!length)
        return says(IBV_WC_SUCCESS);
    return reads ? move_from(t, shadow, l->wb, at, mine) : move_to(t, shadow, mine, l->wb, at);
}
