/* Declarations shared by the files of libsoftib-umad.so. */
#ifndef SOFTIB_INNER_H
#define SOFTIB_INNER_H

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "umad.h"

#define PUBLIC __attribute__((visibility("default")))
#define PATH_ROOM 4096

/* libc_calls.c: the C library's versions of interposed calls. */
#define SOFTIB_REAL(X) \
    X(int, open, (const char *, int, ...)) \
    X(int, open64, (const char *, int, ...)) \
    X(int, openat, (int, const char *, int, ...)) \
    X(int, openat64, (int, const char *, int, ...)) \
    X(FILE *, fopen, (const char *, const char *)) \
    X(FILE *, fopen64, (const char *, const char *)) \
    X(FILE *, freopen, (const char *, const char *, FILE *)) \
    X(DIR *, opendir, (const char *)) \
    X(int, scandir, (const char *, struct dirent ***, int (*)(const struct dirent *), \
        int (*)(const struct dirent **, const struct dirent **))) \
    X(int, scandir64, (const char *, struct dirent64 ***, int (*)(const struct dirent64 *), \
        int (*)(const struct dirent64 **, const struct dirent64 **))) \
    X(int, stat, (const char *, struct stat *)) \
    X(int, lstat, (const char *, struct stat *)) \
    X(int, fstatat, (int, const char *, struct stat *, int)) \
    X(int, stat64, (const char *, struct stat64 *)) \
    X(int, lstat64, (const char *, struct stat64 *)) \
    X(int, fstatat64, (int, const char *, struct stat64 *, int)) \
    X(int, __xstat, (int, const char *, struct stat *)) \
    X(int, __lxstat, (int, const char *, struct stat *)) \
    X(int, __fxstatat, (int, int, const char *, struct stat *, int)) \
    X(int, __xstat64, (int, const char *, struct stat64 *)) \
    X(int, __lxstat64, (int, const char *, struct stat64 *)) \
    X(int, __fxstatat64, (int, int, const char *, struct stat64 *, int)) \
    X(int, statx, (int, const char *, int, unsigned, void *)) \
    X(int, access, (const char *, int)) \
    X(int, euidaccess, (const char *, int)) \
    X(int, faccessat, (int, const char *, int, int)) \
    X(ssize_t, readlink, (const char *, char *, size_t)) \
    X(ssize_t, readlinkat, (int, const char *, char *, size_t)) \
    X(char *, realpath, (const char *, char *)) \
    X(int, chdir, (const char *)) \
    X(ssize_t, getxattr, (const char *, const char *, void *, size_t)) \
    X(ssize_t, lgetxattr, (const char *, const char *, void *, size_t)) \
    X(ssize_t, listxattr, (const char *, char *, size_t)) \
    X(ssize_t, llistxattr, (const char *, char *, size_t)) \
    X(int, close, (int)) \
    X(ssize_t, read, (int, void *, size_t)) \
    X(ssize_t, write, (int, const void *, size_t)) \
    X(int, ioctl, (int, unsigned long, ...)) \
    X(int, dup, (int)) \
    X(int, dup2, (int, int)) \
    X(int, dup3, (int, int, int)) \
    X(int, fcntl, (int, int, ...)) \
    X(int, fcntl64, (int, int, ...)) \
    X(int, socket, (int, int, int)) \
    X(ssize_t, send, (int, const void *, size_t, int)) \
    X(ssize_t, sendto, (int, const void *, size_t, int, const struct sockaddr *, socklen_t)) \
    X(ssize_t, sendmsg, (int, const struct msghdr *, int))

struct real {
#define X(type, name, arguments) type(*name) arguments;
    SOFTIB_REAL(X)
#undef X
};

/* The C library's functions; a member is NULL if this C library does not have the function. */
const struct real *real(void);

/* ask.c: the daemon. SOFTIB_UMAD in the environment is its socket, SOFTIB_VIEW the directory with
 * this program's view of the fabric. */
const char *view_folder(void); /* NULL: this program uses no fabric, and nothing is redirected */
/* Send one request. Returns an open connection (keep), or 0 (not keep), or -errno. */
int ask(struct softib_umad_ask *question, struct softib_umad_reply *reply, bool keep);

/* paths.c */
/* Return the path to use for `path`: `path` itself, or the corresponding path below the view's directory, written to
 * `room`. */
const char *mapped(const char *path, char room[PATH_ROOM]);
/* The reverse of mapped(), in place: a `path` below the view's directory becomes the fabric's path. */
char *unmapped(char *path);
/* Like mapped(), for opening: also bring the file up to date. */
const char *mapped_fresh(int folder, const char *path, char room[PATH_ROOM]);
/* Return whether the path is a sysfs file of the fabric. Programs cannot write these files, */
bool is_attribute(const char *path);
/* except node_desc. */
bool is_description(const char *path);
/* refresh.c: bring the file `path` (absolute, below the view's directory) up to date */
void refresh(const char *path);
/* description.c: node_desc as a stream */
FILE *description_stream(const char *path, const char *mode);
/* If `path` is a umad or issm device, return 'u' or 's' and set `number`; otherwise return 0. */
char device_of(const char *path, unsigned *number);

/* file.c: an open umad or issm device. */
struct file;
struct file *file_of(int fd);
int file_open(char kind, unsigned number, int flags);
int file_close(int fd);      /* forget the descriptor if it is a umad or issm file */
void file_dup(int from, int to);
ssize_t file_read(struct file *file, int fd, void *buffer, size_t count);
ssize_t file_write(struct file *file, int fd, const void *buffer, size_t count);
int file_ioctl(struct file *file, unsigned long request, void *argument);

/* rmpp.c: length of a MAD's header, and the first segment's RMPP header as the kernel writes it. */
bool class_has_rmpp(uint8_t mgmt_class);
bool rmpp_is_active(const uint8_t *mad);
void rmpp_first_segment(uint8_t *mad, size_t length);

#endif
