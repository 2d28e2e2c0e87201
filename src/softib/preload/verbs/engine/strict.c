/* SOFTIB_STRICT: what hardware may do, and what programs do that rely on it not doing so. */
#include "late_inner.h"

#include <stdlib.h>

static uint64_t dice;

void ve_strict_begin(void)
{
    const char *seed = getenv("SOFTIB_STRICT_SEED");

    dice = (seed ? strtoull(seed, NULL, 0) : 0) * 0x9E3779B97F4A7C15u;
}

/* splitmix64 (Steele, Lea, Flood, 2014): a counter, so threads share it without a lock. */
uint32_t ve_strict_roll(void)
{
    uint64_t x = __atomic_add_fetch(&dice, 0x9E3779B97F4A7C15u, __ATOMIC_RELAXED);

    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((x ^ x >> 31) >> 32);
}
