/*
 * Asynchronous events in transit to a context's socket. The socket holds few datagrams (net.unix.max_dgram_qlen, 10).
 * Events that do not fit wait in a list of the process that receives them, like the kernel's list of an open device.
 * This process moves them to its socket after it has read from it. The order is kept; an unread socket does not block
 * others.
 *
 * An event is put in the list before it is written to the socket, so that the receiving process will send it if there
 * is no room. If a sender is killed between the datagram and the mark, its event is sent twice.
 */
#include "events.h"
#include "complete.h"
#include "../../fabric/server.h"
#include "../../memory/locks.h"

static struct softib_events *list_of(struct ve_engine *e, uint32_t process)
{
    uint64_t at = __atomic_load_n(&vm_process(&e->w, process)->events, __ATOMIC_ACQUIRE);

    return at ? vm_at(&e->w, at) : NULL;
}

static struct softib_pending_event *entry(struct softib_events *list, uint32_t i)
{
    return (struct softib_pending_event *)(list + 1) + (i & (SOFTIB_VERBS_EVENTS - 1));
}

/* Send the events that wait for `socket`, as long as there is room; with `forget`, drop them. The list is locked. */
static void settle(struct ve_engine *e, uint32_t process, struct softib_events *list, uint32_t socket, bool forget)
{
    uint32_t first = list->first;

    for (uint32_t i = first; i != list->end; i++) {
        struct softib_pending_event *pending = entry(list, i);
        struct softib_event event = { .type = pending->type, .element = pending->element };

        if (pending->socket != socket)
            continue;
        if (!forget && !ve_notify(e, process, socket, &event, sizeof event))
            break;
        __atomic_store_n(&pending->socket, 0, __ATOMIC_RELEASE);
    }
    while (first != list->end && !entry(list, first)->socket)
        first++;
    __atomic_store_n(&list->first, first, __ATOMIC_RELEASE);
}

void ve_event(struct ve_engine *e, uint32_t process, uint32_t socket, uint32_t type, uint64_t element)
{
    struct softib_events *list = list_of(e, process);

    if (!list) { /* out of memory */
        const struct softib_event event = { .type = type, .element = element };

        ve_notify(e, process, socket, &event, sizeof event);
        return;
    }
    vm_lock(&e->w, &list->lock);
    if (list->end - list->first < SOFTIB_VERBS_EVENTS) {
        *entry(list, list->end) = (struct softib_pending_event){ .socket = socket, .type = type, .element = element };
        __atomic_store_n(&list->end, list->end + 1, __ATOMIC_RELEASE);
    } else {
        list->lost++;
    }
    settle(e, process, list, socket, false);
    vm_unlock(&list->lock);
}

/* -- the reader -- */

bool ve_events_open(struct ve_engine *e)
{
    struct softib_process *self = vm_process(&e->w, e->w.process);
    size_t octets = sizeof(struct softib_events) + SOFTIB_VERBS_EVENTS * sizeof(struct softib_pending_event);
    uint64_t none = 0, at;

    if (__atomic_load_n(&self->events, __ATOMIC_ACQUIRE))
        return true;
    at = vm_alloc(&e->w, octets);
    if (at && !__atomic_compare_exchange_n(&self->events, &none, at, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        vm_free(&e->w, at, octets); /* another thread has created the list */
    return at || none;
}

static void read_or_closed(struct ve_engine *e, uint32_t socket, bool closed)
{
    struct softib_events *list = list_of(e, e->w.process);

    if (!list)
        return;
    vm_lock(&e->w, &list->lock);
    settle(e, e->w.process, list, socket, closed);
    vm_unlock(&list->lock);
}

void ve_events_read(struct ve_engine *e, uint32_t socket)
{
    read_or_closed(e, socket, false);
}

void ve_events_closed(struct ve_engine *e, uint32_t socket)
{
    read_or_closed(e, socket, true);
}
