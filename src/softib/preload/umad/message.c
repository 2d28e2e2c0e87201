/* Messages on a connection, and the files for payloads that do not fit into one. */
#include "file.h"

#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
};

int message_receive(int fd, struct message *m, size_t *size, int *payload, int flags)
{
    union control control;
    struct iovec part = { m, sizeof *m };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = CMSG_LEN(sizeof *payload) }; /* CMSG_SPACE would leave room for two */
    ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | flags);

    if (n < 0)
        return errno == ECONNRESET ? -EIO : -errno;
    *payload = -1;
    if (message.msg_controllen >= sizeof(struct cmsghdr)) {
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len >= CMSG_LEN(sizeof(int)))
            memcpy(payload, CMSG_DATA(c), sizeof *payload);
    }
    *size = (size_t)n;
    if (n >= SOFTIB_UMAD_HEAD && !(message.msg_flags & MSG_TRUNC))
        return 0;
    if (*payload >= 0)
        real()->close(*payload);
    return -EIO; /* the daemon has ended (as if the device had been removed), or the peer is not softib's daemon */
}

/* The kernel's driver accepts every write immediately. So if the socket is full, wait, even if the program opened the
 * file with O_NONBLOCK. */
int message_send(int fd, const struct iovec *parts, int count, int payload)
{
    union control control;
    struct msghdr message = { .msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)count };

    if (payload >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof payload);
        memcpy(CMSG_DATA(&control.head), &payload, sizeof payload);
    }
    while (sendmsg(fd, &message, MSG_NOSIGNAL) < 0) {
        struct pollfd wait = { fd, POLLOUT, 0 };
        if (errno == EAGAIN)
            poll(&wait, 1, -1);
        else if (errno != EINTR)
            return errno == EPIPE || errno == ECONNRESET ? -EIO : -errno;
    }
    return 0;
}

int payload_of(const uint8_t *mad, size_t length, const uint8_t *first)
{
    int fd = memfd_create("softib-rmpp", MFD_CLOEXEC);
    size_t done = 0;

    if (fd < 0)
        return -errno;
    while (done < length) {
        const uint8_t *from = done < SOFTIB_UMAD_MAD ? first + done : mad + done;
        size_t upto = done < SOFTIB_UMAD_MAD ? SOFTIB_UMAD_MAD : length;
        ssize_t n = pwrite(fd, from, upto - done, (off_t)done);
        if (n < 0 && errno != EINTR) {
            int error = errno;
            real()->close(fd);
            return -error;
        }
        if (n > 0)
            done += (size_t)n;
    }
    return fd;
}

int payload_read(int payload, uint8_t *to, size_t length)
{
    size_t got = 0;

    while (got < length) {
        ssize_t n = pread(payload, to + got, length - got, (off_t)got);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    real()->close(payload);
    return got == length ? 0 : -EIO;
}
