/* Calls that look at a path without opening a file: the path is exchanged, nothing else. */
#include "inner.h"

#include <fcntl.h>
#include <sys/xattr.h>

#undef stat
#undef lstat
#undef fstatat
#undef stat64
#undef lstat64
#undef fstatat64
#undef scandir
#undef scandir64

/* The names that programs linked against a C library before 2.33 call. */
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

/* One call with the path in the middle of its arguments. */
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
EXCHANGED(int, stat, (const char *path, struct stat *to), FIRST, path, to)
EXCHANGED(int, lstat, (const char *path, struct stat *to), FIRST, path, to)
EXCHANGED(int, fstatat, (int at, const char *path, struct stat *to, int flags), AFTER(at), path, to, flags)
EXCHANGED(int, stat64, (const char *path, struct stat64 *to), FIRST, path, to)
EXCHANGED(int, lstat64, (const char *path, struct stat64 *to), FIRST, path, to)
EXCHANGED(int, fstatat64, (int at, const char *path, struct stat64 *to, int flags), AFTER(at), path, to, flags)
EXCHANGED(int, __xstat, (int v, const char *path, struct stat *to), AFTER(v), path, to)
EXCHANGED(int, __lxstat, (int v, const char *path, struct stat *to), AFTER(v), path, to)
EXCHANGED(int, __fxstatat, (int v, int at, const char *path, struct stat *to, int flags), AFTER(v, at), path, to, flags)
EXCHANGED(int, __xstat64, (int v, const char *path, struct stat64 *to), AFTER(v), path, to)
EXCHANGED(int, __lxstat64, (int v, const char *path, struct stat64 *to), AFTER(v), path, to)
EXCHANGED(int, __fxstatat64, (int v, int at, const char *path, struct stat64 *to, int flags), AFTER(v, at), path, to,
    flags)
EXCHANGED(int, statx, (int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict to),
    AFTER(at), path, flags, mask, to)
EXCHANGED(int, access, (const char *path, int mode), FIRST, path, mode)
EXCHANGED(int, euidaccess, (const char *path, int mode), FIRST, path, mode)
EXCHANGED(int, faccessat, (int at, const char *path, int mode, int flags), AFTER(at), path, mode, flags)
EXCHANGED(ssize_t, readlink, (const char *restrict path, char *restrict to, size_t room), FIRST, path, to, room)
EXCHANGED(ssize_t, readlinkat, (int at, const char *restrict path, char *restrict to, size_t room), AFTER(at), path,
    to, room)
EXCHANGED(char *, realpath, (const char *restrict path, char *restrict to), FIRST, path, to)
EXCHANGED(int, chdir, (const char *path), FIRST, path)
EXCHANGED(ssize_t, getxattr, (const char *path, const char *name, void *to, size_t n), FIRST, path, name, to, n)
EXCHANGED(ssize_t, lgetxattr, (const char *path, const char *name, void *to, size_t n), FIRST, path, name, to, n)
EXCHANGED(ssize_t, listxattr, (const char *path, char *to, size_t n), FIRST, path, to, n)
EXCHANGED(ssize_t, llistxattr, (const char *path, char *to, size_t n), FIRST, path, to, n)

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
    (void)room; /* realpath() writes at most PATH_MAX, as its caller was checked for */
    return realpath(path, to);
}
