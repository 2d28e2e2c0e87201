/* Members of multicast groups. */
#ifndef SOFTIB_VERBS_ENGINE_MEMBERS_H
#define SOFTIB_VERBS_ENGINE_MEMBERS_H

#include "../../memory/heap/shared_heap.h"

/* Store a member in a free entry; the file's member lock is held. The member leaves when `qpn` is
 * set to 0. */
void ve_write_member(struct softib_member *at, const struct softib_member *member);
/* Read a member. False: the entry is free, or is changing now. */
bool ve_read_member(struct softib_member *at, struct softib_member *member);

#endif
