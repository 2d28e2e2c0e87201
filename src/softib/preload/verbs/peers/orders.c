/* Order copies: the process that owns the memory executes them. */
#include "orders.h"
#include "../memory/libc_calls.h"
#include "../memory/locks.h"
#include "../memory/processor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define POLLER_NS 3000u         /* a thread that polls takes an order within this time */
#define AWAKE_NS 60000u         /* the requester spins for this time before it sleeps */
#define LOOK_NS 1000000u        /* interval at which the sleeping requester checks whether the owner is alive */
#define UNTAKEN_NS 500000000u   /* an owner that takes no order for this long counts as stopped */
#define SERVES_NS 5000000u      /* an owner that polls starts to serve within this time */
#define LOOKS 64 /* spins between two reads of the clock */

void vp_futex_wait(uint32_t *word, uint32_t seen, uint64_t ns)
{
    VM_KEEP_ERRNO;
    struct timespec limit = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

    syscall(SYS_futex, word, FUTEX_WAIT, seen, ns ? &limit : NULL, NULL, 0);
}

void vp_futex_wake(uint32_t *word)
{
    VM_KEEP_ERRNO;

    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* -- find the server -- */

static struct softib_service *service_of(struct vm_heap *w, uint32_t process)
{
    struct softib_process *p = vm_process(w, process);
    uint64_t at = __atomic_load_n(&p->service, __ATOMIC_ACQUIRE), end = 0;

    while (!at && (!end || now_ns() < end)) {
        if (!end) {
            end = now_ns() + SERVES_NS;
            __atomic_store_n(&p->wanted, 1, __ATOMIC_SEQ_CST);
        }
        sched_yield();
        at = __atomic_load_n(&p->service, __ATOMIC_ACQUIRE);
    }
    return at ? vm_at(w, at) : NULL;
}

static bool try_lock(struct vm_heap *w, uint32_t *lock)
{
    uint32_t none = 0;

    return __atomic_compare_exchange_n(lock, &none, w->owner, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* Lock a free order, and return its number. */
static unsigned lock_order(struct vm_heap *w, struct softib_service *service)
{
    struct softib_order *orders = vp_orders(service);
    unsigned mine = w->process % SOFTIB_VERBS_ORDERS;

    for (unsigned i = 0; i < SOFTIB_VERBS_ORDERS; i++)
        if (try_lock(w, &orders[(mine + i) % SOFTIB_VERBS_ORDERS].lock))
            return (mine + i) % SOFTIB_VERBS_ORDERS;
    vm_lock(w, &orders[mine].lock);
    return mine;
}

/* Make sure that a locked order has pages for its data. They are allocated when needed, because most owners never have
 * more than one order at a time. */
static bool data_exists(struct vm_heap *w, struct softib_service *service, unsigned order)
{
    if (__atomic_load_n(&service->there, __ATOMIC_RELAXED) >> order & 1)
        return true;
    if (!vm_reserve(w, (uint64_t)(vp_order_data(service, order) - w->base), SOFTIB_VERBS_PIECE))
        return false;
    __atomic_fetch_or(&service->there, 1u << order, __ATOMIC_RELAXED);
    return true;
}

/* -- give an order, and wait for its end -- */

static bool is_in(const struct softib_order *order, uint32_t state)
{
    return __atomic_load_n(&order->state, __ATOMIC_ACQUIRE) == state;
}

static bool moves(struct softib_order *order, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(&order->state, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* If a polling thread took the last order, it will soon take this one; otherwise wake the sleeping thread. */
static void wake(struct softib_service *service)
{
    if (__atomic_load_n(&service->sleeps, __ATOMIC_SEQ_CST))
        vp_futex_wake(&service->bell);
}

static void sleep_until_it_moves(struct softib_order *order)
{
    uint32_t state = __atomic_load_n(&order->state, __ATOMIC_ACQUIRE);

    if (state == SOFTIB_ORDER_DONE)
        return;
    __atomic_store_n(&order->waits, 1, __ATOMIC_SEQ_CST);
    if (is_in(order, state))
        vp_futex_wait(&order->state, state, LOOK_NS);
    __atomic_store_n(&order->waits, 0, __ATOMIC_SEQ_CST);
}

static int wait_for(struct vm_heap *w, uint32_t process, struct softib_service *service, struct softib_order *order)
{
    uint64_t began = now_ns(), looked = began, now;
    bool woken = !service->polled;

    if (woken)
        wake(service);
    for (unsigned spins = 1; !is_in(order, SOFTIB_ORDER_DONE); spins++) {
        vm_relax();
        if (spins % LOOKS)
            continue;
        now = now_ns();
        if (!woken && now - began > POLLER_NS && is_in(order, SOFTIB_ORDER_GIVEN)) {
            wake(service);
            woken = true;
        }
        if (now - began > AWAKE_NS)
            sleep_until_it_moves(order);
        else if (now - began > POLLER_NS)
            sched_yield();
        if (now - looked < LOOK_NS)
            continue;
        looked = now;
        if (!vm_lives(w, process))
            return -ESRCH;
        wake(service);
        if (now - began > UNTAKEN_NS && moves(order, SOFTIB_ORDER_GIVEN, SOFTIB_ORDER_NONE))
            return -EAGAIN;
        if (now - began > 4ull * UNTAKEN_NS && !is_in(order, SOFTIB_ORDER_DONE))
            return -EAGAIN; /* the owner stopped during the copy: the state remains SOFTIB_ORDER_TAKEN until the owner runs again */
    }
    __atomic_store_n(&order->state, SOFTIB_ORDER_NONE, __ATOMIC_RELAXED);
    return order->error;
}

/* Give an order, and wait for its end. `order` is locked, and no thread executes its previous content. */
static int give(struct vm_heap *w, uint32_t process, struct softib_service *service, struct softib_order *order, uint32_t kind)
{
    order->kind = kind;
    order->process = w->process;
    __atomic_store_n(&order->waits, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&order->state, SOFTIB_ORDER_GIVEN, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&service->bell, 1, __ATOMIC_SEQ_CST);
    return wait_for(w, process, service, order);
}

/* Prepare an order for use: its last requester may have been killed, or may have abandoned it. False: the order is
 * still being executed. */
static bool settle(struct softib_order *order)
{
    if (moves(order, SOFTIB_ORDER_GIVEN, SOFTIB_ORDER_NONE) || moves(order, SOFTIB_ORDER_DONE, SOFTIB_ORDER_NONE))
        return true;
    return is_in(order, SOFTIB_ORDER_NONE);
}

/* -- copies: in pieces, in order -- */

/* Copy between `data` and the next `n` bytes of `here`, which is advanced. */
static void bounce(char *data, struct iovec **here, size_t n, bool put)
{
    while (n) {
        struct iovec *part = *here;
        size_t some = part->iov_len < n ? part->iov_len : n;

        if (some && put)
            memcpy(data, part->iov_base, some);
        else if (some)
            memcpy(part->iov_base, data, some);
        data += some;
        n -= some;
        part->iov_base = (char *)part->iov_base + some;
        part->iov_len -= some;
        if (!part->iov_len)
            (*here)++;
    }
}

/* Write the next parts of `there`, at most one piece, to the order. Return the number of their bytes. */
static size_t name_parts(struct softib_order *order, struct iovec **there, unsigned *n, size_t most)
{
    size_t named = 0;

    for (order->parts = 0; *n && named < most && order->parts < sizeof order->octets / sizeof *order->octets; order->parts++) {
        struct iovec *part = *there;
        size_t some = part->iov_len < most - named ? part->iov_len : most - named;

        order->address[order->parts] = (uintptr_t)part->iov_base;
        order->octets[order->parts] = some;
        named += some;
        part->iov_base = (char *)part->iov_base + some;
        part->iov_len -= some;
        if (!part->iov_len)
            (*there)++, (*n)--;
    }
    return named;
}

int vp_order_copy(struct vm_heap *w, uint32_t process, bool put, struct iovec *there, unsigned there_n, const struct iovec *here,
                  unsigned here_n)
{
    VM_KEEP_ERRNO;
    struct softib_service *service = service_of(w, process);
    struct iovec parts[40], *part = parts;
    struct softib_order *order;
    unsigned number;
    char *data;
    int error = 0;

    if (!service)
        return -EXDEV;
    memcpy(parts, here, here_n * sizeof *here);
    number = lock_order(w, service);
    order = &vp_orders(service)[number];
    data = vp_order_data(service, number);
    if (!data_exists(w, service, number))
        error = -ENOMEM;
    else if (!settle(order))
        error = -EAGAIN;
    while (there_n && !error) {
        size_t n = name_parts(order, &there, &there_n, SOFTIB_VERBS_PIECE);
        struct iovec *to = part;

        if (put)
            bounce(data, &part, n, true);
        error = give(w, process, service, order, put ? SOFTIB_ORDER_PUT : SOFTIB_ORDER_GET);
        if (!put && !error)
            bounce(data, &to, n, false);
        part = put ? part : to;
    }
    vm_unlock(&order->lock);
    return error;
}

/* -- files -- */

bool vp_files_address(const struct vm_heap *w, uint32_t number, struct sockaddr_un *at)
{
    at->sun_family = AF_UNIX; /* a name that the daemon removes with its process; no completion channel has number 0 */
    return (size_t)snprintf(at->sun_path, sizeof at->sun_path, "%s/wake-%u-0", w->folder, number) < sizeof at->sun_path;
}

static int receive_file(int socket)
{
    union { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control;
    char byte;
    struct iovec part = { &byte, 1 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room };
    struct cmsghdr *head;
    int fd = -1;

    if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0)
        return -1;
    head = CMSG_FIRSTHDR(&message);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof fd))
        memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

int vp_order_file(struct vm_heap *w, uint32_t process, uint32_t key)
{
    VM_KEEP_ERRNO;
    struct softib_service *service = service_of(w, process);
    struct softib_order *order;
    struct sockaddr_un at;
    int fd = -1, from;

    if (!service || !vp_files_address(w, w->process, &at))
        return -1;
    from = vm_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC);
    if (from < 0)
        return -1;
    unlink(at.sun_path); /* left by an earlier process with this number */
    order = &vp_orders(service)[lock_order(w, service)];
    if (!bind(from, (struct sockaddr *)&at, sizeof at) && settle(order)) {
        order->key = key;
        if (!give(w, process, service, order, SOFTIB_ORDER_FILE))
            fd = receive_file(from);
    }
    vm_unlock(&order->lock);
    unlink(at.sun_path);
    close(from);
    return fd;
}
