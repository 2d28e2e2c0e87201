/* Members of multicast groups. */
#ifndef SOFTIB_VERBS_ENGINE_MEMBERS_H
#define SOFTIB_VERBS_ENGINE_MEMBERS_H

#include "../../memory/heap/shared_heap.h"

/* A free place gets a member; the file's member lock is held. It leaves when `qpn` becomes 0. */
void ve_write_member(struct softib_member *at, const struct softib_member *member);
/* False: there is none, or it is changing just now. */
bool ve_read_member(struct softib_member *at, struct softib_member *member);

#endif
