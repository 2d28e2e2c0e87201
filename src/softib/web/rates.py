"""What each port did between two readings of its counters, kept for a while: load, wait and errors over time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from softib.fabric.columns import COUNTER_NAMES
from softib.fabric.model import Fabric
from softib.fabric.power_up import active_speed_codes
from softib.iba.rates import LANES_BY_BIT, data_gbps
from softib.iba.smp import PortInfo

__all__ = ["ERRORS", "History", "Sample"]

ERRORS = COUNTER_NAMES[: COUNTER_NAMES.index("port_xmit_data")]
"""Counters of what should not happen, by their names; what they rose by is added up."""
WORD = 4
"""Octets of a unit of PortXmitData (IBA 16.1.3.5)."""


@dataclass(frozen=True)
class Sample:
    """``time_s`` of the later reading (clock). By port: ``load`` float16, octets sent as a share of what the link can; ``wait`` uint32, what PortXmitWait rose by; ``errors`` uint16 what
    :data:`ERRORS` rose by, at most 65,535."""

    time_s: float
    load: np.ndarray
    wait: np.ndarray
    errors: np.ndarray


class History:
    """The last ``keep`` samples of the ports of one fabric: 8 octets a port and sample."""

    def __init__(self, keep: int):
        self.samples: deque[Sample] = deque(maxlen=keep)
        self._before: tuple[float, np.ndarray] | None = None

    def add(self, time_s: float, fabric: Fabric) -> None:
        """Take a reading. Counters that fell (somebody cleared them), and readings that are not later than the last, make no sample of the ports or moment concerned."""
        counters = fabric.counters.copy()
        before, self._before = self._before, (time_s, counters)
        if before is None or len(before[1]) != len(counters) or time_s <= before[0]:
            return
        then, seconds = before[1], time_s - before[0]
        octets = _rise(then, counters, "port_xmit_data").astype(np.float64) * WORD
        can = _octets_a_second(fabric) * seconds
        # Counters of a link that changed its speed meanwhile may say more than it can now.
        load = np.minimum(np.divide(octets, can, out=np.zeros(len(octets)), where=can > 0), 16.0)
        errors = np.zeros(len(counters), np.uint64)
        for name in ERRORS:
            errors += _rise(then, counters, name)
        wait = np.minimum(_rise(then, counters, "port_xmit_wait"), np.uint64(0xFFFFFFFF))
        self.samples.append(
            Sample(time_s, load.astype(np.float16), wait.astype(np.uint32), np.minimum(errors, 65535).astype(np.uint16))
        )

    def times(self) -> list[float]:
        """Clock times of the samples, oldest first."""
        return [s.time_s for s in self.samples]

    def at(self, time_s: float | None) -> Sample | None:
        """The sample nearest to ``time_s``; None: the newest. None where there is none yet."""
        if not self.samples:
            return None
        if time_s is None:
            return self.samples[-1]
        return min(self.samples, key=lambda s: abs(s.time_s - time_s))


def _rise(then: np.ndarray, now: np.ndarray, name: str) -> np.ndarray:
    """What a counter rose by (uint64); 0 where it fell."""
    return np.where(now[name] >= then[name], now[name] - then[name], np.uint64(0))


def _octets_a_second(f: Fabric) -> np.ndarray:
    lanes_of = np.zeros(256, np.int64)
    for bit, count in LANES_BY_BIT.items():
        lanes_of[bit] = count
    lanes = lanes_of[PortInfo.link_width_active.get(f.port_info)]
    codes = active_speed_codes(f.port_info, f.port_mlnx_speed)
    return np.where(f.linked, np.asarray(data_gbps(codes, lanes), np.float64) * 1e9 / 8, 0.0)
