/*
 * An open umad or issm device. The descriptor the program gets is the connection to the daemon itself, so poll, select,
 * epoll, fork and close-on-exec work without us; what stands here is what the kernel's driver does to a read and a write
 * (documented in the kernel's Documentation/infiniband/user_mad.rst).
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { GONE_US = 100000 };
enum { FILES = 1 << 16, OLD_HEAD = 56, MAD_HEAD = 24, LEAST_MAD = 36 };

struct message {
    struct softib_umad_head head;
    uint8_t mad[SOFTIB_UMAD_MAD];
};

_Static_assert(sizeof(struct softib_umad_head) == sizeof(struct ib_user_mad_hdr), "the kernel's header");
_Static_assert(sizeof(struct softib_umad_head) == SOFTIB_UMAD_HEAD, "64 octets");

static struct file *files[FILES];
static struct file *spare; /* closed ones are used again, never freed: another thread may still stand in a read */
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;

struct file *file_of(int fd)
{
    return fd >= 0 && fd < FILES ? __atomic_load_n(&files[fd], __ATOMIC_ACQUIRE) : NULL;
}

static struct file *fresh(void)
{
    pthread_mutex_lock(&table);
    struct file *file = spare;
    if (file)
        spare = file->next;
    pthread_mutex_unlock(&table);
    if (file)
        memset(file->agents, 0, sizeof file->agents);
    else if ((file = calloc(1, sizeof *file))) {
        pthread_mutex_init(&file->reading, NULL);
        pthread_mutex_init(&file->changing, NULL);
    }
    return file;
}

int file_open(char kind, unsigned number, int flags)
{
    struct softib_umad_ask question = { .op = kind == 'u' ? SOFTIB_UMAD_OPEN : SOFTIB_UMAD_ISSM };
    struct softib_umad_told told;
    struct file *file;
    int fd;

    snprintf(question.path, sizeof question.path, "%u", number);
    for (;;) {
        fd = ask(&question, &told, true);
        /* A port has one subnet manager: whoever comes second waits, or is told to come again. */
        if (fd != -EAGAIN || kind != 's' || flags & O_NONBLOCK)
            break;
        usleep(100000);
    }
    if (fd < 0)
        return fail(fd == -ECONNREFUSED || fd == -ENOENT ? ENXIO : -fd);
    if (fd >= FILES || !(file = fresh())) {
        real()->close(fd);
        return fail(fd >= FILES ? EMFILE : ENOMEM);
    }
    if (!(flags & O_CLOEXEC))
        real()->fcntl(fd, F_SETFD, 0);
    if (flags & O_NONBLOCK)
        real()->fcntl(fd, F_SETFL, O_NONBLOCK);
    file->kind = kind;
    file->users = 1;
    file->handle = told.value;
    file->head = OLD_HEAD;
    file->spoken = false;
    __atomic_store_n(&files[fd], file, __ATOMIC_RELEASE);
    return fd;
}

int file_close(int fd)
{
    pthread_mutex_lock(&table);
    struct file *file = file_of(fd);
    if (file)
        __atomic_store_n(&files[fd], NULL, __ATOMIC_RELEASE);
    if (file && !--file->users) {
        file->next = spare;
        spare = file;
    }
    pthread_mutex_unlock(&table);
    return file != NULL;
}

void file_dup(int from, int to)
{
    if (from == to || to < 0)
        return;
    file_close(to);
    pthread_mutex_lock(&table);
    struct file *file = file_of(from);
    if (file && to < FILES) {
        file->users++;
        __atomic_store_n(&files[to], file, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&table);
}

/* -- read -- */

/* The rest of an RMPP message lies in a file of its own: take it, and the message with it. */
static ssize_t read_long(int fd, struct message *m, uint8_t *to, size_t length)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = { m, sizeof *m };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                              .msg_controllen = sizeof control };
    int payload = -1;

    if (recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return -errno;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(&payload, CMSG_DATA(c), sizeof payload);
    if (payload < 0)
        return -EIO;
    size_t got = 0;
    while (got < length) {
        ssize_t n = pread(payload, to + got, length - got, (off_t)got);
        if (n <= 0)
            break;
        got += (size_t)n;
    }
    real()->close(payload);
    return got == length ? (ssize_t)length : -EIO;
}

/* What the next message is, if it fits into `count` octets; it stays in the queue when it does not. */
static ssize_t take(struct file *file, int fd, uint8_t *to, size_t count)
{
    struct message m;
    ssize_t n = recv(fd, &m, sizeof m, MSG_PEEK | MSG_DONTWAIT);

    if (n == 0 || (n > 0 && n < SOFTIB_UMAD_HEAD))
        return -EIO; /* the daemon has gone, as a device that is pulled out */
    if (n < 0)
        return errno == ECONNRESET ? -EIO : -errno;
    size_t whole = m.head.length < SOFTIB_UMAD_HEAD ? 0 : m.head.length - SOFTIB_UMAD_HEAD;
    size_t length = m.head.status ? MAD_HEAD : whole, first = length < SOFTIB_UMAD_MAD ? length : SOFTIB_UMAD_MAD;
    if (count < file->head + first)
        return -EINVAL;
    m.head.length = (uint32_t)(file->head + length);
    memcpy(to, &m.head, file->head);
    memcpy(to + file->head, m.mad, first);
    if (count < file->head + length)
        return -ENOSPC; /* the program sees the length and comes again */
    if (length > SOFTIB_UMAD_MAD)
        n = read_long(fd, &m, to + file->head, length);
    else
        n = recv(fd, &m, sizeof m, MSG_DONTWAIT) < 0 ? -errno : 0;
    return n < 0 ? n : (ssize_t)(file->head + length);
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
            usleep(GONE_US); /* a program that reads on and logs each error would fill the disk */
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

/* -- write -- */

/* A file that holds the whole MAD, to travel beside its first segment. */
static int payload_of(const uint8_t *mad, size_t length, const uint8_t *first)
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

/* Send `size` octets, with a descriptor beside them when payload >= 0. The kernel's driver takes every write at once:
 * a full socket is waited for, even where reads of this file do not block. */
static int send_whole(int fd, struct message *m, size_t size, int payload)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = { m, size };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

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
            return errno == EPIPE || errno == ECONNRESET ? EIO : errno;
    }
    return 0;
}

ssize_t file_write(struct file *file, int fd, const void *buffer, size_t count)
{
    struct message m = { 0 };
    int payload = -1;

    if (file->kind != 'u' || count < file->head + LEAST_MAD || count > SOFTIB_UMAD_LONGEST)
        return fail(EINVAL);
    size_t length = count - file->head, first = length < SOFTIB_UMAD_MAD ? length : SOFTIB_UMAD_MAD;
    const uint8_t *mad = (const uint8_t *)buffer + file->head;
    memcpy(&m.head, buffer, file->head);
    memcpy(m.mad, mad, first);
    if (m.head.id >= SOFTIB_UMAD_AGENTS || !file->agents[m.head.id].used)
        return fail(EINVAL);
    bool rmpp = file->agents[m.head.id].kernel_rmpp && rmpp_is_active(m.mad);
    if (length > SOFTIB_UMAD_MAD && !rmpp)
        return fail(EINVAL);
    if (rmpp)
        rmpp_first_segment(m.mad, length);
    m.head.length = (uint32_t)(SOFTIB_UMAD_HEAD + length);
    if (length > SOFTIB_UMAD_MAD && (payload = payload_of(mad, length, m.mad)) < 0)
        return fail(-payload);
    file->spoken = true;
    int error = send_whole(fd, &m, SOFTIB_UMAD_HEAD + first, payload);
    if (payload >= 0)
        real()->close(payload);
    return error ? fail(error) : (ssize_t)count;
}
