/*
 * A program that has put hooks before the C library's mmap and mremap, as UCX's ucm and OpenMPI's patcher do, or handlers before
 * fork: `hooks SCENE`. What they do is what such hooks may do; registering and forking must not depend on it.
 */
#include "remap.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(what)                                                                                                           \
    do {                                                                                                                     \
        if (!(what)) {                                                                                                       \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #what);                                             \
            _exit(1);                                                                                                        \
        }                                                                                                                    \
    } while (0)

#define LENGTH (64 * 4096ul)

static volatile char *written; /* by the hook of mmap */
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;

void *mmap(void *at, size_t length, int rights, int flags, int fd, off_t from)
{
    pthread_mutex_lock(&busy); /* ucm's handlers stand behind a lock, too */
    if (written)
        *written = 1;
    pthread_mutex_unlock(&busy);
    return (void *)syscall(SYS_mmap, at, length, rights, flags, fd, from);
}

/* UCX 1.13's, in src/ucm/mmap/mmap.h, has four parameters: the fifth of MREMAP_FIXED is lost. */
void *mremap(void *old, size_t old_length, size_t length, int flags, ...)
{
    return (void *)syscall(SYS_mremap, old, old_length, length, flags, NULL);
}

static char *fresh(void)
{
    char *at = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    MUST(at != MAP_FAILED);
    return memset(at, 'p', LENGTH);
}

static void add(struct vm_region *r, char *at)
{
    vm_region_add(r, (uintptr_t)at, (uintptr_t)at + LENGTH, true, VM_MOVES, 0);
}

/* Its pages are the child's own, although the hook loses where they are to go. */
static void child(void)
{
    char *at = fresh();
    struct vm_region r;
    int status;

    add(&r, at);
    MUST(r.shared_from != r.shared_to);
    if (!fork()) {
        MUST(at[0] == 'p' && at[LENGTH - 1] == 'p');
        memset(at, 'c', LENGTH);
        _exit(0);
    }
    MUST(wait(&status) > 0 && !status);
    MUST(at[0] == 'p' && at[LENGTH - 1] == 'p');
}

static int holds, ends;

static void *hold(void *unused)
{
    pthread_mutex_lock(&busy);
    __atomic_store_n(&holds, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE))
        usleep(1000);
    pthread_mutex_unlock(&busy);
    return unused;
}

/* Another thread holds the hook's lock when the program forks: in the child nobody gives it back. */
static void lock(void)
{
    char *at = fresh();
    struct vm_region r;
    pthread_t other;
    int status;

    add(&r, at);
    MUST(!pthread_create(&other, NULL, hold, NULL));
    while (!__atomic_load_n(&holds, __ATOMIC_ACQUIRE))
        usleep(1000);
    if (!fork())
        _exit(at[0] != 'p');
    MUST(wait(&status) > 0 && !status);
    __atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
}

static void *sleep_on(void *unused)
{
    while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE))
        usleep(1000);
    return unused;
}

/* Of a program with several threads writers are stopped until their page has moved: the hook would wait for itself. */
static void writer(void)
{
    char *at = fresh();
    struct vm_region r;
    pthread_t other;

    MUST(!pthread_create(&other, NULL, sleep_on, NULL));
    written = at + 4096;
    add(&r, at);
    written = NULL;
    MUST(at[4096] == 'p');
    __atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
}

static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER;

static void lock_cache(void)
{
    pthread_mutex_lock(&cache);
}

static void unlock_cache(void)
{
    pthread_mutex_unlock(&cache);
}

static void *register_on(void *at)
{
    struct vm_region r;

    while (!__atomic_load_n(&ends, __ATOMIC_ACQUIRE)) {
        lock_cache();
        add(&r, at);
        vm_region_drop(&r);
        unlock_cache();
        usleep(100);
    }
    return at;
}

/* A registration cache that holds its lock over a registration and through a fork, as UCX's rcache: neither waits for the other. */
static void handlers(void)
{
    char *at = fresh();
    struct vm_region r;
    pthread_t other;
    int status;

    MUST(!pthread_atfork(lock_cache, unlock_cache, unlock_cache));
    add(&r, fresh()); /* a child has something to copy */
    MUST(!pthread_create(&other, NULL, register_on, at));
    for (int i = 0; i < 40; i++) {
        if (!fork())
            _exit(at[0] != 'p');
        MUST(wait(&status) > 0 && !status);
    }
    __atomic_store_n(&ends, 1, __ATOMIC_RELEASE);
    pthread_join(other, NULL);
}

static void end_all(int signal)
{
    kill(0, signal == SIGALRM ? SIGKILL : signal);
}

int main(int n, char **arguments)
{
    const char *scene = n == 2 ? arguments[1] : "";

    setpgid(0, 0);
    signal(SIGALRM, end_all);
    alarm(20); /* rather than for ever, the child too */
    if (!strcmp(scene, "child"))
        child();
    else if (!strcmp(scene, "lock"))
        lock();
    else if (!strcmp(scene, "writer"))
        writer();
    else if (!strcmp(scene, "handlers"))
        handlers();
    else
        return 2;
    puts("ok");
    return 0;
}
