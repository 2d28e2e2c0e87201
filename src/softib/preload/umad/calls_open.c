/* Interposed calls that open a file by its path. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

#undef open
#undef open64
#undef openat
#undef openat64

/* Under _FORTIFY_SOURCE, programs call these functions instead of open() without a mode. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags);

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT || ((flags) & O_TMPFILE) == O_TMPFILE) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

static int open_by(int (*call)(int, const char *, int, ...), int folder, const char *path, int flags, mode_t mode)
{
    char room[PATH_ROOM];
    unsigned number;
    char kind = device_of(path, &number);

    if (kind && !(flags & O_PATH))
        return file_open(kind, number, flags);
    if ((flags & O_ACCMODE) != O_RDONLY && is_attribute(path)) {
        if (!is_description(path)) {
            errno = EACCES;
            return -1;
        }
        if ((flags & O_ACCMODE) == O_WRONLY)
            flags |= O_TRUNC; /* a write to a sysfs file replaces its whole content */
    }
    return call(folder, mapped_fresh(folder, path, room), flags, mode);
}

PUBLIC int open(const char *path, int flags, ...)
{
    MODE(flags)
    return open_by(real()->openat, AT_FDCWD, path, flags, mode);
}

PUBLIC int open64(const char *path, int flags, ...)
{
    MODE(flags)
    return open_by(real()->openat64, AT_FDCWD, path, flags, mode);
}

PUBLIC int openat(int folder, const char *path, int flags, ...)
{
    MODE(flags)
    return open_by(real()->openat, folder, path, flags, mode);
}

PUBLIC int openat64(int folder, const char *path, int flags, ...)
{
    MODE(flags)
    return open_by(real()->openat64, folder, path, flags, mode);
}

PUBLIC int __open_2(const char *path, int flags)
{
    return open_by(real()->openat, AT_FDCWD, path, flags, 0);
}

PUBLIC int __open64_2(const char *path, int flags)
{
    return open_by(real()->openat64, AT_FDCWD, path, flags, 0);
}

PUBLIC int __openat_2(int folder, const char *path, int flags)
{
    return open_by(real()->openat, folder, path, flags, 0);
}

PUBLIC int __openat64_2(int folder, const char *path, int flags)
{
    return open_by(real()->openat64, folder, path, flags, 0);
}

static FILE *fopen_by(FILE *(*call)(const char *, const char *), const char *path, const char *mode)
{
    char room[PATH_ROOM];

    if (is_attribute(path) && strpbrk(mode, "wa+")) {
        if (is_description(path))
            return description_stream(mapped_fresh(AT_FDCWD, path, room), mode);
        errno = EACCES;
        return NULL;
    }
    return call(mapped_fresh(AT_FDCWD, path, room), mode);
}

PUBLIC FILE *fopen(const char *path, const char *mode)
{
    return fopen_by(real()->fopen, path, mode);
}

PUBLIC FILE *fopen64(const char *path, const char *mode)
{
    return fopen_by(real()->fopen64, path, mode);
}

PUBLIC FILE *freopen(const char *path, const char *mode, FILE *file)
{
    char room[PATH_ROOM];

    return real()->freopen(mapped_fresh(AT_FDCWD, path, room), mode, file);
}
