/*
 * Queues in the heap. Most programs request more entries than they ever use. So a ring longer than a chunk starts with
 * only its first pages, and further pages are allocated before an entry in them is accessed.
 */
#include "shared_heap.h"

#define STEP 16384u /* bytes that are reserved at a time */

uint64_t vm_alloc_ring(struct vm_heap *w, size_t octets, uint32_t *there)
{
    uint64_t at = octets <= SOFTIB_VERBS_CHUNK ? vm_alloc(w, octets) : vm_alloc_sparse(w, octets);

    *there = (uint32_t)(octets <= SOFTIB_VERBS_CHUNK ? octets : 0);
    if (!at || vm_ring_reaches(w, at, octets, there, 1))
        return at;
    vm_free(w, at, octets);
    return 0;
}

bool vm_extend_ring(const struct vm_heap *w, uint64_t ring, size_t octets, uint32_t *there, size_t end)
{
    size_t to = (end + STEP - 1) / STEP * STEP;

    if (to > octets)
        to = octets;
    if (to > *there && !vm_reserve(w, ring + *there, to - *there))
        return false;
    *there = to > *there ? (uint32_t)to : *there;
    return true;
}
