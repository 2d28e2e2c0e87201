/*
 * Included before everything else in the library's own sources (`-include explore.h`): each atomic operation and each copy is a step,
 * before which another program of the scenario may run or the running one may die. explore.c tries every order of the steps, up to
 * a number of preemptions. Memory is sequentially consistent here: what a fence does is not seen.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

/* -- for the library -- */

void explore_step(void);
/* Memory has changed: who waits looks again. */
void explore_wrote(void);
static inline bool explore_wrote_if(bool success)
{
    if (success)
        explore_wrote();
    return success;
}

/* Nothing can be done until memory changes. */
void explore_wait(void);
/* futex(2), membarrier(2), pidfd_open(2) as a scenario has them. */
long explore_syscall(long number, ...);
/* A second an order and a nanosecond a step, so that what the library does once a millisecond happens at the same step of each. */
int explore_clock(struct timespec *now);

#define SPINS 1 /* who waits looks at once whether the owner lives */
#define sched_yield() ((void)0)
#define syscall(...) explore_syscall(__VA_ARGS__)
#define clock_gettime(id, now) ((void)(id), explore_clock(now))
#define memcpy(to, from, n) (explore_step(), explore_wrote(), memcpy(to, from, n))
#define __atomic_load_n(at, order) (explore_step(), __atomic_load_n(at, order))
#define __atomic_store_n(at, value, order) (explore_step(), explore_wrote(), __atomic_store_n(at, value, order))
#define __atomic_exchange_n(at, value, order) (explore_step(), explore_wrote(), __atomic_exchange_n(at, value, order))
#define __atomic_fetch_add(at, value, order) (explore_step(), explore_wrote(), __atomic_fetch_add(at, value, order))
#define __atomic_fetch_sub(at, value, order) (explore_step(), explore_wrote(), __atomic_fetch_sub(at, value, order))
#define __atomic_add_fetch(at, value, order) (explore_step(), explore_wrote(), __atomic_add_fetch(at, value, order))
#define __atomic_compare_exchange_n(at, expected, value, weak, then, otherwise)                                              \
    (explore_step(), explore_wrote_if(__atomic_compare_exchange_n(at, expected, value, weak, then, otherwise)))

#define SOFTIB_VERBS_MEMORY_PROCESSOR_H /* instead of memory/processor.h */
static inline void vm_relax(void)
{
    explore_wait();
}

static inline void vm_soon(uintptr_t at)
{
    (void)at;
}

/* -- for scenarios -- */

#define EXPLORE_PROGRAMS 4

struct scenario {
    const char *name;
    unsigned programs, preemptions;
    unsigned mortal;                    /* bits: one of these programs may die, once in an order */
    void (*reset)(void);
    void (*run[EXPLORE_PROGRAMS])(void);
    void (*died)(unsigned program);
    void (*ended)(void);                /* everybody has ended or died */
};

/* Runs every order; ends this process with a message and the order at the first in which MUST fails or somebody waits for ever. */
unsigned long explore(const struct scenario *s);
/* Waits until `ready`, whatever is written meanwhile. */
void explore_until(bool (*ready)(void));
bool explore_has_ended(unsigned program); /* it returned */
bool explore_is_dead(unsigned program);
/* A name of a place in shared memory, which each process of the scenario has mapped elsewhere. */
uint64_t explore_name_of(const void *at); /* the scenario's */
void explore_failed(const char *what, int line) __attribute__((noreturn));

#endif
