/* The calls of the C library that reach an open rdma_cm device. All other calls are forwarded to the next library. */
#include "cm.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "calls.h"

#define PUBLIC __attribute__((visibility("default")))
#define DEVICE "/dev/infiniband/rdma_cm"

enum { MISC_MAJOR = 10, RDMA_CM_MINOR = 58 };

#undef open
#undef open64
#undef openat
#undef openat64
#undef fstat
#undef fstat64

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __fxstat(int version, int fd, struct stat *to);
int __fxstat64(int version, int fd, struct stat64 *to);

static struct cm_real found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
#define X(type, name, arguments) *(void **)(&found.name) = dlsym(RTLD_NEXT, #name);
    CM_REAL(X)
#undef X
}

const struct cm_real *cm_real(void)
{
    pthread_once(&once, find);
    return &found;
}

/* Return whether `path` is the device, or the path to which libsoftib-umad.so redirects it. */
static bool is_device(const char *path)
{
    const char *view = getenv("SOFTIB_VIEW");

    if (!view || !path || *path != '/')
        return false;
    if (!strncmp(path, view, strlen(view)))
        path += strlen(view);
    return !strcmp(path, DEVICE);
}

/* memory/pages/page_holders.c; this folder alone is a library in tests. */
__attribute__((weak)) void vm_note_direct_file(void);

static int opened(int fd, int flags)
{
    if (flags & O_DIRECT && fd >= 0 && vm_note_direct_file)
        vm_note_direct_file();
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

PUBLIC int open(const char *path, int flags, ...)
{
    MODE(flags)
    return is_device(path) ? cm_open(flags) : opened(cm_real()->open(path, flags, mode), flags);
}

PUBLIC int open64(const char *path, int flags, ...)
{
    MODE(flags)
    return is_device(path) ? cm_open(flags) : opened(cm_real()->open64(path, flags, mode), flags);
}

PUBLIC int openat(int folder, const char *path, int flags, ...)
{
    MODE(flags)
    return is_device(path) ? cm_open(flags) : opened(cm_real()->openat(folder, path, flags, mode), flags);
}

PUBLIC int openat64(int folder, const char *path, int flags, ...)
{
    MODE(flags)
    return is_device(path) ? cm_open(flags) : opened(cm_real()->openat64(folder, path, flags, mode), flags);
}

PUBLIC int __open_2(const char *path, int flags)
{
    return is_device(path) ? cm_open(flags) : opened(cm_real()->open(path, flags), flags);
}

PUBLIC int __open64_2(const char *path, int flags)
{
    return is_device(path) ? cm_open(flags) : opened(cm_real()->open64(path, flags), flags);
}

PUBLIC int close(int fd)
{
    if (cm_channel_of(fd))
        cm_close(fd);
    return cm_real()->close(fd);
}

PUBLIC ssize_t write(int fd, const void *buffer, size_t count)
{
    struct cm_channel *channel = cm_channel_of(fd);

    return channel ? cm_write(channel, fd, buffer, count) : cm_real()->write(fd, buffer, count);
}

PUBLIC int dup(int fd)
{
    int to = cm_real()->dup(fd);

    if (to >= 0 && cm_channel_of(fd))
        cm_dup(fd, to);
    return to;
}

static int duplicated(int from, int to)
{
    if (to >= 0 && to != from && (cm_channel_of(from) || cm_channel_of(to)))
        cm_dup(from, to);
    return to;
}

PUBLIC int dup2(int from, int to)
{
    return duplicated(from, cm_real()->dup2(from, to));
}

PUBLIC int dup3(int from, int to, int flags)
{
    return duplicated(from, cm_real()->dup3(from, to, flags));
}

static int controlled(int fd, int command, int got)
{
    return command == F_DUPFD || command == F_DUPFD_CLOEXEC ? duplicated(fd, got) : got;
}

PUBLIC int fcntl(int fd, int command, ...)
{
    va_list more;

    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    int got = cm_real()->fcntl(fd, command, argument);

    return command == F_SETFL ? opened(got, (int)(intptr_t)argument) : controlled(fd, command, got);
}

PUBLIC int fcntl64(int fd, int command, ...)
{
    va_list more;

    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    int got = (cm_real()->fcntl64 ? cm_real()->fcntl64 : cm_real()->fcntl)(fd, command, argument);

    return command == F_SETFL ? opened(got, (int)(intptr_t)argument) : controlled(fd, command, got);
}

/* librdmacm checks that the opened file is the expected character device. */
static dev_t device_number(void)
{
    int fd = cm_real()->open(DEVICE, O_PATH | O_CLOEXEC), got = -1;
    struct stat real_device;

    if (fd >= 0) {
        got = cm_real()->fstat ? cm_real()->fstat(fd, &real_device) : cm_real()->__fxstat(1, fd, &real_device);
        cm_real()->close(fd);
    }
    return got || !S_ISCHR(real_device.st_mode) ? makedev(MISC_MAJOR, RDMA_CM_MINOR) : real_device.st_rdev;
}

#define AS_DEVICE(got, fd, to) \
    if (!(got) && cm_channel_of(fd)) { \
        (to)->st_mode = S_IFCHR | 0666; \
        (to)->st_rdev = device_number(); \
    } \
    return got;

PUBLIC int fstat(int fd, struct stat *to)
{
    int got = cm_real()->fstat ? cm_real()->fstat(fd, to) : cm_real()->__fxstat(1, fd, to);
    AS_DEVICE(got, fd, to)
}

PUBLIC int fstat64(int fd, struct stat64 *to)
{
    int got = cm_real()->fstat64 ? cm_real()->fstat64(fd, to) : cm_real()->__fxstat64(1, fd, to);
    AS_DEVICE(got, fd, to)
}

PUBLIC int __fxstat(int version, int fd, struct stat *to)
{
    int got = cm_real()->__fxstat(version, fd, to);
    AS_DEVICE(got, fd, to)
}

PUBLIC int __fxstat64(int version, int fd, struct stat64 *to)
{
    int got = cm_real()->__fxstat64(version, fd, to);
    AS_DEVICE(got, fd, to)
}
