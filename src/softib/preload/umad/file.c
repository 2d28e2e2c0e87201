/*
 * An open umad or issm device. The descriptor the program gets is the connection to the daemon itself, so poll,
 * select, epoll, fork and close-on-exec need no support; this file implements the read and write of the kernel's
 * driver (documented in the kernel's Documentation/infiniband/user_mad.rst).
 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_mad.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILES = 1 << 16, OLD_HEAD = 56 };

_Static_assert(sizeof(struct softib_umad_head) == sizeof(struct ib_user_mad_hdr), "the kernel's header");
_Static_assert(sizeof(struct softib_umad_head) == SOFTIB_UMAD_HEAD, "64 octets");

static struct file *files[FILES];
static struct file *spare; /* closed entries are reused, never freed, because another thread may still be inside a
                            * read */
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
    if (file) {
        memset(file->agents, 0, sizeof file->agents);
        file->due = false;
        unanswered_forget(file);
    }
    else if ((file = calloc(1, sizeof *file))) {
        pthread_mutex_init(&file->reading, NULL);
        pthread_mutex_init(&file->changing, NULL);
        pthread_mutex_init(&file->counting, NULL);
    }
    return file;
}

int file_open(char kind, unsigned number, int flags)
{
    struct softib_umad_ask question = { .op = kind == 'u' ? SOFTIB_UMAD_OPEN : SOFTIB_UMAD_ISSM };
    struct softib_umad_reply reply;
    struct file *file;
    int fd;

    snprintf(question.path, sizeof question.path, "%u", number);
    for (;;) {
        fd = ask(&question, &reply, true);
        /* Only one process can have a port's issm device open: a second one waits, or gets EAGAIN. */
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
    file->handle = reply.value;
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
