/*
 * Partitions of a port. A parent interface is in the partition of the P_Key at index 0; each further P_Key of the table
 * has a child. As in Linux, an interface whose P_Key was removed stays, without carrier. Unlike in Linux, a P_Key that
 * is added creates its child.
 */
#include "ipoib.h"

#define MEMBER 0x7fff
#define FULL 0x8000

static uint16_t pkey_at(const struct interface *i, unsigned index)
{
    uint8_t pkey[2] = { 0 };

    return ibv_query_pkey(i->context, (uint8_t)i->portnum, (int)index, (void *)pkey) ? 0 : get16(pkey);
}

static int is_same(uint16_t a, uint16_t b)
{
    return !((a ^ b) & MEMBER);
}

/* Find the interface's P_Key in the table, with full membership if the table has both. */
enum partition partition_find(struct interface *i)
{
    uint16_t pkey = pkey_at(i, 0);
    unsigned index = 0;
    enum partition result;

    if (i->parent) {
        unsigned n = i->pkeys;

        pkey = 0;
        while (n--) {
            uint16_t entry = pkey_at(i, n);

            if (is_same(entry, i->pkey) && !(pkey & FULL & ~entry)) {
                pkey = entry;
                index = n;
            }
        }
    }
    if (!(pkey & MEMBER))
        return PARTITION_NONE;
    result = pkey == i->pkey && index == i->pkey_index ? PARTITION_SAME : PARTITION_MOVED;
    i->pkey = pkey;
    i->pkey_index = index;
    return result;
}

static int has_interface(const struct interface *parent, uint16_t pkey, const struct interface *all, unsigned count)
{
    for (unsigned k = 0; k < count; k++)
        if ((&all[k] == parent || all[k].parent == parent) && is_same(all[k].pkey, pkey))
            return 1;
    return 0;
}

/* Return a P_Key of the parent's port that has no interface; 0: none. */
uint16_t partition_without_interface(const struct interface *parent, const struct interface *all, unsigned count)
{
    for (unsigned n = 1; n < parent->pkeys; n++) {
        uint16_t pkey = pkey_at(parent, n);

        if (pkey & MEMBER && !has_interface(parent, pkey, all, count))
            return pkey;
    }
    return 0;
}
