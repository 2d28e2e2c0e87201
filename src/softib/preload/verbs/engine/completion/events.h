/* Asynchronous events of objects. */
#ifndef SOFTIB_VERBS_ENGINE_EVENTS_H
#define SOFTIB_VERBS_ENGINE_EVENTS_H

#include "../engine.h"

/* An asynchronous event of an object of `process` (possibly another's), whose objects are held. */
void ve_event(struct ve_engine *e, uint32_t process, uint32_t socket, uint32_t type, uint64_t element);
/* From now on events of this process that find their socket full wait; false: no memory, they are lost. */
bool ve_events_open(struct ve_engine *e);
/* This process has read from `socket`: what waits for room there follows. */
void ve_events_read(struct ve_engine *e, uint32_t socket);
/* Discard events waiting for `socket`, which will not be read. */
void ve_events_closed(struct ve_engine *e, uint32_t socket);

#endif
