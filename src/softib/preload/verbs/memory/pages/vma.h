/* The mappings of this process: /proc/self/maps. */
#ifndef SOFTIB_VERBS_VMA_H
#define SOFTIB_VERBS_VMA_H

#include <stdbool.h>
#include <stdint.h>

struct vm_vma {
    uint64_t start, end;
    uint64_t offset, device, inode; /* device and inode of its file; inode 0: none */
    char rights[8];                 /* "rw-p" */
    const char *path;               /* "" for anonymous memory; "[heap]", "[stack]" … */
};

/* Call `each` for every mapping, in ascending order, until it returns false. Does not call malloc.
 * False if the mappings cannot be read. */
bool vm_vmas(bool (*each)(const struct vm_vma *vma, void *of), void *of);
/* Call `each` for the mappings that overlap [from, to). It may be called for other mappings too, so it must check. */
bool vm_vmas_between(uint64_t from, uint64_t to, bool (*each)(const struct vm_vma *vma, void *of), void *of);
/* Call `each` for all shared mappings of files, except those of device `but`. It may be called for other mappings
 * too. */
bool vm_shared_files(uint64_t but, bool (*each)(const struct vm_vma *vma, void *of), void *of);

#endif
