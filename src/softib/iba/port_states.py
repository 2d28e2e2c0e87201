"""The port state machine as a table: the effect of Set(PortInfo) in each state (IBA 7.2.7 and
14.2.5.6)."""

from __future__ import annotations

import numpy as np

from softib.iba.constants import PortState

__all__ = ["INVALID", "STATE_AFTER_SET", "WIDTH_ALL"]

INVALID = 255
"""Entry for a request that is answered with ``MadStatus.BAD_FIELD`` and has no effect."""

WIDTH_ALL = 0xFF
"""Value of PortInfo.LinkWidthEnabled that enables all widths in LinkWidthSupported (IBA
14.2.5.6)."""

_S = PortState
_ALLOWED = {
    # Requests move a port up by one state at a time. No request leads to INIT; a port gets there
    # only by training.
    _S.DOWN: {_S.NO_CHANGE: _S.DOWN, _S.DOWN: _S.DOWN},
    _S.INIT: {_S.NO_CHANGE: _S.INIT, _S.DOWN: _S.DOWN, _S.ARMED: _S.ARMED},
    _S.ARMED: {_S.NO_CHANGE: _S.ARMED, _S.DOWN: _S.DOWN, _S.ARMED: _S.ARMED, _S.ACTIVE: _S.ACTIVE},
    _S.ACTIVE: {_S.NO_CHANGE: _S.ACTIVE, _S.DOWN: _S.DOWN, _S.ACTIVE: _S.ACTIVE},
}


def _table() -> np.ndarray:
    table = np.full((16, 16), INVALID, np.uint8)
    for state, requests in _ALLOWED.items():
        for request, result in requests.items():
            table[state, request] = result
    return table


STATE_AFTER_SET = _table()
"""uint8[16, 16]: PortState after a Set, indexed by the current and the requested state. ``INVALID``
= the request is rejected. DOWN = the link goes down and trains again."""
