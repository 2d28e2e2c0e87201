/* Copies between memory of this process and of others. */
#ifndef SOFTIB_VERBS_ENGINE_COPY_H
#define SOFTIB_VERBS_ENGINE_COPY_H

#include <stdint.h>
#include <sys/uio.h>

#include "engine.h"

struct ve_part { /* a part of a process's memory */
    uint64_t address;               /* address in that process */
    char *here;                     /* the same memory mapped in this process; NULL if not mapped */
    uint64_t length;
    uint32_t process;               /* owner: differs from the requested process if the key was imported */
    uint32_t key;                   /* index of an imported key, whose owner is not held yet; 0: not imported */
    uint64_t version;               /* version of that key */
};

/* Copy between memory of this process and parts of `process`. Return 0, -EFAULT, -ESRCH, -EAGAIN or -EXDEV. */
int ve_put(struct ve_engine *e, uint32_t process, const struct ve_part *to, unsigned to_n, const struct iovec *from,
           unsigned from_n);
int ve_get(struct ve_engine *e, uint32_t process, const struct ve_part *from, unsigned from_n, const struct iovec *to,
           unsigned to_n);
/* Write `n` bytes in ascending order, the last 8 with one release store. */
void ve_place(char *to, const char *from, uint64_t n);

#endif
