/* Interposed calls that use a path without opening a file: only the path is replaced. */
#include "internal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#undef stat
#undef lstat
#undef fstatat
#undef stat64
#undef lstat64
#undef fstatat64
#undef scandir
#undef scandir64

/* Names called by programs that were linked with a C library before 2.33. */
int __xstat(int version, const char *path, struct stat *to);
int __lxstat(int version, const char *path, struct stat *to);
int __fxstatat(int version, int folder, const char *path, struct stat *to, int flags);
int __xstat64(int version, const char *path, struct stat64 *to);
int __lxstat64(int version, const char *path, struct stat64 *to);
int __fxstatat64(int version, int folder, const char *path, struct stat64 *to, int flags);
/* Under _FORTIFY_SOURCE. */
ssize_t __readlink_chk(const char *path, char *to, size_t count, size_t room);
ssize_t __readlinkat_chk(int folder, const char *path, char *to, size_t count, size_t room);
char *__realpath_chk(const char *path, char *to, size_t room);

/* Define one call whose path has other arguments before and after it. */
#define EXCHANGED(type, name, parameters, before, path, ...) \
    PUBLIC type name parameters \
    { \
        char room_[PATH_ROOM]; \
        return real()->name(before mapped(path, room_) __VA_OPT__(, ) __VA_ARGS__); \
    }
#define FIRST
#define AFTER(...) __VA_ARGS__,

EXCHANGED(DIR *, opendir, (const char *path), FIRST, path)
EXCHANGED(int, scandir, (const char *path, struct dirent ***to, int (*pick)(const struct dirent *),
    int (*order)(const struct dirent **, const struct dirent **)), FIRST, path, to, pick, order)
EXCHANGED(int, scandir64, (const char *path, struct dirent64 ***to, int (*pick)(const struct dirent64 *),
    int (*order)(const struct dirent64 **, const struct dirent64 **)), FIRST, path, to, pick, order)
/* Entries of the view's dev/infiniband are files; programs expect character devices (major 231, as in the kernel). */
#define DEVICES "/dev/infiniband/"
#define MAJOR 231

static bool is_device(const char *path, unsigned *minor)
{
    if (!view_folder() || !path || strncmp(path, DEVICES, sizeof DEVICES - 1) || !path[sizeof DEVICES - 1])
        return false;
    const char *name = path + sizeof DEVICES - 1, *digits = name + strcspn(name, "0123456789");

    /* The kernel's first minors: umad 0, issm 64, uverbs 192. */
    *minor = (unsigned)atoi(digits) + (*name == 'i' ? 64 : !strncmp(name, "uv", 2) ? 192 : 0);
    return true;
}

#define EXCHANGED_STAT(name, parameters, before, ...) \
    PUBLIC int name parameters \
    { \
        char room_[PATH_ROOM]; \
        unsigned minor_; \
        int done_ = real()->name(before mapped(path, room_), to __VA_OPT__(, ) __VA_ARGS__); \
        if (!done_ && S_ISREG(to->st_mode) && is_device(path, &minor_)) { \
            to->st_mode = (to->st_mode & ~(mode_t)S_IFMT) | S_IFCHR; \
            to->st_rdev = makedev(MAJOR, minor_); \
        } \
        return done_; \
    }

EXCHANGED_STAT(stat, (const char *path, struct stat *to), FIRST)
EXCHANGED_STAT(lstat, (const char *path, struct stat *to), FIRST)
EXCHANGED_STAT(fstatat, (int at, const char *path, struct stat *to, int flags), AFTER(at), flags)
EXCHANGED_STAT(stat64, (const char *path, struct stat64 *to), FIRST)
EXCHANGED_STAT(lstat64, (const char *path, struct stat64 *to), FIRST)
EXCHANGED_STAT(fstatat64, (int at, const char *path, struct stat64 *to, int flags), AFTER(at), flags)
EXCHANGED_STAT(__xstat, (int v, const char *path, struct stat *to), AFTER(v))
EXCHANGED_STAT(__lxstat, (int v, const char *path, struct stat *to), AFTER(v))
EXCHANGED_STAT(__fxstatat, (int v, int at, const char *path, struct stat *to, int flags), AFTER(v, at), flags)
EXCHANGED_STAT(__xstat64, (int v, const char *path, struct stat64 *to), AFTER(v))
EXCHANGED_STAT(__lxstat64, (int v, const char *path, struct stat64 *to), AFTER(v))
EXCHANGED_STAT(__fxstatat64, (int v, int at, const char *path, struct stat64 *to, int flags), AFTER(v, at), flags)

PUBLIC int statx(int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict to)
{
    char room[PATH_ROOM];
    unsigned minor;
    int done = real()->statx(at, mapped(path, room), flags, mask, to);

    if (!done && S_ISREG(to->stx_mode) && is_device(path, &minor)) {
        to->stx_mode = (uint16_t)((to->stx_mode & ~S_IFMT) | S_IFCHR);
        to->stx_rdev_major = MAJOR;
        to->stx_rdev_minor = minor;
    }
    return done;
}

EXCHANGED(int, access, (const char *path, int mode), FIRST, path, mode)
EXCHANGED(int, euidaccess, (const char *path, int mode), FIRST, path, mode)
EXCHANGED(int, faccessat, (int at, const char *path, int mode, int flags), AFTER(at), path, mode, flags)
EXCHANGED(ssize_t, readlink, (const char *restrict path, char *restrict to, size_t room), FIRST, path, to, room)
EXCHANGED(ssize_t, readlinkat, (int at, const char *restrict path, char *restrict to, size_t room), AFTER(at), path,
    to, room)
EXCHANGED(int, chdir, (const char *path), FIRST, path)
EXCHANGED(ssize_t, getxattr, (const char *path, const char *name, void *to, size_t n), FIRST, path, name, to, n)
EXCHANGED(ssize_t, lgetxattr, (const char *path, const char *name, void *to, size_t n), FIRST, path, name, to, n)
EXCHANGED(ssize_t, listxattr, (const char *path, char *to, size_t n), FIRST, path, to, n)
EXCHANGED(ssize_t, llistxattr, (const char *path, char *to, size_t n), FIRST, path, to, n)

/* realpath() of a class's links leads into the view's directory; programs get the fabric's path instead. */
PUBLIC char *realpath(const char *restrict path, char *restrict to)
{
    char room[PATH_ROOM];
    const char *there = mapped(path, room);

    return there == path ? real()->realpath(path, to) : unmapped(real()->realpath(there, to));
}

PUBLIC int eaccess(const char *path, int mode)
{
    return euidaccess(path, mode);
}

PUBLIC ssize_t __readlink_chk(const char *path, char *to, size_t count, size_t room)
{
    if (count > room)
        __builtin_trap();
    return readlink(path, to, count);
}

PUBLIC ssize_t __readlinkat_chk(int folder, const char *path, char *to, size_t count, size_t room)
{
    if (count > room)
        __builtin_trap();
    return readlinkat(folder, path, to, count);
}

PUBLIC char *__realpath_chk(const char *path, char *to, size_t room)
{
    (void)room; /* realpath() writes at most PATH_MAX bytes; the size of the caller's buffer was checked */
    return realpath(path, to);
}
