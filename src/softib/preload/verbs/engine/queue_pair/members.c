/*
 * Members of multicast groups: one entry each, written under the file's member lock, read by senders without a lock.
 * The `version` of a reused entry changes before anything else, so that a reader detects a torn read.
 */
#include "members.h"

#include <string.h>


/* Return the GID as four words: it is aligned to 4 bytes. */
static uint32_t *gid_dwords(struct softib_member *at)
{
    return (uint32_t *)(void *)at->gid;
}

void ve_write_member(struct softib_member *at, const struct softib_member *member)
{
    uint32_t dwords[4];

    memcpy(dwords, member->gid, sizeof dwords);
    __atomic_store_n(&at->version, at->version + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&at->port, member->port, __ATOMIC_RELAXED);
    __atomic_store_n(&at->mlid, member->mlid, __ATOMIC_RELAXED);
    __atomic_store_n(&at->process, member->process, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++)
        __atomic_store_n(gid_dwords(at) + i, dwords[i], __ATOMIC_RELAXED);
    __atomic_store_n(&at->qpn, member->qpn, __ATOMIC_RELEASE);
}

bool ve_read_member(struct softib_member *at, struct softib_member *member)
{
    uint32_t dwords[4];

    member->version = __atomic_load_n(&at->version, __ATOMIC_ACQUIRE);
    member->qpn = __atomic_load_n(&at->qpn, __ATOMIC_ACQUIRE);
    if (!member->qpn)
        return false;
    member->port = __atomic_load_n(&at->port, __ATOMIC_RELAXED);
    member->mlid = __atomic_load_n(&at->mlid, __ATOMIC_RELAXED);
    member->process = __atomic_load_n(&at->process, __ATOMIC_RELAXED);
    for (int i = 0; i < 4; i++)
        dwords[i] = __atomic_load_n(gid_dwords(at) + i, __ATOMIC_RELAXED);
    memcpy(member->gid, dwords, sizeof dwords);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&at->version, __ATOMIC_RELAXED) == member->version &&
           __atomic_load_n(&at->qpn, __ATOMIC_RELAXED) == member->qpn;
}
