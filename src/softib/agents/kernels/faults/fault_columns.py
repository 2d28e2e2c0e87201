"""The columns that hold the faults of each port, and the random numbers from which errors are
drawn.

``fault`` int64[ports, 7] holds the faults of each port and their state (columns below).
``fault_rate`` float64[ports, 3] holds its bit error ratio, the picoseconds that it needs to drain
one MAD (infinite: blocked), and the share of flow-control packets that its peer omits.
``rng_state`` is the state of the random generator. As long as no port has a fault,
``options[FAULTY]`` is 0 and these columns are not read.
"""

import math

import numpy as np

from softib.agents.kernels.big_endian import inner
from softib.agents.kernels.mad_traffic import MAD_DWORDS, add
from softib.iba.rates import LANES_BY_BIT
from softib.iba.smp import PortInfo

FAULTY = 1
"""Index into ``options`` of the number of ports that have a fault."""
BITS, SETTLED, PHY_ERRORS, DRAINED, WAITED, HELD, FLOWED = range(7)
"""Columns of ``fault``. BITS: the faults. SETTLED: time up to which the port's counters are
updated. PHY_ERRORS: local physical errors that are not cancelled yet. DRAINED: time at which its
buffer contains no more MADs. WAITED: time up to which its sender's waiting is counted. HELD: time
since which its sender waits without a time limit (0: it does not). FLOWED: time at which it has
drained the data of applications. Times are in ps."""
CUT, DEAD, NOISY, SLOW, LAVISH, STARVED = 1, 2, 4, 8, 16, 32
"""Bits of BITS. CUT: no signal arrives. DEAD: the node has no power. NOISY: it receives bit errors.
SLOW: it drains slowly. LAVISH: it grants credits without buffer space. STARVED: the peer omits
flow-control packets."""
BER, DRAIN, LEFT_OUT = 0, 1, 2

LANES = np.ones(256, np.int64)
for _bit, _n in LANES_BY_BIT.items():
    LANES[_bit] = _n
PACKET_OCTETS = 4 * float(MAD_DWORDS) + 2
"""Number of bytes in a MAD's packet, including the VCRC."""
WIDTH_AT = PortInfo.link_width_active.byte


@inner
def roll(t):
    """Return a random number in [0, 1): xorshift64 (Marsaglia, 2003)."""
    x = t.rng_state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    t.rng_state[0] = x
    return np.float64(x >> np.uint64(11)) / 9007199254740992.0


@inner
def poisson(t, mean):
    """Return the number of rare events, drawn from a Poisson distribution with mean ``mean`` (a
    normal approximation above 60)."""
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
    """Add ``n`` (a signed integer) to a counter that stops at its maximum."""
    if n > 0:
        add(row, column, np.uint64(n))
