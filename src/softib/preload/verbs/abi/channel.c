/*
 * Completion channels. A completion increments `pending` of the CQ and sends a datagram to the
 * channel's socket; ibv_get_cq_event reads one datagram, then looks for the CQ. A socket holds few
 * datagrams: those that do not fit are counted in `unsent`. A reader that empties the socket sends one of them to
 * itself.
 */
#include "abi.h"
#include "../engine/completion/complete.h"
#include "../engine/scheduling/sq_sched.h"
#include "../peers/orders.h"

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
        return errno = EBUSY;
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
    uint32_t sent;
    char byte;

    if (!ch)
        return;
    pthread_mutex_lock(&ch->lock);
    sent = c->s->pending - c->s->unsent; /* events not fetched are dropped */
    while (sent-- && recv(ch->channel.fd, &byte, 1, MSG_DONTWAIT) > 0)
        ;
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

/* Return the next CQ with an event, and move it to the end of the list. `ch->lock` is held. */
static struct va_cq *take(struct va_channel *ch)
{
    struct va_cq *found = NULL, **from = NULL, **end = &ch->cqs;

    for (; *end; end = &(*end)->next) {
        if (!found && __atomic_load_n(&(*end)->s->pending, __ATOMIC_SEQ_CST)) {
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
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

/* If the socket is empty, send a datagram for one of the events that had no room. `ch->lock` is held. */
static void send_unsent(struct va_channel *ch)
{
    for (struct va_cq *c = ch->cqs; c; c = c->next) {
        if (__atomic_load_n(&c->s->unsent, __ATOMIC_SEQ_CST) && is_empty(ch->channel.fd) && ve_owes_notification(c->s)) {
            ve_notify_channel(&va_engine, c->s);
            return;
        }
    }
}

VA_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct va_channel *ch = (struct va_channel *)channel;
    struct va_cq *c;
    char byte;

    for (;;) {
        ve_will_sleep(&va_engine);
        if (recv(channel->fd, &byte, 1, 0) < 0)
            return -1;
        vp_serve(&va_engine.w);
        if (ve_modes)
            ve_before_event(&va_engine);
        pthread_mutex_lock(&ch->lock);
        c = take(ch);
        send_unsent(ch);
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
