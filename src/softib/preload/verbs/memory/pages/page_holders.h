/* Find out whether I/O or a device may hold pages of this process, and write to them without a page fault. Such pages
 * must not be replaced. */
#ifndef SOFTIB_VERBS_MEMORY_PAGE_HOLDERS_H
#define SOFTIB_VERBS_MEMORY_PAGE_HOLDERS_H

#include <stdbool.h>
#include <stdint.h>

enum vm_holder {
    VM_NO_HOLDER,
    VM_HELD_BY_IO,          /* O_DIRECT, an AIO context, an io_uring: pages of I/O in flight */
    VM_HELD_BY_DEVICE,      /* a GPU, VFIO: pages passed to its driver */
};

/*
 * `threads`: another thread may be inside a system call. Mappings of files on `memory_device` are
 * ignored. Does not call malloc. One thread at a time.
 */
enum vm_holder vm_page_holder(uint64_t memory_device, bool threads);
/* The program opened a file with O_DIRECT: the next call above reads its descriptors. Any thread. */
void vm_note_direct_file(void);

#endif
