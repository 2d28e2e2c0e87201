"""Events of one thread of a recorded program, as columns. ``softib run --record`` reads them from its files and
converts them to schedules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

__all__ = ["Event", "RecordedThread"]


class Event(IntEnum):
    """``SOFTIB_EVENT_*`` of ``preload/verbs/engine/record.h``."""

    POST, RECEIVED, SENT, QP, BEGIN, END = range(1, 7)


@dataclass(frozen=True)
class RecordedThread:
    """Events of a thread by column: ``ns`` when each call began (one clock for all processes),
    ``compute`` ns computed so far, ``type`` (:class:`Event`), and ``opcode``, ``qpn``, ``peer`` and
    ``octets`` as described in ``record.h``. ``rank``: that of the launcher, or None. ``away``: ns in which the thread
    was ready to run but had no processor, before it posted or began something; time in which it waited for a message
    does not count."""

    pid: int
    tid: int
    rank: int | None
    ns: np.ndarray
    compute: np.ndarray
    type: np.ndarray
    opcode: np.ndarray
    qpn: np.ndarray
    peer: np.ndarray
    octets: np.ndarray
    away: int = 0
