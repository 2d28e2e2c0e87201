"""Rare events of the hardware: random numbers from the state ``rng_state``, and counters that grow
by them."""

import math

import numpy as np

from softib.agents.kernels.big_endian import inner
from softib.agents.kernels.mad_traffic import add


@inner
def roll(t):
    """A random number in [0, 1): xorshift64 (Marsaglia, 2003)."""
    x = t.rng_state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    t.rng_state[0] = x
    return np.float64(x >> np.uint64(11)) / 9007199254740992.0


@inner
def poisson(t, mean):
    """How many rare events happen where ``mean`` are expected (a normal approximation above 60)."""
    if mean <= 0.0:
        return np.int64(0)
    if mean > 60.0:
        angle, radius = 2.0 * math.pi * roll(t), math.sqrt(-2.0 * math.log(1.0 - roll(t)))
        return np.int64(min(max(mean + math.sqrt(mean) * radius * math.cos(angle) + 0.5, 0.0), 9e18))
    floor, product, n = math.exp(-mean), roll(t), np.int64(0)
    while product > floor:
        product *= roll(t)
        n += 1
    return n


@inner
def grow(row, column, n):
    """Add ``n`` (a signed number) to a counter that stops at its maximum."""
    if n > 0:
        add(row, column, np.uint64(n))
