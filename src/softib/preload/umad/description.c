/*
 * node_desc of sysfs as a stream: one write replaces the whole content of the file, as the store function of a kernel's
 * attribute does. (rdma-ndd opens it "r+", reads the old text and writes the new one over it.)
 */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct description {
    int fd;
    off64_t at;
};

static ssize_t take(void *cookie, char *octets, size_t size)
{
    struct description *d = cookie;
    ssize_t n = pread(d->fd, octets, size, d->at);

    if (n > 0)
        d->at += n;
    return n;
}

static ssize_t store(void *cookie, const char *octets, size_t size)
{
    struct description *d = cookie;

    if (ftruncate(d->fd, 0))
        return 0;
    d->at = (off64_t)size;
    return pwrite(d->fd, octets, size, 0);
}

static int seek(void *cookie, off64_t *offset, int whence)
{
    struct description *d = cookie;

    if (whence == SEEK_END) {
        errno = EINVAL;
        return -1;
    }
    *offset = d->at = *offset + (whence == SEEK_CUR ? d->at : 0);
    return 0;
}

static int leave(void *cookie)
{
    struct description *d = cookie;
    int result = real()->close(d->fd); /* the daemon reads the new text now */

    free(d);
    return result;
}

FILE *description_stream(const char *path, const char *mode)
{
    struct description *d = malloc(sizeof *d);
    FILE *file = NULL;

    if (!d)
        return NULL;
    d->at = 0;
    d->fd = real()->openat(AT_FDCWD, path, O_RDWR | O_CLOEXEC | (*mode == 'w' ? O_TRUNC : 0));
    if (d->fd >= 0) {
        file = fopencookie(d, mode, (cookie_io_functions_t){ take, store, seek, leave });
        if (!file)
            real()->close(d->fd);
    }
    if (!file)
        free(d);
    return file;
}
