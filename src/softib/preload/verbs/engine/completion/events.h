/* Asynchronous events of objects. */
#ifndef SOFTIB_VERBS_ENGINE_EVENTS_H
#define SOFTIB_VERBS_ENGINE_EVENTS_H

#include "../engine.h"

/* Raise an asynchronous event of an object of `process` (this one or another). The caller holds a hazard on the
 * process. */
void ve_event(struct ve_engine *e, uint32_t process, uint32_t socket, uint32_t type, uint64_t element);
/* Create the list of waiting events of this process; false: out of memory; events are then
 * lost when their socket is full. */
bool ve_events_open(struct ve_engine *e);
/* This process has read from `socket`: send the events that waited for room in it. */
void ve_events_read(struct ve_engine *e, uint32_t socket);
/* Discard events waiting for `socket`, which will not be read. */
void ve_events_closed(struct ve_engine *e, uint32_t socket);

#endif
