/* Interposed calls on descriptors: only those whose meaning differs between a socket and a umad device. */
#include "internal.h"
#include "netlink.h"

#include <fcntl.h>
#include <stdarg.h>

PUBLIC int close(int fd)
{
    if (file_of(fd))
        file_close(fd);
    netlink_closed(fd);
    return real()->close(fd);
}

PUBLIC ssize_t read(int fd, void *buffer, size_t count)
{
    struct file *file = file_of(fd);

    return file ? file_read(file, fd, buffer, count) : real()->read(fd, buffer, count);
}

PUBLIC ssize_t write(int fd, const void *buffer, size_t count)
{
    struct file *file = file_of(fd);

    return file ? file_write(file, fd, buffer, count) : real()->write(fd, buffer, count);
}

PUBLIC int ioctl(int fd, unsigned long request, ...)
{
    struct file *file = file_of(fd);
    va_list more;

    va_start(more, request);
    void *argument = va_arg(more, void *);
    va_end(more);
    return file ? file_ioctl(file, request, argument) : real()->ioctl(fd, request, argument);
}

PUBLIC int dup(int fd)
{
    int to = real()->dup(fd);

    file_dup(fd, to);
    return to;
}

PUBLIC int dup2(int from, int to)
{
    int got = real()->dup2(from, to);

    if (got >= 0)
        file_dup(from, got);
    return got;
}

PUBLIC int dup3(int from, int to, int flags)
{
    int got = real()->dup3(from, to, flags);

    if (got >= 0)
        file_dup(from, got);
    return got;
}

static int duplicated(int fd, int command, int got)
{
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC)
        file_dup(fd, got);
    return got;
}

PUBLIC int fcntl(int fd, int command, ...)
{
    va_list more;

    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return duplicated(fd, command, real()->fcntl(fd, command, argument));
}

PUBLIC int fcntl64(int fd, int command, ...)
{
    va_list more;

    va_start(more, command);
    void *argument = va_arg(more, void *);
    va_end(more);
    return duplicated(fd, command, (real()->fcntl64 ? real()->fcntl64 : real()->fcntl)(fd, command, argument));
}
