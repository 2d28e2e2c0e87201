/*
 * Copies executed by the owner of the memory: for peers in another PID or user namespace (a
 * container), and if the system does not permit copies between processes. The two sides share a
 * bounce buffer in the heap of the owner, and wake each other by futexes, which no namespace
 * separates. A thread of the library serves (vp_serve_begin), or any thread that polls.
 */
#ifndef SOFTIB_VERBS_PEERS_ORDERS_H
#define SOFTIB_VERBS_PEERS_ORDERS_H

#include <sys/uio.h>

#include "../memory/heap/shared_heap.h"

/* -- the requester; the process is held -- */

/*
 * Copy between `here` and memory of `process`, in ascending order; `there` is advanced. 0, -EFAULT,
 * -ESRCH: it has ended; -EAGAIN: it does not answer (stopped); -EXDEV: it does not serve; -ENOMEM:
 * no room for the data.
 */
int vp_order_copy(struct vm_heap *w, uint32_t process, bool put, struct iovec *there, unsigned there_n, const struct iovec *here,
                  unsigned here_n);
/* Return a descriptor of the file that holds `process`'s memory region `key`, or -1 if it is not available. `w->lock` is held. */
int vp_order_file(struct vm_heap *w, uint32_t process, uint32_t key);

/* -- the server -- */

/* Start to serve peers that cannot copy to and from this process. */
void vp_serve_begin(struct vm_heap *w);
/* Return whether the system permits this process to copy from and to `process`, and most likely the
 * reverse. */
bool vp_copies(const struct vm_heap *w, uint32_t process);
/* Return the number of service threads: 0 or 1. They write only to registered memory. */
unsigned vp_serve_threads(void);
/* Wait until all orders taken before the call are finished. */
void vp_serve_quiesce(void);
void vp_serve_slow(struct vm_heap *w);

extern const struct softib_service *vp_service; /* service of this process; NULL: it does not serve */
extern uint32_t vp_served;                      /* last value read of its bell */

/* Serve orders in a polling thread, which is faster than a thread that must wake up. */
static inline void vp_serve(struct vm_heap *w)
{
    const struct softib_service *service = __atomic_load_n(&vp_service, __ATOMIC_ACQUIRE);

    if (service ? __atomic_load_n(&service->bell, __ATOMIC_ACQUIRE) != __atomic_load_n(&vp_served, __ATOMIC_RELAXED)
                : __atomic_load_n(&vm_process(w, w->process)->wanted, __ATOMIC_RELAXED))
        vp_serve_slow(w);
}

/* -- both -- */

static inline struct softib_order *vp_orders(struct softib_service *service)
{
    return (struct softib_order *)(service + 1);
}

static inline char *vp_order_data(struct softib_service *service, unsigned order)
{
    return (char *)(vp_orders(service) + SOFTIB_VERBS_ORDERS) + (size_t)order * SOFTIB_VERBS_PIECE;
}

#define VP_SERVICE_OCTETS                                                                                                    \
    (sizeof(struct softib_service) + SOFTIB_VERBS_ORDERS * (sizeof(struct softib_order) + (size_t)SOFTIB_VERBS_PIECE))

void vp_futex_wait(uint32_t *word, uint32_t seen, uint64_t ns);
void vp_futex_wake(uint32_t *word);
/* Path of the socket that receives files for process `number`. False: the path is too long. */
struct sockaddr_un;
bool vp_files_address(const struct vm_heap *w, uint32_t number, struct sockaddr_un *at);

#endif
