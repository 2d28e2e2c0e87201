/* Execute orders of peers: copy between this process's memory and a bounce buffer, and send file
 * descriptors. */
#include "orders.h"
#include "../memory/identity.h"
#include "../memory/heap/key_table.h"
#include "../memory/libc_calls.h"
#include "../memory/processor.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define AWAKE_NS 30000u /* time for which the thread polls for the next order before it sleeps, since a long message
                         * consists of several orders */
#define LOOKS 64 /* polls before it yields the processor */

const struct softib_service *vp_service;
uint32_t vp_served;
static pthread_mutex_t serving = PTHREAD_MUTEX_INITIALIZER, beginning = PTHREAD_MUTEX_INITIALIZER;
static struct softib_service *service; /* the same object as vp_service, for writing */
static unsigned threads;

/* -- one order -- */

/*
 * Copy with a system call: it respects page protection, and an unmapped page is an error, not a
 * signal. Parts are in ascending order, and the last 8 bytes of a message are a separate part
 * (engine/copy.c).
 */
static int copy(struct vm_heap *w, struct softib_order *order, char *data)
{
    bool put = order->kind == SOFTIB_ORDER_PUT;
    struct iovec parts[sizeof order->octets / sizeof *order->octets], *part = parts;
    unsigned n = order->parts < sizeof parts / sizeof *parts ? order->parts : sizeof parts / sizeof *parts;
    size_t left = 0;

    for (unsigned i = 0; i < n; i++) {
        parts[i] = (struct iovec){ (void *)(uintptr_t)order->address[i], order->octets[i] };
        left += order->octets[i];
    }
    if (left > SOFTIB_VERBS_PIECE)
        return -EINVAL;
    while (left) {
        struct iovec bounce = { data, left };
        ssize_t done = put ? preadv(w->fd, part, (int)n, data - w->base) : process_vm_readv(getpid(), &bounce, 1, part, n, 0);

        if (!put && done < 0 && (errno == EPERM || errno == ENOSYS)) /* seccomp */
            done = pwritev(w->fd, part, (int)n, data - w->base);
        if (done <= 0)
            return done < 0 && errno == EINTR ? -EAGAIN : -EFAULT;
        left -= (size_t)done;
        data += done;
        for (; n && (size_t)done >= part->iov_len; part++, n--)
            done -= (ssize_t)part->iov_len;
        if (n) {
            part->iov_base = (char *)part->iov_base + done;
            part->iov_len -= (size_t)done;
        }
    }
    return 0;
}

static int send_file(struct vm_heap *w, uint32_t process, int fd)
{
    union { char room[CMSG_SPACE(sizeof fd)]; struct cmsghdr align; } control = { .room = "" };
    struct iovec byte = { "", 1 };
    struct sockaddr_un to;
    struct msghdr message = { .msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &byte, .msg_iovlen = 1,
                              .msg_control = control.room, .msg_controllen = sizeof control.room };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    int from = vp_files_address(w, process, &to) ? vm_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC) : -1, error = 0;

    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (from < 0 || sendmsg(from, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        error = -errno;
    if (from >= 0)
        close(from);
    return error;
}

/* Send the descriptor of a key's file to the requester, if the key is of this process. If the program has closed all
 * descriptors, the key's descriptor number may now belong to another file, which is not sent. */
static int hand_over(struct vm_heap *w, const struct softib_order *order)
{
    const struct softib_key *k = vm_key_is_there(w, order->key) ? vm_key(w, order->key) : NULL;
    struct softib_file file;
    struct stat info;
    int fd, error = -ENOENT;

    if (!k || k->process != w->process || !k->file)
        return error;
    file = *(struct softib_file *)vm_at(w, k->file);
    file.path[sizeof file.path - 1] = 0;
    fd = file.fd >= 0 ? file.fd : open(file.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) && info.st_dev == file.device && info.st_ino == file.inode)
        error = send_file(w, order->process, fd);
    if (fd >= 0 && file.fd < 0)
        close(fd);
    return error;
}

static bool execute(struct vm_heap *w, unsigned number)
{
    struct softib_order *order = &vp_orders(service)[number];
    uint32_t given = SOFTIB_ORDER_GIVEN;

    if (__atomic_load_n(&order->state, __ATOMIC_ACQUIRE) != SOFTIB_ORDER_GIVEN ||
        !__atomic_compare_exchange_n(&order->state, &given, SOFTIB_ORDER_TAKEN, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return false;
    order->error = order->kind == SOFTIB_ORDER_FILE ? hand_over(w, order) : copy(w, order, vp_order_data(service, number));
    __atomic_store_n(&order->state, SOFTIB_ORDER_DONE, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&order->waits, __ATOMIC_SEQ_CST))
        vp_futex_wake(&order->state);
    return true;
}

/* Execute the orders that were given. `serving` is held. True: an order was executed. */
static bool serve_all(struct vm_heap *w, bool polls)
{
    bool any = false;

    __atomic_store_n(&vp_served, __atomic_load_n(&service->bell, __ATOMIC_SEQ_CST), __ATOMIC_RELAXED);
    for (unsigned i = 0; i < SOFTIB_VERBS_ORDERS; i++)
        any = execute(w, i) || any;
    if (any && service->polled != polls)
        service->polled = polls;
    return any;
}

void vp_serve_slow(struct vm_heap *w)
{
    VM_KEEP_ERRNO;

    if (!vp_service)
        vp_serve_begin(w);
    if (!service || pthread_mutex_trylock(&serving))
        return;
    serve_all(w, true);
    pthread_mutex_unlock(&serving);
}

void vp_serve_quiesce(void)
{
    if (!vp_service)
        return;
    pthread_mutex_lock(&serving);
    pthread_mutex_unlock(&serving);
}

/* -- the thread -- */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *run(void *of)
{
    struct vm_heap *w = of;
    uint64_t busy = 0;

    for (unsigned spins = 1;; spins++) {
        uint32_t bell = __atomic_load_n(&service->bell, __ATOMIC_SEQ_CST);
        bool any;

        pthread_mutex_lock(&serving);
        any = serve_all(w, false);
        pthread_mutex_unlock(&serving);
        if (any)
            busy = now_ns();
        if (any || now_ns() - busy < AWAKE_NS) {
            if (spins % LOOKS == 0)
                sched_yield();
            vm_relax();
            continue;
        }
        __atomic_store_n(&service->sleeps, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&service->bell, __ATOMIC_SEQ_CST) == bell)
            vp_futex_wait(&service->bell, bell, 0);
        __atomic_store_n(&service->sleeps, 0, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

void vp_serve_begin(struct vm_heap *w)
{
    sigset_t all, before;
    pthread_t thread;
    uint64_t at;

    pthread_mutex_lock(&beginning);
    at = service ? 0 : vm_alloc_sparse(w, VP_SERVICE_OCTETS);
    if (at && !vm_reserve(w, at, sizeof *service + SOFTIB_VERBS_ORDERS * sizeof(struct softib_order))) {
        vm_free(w, at, VP_SERVICE_OCTETS);
        at = 0;
    }
    if (at) {
        service = vm_at(w, at);
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before); /* signals are the application's */
        threads = !pthread_create(&thread, NULL, run, w);
        if (threads)
            pthread_detach(thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        __atomic_store_n(&vp_service, service, __ATOMIC_RELEASE);
        __atomic_store_n(&vm_process(w, w->process)->service, at, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&beginning);
}

bool vp_copies(const struct vm_heap *w, uint32_t process)
{
    char byte;
    struct iovec here = { &byte, 1 }, nowhere = { NULL, 1 };

    return vm_same_namespace(w, process) &&
           (process_vm_readv((pid_t)vm_process(w, process)->pid, &here, 1, &nowhere, 1, 0) >= 0 || errno == EFAULT);
}

unsigned vp_serve_threads(void)
{
    return threads;
}

/* Stop serving in a forked child: it has no service thread, and must not execute its parent's orders in its own
 * memory. */
static void forget(void)
{
    vp_service = service = NULL;
    vp_served = threads = 0;
    pthread_mutex_init(&serving, NULL);
    pthread_mutex_init(&beginning, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, forget);
}
