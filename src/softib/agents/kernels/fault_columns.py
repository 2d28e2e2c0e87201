"""What is wrong with a port, as numbers that kernels share.

``fault`` int64[ports, 7] holds per port what is wrong with it and its state (columns below),
``fault_rate`` float64[ports, 3] its bit error ratio, the picoseconds it needs to drain one MAD
(infinite: it is blocked) and the share of flow-control packets that the port at the other end
leaves out, ``rng_state`` the random state. ``options[FAULTY]`` is 0 while no port has a fault: then
nothing of this is ever looked at.
"""

import numpy as np

from softib.agents.kernels.mad_traffic import MAD_DWORDS
from softib.iba.rates import LANES_BY_BIT
from softib.iba.smp import PortInfo

FAULTY = 1
"""Element of ``options``: ports that have a fault."""
BITS, SETTLED, PHY_ERRORS, DRAINED, WAITED, HELD, FLOWED = range(7)
"""Columns of ``fault``: what is wrong; until when its counters are right (ps); local physical
errors not made good yet; when its buffer is empty of MADs (ps); until when the port that sends to
it has waited (ps); since when that one waits, for ever (ps, 0: it does not); when it has drained
what applications sent (ps)."""
CUT, DEAD, NOISY, SLOW, LAVISH, STARVED = 1, 2, 4, 8, 16, 32
"""No signal arrives; the node has no power; bit errors; it drains slowly, and grants credits that
it does not have; the other end leaves out flow-control packets."""
BER, DRAIN, LEFT_OUT = 0, 1, 2

LANES = np.ones(256, np.int64)
for _bit, _n in LANES_BY_BIT.items():
    LANES[_bit] = _n
PACKET_OCTETS = 4 * float(MAD_DWORDS) + 2
"""A MAD's packet with its VCRC."""
WIDTH_AT = PortInfo.link_width_active.byte
