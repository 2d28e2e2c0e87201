# mypy: ignore-errors
"""Ethernet's events: pause frames, and the timer of pauses."""

import numpy as np

from softib.jit import inner
from softib.sim.packet.constants import PAUSE_FRAME
from softib.sim.packet.kernels.pfc import drained, pause_frame, refresh


@inner
def roce_event(n, s, port, kind, payload, now):
    """A pause frame, or the time to send one again. Returns the port to look at, -1 for none."""
    if kind == PAUSE_FRAME:
        return pause_frame(n, s, port, payload, now)
    if payload < 8:
        refresh(n, s, port, payload, now)
    else:
        drained(n, s, port, payload - 8, now)
    return np.int64(-1)
