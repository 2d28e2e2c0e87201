/* What a thread says to the processor that runs it. */
#ifndef SOFTIB_VERBS_MEMORY_PROCESSOR_H
#define SOFTIB_VERBS_MEMORY_PROCESSOR_H

#include <stdint.h>

static inline void vm_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The line that holds `at` will be written soon: it is fetched from any cache. Any address may be given. */
static inline void vm_soon(uintptr_t at)
{
#if defined(__x86_64__) /* the compiler makes a read of __builtin_prefetch, for want of -mprfchw */
    __asm__ volatile("prefetchw (%0)" : : "r"(at));
#else
    __builtin_prefetch((const void *)at, 1);
#endif
}

#endif
