/* Hints to the processor. */
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

/* Prefetch the cache line of `at` for a write. Any address is allowed. */
static inline void vm_soon(uintptr_t at)
{
#if defined(__x86_64__) /* without -mprfchw the compiler would turn __builtin_prefetch for writing into one for
                         * reading */
    __asm__ volatile("prefetchw (%0)" : : "r"(at));
#else
    __builtin_prefetch((const void *)at, 1);
#endif
}

#endif
