/*
 * "keep locks|policy": private memory that is moved at registration keeps what the program asked for it, as the system tells it
 * (/proc/self/smaps, get_mempolicy(2)). "skip" where the system does not let this user ask.
 */
#include "remap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MUST(what)                                                                                                           \
    do {                                                                                                                     \
        if (!(what)) {                                                                                                       \
            fprintf(stderr, "%s:%d: not true: %s (errno %d)\n", __FILE__, __LINE__, #what, errno);                           \
            exit(1);                                                                                                         \
        }                                                                                                                    \
    } while (0)

#define PAGE 4096ul
#define BIND 2
#define OF_ADDRESS 2

static char *fresh(size_t length)
{
    char *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(at != MAP_FAILED);
    return at;
}

/* kB of the mapping at `at` that are locked; -1: it is not locked. `shared`: it is a file's. */
static long locked(const char *at, bool *shared)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    unsigned long start, end;
    bool here = false, lo = false;
    long kb = -1, value;
    char line[4096], rights[8];

    MUST(f);
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3) {
            here = start <= (unsigned long)at && end > (unsigned long)at;
            if (here)
                *shared = rights[3] == 's';
        } else if (here && sscanf(line, "Locked: %ld", &value) == 1) {
            kb = value;
        } else if (here && !strncmp(line, "VmFlags:", 8)) {
            lo = strstr(line, " lo");
        }
    }
    fclose(f);
    return lo ? kb : -1;
}

static void locks(void)
{
    char *at = fresh(64 * PAGE);
    struct vm_region r;
    bool shared;

    memset(at, 1, 64 * PAGE);
    if (mlock(at + 8 * PAGE, 16 * PAGE) || mlock2(at + 40 * PAGE, 8 * PAGE, MLOCK_ONFAULT)) {
        puts("skip");
        exit(0);
    }
    vm_region_add(&r, (uintptr_t)at, (uintptr_t)at + 64 * PAGE, true, VM_MOVES, 0);
    MUST(r.shared_to - r.shared_from == 64 * PAGE);
    MUST(locked(at, &shared) == -1 && shared);
    MUST(locked(at + 8 * PAGE, &shared) == 64 && shared);
    MUST(locked(at + 30 * PAGE, &shared) == -1);
    MUST(locked(at + 41 * PAGE, &shared) >= 0 && shared && locked(at + 50 * PAGE, &shared) == -1);
    vm_region_drop(&r);
    MUST(!munlock(at, 64 * PAGE) && locked(at + 8 * PAGE, &shared) == -1);
}

static int policy(const char *at)
{
    unsigned long mask[16];
    int mode;

    MUST(!syscall(SYS_get_mempolicy, &mode, mask, 1024ul, at, (unsigned long)OF_ADDRESS));
    return mode;
}

static void policies(void)
{
    char *at = fresh(64 * PAGE);
    unsigned long mask[16] = { 1 };
    struct vm_region r;
    bool shared;

    memset(at, 1, 64 * PAGE);
    if (syscall(SYS_mbind, at + 8 * PAGE, 16 * PAGE, BIND, mask, 1024ul, 0u)) {
        puts("skip");
        exit(0);
    }
    MUST(policy(at) == 0 && policy(at + 8 * PAGE) == BIND);
    vm_region_add(&r, (uintptr_t)at, (uintptr_t)at + 64 * PAGE, true, VM_MOVES, 0);
    MUST(r.shared_to - r.shared_from == 64 * PAGE && locked(at, &shared) == -1 && shared);
    MUST(policy(at) == 0 && policy(at + 8 * PAGE) == BIND && policy(at + 23 * PAGE) == BIND && policy(at + 24 * PAGE) == 0);
    vm_region_drop(&r);
}

int main(int n, char **arguments)
{
    MUST(n == 2);
    if (!strcmp(arguments[1], "locks"))
        locks();
    else
        policies();
    puts("ok");
    return 0;
}
