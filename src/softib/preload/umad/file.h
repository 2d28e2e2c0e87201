/* An open umad or issm device, as file.c and ioctl.c know it. */
#ifndef SOFTIB_FILE_H
#define SOFTIB_FILE_H

#include "inner.h"

#include <errno.h>

struct agent {
    bool used, kernel_rmpp;
};

struct file {
    struct file *next; /* among the spare ones */
    char kind; /* 'u' or 's' */
    int users; /* descriptors of it in this process */
    uint32_t handle;
    size_t head; /* OLD_HEAD, or SOFTIB_UMAD_HEAD after ENABLE_PKEY */
    bool spoken; /* something was done with it */
    pthread_mutex_t reading, changing;
    struct agent agents[SOFTIB_UMAD_AGENTS];
};

static inline int fail(int error)
{
    errno = error;
    return -1;
}

#endif
