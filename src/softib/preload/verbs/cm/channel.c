/* Open rdma_cm devices. The descriptor is the daemon's connection, on which events come. */
#include "cm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "calls.h"

enum { FILES = 1 << 16, DAEMON_ENDED_US = 100000 };

static struct cm_channel *channels[FILES];
static struct cm_channel *spare; /* closed entries are reused, never freed, because another thread may still wait in
                                  * one */

struct cm_channel *cm_channel_of(int fd)
{
    return fd >= 0 && fd < FILES ? __atomic_load_n(&channels[fd], __ATOMIC_ACQUIRE) : NULL;
}

static struct cm_channel *fresh(void)
{
    struct cm_channel *channel = spare;

    if (!channel)
        return calloc(1, sizeof *channel);
    spare = channel->next;
    return channel;
}

int cm_open(int flags)
{
    cm_lock();
    struct cm_channel *channel = fresh();
    int fd = channel ? cm_connect_channel(channel) : -ENOMEM;

    if (fd >= FILES) {
        cm_real()->close(fd);
        fd = -EMFILE;
    }
    if (fd < 0) {
        if (channel) {
            channel->next = spare;
            spare = channel;
        }
        cm_unlock();
        errno = fd == -ECONNREFUSED ? ENOENT : -fd;
        return -1;
    }
    if (!(flags & O_CLOEXEC))
        cm_real()->fcntl(fd, F_SETFD, 0);
    if (flags & O_NONBLOCK)
        cm_real()->fcntl(fd, F_SETFL, O_NONBLOCK);
    channel->fd = fd;
    channel->users = 1;
    __atomic_store_n(&channels[fd], channel, __ATOMIC_RELEASE);
    cm_unlock();
    return fd;
}

static void forget(struct cm_channel *channel)
{
    for (struct cm_id *id = cm_next_of(channel, NULL); id; id = cm_next_of(channel, id))
        cm_free(id); /* the daemon destroys the channel's ids when the connection closes */
    channel->next = spare;
    spare = channel;
}

void cm_close(int fd)
{
    cm_lock();
    struct cm_channel *channel = cm_channel_of(fd);
    if (channel) {
        __atomic_store_n(&channels[fd], NULL, __ATOMIC_RELEASE);
        if (!--channel->users)
            forget(channel);
        else
            for (int i = 0; channel->fd == fd && i < FILES; i++)
                if (channels[i] == channel)
                    channel->fd = i;
    }
    cm_unlock();
}

void cm_dup(int from, int to)
{
    if (from == to || to < 0)
        return;
    cm_close(to);
    cm_lock();
    struct cm_channel *channel = cm_channel_of(from);
    if (channel && to < FILES) {
        channel->users++;
        __atomic_store_n(&channels[to], channel, __ATOMIC_RELEASE);
    }
    cm_unlock();
}

/* -- events -- */

/* Return the id whose event count `event` increments. */
static struct cm_id *counted(const struct softib_cm_reply *event)
{
    return cm_by_number(event->event == CM_CONNECT_REQUEST ? event->listener : event->number);
}

int cm_take(struct cm_channel *channel, int fd, struct softib_cm_reply *event)
{
    ssize_t n = recv(fd, event, sizeof *event, MSG_DONTWAIT);

    (void)channel;
    if (n < 0 && errno != ECONNRESET)
        return -errno;
    if (n != sizeof *event)
        return -EIO;
    struct cm_id *id = counted(event);
    if (id)
        id->received++;
    return 0;
}

/* Put an event back at the end of a channel's queue. Only the daemon can write to the queue, so it sends the event
 * again; the event is in the queue when this function returns. */
static void post(const struct softib_cm_reply *event, uint32_t channel)
{
    struct {
        struct softib_cm_ask ask;
        struct softib_cm_reply event;
    } question;
    struct softib_cm_reply answer;

    memset(&question.ask, 0, sizeof question.ask);
    question.ask.op = SOFTIB_CM_POST;
    question.ask.channel = channel;
    question.event = *event;
    cm_ask_more(&question.ask, sizeof question, &answer);
}

static void reject_child(uint32_t number)
{
    struct softib_cm_ask question = { .op = SOFTIB_CM_DESTROY, .number = number };

    cm_ask(&question, NULL);
}

void cm_sweep(struct cm_id *id, uint32_t sent, struct cm_channel *to)
{
    struct softib_cm_reply *kept = NULL, event;
    size_t n = 0;
    struct cm_channel *channel = id->channel;

    if (id->received == sent)
        return;
    while (id->received != sent && !cm_take(channel, channel->fd, &event)) {
        struct softib_cm_reply *more = realloc(kept, (n + 1) * sizeof *kept);
        if (!more)
            break;
        kept = more;
        kept[n++] = event;
    }
    /* The events after the last one of `id` are still in the socket; they must follow those that were put back. */
    while (n && !cm_take(channel, channel->fd, &event)) {
        struct softib_cm_reply *more = realloc(kept, (n + 1) * sizeof *kept);
        if (!more)
            break;
        kept = more;
        kept[n++] = event;
    }
    for (size_t i = 0; i < n; i++) {
        struct cm_id *whose = counted(&kept[i]);
        bool ours = whose == id || (whose && whose->parent == id);
        if (ours && !to && kept[i].event == CM_CONNECT_REQUEST)
            reject_child(kept[i].number);
        if (ours && !to)
            continue;
        if (whose)
            whose->received--;
        post(&kept[i], ours ? to->number : channel->number);
    }
    free(kept);
}
