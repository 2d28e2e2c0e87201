/* Maps the file `verbs` and enters this process in it. */
#include "../identity.h"
#include "shared_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(struct softib_process) == 256 && offsetof(struct softib_process, hazard) == 64, "the slots have lines");
_Static_assert(sizeof(struct softib_key) == 64, "a key has its size");
_Static_assert(sizeof(struct softib_cqe) == 64, "a completion fills a cache line");
_Static_assert(sizeof(struct softib_cq) == 192 && offsetof(struct softib_cq, lock) == 64 &&
               offsetof(struct softib_cq, consumer) == 128, "three lines: still, adders, owner");
_Static_assert(sizeof(struct softib_srq) == 192 && offsetof(struct softib_srq, lock) == 64 &&
               offsetof(struct softib_srq, tail) == 128, "three lines: still, takers, owner");
_Static_assert(sizeof(struct softib_tag) == offsetof(struct softib_tag, wr_id) + sizeof(struct softib_receive),
               "a tag ends as a receive");
_Static_assert(sizeof(struct softib_qp) == 320 && offsetof(struct softib_qp, lock) == 64 && offsetof(struct softib_qp, rq) == 128 &&
               offsetof(struct softib_qp, rq_tail) == 192 && offsetof(struct softib_qp, copies) == 256,
               "five lines: still, initiators, still, owner, who executes its requests");
_Static_assert(sizeof(struct softib_service) == 64 && sizeof(struct softib_file) == 280, "they have their sizes");

static const char magic[8] = "SOFTIBq";

/* Wait until the creator of the file has written its head. */
static int wait_for_head(const struct softib_verbs *head)
{
    for (int i = 0; i < 2000; i++) {
        if (!memcmp(head->magic, magic, sizeof magic))
            return head->version == SOFTIB_VERBS_VERSION && head->size == SOFTIB_VERBS_SIZE ? 0 : -EPROTO;
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    return -EPROTO;
}

static void make_head(struct softib_verbs *head)
{
    head->version = SOFTIB_VERBS_VERSION;
    head->size = SOFTIB_VERBS_SIZE;
    head->number_next = 2;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    memcpy(head->magic, magic, sizeof magic);
}

/* Once there is a second namespace, programs must serve copies for peers that cannot access their memory. */
static void note_namespace(struct softib_verbs *head, uint64_t pid_ns)
{
    uint64_t first = 0;

    if (!__atomic_compare_exchange_n(&head->pid_ns, &first, pid_ns, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) && first != pid_ns)
        __atomic_store_n(&head->namespaces, 1, __ATOMIC_SEQ_CST);
}

static void enter(struct vm_heap *w, uint32_t number)
{
    struct softib_process *p = vm_process(w, number);
    uint32_t generation = p->generation % 0xFFFF + 1;

    w->process = number;
    w->owner = number | generation << 16;
    memset(p, 0, sizeof *p);
    p->generation = generation;
    vm_identify(p);
    note_namespace(vm_head(w), p->pid_ns);
    __atomic_store_n(&p->alive, 1, __ATOMIC_RELEASE);
    vm_raise(&vm_head(w)->process_high, number);
}

int vm_open(struct vm_heap *w, const char *folder, int fd, uint32_t number)
{
    char path[300];
    bool made;
    int error;

    if (number == 0 || number >= SOFTIB_VERBS_PROCESSES_N)
        return -EINVAL;
    memset(w, 0, sizeof *w);
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    snprintf(path, sizeof path, "%s/verbs", w->folder);
    w->fd = fd < 0 ? open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : fd;
    made = fd < 0 && w->fd >= 0;
    if (w->fd < 0)
        w->fd = open(path, O_RDWR | O_CLOEXEC);
    if (w->fd < 0)
        return -errno;
    if (made && ftruncate(w->fd, SOFTIB_VERBS_SIZE)) {
        error = -errno;
        close(w->fd);
        return error;
    }
    for (int i = 0; !made && i < 2000; i++) { /* access beyond the length of a file is SIGBUS */
        struct stat info;

        if (!fstat(w->fd, &info) && info.st_size == SOFTIB_VERBS_SIZE)
            break;
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    w->base = mmap(NULL, SOFTIB_VERBS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, w->fd, 0);
    if (w->base == MAP_FAILED) {
        error = -errno;
        close(w->fd);
        return error;
    }
    madvise(w->base, SOFTIB_VERBS_SIZE, MADV_DONTDUMP);
    if (made)
        make_head(vm_head(w));
    error = wait_for_head(vm_head(w));
    w->maps = calloc(VM_MAPS, sizeof *w->maps);
    if (error || !w->maps) {
        munmap(w->base, SOFTIB_VERBS_SIZE);
        close(w->fd);
        return error ? error : -ENOMEM;
    }
    pthread_mutex_init(&w->lock, NULL);
    enter(w, number);
    return 0;
}

uint32_t vm_version(const char *folder)
{
    struct softib_verbs head = { 0 };
    char path[300];
    int fd;

    snprintf(path, sizeof path, "%s/verbs", folder);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (read(fd, &head, sizeof head) != (ssize_t)sizeof head)
        head.version = 0;
    close(fd);
    return head.version;
}

void vm_renumber(struct vm_heap *w, uint32_t number)
{
    memset(w->slabs, 0, sizeof w->slabs);
    w->blocks_n = w->key_cursor = 0; /* the existing blocks belong to the parent */
    pthread_mutex_init(&w->lock, NULL);
    enter(w, number);
}

void vm_close(struct vm_heap *w)
{
    __atomic_store_n(&vm_process(w, w->process)->alive, 0, __ATOMIC_RELEASE);
    munmap(w->base, SOFTIB_VERBS_SIZE);
    close(w->fd);
    free(w->maps);
    free(w->blocks);
}
