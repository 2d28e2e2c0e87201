/*
 * "own FOLDER post|timer ROUNDS": when dereg has returned, no request of the own process copies to the region any more, whoever
 * executes it: a thread that posts, or the timer's. READs come to it without end, and its last octets are looked at.
 */
#include "qp.h"
#include "rig.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define AREA (4 << 20)
#define TAIL 65536

static struct rig one, two;
static struct cq c1, c2;
static struct ve_qp *a, *b;
static char *to, *from;
static uint32_t k1, k2, done;
static bool by_timer;
static const struct options plain = { .timeout = 20, .retry_cnt = 7, .rnr_retry = 7, .min_rnr = 1, .psn = 7 };

static void rest_us(uint32_t us)
{
    nanosleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

static uint32_t completed(void)
{
    uint32_t n;

    ve_spin_lock(&a->lock);
    n = a->completed;
    ve_spin_unlock(&a->lock);
    return n;
}

/* READs until the key is wrong. Nobody polls, so what waits is executed by the timer's thread. */
static void *reads(void *argument)
{
    struct ibv_sge sge = { (uintptr_t)to, AREA, k1 };
    struct ve_wr wr = { .opcode = IBV_WR_RDMA_READ, .sges = 1, .sge = &sge, .remote = (uintptr_t)from, .rkey = k2 };

    while (rig_state(a) == IBV_QPS_RTS) {
        uint32_t before = completed();

        if (by_timer)
            stub_cut(true);
        MUST(!rig_post(a, &wr));
        if (by_timer)
            stub_cut(false);
        for (int i = 0; completed() == before; i++) {
            MUST(i < 300000);
            rest_us(100);
        }
        __atomic_store_n(&a->freed, before + 1, __ATOMIC_RELAXED); /* as if somebody had polled */
        __atomic_fetch_add(&done, 1, __ATOMIC_RELEASE);
    }
    return argument;
}

static void one_round(uint32_t round)
{
    pthread_t thread;
    uint32_t before = __atomic_load_n(&done, __ATOMIC_ACQUIRE);

    k1 = rig_mr(&one, to, AREA, ALL_ACCESS, DOMAIN);
    a = rig_qp(&one, IBV_QPT_RC, &c1, &c1, NULL, 4, 0);
    b = rig_qp(&two, IBV_QPT_RC, &c2, &c2, NULL, 4, 0);
    rig_connect(a, b, &plain);
    MUST(!pthread_create(&thread, NULL, reads, NULL));
    for (int i = 0; __atomic_load_n(&done, __ATOMIC_ACQUIRE) == before; i++) {
        MUST(i < 300000);
        rest_us(100);
    }
    rest_us(round * 37 % 1500);
    rig_dereg(&one, k1);
    memset(to + AREA - TAIL, 'c', TAIL);
    rest_us(3000);
    for (size_t i = AREA - TAIL; i < AREA; i++)
        MUST(to[i] == 'c');
    pthread_join(thread, NULL);
    rig_destroy(a);
    rig_destroy(b);
}

int main(int argc, char **argv)
{
    MUST(argc == 4);
    by_timer = !strcmp(argv[2], "timer");
    rig_open(&one, argv[1], 1, 0);
    rig_open(&two, argv[1], 2, 1);
    c1 = rig_cq(&one, 64);
    c2 = rig_cq(&two, 64);
    to = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    from = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(to != MAP_FAILED && from != MAP_FAILED);
    memset(from, 'w', AREA);
    k2 = rig_mr(&two, from, AREA, ALL_ACCESS, DOMAIN);
    for (int i = 0; i < atoi(argv[3]); i++)
        one_round((uint32_t)i);
    puts("ok");
    return 0;
}
