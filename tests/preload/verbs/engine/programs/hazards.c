/*
 * "hazards FOLDER revoke SEED ROUNDS": another process writes without end to memory of this one, private or a file's, and
 * is killed now and then in the middle; when dereg, destroy, a change of access or an unbinding has returned, memory does not
 * change any more. "hazards FOLDER order SEED ROUNDS": who spins on the last word of a message sees all of it, and who
 * looks from the end to the start never sees an old word before a new one (but where the kernel copies).
 */
#include "copy.h"
#include "key_table.h"
#include "modify.h"
#include "rig.h"

#include <sched.h>
#include "rng.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define AREA (1 << 20)

static const char *folder;

/* -- revoke -- */

static struct meeting { /* of the two processes */
    uint32_t state, qpn, peer, rkey;
    uint64_t remote, writes;
} *meeting;

static void wait_state(uint32_t state)
{
    for (int i = 0; __atomic_load_n(&meeting->state, __ATOMIC_ACQUIRE) < state; i++) {
        MUST(i < 200000);
        rest_us(100);
    }
}

static const struct options quick = { .timeout = 1, .retry_cnt = 0, .rnr_retry = 7, .min_rnr = 1, .psn = 5 };

static void writer(uint32_t number)
{
    static struct rig w;
    static char from[AREA];
    struct cq cq;
    struct ve_qp *q;
    struct ibv_sge sge = { (uintptr_t)from, AREA, 0 };
    struct ve_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .flags = IBV_SEND_SIGNALED, .sges = 1, .sge = &sge };

    rig_open(&w, folder, number, 0);
    memset(from, 'w', sizeof from);
    cq = rig_cq(&w, 64);
    sge.lkey = rig_mr(&w, from, AREA, ALL_ACCESS, DOMAIN);
    q = rig_qp(&w, IBV_QPT_RC, &cq, &cq, NULL, 8, 0);
    meeting->qpn = q->s->qpn;
    __atomic_store_n(&meeting->state, 1, __ATOMIC_RELEASE);
    wait_state(2);
    MUST(!rig_init(q, ALL_ACCESS) && !rig_rtr(q, meeting->peer, 2, &quick) && !rig_rts(q, &quick));
    wr.rkey = meeting->rkey;
    wr.remote = meeting->remote;
    for (;;) {
        MUST(!rig_post(q, &wr));
        if (rig_next(&cq).status != IBV_WC_SUCCESS)
            break;
        __atomic_fetch_add(&meeting->writes, 1, __ATOMIC_RELEASE);
    }
    for (;;)
        pause();
}

static char *area(bool file, const char *path)
{
    int fd = file ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    char *at = mmap(NULL, AREA, PROT_READ | PROT_WRITE, file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);

    if (file) {
        MUST(!ftruncate(fd, AREA));
        close(fd);
    }
    MUST(at != MAP_FAILED);
    return at;
}

static void name_file(struct rig *w, struct softib_key *k, const char *path)
{
    struct softib_file *file;
    struct stat info;

    MUST(!stat(path, &info));
    k->file = vm_alloc(&w->e.w, sizeof *file);
    file = vm_at(&w->e.w, k->file);
    file->device = info.st_dev;
    file->inode = info.st_ino;
    file->fd = -1;
    snprintf(file->path, sizeof file->path, "%s", path);
    file->from = k->address;
    file->to = k->address + k->length;
}

/* Takes the right away in one of four ways; true when the QP is gone. */
static bool take_away(struct rig *w, struct ve_qp *q, uint32_t method, bool window)
{
    struct ibv_qp_attr a = { .qp_access_flags = IBV_ACCESS_LOCAL_WRITE };
    struct ve_wr inv = { .opcode = IBV_WR_LOCAL_INV, .imm = meeting->rkey };

    if (window)
        MUST(!rig_post(q, &inv));
    else if (method == 0)
        rig_dereg(w, meeting->rkey);
    else if (method == 1)
        rig_destroy(q);
    else
        (void)ve_modify(q, &a, IBV_QP_ACCESS_FLAGS); /* fails where the writer has failed before */
    return !window && method == 1;
}

static void one_round(struct rig *w, const struct cq *cq, uint32_t number)
{
    bool file = some(2), kills = some(2), window = !some(4), removed;
    char path[200];
    struct softib_key *k;
    struct ve_qp *q;
    char *to;
    int status;
    pid_t pid;

    snprintf(path, sizeof path, "%s/area-%u", folder, number);
    to = area(file, path);
    memset(meeting, 0, sizeof *meeting);
    pid = fork();
    if (!pid)
        writer(number);
    wait_state(1);
    q = rig_qp(w, IBV_QPT_RC, cq, cq, NULL, 8, 0);
    meeting->rkey = rig_mr(w, to, AREA, ALL_ACCESS, DOMAIN);
    k = vm_key(&w->e.w, meeting->rkey);
    if (file)
        name_file(w, k, path);
    if (window) {
        k->kind = SOFTIB_KEY_WINDOW_2;
        k->qpn = q->s->qpn;
    }
    meeting->remote = (uintptr_t)to;
    meeting->peer = q->s->qpn;
    MUST(!rig_init(q, ALL_ACCESS) && !rig_rtr(q, meeting->qpn, 1, &quick) && !rig_rts(q, &quick));
    __atomic_store_n(&meeting->state, 2, __ATOMIC_RELEASE);
    for (int i = 0; __atomic_load_n(&meeting->writes, __ATOMIC_ACQUIRE) < 1; i++) {
        MUST(i < 200000);
        rest_us(100);
    }
    rest_us(some(1500));
    if (kills)
        kill(pid, SIGKILL);
    removed = take_away(w, q, some(3), window);
    memset(to, 'c', AREA);
    rest_us(500 + some(1000));
    for (size_t i = 0; i < AREA; i++)
        MUST(to[i] == 'c');
    if (!kills)
        kill(pid, SIGKILL);
    MUST(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    if (!removed)
        rig_destroy(q);
    munmap(to, AREA);
    unlink(path);
}

/* -- order -- */

struct reader {
    const uint64_t *at;
    uint32_t n;
    uint64_t seen;
    bool stop, strict;
};

static void *reads(void *argument)
{
    struct reader *r = argument;

    while (!__atomic_load_n(&r->stop, __ATOMIC_ACQUIRE)) {
        uint64_t now = __atomic_load_n(&r->at[r->n - 1], __ATOMIC_ACQUIRE);

        __atomic_fetch_add(&r->seen, now != 0, __ATOMIC_RELAXED);
        for (uint32_t i = r->n - 1; i-- > 0;) { /* downwards: so what is read later was written earlier, or is newer */
            uint64_t word = __atomic_load_n(&r->at[i], __ATOMIC_ACQUIRE);

            if (word < now) {
                fprintf(stderr, "word %u of %u is %llu when one read before is %llu already\n", i, r->n,
                        (unsigned long long)word, (unsigned long long)now);
                abort();
            }
            now = r->strict ? word : now;
        }
    }
    return NULL;
}

/*
 * Every message fills its place with the next number; `there`: the kernel copies, as to another process, and keeps to the
 * last word alone.
 */
static uint64_t order(struct rig *w, uint32_t rounds, bool there)
{
    static uint64_t from[1200], to[1200] __attribute__((aligned(64)));
    struct reader r = { .strict = !there };
    uint64_t seen = 0;
    pthread_t thread;

    for (uint32_t round = 0; round < 8; round++) {
        uint32_t n = 2 + some(round % 2 ? 30 : 1100), shift = some(64);
        struct ve_part part = { .address = (uintptr_t)(to + shift), .here = there ? NULL : (char *)(to + shift), .length = 8 * n,
                                .process = w->e.w.process };
        struct iovec iov = { from, 8 * n };

        memset(to, 0, sizeof to);
        r.at = to + shift;
        r.n = n;
        r.stop = false;
        MUST(!pthread_create(&thread, NULL, reads, &r));
        r.seen = 0;
        for (uint64_t i = 1; i <= rounds || (!__atomic_load_n(&r.seen, __ATOMIC_RELAXED) && i <= 100ull * rounds); i++) {
            if (i > rounds)
                sched_yield(); /* the reader has not had a processor yet */
            for (uint32_t j = 0; j < n; j++)
                from[j] = i;
            MUST(!ve_put(&w->e, w->e.w.process, &part, 1, &iov, 1));
        }
        __atomic_store_n(&r.stop, true, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        seen += r.seen;
    }
    return seen;
}

int main(int argc, char **argv)
{
    static struct rig w;
    struct cq cq;
    uint32_t rounds = argc == 5 ? (uint32_t)atoi(argv[4]) : 0;

    MUST(argc == 5);
    folder = argv[1];
    random_ = strtoull(argv[3], NULL, 10) + 88172645463325252ull;
    rig_open(&w, folder, 1, 1);
    if (!strcmp(argv[2], "order")) {
        MUST(order(&w, rounds, false));
        MUST(order(&w, rounds, true));
    } else {
        meeting = mmap(NULL, sizeof *meeting, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        MUST(meeting != MAP_FAILED);
        cq = rig_cq(&w, 64);
        for (uint32_t i = 0; i < rounds; i++)
            one_round(&w, &cq, 2 + i % 1000);
    }
    puts("ok");
    return 0;
}
