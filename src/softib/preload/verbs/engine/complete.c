/* Completions and events, in whosever process they belong to. */
#include "engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void ve_knock(struct ve_engine *e, uint32_t process, uint32_t number, const void *message, size_t octets)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    int fd;

    if (!number || (size_t)snprintf(to.sun_path, sizeof to.sun_path, "%s/wake-%u-%u", e->w.folder, process, number) >=
                       sizeof to.sun_path)
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); /* only when somebody sleeps: rare */
    if (fd < 0)
        return;
    /* A full socket is readable: whoever reads it looks at what is pending, too. */
    sendto(fd, message, octets, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&to, sizeof to);
    close(fd);
}

void ve_event(struct ve_engine *e, uint32_t process, uint32_t socket, uint32_t type, uint64_t element)
{
    struct softib_event event = { .type = type, .element = element };

    ve_knock(e, process, socket, &event, sizeof event);
}

void ve_complete_soon(struct ve_engine *e, uint64_t at)
{
    const struct softib_cq *cq = ve_cq(e, at);
    struct softib_cqe *ring = vm_at(&e->w, cq->ring);

    __builtin_prefetch(&ring[__atomic_load_n(&cq->producer, __ATOMIC_RELAXED) & (cq->size - 1)], 1);
}

void ve_complete(struct ve_engine *e, uint64_t at, const struct softib_cqe *cqe, bool solicited)
{
    struct softib_cq *cq = ve_cq(e, at);
    struct softib_cqe *ring;
    uint32_t producer, armed, channel = 0;
    bool lost = false;

    vm_lock(&e->w, &cq->lock);
    ring = vm_at(&e->w, cq->ring);
    producer = cq->producer;
    if (producer - cq->seen >= cq->size)
        cq->seen = __atomic_load_n(&cq->consumer, __ATOMIC_ACQUIRE);
    if (cq->overrun || producer - cq->seen >= cq->size) {
        lost = !cq->overrun;
        cq->overrun = 1;
    } else {
        ring[producer & (cq->size - 1)] = *cqe;
        if (cq->stamps)
            ring[producer & (cq->size - 1)].stamp = ve_now_ns();
        __atomic_store_n(&cq->producer, producer + 1, __ATOMIC_RELEASE);
    }
    if (cq->channel) /* else nobody can arm it */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    armed = __atomic_load_n(&cq->armed, __ATOMIC_RELAXED);
    if (armed == 2 || (armed == 1 && (solicited || cqe->status != IBV_WC_SUCCESS))) {
        cq->armed = 0;
        __atomic_fetch_add(&cq->pending, 1, __ATOMIC_SEQ_CST);
        channel = cq->channel;
    }
    vm_unlock(&cq->lock);
    if (channel)
        ve_knock(e, cq->process, channel, "", 1);
    if (lost)
        ve_event(e, cq->process, cq->async, IBV_EVENT_CQ_ERR, cq->user);
}

void ve_purge(struct ve_engine *e, uint64_t at, uint32_t qpn)
{
    struct softib_cq *cq = ve_cq(e, at);
    struct softib_cqe *ring;
    uint32_t to;

    vm_lock(&e->w, &cq->polling);
    vm_lock(&e->w, &cq->lock);
    ring = vm_at(&e->w, cq->ring);
    to = cq->producer; /* the others move up: what is purged takes no room */
    for (uint32_t i = cq->producer; i != cq->consumer; i--)
        if (ring[(i - 1) & (cq->size - 1)].owner != qpn && --to != i - 1)
            ring[to & (cq->size - 1)] = ring[(i - 1) & (cq->size - 1)];
    __atomic_store_n(&cq->consumer, to, __ATOMIC_RELEASE);
    vm_unlock(&cq->lock);
    vm_unlock(&cq->polling);
}
