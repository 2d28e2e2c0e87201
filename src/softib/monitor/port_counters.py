"""Reads PortCountersExtended of every port, and PortCounters if the former lack the error counters. Either all counters
of a port are read, or none. The capabilities of each performance agent are in its ClassPortInfo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softib.iba import perf
from softib.iba.notice import ClassPortInfo
from softib.iba.smp import DATA_AT
from softib.mad.batch import MadBatch
from softib.monitor.reading import BASIC, EXTENDED, PLAIN, WIDE, Reading
from softib.monitor.requests import PacedGets, perf_gets, port_gets
from softib.monitor.targets import Targets

__all__ = ["PerformanceAgents", "PortCounters", "read_performance_agents", "read_ticks"]


@dataclass
class PerformanceAgents:
    """The performance agents by end port: ``cap`` and ``cap2`` (CapabilityMask and CapabilityMask2, int64[e]; 0 without
    an answer), ``tick`` (symbols, float64[e]; NaN without an answer). ``silent`` bool[d]: devices that did not
    answer."""

    cap: np.ndarray
    cap2: np.ndarray
    tick: np.ndarray
    silent: np.ndarray


def read_performance_agents(gets: PacedGets, targets: Targets) -> PerformanceAgents:
    """Read ClassPortInfo of the agent of each end port."""
    n = len(targets.end_lid)
    agents = PerformanceAgents(np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, np.nan), np.zeros(0, bool))

    def heard(tags: np.ndarray, mad: np.ndarray) -> None:
        data = mad[:, DATA_AT : DATA_AT + ClassPortInfo.size]
        agents.cap[tags], agents.cap2[tags] = ClassPortInfo.cap_mask.get(data), ClassPortInfo.cap_mask2.get(data)

    assert ClassPortInfo.attr is not None
    batch = perf_gets(ClassPortInfo.attr, targets.end_lid, np.zeros(n, np.uint8))
    agents.silent = gets.run(batch, targets.end_device, len(targets.device_guid), heard)
    return agents


def read_ticks(gets: PacedGets, targets: Targets, agents: PerformanceAgents) -> None:
    """Read PortSamplesControl.Tick of the first port of each agent, which is used for all of its ports."""
    _, first = np.unique(targets.end, return_index=True)

    def heard(tags: np.ndarray, mad: np.ndarray) -> None:
        data = mad[:, DATA_AT : DATA_AT + perf.PortSamplesControl.size]
        agents.tick[targets.end[first[tags]]] = perf.PortSamplesControl.tick.get(data).astype(np.float64) + 1

    batch = port_gets(perf.PortSamplesControl.attr, targets, first)
    gets.run(batch, targets.device[first], len(targets.device_guid), heard)


OPTIONAL = {"port_xmit_wait": perf.CapMask.PORT_XMIT_WAIT, "qp1_dropped": perf.CapMask.QP1_DROPPED}
"""Fields of PortCounters → the bit of ClassPortInfo.CapabilityMask without which the field is invalid (IBA
16.1.3.1)."""


class PortCounters:
    """Reads the counters of ``targets``. ``agents``: the counters that each agent supports. ``now_ns``: returns the
    time of an answer."""

    def __init__(self, gets: PacedGets, targets: Targets, agents: PerformanceAgents, now_ns: Callable[[], int]):
        self.gets, self.targets, self.agents, self.now_ns = gets, targets, agents, now_ns
        t = targets
        cap = agents.cap[t.end]
        additional = agents.cap2[t.end] & int(perf.CapMask2.ADDITIONAL_EXTENDED_COUNTERS) > 0
        self._wide = additional | (cap & int(perf.CapMask.EXTENDED_WIDTH) > 0)
        self._extended = self._wide | (cap & int(perf.CapMask.EXTENDED_WIDTH_NO_IETF) > 0)
        self._more = additional
        rows = np.arange(len(t))
        plain, extended = rows[~additional], rows[self._extended]
        self._main_rows = np.concatenate([plain, extended])
        self._is_extended = np.arange(len(self._main_rows)) >= len(plain)
        self._main = MadBatch.concat([port_gets(PLAIN.id, t, plain), port_gets(EXTENDED.id, t, extended)])

    def read(self, r: Reading, away: np.ndarray) -> np.ndarray:
        """Read the counters into ``r``, except those of the devices ``away`` (bool[d]). Return the silent devices
        (bool[d])."""
        t = self.targets
        wanted = np.flatnonzero(~away[t.device[self._main_rows]])
        # A port counts as read only if all its requests were answered. Otherwise counters that were not read would look
        # unchanged.
        missing = np.bincount(self._main_rows, minlength=len(t))

        def heard(tags: np.ndarray, mad: np.ndarray) -> None:
            now = self.now_ns()
            at = wanted[tags]
            wide = self._is_extended[at]
            for extended in (False, True):
                which = wide == extended
                if which.any():
                    rows = self._main_rows[at[which]]
                    self._take_main(r, extended, rows, mad[which])
                    missing[rows] -= 1
                    r.time_ns[rows] = now

        whole = len(wanted) == len(self._main)
        batch = self._main if whole else self._main[wanted]
        silent = self.gets.run(batch, t.device[self._main_rows[wanted]], len(t.device_guid), heard)
        r.answered[:] = missing == 0
        r.time_ns[~r.answered] = 0
        return silent

    def _take_main(self, r: Reading, extended: bool, rows: np.ndarray, mad: np.ndarray) -> None:
        if not extended:
            narrow = PLAIN.names
            data_too = ~self._extended[rows]
            errors = tuple(n for n in narrow if n not in BASIC and n not in OPTIONAL)
            r.take(PLAIN, errors, rows, mad)
            for name, bit in OPTIONAL.items():
                able = self.agents.cap[self.targets.end[rows]] & int(bit) > 0
                if able.any():
                    r.take(PLAIN, (name,), rows[able], mad[able])
            if data_too.any():
                r.take(PLAIN, BASIC, rows[data_too], mad[data_too])
            return
        for names, which in (
            (BASIC, np.ones(len(rows), bool)),
            (WIDE[len(BASIC) :], self._wide[rows]),
            (EXTENDED.names[len(WIDE) :], self._more[rows]),
        ):
            if which.all():
                r.take(EXTENDED, names, rows, mad)
            elif which.any():
                r.take(EXTENDED, names, rows[which], mad[which])
