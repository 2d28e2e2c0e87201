"""The subnet manager's state machine as a table (IBA 14.4.1).

The events come from ``election`` (ranks of managers), ``unsolicited`` (Set(SMInfo) of others) and
the sweeps themselves.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["TRANSITIONS", "SmEvent", "SmState", "next_state"]


class SmState(IntEnum):
    """SMInfo.SMState (IBA 14.2.5.13)."""

    NOT_ACTIVE = 0
    DISCOVERING = 1
    STANDBY = 2
    MASTER = 3


class SmEvent(IntEnum):
    """What can happen to a subnet manager."""

    DISCOVERY_COMPLETED = 0  # the sweep ended and found no manager that ranks higher
    MASTER_FOUND = 1  # a master, or a manager of higher rank, answered SMInfo
    POLLING_TIMEOUT = 2  # a standby's master stopped answering
    HANDOVER = 3  # SMInfo Set: the master hands over
    ACKNOWLEDGED = 4  # SMInfo Set: our handover was accepted
    DISABLE = 5  # SMInfo Set: a master orders a manager to stop
    STANDBY_SIGNAL = 6  # SMInfo Set: a master orders a manager to go on
    DISCOVER = 7  # SMInfo Set: look again
    TOPOLOGY_CHANGED = 8  # trap, or a sweep asked for
    LOCAL_PORT_DOWN = (
        9  # a sweep found the manager cut off; OpenSM discovers anew then, for another may be master meanwhile
    )


S, E = SmState, SmEvent
TRANSITIONS: dict[tuple[SmState, SmEvent], SmState] = {
    (S.DISCOVERING, E.DISCOVERY_COMPLETED): S.MASTER,
    (S.DISCOVERING, E.MASTER_FOUND): S.STANDBY,
    (S.STANDBY, E.POLLING_TIMEOUT): S.DISCOVERING,
    (S.STANDBY, E.DISCOVER): S.DISCOVERING,
    (S.STANDBY, E.HANDOVER): S.MASTER,
    (S.STANDBY, E.DISABLE): S.NOT_ACTIVE,
    (S.NOT_ACTIVE, E.STANDBY_SIGNAL): S.STANDBY,
    (S.MASTER, E.ACKNOWLEDGED): S.STANDBY,
    (S.MASTER, E.HANDOVER): S.MASTER,
    (S.MASTER, E.TOPOLOGY_CHANGED): S.MASTER,
    (S.MASTER, E.LOCAL_PORT_DOWN): S.DISCOVERING,
}
"""(state, event) → state. A pair that is not listed changes nothing."""


def next_state(state: SmState, event: SmEvent) -> SmState:
    """The state after ``event``."""
    return TRANSITIONS.get((state, event), state)
