/* Runs a scenario in every order of its programs' steps: depth first, each order from the start (stateless model checking). */
#include "explore.h"

#include <errno.h>
#include <sys/socket.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

#define STACK (256 << 10)
#define MOST_STEPS 4000
#define MOST_SHOWN 200
#define LOOKS 4 /* of somebody who waits while nobody writes: a lock's owner is looked after at the second */

enum state { READY, WAITS, SLEEPS, UNTIL, ENDED, DEAD };

static struct program {
    enum state state;
    uint64_t seen;              /* WAITS: writes before it looked */
    uint64_t futex;             /* SLEEPS */
    bool (*ready)(void);        /* UNTIL */
    jmp_buf at;
    bool began;
    ucontext_t start;
    char stack[STACK];
} programs[EXPLORE_PROGRAMS];

static const struct scenario *scenario;
static int current = -1;
static jmp_buf scheduler;
static uint64_t writes;
static uint64_t orders = 1, steps;
static unsigned preemptions, idle_looks;
static bool death_spent;

static struct choice {
    uint8_t options, taken;
    int8_t program;             /* that ran, or died: -1 - program */
} choices[MOST_STEPS];
static unsigned depth, planned;

void explore_failed(const char *what, int line)
{
    printf("%s: not true in line %d: %s\norder:", scenario->name, line, what);
    for (unsigned i = depth > MOST_SHOWN ? depth - MOST_SHOWN : 0; i < depth; i++)
        printf(choices[i].program >= 0 ? " %d" : " dies:%d", choices[i].program >= 0 ? choices[i].program : -1 - choices[i].program);
    printf("\n");
    fflush(stdout);
    _exit(1);
}

/* -- in a program -- */

static void leave(void)
{
    if (!_setjmp(programs[current].at))
        _longjmp(scheduler, 1);
}

void explore_step(void)
{
    steps++;
    if (current >= 0)
        leave();
}

int explore_clock(struct timespec *now)
{
    *now = (struct timespec){ (time_t)orders, (long)steps };
    return 0;
}

void explore_wrote(void)
{
    writes++;
}

void explore_wait(void)
{
    if (current < 0)
        return;
    programs[current].state = WAITS;
    programs[current].seen = writes;
    leave();
}

void explore_until(bool (*ready)(void))
{
    programs[current].state = UNTIL;
    programs[current].ready = ready;
    leave();
}

long explore_syscall(long number, ...)
{
    va_list more;
    uint32_t *word;
    int op;
    uint32_t value;

    if (number == SYS_pidfd_open) {
        errno = EPERM;
        return -1;
    }
    if (number == SYS_socket) { /* vm_socket's datagrams wake who sleeps in poll(2) */
        int domain, type;

        va_start(more, number);
        domain = va_arg(more, int);
        type = va_arg(more, int);
        va_end(more);
        return socket(domain, type, 0);
    }
    if (number != SYS_futex || current < 0)
        return 0; /* membarrier */
    va_start(more, number);
    word = va_arg(more, uint32_t *);
    op = va_arg(more, int);
    value = va_arg(more, uint32_t);
    va_end(more);
    explore_step();
    if (op == FUTEX_WAIT && *word == value) {
        programs[current].state = SLEEPS;
        programs[current].futex = explore_name_of(word);
        leave();
    } else if (op == FUTEX_WAKE) {
        for (unsigned i = 0; i < scenario->programs; i++)
            if (programs[i].state == SLEEPS && programs[i].futex == explore_name_of(word))
                programs[i].state = READY;
    }
    return 0;
}

bool explore_has_ended(unsigned program)
{
    return programs[program].state == ENDED;
}

bool explore_is_dead(unsigned program)
{
    return programs[program].state == DEAD;
}

static void begin(void)
{
    scenario->run[current]();
    programs[current].state = ENDED;
    _longjmp(scheduler, 1);
}

/* -- the scheduler -- */

static bool is_enabled(const struct program *p)
{
    return p->state == READY || (p->state == WAITS && (p->seen != writes || idle_looks)) || (p->state == UNTIL && p->ready());
}

static void resume(int i)
{
    struct program *p = &programs[i];

    current = i;
    p->state = READY;
    if (!_setjmp(scheduler)) {
        if (p->began)
            _longjmp(p->at, 1);
        p->began = true;
        getcontext(&p->start);
        p->start.uc_stack.ss_sp = p->stack;
        p->start.uc_stack.ss_size = STACK;
        makecontext(&p->start, begin, 0);
        setcontext(&p->start);
    }
    current = -1;
}

/* The options at this point: the program that ran last first, then the others, then a death. Returns how many. */
static unsigned options(int last, int8_t list[2 * EXPLORE_PROGRAMS])
{
    unsigned n = 0;
    bool goes_on = last >= 0 && is_enabled(&programs[last]);

    if (goes_on)
        list[n++] = (int8_t)last;
    for (unsigned i = 0; i < scenario->programs && (!goes_on || preemptions < scenario->preemptions); i++)
        if ((int)i != last && is_enabled(&programs[i]))
            list[n++] = (int8_t)i;
    for (unsigned i = 0; i < scenario->programs && n && !death_spent; i++)
        if (scenario->mortal >> i & 1 && programs[i].state < ENDED && programs[i].began && (int)i == last)
            list[n++] = (int8_t)(-1 - (int)i);
    return n;
}

static bool somebody_waits(void)
{
    for (unsigned i = 0; i < scenario->programs; i++)
        if (programs[i].state < ENDED)
            return true;
    return false;
}

static void one_order(void)
{
    int last = -1;

    for (unsigned i = 0; i < scenario->programs; i++) {
        programs[i].state = READY;
        programs[i].began = false;
    }
    preemptions = idle_looks = 0;
    death_spent = false;
    depth = steps = 0;
    orders++;
    scenario->reset();
    for (;;) {
        int8_t list[2 * EXPLORE_PROGRAMS];
        unsigned n = options(last, list);
        int who;

        if (!n && !somebody_waits())
            break;
        if (!n) { /* those who wait may look a few times more: at what is no memory of theirs */
            if (++idle_looks > LOOKS || !(n = options(last, list)))
                explore_failed("somebody waits for ever", 0);
        }
        if (depth == MOST_STEPS)
            explore_failed("it ends", 0);
        if (depth >= planned)
            choices[depth].taken = 0;
        if (choices[depth].taken >= n)
            explore_failed("the same order has the same options", 0);
        choices[depth].options = (uint8_t)n;
        who = list[choices[depth].taken];
        choices[depth++].program = (int8_t)who;
        if (who < 0) {
            programs[-1 - who].state = DEAD;
            death_spent = true;
            writes++;
            scenario->died((unsigned)(-1 - who));
            continue;
        }
        preemptions += last >= 0 && who != last && is_enabled(&programs[last]);
        uint64_t before = writes;

        resume(who);
        if (writes != before)
            idle_looks = 0;
        last = who;
    }
    scenario->ended();
}

static void crashed(int signal)
{
    (void)signal;
    explore_failed("no wild pointer", 0);
}

unsigned long explore(const struct scenario *s)
{
    unsigned long orders = 0;

    signal(SIGSEGV, crashed);
    scenario = s;
    planned = 0;
    for (;;) {
        one_order();
        orders++;
        while (depth && choices[depth - 1].taken + 1 == choices[depth - 1].options)
            depth--;
        if (!depth)
            return orders;
        choices[depth - 1].taken++;
        planned = depth;
    }
}
