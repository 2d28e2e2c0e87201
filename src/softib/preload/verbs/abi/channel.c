/*
 * Completion channels. Who completes sends a datagram to the channel's socket and counts `pending` of the CQ up; who asks for
 * an event takes one datagram, then looks which CQ it was. A socket takes few datagrams: whoever leaves something pending
 * behind an empty socket sends one to himself.
 */
#include "abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

VA_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct va_channel *ch = calloc(1, sizeof *ch);

    if (!ch)
        return NULL;
    ch->channel.context = context;
    ch->channel.fd = va_wake_socket(&ch->number);
    if (ch->channel.fd < 0) {
        errno = -ch->channel.fd;
        free(ch);
        return NULL;
    }
    pthread_mutex_init(&ch->lock, NULL);
    return &ch->channel;
}

VA_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct va_channel *ch = (struct va_channel *)channel;

    if (channel->refcnt)
        return EBUSY;
    va_wake_close(channel->fd, ch->number);
    free(ch);
    return 0;
}

void va_channel_join(struct va_cq *c, struct va_channel *ch)
{
    if (!ch)
        return;
    c->channel = ch;
    c->s->channel = ch->number;
    pthread_mutex_lock(&ch->lock);
    c->next = ch->cqs;
    ch->cqs = c;
    ch->channel.refcnt++;
    pthread_mutex_unlock(&ch->lock);
}

void va_channel_leave(struct va_cq *c)
{
    struct va_channel *ch = c->channel;

    if (!ch)
        return;
    pthread_mutex_lock(&ch->lock);
    for (struct va_cq **at = &ch->cqs; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    ch->channel.refcnt--;
    pthread_mutex_unlock(&ch->lock);
    c->channel = NULL;
}

/* The next CQ with an event, moved to the end of the line. `ch->lock` is held. */
static struct va_cq *take(struct va_channel *ch, bool *more)
{
    struct va_cq *found = NULL, **from = NULL, **end = &ch->cqs;

    *more = false;
    for (; *end; end = &(*end)->next) {
        uint32_t pending = __atomic_load_n(&(*end)->s->pending, __ATOMIC_SEQ_CST);

        *more |= pending > 1 || (pending && found);
        if (pending && !found) {
            found = *end;
            from = end;
        }
    }
    if (!found)
        return NULL;
    __atomic_fetch_sub(&found->s->pending, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&found->ex.mutex);
    found->events++;
    pthread_mutex_unlock(&found->ex.mutex);
    if (found->next) {
        *from = found->next;
        *end = found;
        found->next = NULL;
    }
    return found;
}

static bool is_empty(int fd)
{
    char octet;

    return recv(fd, &octet, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

VA_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct va_channel *ch = (struct va_channel *)channel;
    struct va_cq *c;
    char octet;
    bool more;

    for (;;) {
        if (recv(channel->fd, &octet, 1, 0) < 0)
            return -1;
        pthread_mutex_lock(&ch->lock);
        c = take(ch, &more);
        if (more && is_empty(channel->fd))
            ve_knock(&va_engine, va_engine.w.process, ch->number, "", 1);
        pthread_mutex_unlock(&ch->lock);
        if (c) {
            *cq = ibv_cq_ex_to_cq(&c->ex);
            *cq_context = c->ex.cq_context;
            return 0;
        }
    }
}

VA_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += n;
    pthread_cond_broadcast(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}
