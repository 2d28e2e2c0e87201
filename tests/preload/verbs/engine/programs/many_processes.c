/*
 * "many_processes FOLDER SEED SECONDS": four processes post legal and illegal requests to each other at random, register and deregister,
 * make and destroy QPs, and are killed at random; others take their places. Nobody crashes, nobody hangs, no octet changes
 * that no writable region holds, and every status is one that the request may get (IBA table 10.7.3).
 */
#include "key_table.h"
#include "number_table.h"
#include "timer.h"
#include "many_processes.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct slot *slots;

static const char *folder;
static uint64_t seed;
static pid_t pids[SLOTS];
static uint32_t numbers[SLOTS], next_number = 2, kills;

static void begin(uint32_t i)
{
    numbers[i] = next_number++;
    pids[i] = fork();
    if (!pids[i]) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        member(folder, i, numbers[i], seed * 1000 + numbers[i]);
        _exit(0);
    }
}

/* What the daemon does when a program is gone: nobody finds any more what it had. */
static void reap(struct vm_heap *w, uint32_t number)
{
    const uint32_t *owners = vm_at(w, SOFTIB_VERBS_BLOCKS);

    __atomic_store_n(&vm_process(w, number)->alive, 0, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < vm_head(w)->number_high; i++)
        if (vm_number_process(*vm_number(w, i)) == number)
            vm_number_give(w, i);
    for (uint32_t block = 0; block < vm_head(w)->block_high; block++)
        for (uint32_t i = 0; owners[block] == number && i < SOFTIB_VERBS_BLOCK_KEYS; i++)
            vm_key_give(vm_key(w, (block * SOFTIB_VERBS_BLOCK_KEYS + i) << 8));
}

static void ended(uint32_t i, bool killed, uint32_t limit_ms)
{
    int status = 0;
    uint32_t ms = 0;

    while (waitpid(pids[i], &status, WNOHANG) != pids[i]) {
        MUST(ms++ < limit_ms); /* it hangs */
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
    if (killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL : WIFEXITED(status) && !WEXITSTATUS(status))
        return;
    fprintf(stderr, "process %u in slot %u ended with status 0x%x\n", numbers[i], i, (unsigned)status);
    exit(1);
}

int main(int argc, char **argv)
{
    uint64_t random, end;
    struct vm_heap w;
    uint32_t posted = 0, good = 0, bad = 0;

    MUST(argc == 4);
    folder = argv[1];
    seed = strtoull(argv[2], NULL, 10);
    random = seed + 88172645463325252ull;
    end = ve_now_ns() + strtoull(argv[3], NULL, 10) * 1000000000;
    slots = mmap(NULL, SLOTS * sizeof *slots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    MUST(slots != MAP_FAILED && !vm_open(&w, folder, -1, 1));
    for (uint32_t i = 0; i < SLOTS; i++)
        begin(i);
    while (ve_now_ns() < end) {
        uint32_t i, before;

        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        i = (uint32_t)(random >> 20) % SLOTS;
        before = __atomic_load_n(&slots[i].heart, __ATOMIC_RELAXED);
        nanosleep(&(struct timespec){ 0, 1000000 * (1 + (long)(random >> 40) % 150) }, NULL);
        for (uint32_t ms = 0; __atomic_load_n(&slots[i].heart, __ATOMIC_RELAXED) == before; ms++) { /* it lives */
            MUST(ms < 60000 && waitpid(pids[i], NULL, WNOHANG) == 0);
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
        }
        kill(pids[i], SIGKILL);
        ended(i, true, 60000);
        reap(&w, numbers[i]);
        kills++;
        begin(i);
    }
    for (uint32_t i = 0; i < SLOTS; i++)
        __atomic_store_n(&slots[i].stop, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < SLOTS; i++) {
        ended(i, false, 120000);
        posted += slots[i].posted;
        good += slots[i].good;
        bad += slots[i].bad;
    }
    printf("%u posted, %u good, %u bad, %u kills\n", posted, good, bad, kills);
    return 0;
}
