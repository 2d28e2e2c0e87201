/* Read and write of a umad device, as the kernel's driver implements them. */
#include "file.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DAEMON_ENDED_US = 100000 };
enum { MAD_HEAD = 24, LEAST_MAD = 36 };

/* Return the length of the MAD in a message: the length in the message's head, at most the maximum. */
static size_t octets_of(const struct message *m)
{
    if (m->head.status || m->head.length < SOFTIB_UMAD_HEAD)
        return MAD_HEAD; /* a timed-out request comes back as its header alone */
    return m->head.length - SOFTIB_UMAD_HEAD;
}

/* Copy the head and the first segment, if any, in the layout that the program uses. */
static void show(struct file *file, struct message *m, size_t length, uint8_t *to)
{
    m->head.length = (uint32_t)(file->head + length);
    memcpy(to, &m->head, file->head);
    memcpy(to + file->head, m->mad, length < SOFTIB_UMAD_MAD ? length : SOFTIB_UMAD_MAD);
}

/* Read the announced message: the whole message if it fits; otherwise the program gets its length and retries. */
static ssize_t take_announced(struct file *file, int fd, uint8_t *to, size_t count)
{
    size_t length = octets_of(&file->announced), size;
    struct message m = file->announced;
    int payload, error;

    if (length > SOFTIB_UMAD_LONGEST)
        return -EIO;
    if (count < file->head + SOFTIB_UMAD_MAD)
        return -EINVAL;
    if (count < file->head + length) {
        show(file, &m, length, to);
        return -ENOSPC;
    }
    if ((error = message_receive(fd, &m, &size, &payload, 0)))
        return error;
    file->due = false;
    if (payload < 0) { /* another process with this device has read the whole MAD, and this is the next message */
        length = octets_of(&m);
        if (length > SOFTIB_UMAD_MAD) {
            file->announced = m;
            file->due = true;
            return -EAGAIN;
        }
        show(file, &m, length, to);
        return (ssize_t)(file->head + length);
    }
    if (octets_of(&m) != length) {
        real()->close(payload);
        return -EAGAIN;
    }
    if ((error = payload_read(payload, to + file->head, length)))
        return error;
    unanswered_done(file, &m.head, m.mad);
    show(file, &m, length, to);
    return (ssize_t)(file->head + length);
}

/* Read the next message if it fits into `count` bytes; otherwise it stays in the queue. */
static ssize_t take(struct file *file, int fd, uint8_t *to, size_t count)
{
    bool roomy = count >= file->head + SOFTIB_UMAD_MAD; /* the first segment of any message fits */
    struct message m;
    size_t size;
    int payload, error;

    if (file->due)
        return take_announced(file, fd, to, count);
    if ((error = message_receive(fd, &m, &size, &payload, roomy ? 0 : MSG_PEEK))) {
        if (error != -EIO || count < file->head + MAD_HEAD || !unanswered_next(file, &m))
            return error;
        show(file, &m, MAD_HEAD, to); /* the daemon is down: first return all unanswered requests */
        return (ssize_t)(file->head + MAD_HEAD);
    }
    size_t length = octets_of(&m);
    if (payload >= 0) { /* another process with this device read the announcement */
        real()->close(payload);
        return -EAGAIN;
    }
    if (length > SOFTIB_UMAD_MAD) {
        if (!roomy)
            return -EINVAL;
        file->announced = m;
        file->due = true;
        return take_announced(file, fd, to, count);
    }
    if (size < SOFTIB_UMAD_HEAD + length)
        memset((uint8_t *)&m + size, 0, sizeof m - size);
    if (count < file->head + length)
        return -EINVAL;
    if (!roomy && (error = message_receive(fd, &m, &size, &payload, 0)))
        return error;
    unanswered_done(file, &m.head, m.mad);
    show(file, &m, length, to);
    return (ssize_t)(file->head + length);
}

ssize_t file_read(struct file *file, int fd, void *buffer, size_t count)
{
    if (file->kind != 'u' || count < file->head)
        return fail(EINVAL);
    for (;;) {
        int cancelling;
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
        pthread_mutex_lock(&file->reading);
        ssize_t n = take(file, fd, buffer, count);
        pthread_mutex_unlock(&file->reading);
        pthread_setcancelstate(cancelling, NULL);
        if (n == -EIO)
            usleep(DAEMON_ENDED_US); /* otherwise a program that retries and logs each error would fill the disk */
        if (n != -EAGAIN && n != -EINTR)
            return n < 0 ? fail((int)-n) : n;
        if (n == -EAGAIN && real()->fcntl(fd, F_GETFL) & O_NONBLOCK)
            return fail(EAGAIN);
        struct pollfd wait = { fd, POLLIN, 0 };
        if (poll(&wait, 1, -1) < 0)
            return -1;
        if (file_of(fd) != file)
            return fail(EBADF);
    }
}

/* Send an RMPP message: first the announcement, then the whole MAD (umad.h). */
static int write_long(int fd, struct message *m, const uint8_t *mad, size_t length)
{
    struct iovec part = { m, sizeof *m };
    int payload = payload_of(mad, length, m->mad);

    if (payload < 0)
        return payload;
    int error = message_send(fd, &part, 1, -1);
    if (!error)
        error = message_send(fd, &part, 1, payload);
    real()->close(payload);
    return error;
}

ssize_t file_write(struct file *file, int fd, const void *buffer, size_t count)
{
    struct message m;
    int error;

    if (file->kind != 'u' || count < file->head + LEAST_MAD || count > SOFTIB_UMAD_LONGEST)
        return fail(EINVAL);
    size_t length = count - file->head, first = length < SOFTIB_UMAD_MAD ? length : SOFTIB_UMAD_MAD;
    const uint8_t *mad = (const uint8_t *)buffer + file->head;
    memcpy(&m.head, buffer, file->head);
    memset((uint8_t *)&m.head + file->head, 0, SOFTIB_UMAD_HEAD - file->head);
    if (m.head.id >= SOFTIB_UMAD_AGENTS || !file->agents[m.head.id].used)
        return fail(EINVAL);
    bool rmpp = file->agents[m.head.id].kernel_rmpp && rmpp_is_active(mad);
    if (length > SOFTIB_UMAD_MAD && !rmpp)
        return fail(EINVAL);
    m.head.length = (uint32_t)(SOFTIB_UMAD_HEAD + length);
    file->spoken = true;
    if (rmpp) {
        memcpy(m.mad, mad, first);
        rmpp_first_segment(m.mad, length);
        mad = m.mad;
    }
    unanswered_add(file, &m.head, mad); /* recorded first, since the answer may arrive at once */
    if (length > SOFTIB_UMAD_MAD)
        error = write_long(fd, &m, (const uint8_t *)buffer + file->head, length);
    else {
        struct iovec parts[2] = { { &m.head, SOFTIB_UMAD_HEAD }, { (void *)mad, length } };
        error = message_send(fd, parts, 2, -1);
    }
    if (error) {
        m.head.status = (uint32_t)-error;
        unanswered_done(file, &m.head, mad);
        return fail(-error);
    }
    return (ssize_t)count;
}
