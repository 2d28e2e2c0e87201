# mypy: ignore-errors
"""Random numbers of the packet layer: splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""

import numpy as np

from softib.jit import inner


@inner
def draw(s):
    """A number in [0, 1)."""
    s.rng[0] += np.uint64(0x9E3779B97F4A7C15)
    z = s.rng[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
