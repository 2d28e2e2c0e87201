/*
 * Copies that the owner of the memory executes (peers/orders.h): several processes order at once from one that serves, each in a part
 * of its private memory that is its own, against a model; some are killed in the middle of it. What is not mapped, or not writable, is
 * an error of the copy.
 *
 * orders FOLDER SEED ROUNDS poll|sleep: the owner polls, or its thread alone serves.
 */
#include "orders.h"
#include "hazards.h"
#include "rig.h"
#include "rng.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define ORDERERS 6 /* more than orders */
#define PART (3u * SOFTIB_VERBS_PIECE + 4099)
#define PAGE 4096u

static struct vm_heap w;
static char *memory; /* ORDERERS parts, a page without rights, one that is read-only */

/* Again where the owner is late (-EAGAIN) or does not serve yet (-EXDEV): a busy machine. */
static int order(bool put, char *there, size_t n, char *here)
{
    int error;

    do {
        struct iovec to[2] = { { there, n / 2 }, { there + n / 2, n - n / 2 } }, from = { here, n };
        uint64_t *hazard = vm_hazard(&w, 1, VM_FIRST);

        error = vp_order_copy(&w, 1, put, to, 2, &from, 1);
        vm_hazard_end(hazard);
    } while (error == -EAGAIN || error == -EXDEV);
    return error;
}

static void as_orderer(unsigned number, uint64_t seed, unsigned rounds)
{
    char *part = memory + (size_t)number * PART, *model = calloc(1, PART), *here = malloc(PART);
    char *nowhere = memory + ((size_t)ORDERERS * PART / PAGE + 1) * PAGE;

    random_ = seed;
    vm_renumber(&w, 2 + number);
    MUST(order(false, part, PART, model) == 0);
    for (unsigned i = 0; i < rounds; i++) {
        size_t at = some(PART), n = some(8) ? some(300) : some(PART);

        n = n > PART - at ? PART - at : n;
        if (some(2)) {
            for (size_t k = 0; k < n; k++)
                here[k] = (char)some(256);
            memcpy(model + at, here, n);
            MUST(order(true, part + at, n, here) == 0);
        } else {
            MUST(order(false, part + at, n, here) == 0 && !memcmp(here, model + at, n));
        }
        if (i % 16 == 0) {
            MUST(order(true, nowhere, 64, here) == -EFAULT && order(false, nowhere, 64, here) == -EFAULT);
            MUST(order(true, nowhere + PAGE, 64, here) == -EFAULT && order(false, nowhere + PAGE, 64, here) == 0);
        }
    }
    MUST(order(false, part, PART, here) == 0 && !memcmp(here, model, PART));
    _exit(0);
}

int main(int n, char **arguments)
{
    size_t octets = ((size_t)ORDERERS * PART / PAGE + 3) * PAGE;
    pid_t pids[ORDERERS];
    uint64_t seed;
    unsigned rounds, left = ORDERERS;

    MUST(n == 5 && !vm_open(&w, arguments[1], -1, 1));
    seed = strtoull(arguments[2], NULL, 0), rounds = (unsigned)atoi(arguments[3]);
    memory = mmap(NULL, octets, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(memory != MAP_FAILED && !mprotect(memory + octets - 2 * PAGE, PAGE, PROT_NONE) &&
         !mprotect(memory + octets - PAGE, PAGE, PROT_READ));
    for (unsigned i = 0; i < ORDERERS; i++) {
        pids[i] = fork();
        MUST(pids[i] >= 0);
        if (!pids[i])
            as_orderer(i, seed * 100 + i + 1, i % 3 == 2 ? 1u << 30 : rounds); /* who would never end is killed */
    }
    vp_serve_begin(&w);
    while (left) {
        int status;
        pid_t ended = waitpid(-1, &status, WNOHANG);

        if (ended > 0) {
            MUST(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : status == 0);
            left--;
            if (left == ORDERERS / 3 + 2)
                for (unsigned i = 2; i < ORDERERS; i += 3)
                    kill(pids[i], SIGKILL);
        } else if (!strcmp(arguments[4], "poll")) {
            vp_serve(&w);
        } else {
            usleep(1000);
        }
    }
    vp_serve_quiesce();
    puts("ok");
    return 0;
}
