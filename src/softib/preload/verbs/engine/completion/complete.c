/* Completions and events, delivered to the process that owns the object. */
#include "complete.h"
#include "events.h"
#include "poll_batch.h"
#include "../send.h"
#include "../scheduling/timer.h"
#include "../../memory/libc_calls.h"
#include "../../memory/locks.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Return a socket for sending to socket `number` of `process`; -1: none. It is opened for each message, which is needed
 * only if a thread sleeps and so is rare. */
static int writer(struct ve_engine *e, uint32_t process, uint32_t number)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd;

    if (!number || (size_t)snprintf(to.sun_path, sizeof to.sun_path, "%s/wake-%u-%u", e->w.folder, process, number) >=
                       sizeof to.sun_path)
        return -1;
    fd = vm_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    return fd;
}

bool ve_notify(struct ve_engine *e, uint32_t process, uint32_t number, const void *message, size_t octets)
{
    VM_KEEP_ERRNO;
    int fd = writer(e, process, number);
    bool full = fd >= 0 && send(fd, message, octets, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EAGAIN;

    if (fd >= 0)
        close(fd);
    return !full;
}

static bool has_room(struct ve_engine *e, uint32_t process, uint32_t number)
{
    VM_KEEP_ERRNO;
    struct pollfd p = { .fd = writer(e, process, number), .events = POLLOUT };
    bool room = p.fd >= 0 && poll(&p, 1, 0) == 1 && p.revents & POLLOUT;

    if (p.fd >= 0)
        close(p.fd);
    return room;
}

bool ve_owes_notification(struct softib_cq *cq)
{
    uint32_t n = __atomic_load_n(&cq->unsent, __ATOMIC_SEQ_CST);

    while (n && !__atomic_compare_exchange_n(&cq->unsent, &n, n - 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        ;
    return n;
}

/*
 * One datagram per event: poll(2) must not report a channel readable without an event. The reader sends the missing events when the socket is empty. If the reader emptied the socket just before
 * `unsent` was incremented, there is room to send now.
 */
void ve_notify_channel(struct ve_engine *e, struct softib_cq *cq)
{
    while (!ve_notify(e, cq->process, cq->channel, "", 1)) {
        __atomic_fetch_add(&cq->unsent, 1, __ATOMIC_SEQ_CST);
        if (!has_room(e, cq->process, cq->channel) || !ve_owes_notification(cq))
            return;
    }
}

/* Take the lock. If its dead owner has written a completion that `producer` does not count yet, count it. */
void ve_lock_cq(struct ve_engine *e, struct softib_cq *cq)
{
    const struct softib_cqe *ring;

    if (!vm_lock(&e->w, &cq->lock))
        return;
    ring = vm_at(&e->w, cq->ring);
    if (__atomic_load_n(&ring[cq->producer & (cq->size - 1)].seq, __ATOMIC_ACQUIRE) == ve_cqe_seq(cq->producer))
        __atomic_store_n(&cq->producer, cq->producer + 1, __ATOMIC_RELEASE);
}

/* `seq` is written last; until then the slot has an old sequence number or none. */
static void write_completion(struct softib_cq *cq, struct softib_cqe *to, const struct softib_cqe *cqe)
{
    memcpy(to, cqe, offsetof(struct softib_cqe, seq));
    if (cq->stamps)
        to->stamp = ve_now_ns();
    __atomic_store_n(&to->seq, ve_cqe_seq(cq->producer), __ATOMIC_RELEASE);
    __atomic_store_n(&cq->producer, cq->producer + 1, __ATOMIC_RELEASE);
}

#define AHEAD 128 /* entries for which a ring gets pages in advance */

/*
 * Return whether the entry has pages. After this call the next entry also has pages, because the owner reads it before
 * it is written. If there is no room, the ring stops growing when it is next empty.
 */
static bool next_place_exists(struct ve_engine *e, struct softib_cq *cq)
{
    uint32_t place = cq->producer & (cq->size - 1), entries = cq->there / (uint32_t)sizeof(struct softib_cqe), size = cq->size;

    if (entries >= size || entries - place > AHEAD ||
        vm_extend_ring(&e->w, cq->ring, size * sizeof(struct softib_cqe), &cq->there, (place + 2 + AHEAD) * sizeof(struct softib_cqe)))
        return true;
    if (__atomic_load_n(&cq->consumer, __ATOMIC_ACQUIRE) != cq->producer)
        return entries - place > 1;
    while (size > entries)
        size /= 2;
    __atomic_store_n(&cq->size, size, __ATOMIC_RELEASE); /* an owner that still uses the old size finds an old
                                                          * completion */
    return true;
}

void ve_complete_soon(struct ve_engine *e, uint64_t at)
{
    const struct softib_cq *cq = ve_cq(e, at);
    struct softib_cqe *ring = vm_at(&e->w, cq->ring);

    vm_soon((uintptr_t)&ring[__atomic_load_n(&cq->producer, __ATOMIC_RELAXED) & (cq->size - 1)]);
}

bool ve_complete(struct ve_engine *e, uint64_t at, const struct softib_cqe *cqe, bool solicited)
{
    struct softib_cq *cq = ve_cq(e, at);
    struct softib_cqe *ring;
    uint32_t producer, armed;
    bool lost = false, first = false, event = false;

    ve_lock_cq(e, cq);
    ring = vm_at(&e->w, cq->ring);
    producer = cq->producer;
    if (producer - cq->seen >= cq->size)
        cq->seen = __atomic_load_n(&cq->consumer, __ATOMIC_ACQUIRE);
    if (cq->overrun || producer - cq->seen >= cq->size || !next_place_exists(e, cq)) {
        lost = !cq->ignores_overrun;
        first = lost && !cq->overrun;
        cq->overrun = lost;
    } else {
        write_completion(cq, &ring[producer & (cq->size - 1)], cqe);
    }
    if (cq->channel) /* without a channel it can never be armed */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    armed = __atomic_load_n(&cq->armed, __ATOMIC_RELAXED);
    if (armed == 2 || (armed == 1 && (solicited || cqe->status != IBV_WC_SUCCESS))) {
        cq->armed = 0;
        __atomic_fetch_add(&cq->pending, 1, __ATOMIC_SEQ_CST);
        event = cq->channel;
    }
    vm_unlock(&cq->lock);
    if (event)
        ve_notify_channel(e, cq);
    if (first)
        ve_event(e, cq->process, cq->async, IBV_EVENT_CQ_ERR, cq->user);
    return !lost;
}

__thread struct ve_batches ve_batches;

void ve_purge(struct ve_engine *e, uint64_t at, uint32_t qpn)
{
    struct softib_cq *cq = ve_cq(e, at);
    struct softib_cqe *ring;
    uint32_t to;
    bool mine = ve_in_batch(cq);

    if (!mine)
        vm_lock(&e->w, &cq->polling);
    ve_lock_cq(e, cq);
    ring = vm_at(&e->w, cq->ring);
    to = cq->producer; /* the remaining completions move up, so that purged ones take no space */
    for (uint32_t i = cq->producer; i != cq->consumer; i--) {
        if (ring[(i - 1) & (cq->size - 1)].owner == qpn) {
            ve_free_place(&ring[(i - 1) & (cq->size - 1)]);
        } else if (--to != i - 1) {
            ring[to & (cq->size - 1)] = ring[(i - 1) & (cq->size - 1)];
            ring[to & (cq->size - 1)].seq = ve_cqe_seq(to);
        }
    }
    __atomic_store_n(&cq->consumer, to, __ATOMIC_RELEASE);
    vm_unlock(&cq->lock);
    if (!mine)
        vm_unlock(&cq->polling);
}
