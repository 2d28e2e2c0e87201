"""Random numbers of the packet layer: splitmix64 (Steele, Lea, Flood, OOPSLA 2014) of the seed, the
port and the time.

A number does not depend on events elsewhere, so ports may be processed in any order.
"""

import numpy as np

from softib.jit import inner


@inner
def draw(state, port, now):
    """Return the random number in [0, 1) of ``port`` at ``now``."""
    return draw_for(state, port, np.int64(0), now)


@inner
def draw_for(state, port, of, now):
    """Return random number ``of`` in [0, 1) of several that ``port`` has at ``now``."""
    z = state.rng[0] + mixed(
        np.uint64(now) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(port) * np.uint64(0xD1342543DE82EF95)
    )
    z = mixed(z + np.uint64(of + 1) * np.uint64(0x9E3779B97F4A7C15))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@inner
def mixed(z):
    """Return ``z`` mixed by the finalizer of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
