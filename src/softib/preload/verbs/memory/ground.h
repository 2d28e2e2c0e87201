/* What lies where in this process: /proc/self/maps. */
#ifndef SOFTIB_VERBS_GROUND_H
#define SOFTIB_VERBS_GROUND_H

#include <stdbool.h>
#include <stdint.h>

struct vm_ground {
    uint64_t start, end;
    uint64_t offset, device, inode; /* of its file; inode 0: none */
    char rights[8];                 /* "rw-p" */
    const char *path;               /* "" for anonymous memory; "[heap]", "[stack]" … */
};

/* Calls `each` for every mapping, in ascending order, until it says false. Without malloc. False where it cannot be read. */
bool vm_grounds(bool (*each)(const struct vm_ground *ground, void *of), void *of);

#endif
