"""How many switches of a new path change behind each switch that changes."""

from __future__ import annotations

from softib.jit import kernel

__all__ = ["rounds"]


@kernel
def rounds(old, new, next_switch, switch, lid, out):
    """``out[i]``: 1 and the number of switches that change for ``lid[i]`` on the new path behind
    ``switch[i]``.

    ``old``, ``new`` uint8[switches, LIDs]; ``next_switch`` int32[switches, 256]: what a port leads
    to, -1 where it is no switch. A new path that never ends counts as one of as many steps as there
    are switches.
    """
    n = new.shape[0]
    for i in range(switch.shape[0]):
        s, d, count = switch[i], lid[i], 1
        for _ in range(n):
            s = next_switch[s, new[s, d]]
            if s < 0:
                break
            if old[s, d] != new[s, d]:
                count += 1
        out[i] = min(count, 65535)
