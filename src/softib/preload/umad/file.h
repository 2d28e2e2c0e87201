/* An open umad or issm device, shared by file.c and ioctl.c. */
#ifndef SOFTIB_FILE_H
#define SOFTIB_FILE_H

#include "internal.h"

#include <errno.h>
#include <sys/uio.h>

struct agent {
    bool used, kernel_rmpp;
};

struct message {
    struct softib_umad_head head;
    uint8_t mad[SOFTIB_UMAD_MAD];
};

struct file {
    struct file *next; /* next in the list of closed files */
    char kind; /* 'u' or 's' */
    int users; /* open descriptors in this process */
    uint32_t handle;
    size_t head; /* OLD_HEAD, or SOFTIB_UMAD_HEAD after ENABLE_PKEY */
    bool spoken; /* whether the program has used the file */
    pthread_mutex_t reading, changing, counting;
    bool due; /* `announced` was read, but the whole MAD was not */
    struct message announced;
    struct agent agents[SOFTIB_UMAD_AGENTS];
    struct unanswered *unanswered; /* unanswered.c; NULL before the first request */
};

/* message.c: one message on the connection. Both return 0 or -errno; `payload` is -1, or a
 * descriptor to send with it. */
int message_receive(int fd, struct message *m, size_t *size, int *payload, int flags);
int message_send(int fd, const struct iovec *parts, int count, int payload);
/* Create a file with a whole MAD, whose first segment is `first`. Return its descriptor or -errno. */
int payload_of(const uint8_t *mad, size_t length, const uint8_t *first);
/* Read `length` bytes of `payload` and close it. */
int payload_read(int payload, uint8_t *to, size_t length);

/* unanswered.c. _add: a request was sent. _done: it was answered, or failed with a status. _next: return the next
 * request that will never be answered (false: none is left). */
void unanswered_add(struct file *file, const struct softib_umad_head *head, const uint8_t *mad);
void unanswered_done(struct file *file, const struct softib_umad_head *head, const uint8_t *mad);
bool unanswered_next(struct file *file, struct message *m);
void unanswered_forget(struct file *file);

static inline int fail(int error)
{
    errno = error;
    return -1;
}

#endif
