/* The C library's functions that calls.c overrides. */
#ifndef SOFTIB_CM_CALLS_H
#define SOFTIB_CM_CALLS_H

#include <sys/stat.h>
#include <sys/types.h>

#define CM_REAL(X) \
    X(int, open, (const char *, int, ...)) \
    X(int, open64, (const char *, int, ...)) \
    X(int, openat, (int, const char *, int, ...)) \
    X(int, openat64, (int, const char *, int, ...)) \
    X(int, close, (int)) \
    X(ssize_t, write, (int, const void *, size_t)) \
    X(int, dup, (int)) \
    X(int, dup2, (int, int)) \
    X(int, dup3, (int, int, int)) \
    X(int, fcntl, (int, int, ...)) \
    X(int, fcntl64, (int, int, ...)) \
    X(int, fstat, (int, struct stat *)) \
    X(int, fstat64, (int, struct stat64 *)) \
    X(int, __fxstat, (int, int, struct stat *)) \
    X(int, __fxstat64, (int, int, struct stat64 *))

struct cm_real {
#define X(type, name, arguments) type(*name) arguments;
    CM_REAL(X)
#undef X
};

const struct cm_real *cm_real(void);

#endif
