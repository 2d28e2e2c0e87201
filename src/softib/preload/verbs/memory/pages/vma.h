/* What lies where in this process: /proc/self/maps. */
#ifndef SOFTIB_VERBS_VMA_H
#define SOFTIB_VERBS_VMA_H

#include <stdbool.h>
#include <stdint.h>

struct vm_vma {
    uint64_t start, end;
    uint64_t offset, device, inode; /* of its file; inode 0: none */
    char rights[8];                 /* "rw-p" */
    const char *path;               /* "" for anonymous memory; "[heap]", "[stack]" … */
};

/* Calls `each` for every mapping, in ascending order, until it says false. Without malloc. False where it cannot be read. */
bool vm_vmas(bool (*each)(const struct vm_vma *vma, void *of), void *of);
/* The same for those that have something in [from, to), or for more of them: `each` looks itself. */
bool vm_vmas_between(uint64_t from, uint64_t to, bool (*each)(const struct vm_vma *vma, void *of), void *of);
/* The same for all shared mappings of files, but those of device `but`; or for more of them. */
bool vm_shared_files(uint64_t but, bool (*each)(const struct vm_vma *vma, void *of), void *of);

#endif
