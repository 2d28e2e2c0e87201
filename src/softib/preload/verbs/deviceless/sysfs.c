/* Readers of sysfs. libsoftib-umad.so interposes open(), so they read the node's files. */
#include "deviceless.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *text, size_t size);

static char root[256] = "/sys";

static void find_root(void)
{
    const char *env = secure_getenv("SYSFS_PATH");
    size_t n;

    if (!env)
        return;
    n = strnlen(env, sizeof root - 1);
    while (n && env[n - 1] == '/')
        n--;
    memcpy(root, env, n);
    root[n] = '\0';
}

DL_EXPORT const char *ibv_get_sysfs_path(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_root);
    return root;
}

/* Read the file's text without its last newline and return its length; -1 on error, for example if
 * text and terminator do not fit. */
DL_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *text, size_t size)
{
    char path[PATH_MAX];
    ssize_t n;
    int fd;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, file) >= sizeof path)
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    n = read(fd, text, size);
    close(fd);
    if (n <= 0)
        return (int)n;
    if (text[n - 1] == '\n')
        n--;
    else if ((size_t)n == size)
        return -1;
    text[n] = '\0';
    return (int)n;
}
