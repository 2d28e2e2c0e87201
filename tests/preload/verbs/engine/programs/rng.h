/* Chance that a seed repeats (xorshift), and short rests: of the scenes in which processes meet at random moments. */
#ifndef RNG_H
#define RNG_H

#include <stdint.h>
#include <time.h>

static uint64_t random_; /* never 0 */

/* Below n. */
static inline uint32_t some(uint32_t n)
{
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return (uint32_t)(random_ >> 20) % n;
}

static inline void rest_us(uint32_t us)
{
    nanosleep(&(struct timespec){ 0, us * 1000 }, NULL);
}

#endif
