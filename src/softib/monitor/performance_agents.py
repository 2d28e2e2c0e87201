"""What the performance agent of each end port can: ClassPortInfo, and the tick of its samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.iba import perf
from softib.iba.notice import ClassPortInfo
from softib.iba.smp import DATA_AT
from softib.monitor.requests import PacedGets, perf_gets, port_gets
from softib.monitor.targets import Targets

__all__ = ["PerformanceAgents", "read_performance_agents", "read_ticks"]


@dataclass
class PerformanceAgents:
    """By end port: ``cap`` and ``cap2`` (CapabilityMask and CapabilityMask2, int64[e]; 0 where
    nobody answered), ``tick`` (symbols, float64[e]; nan where nobody answered). ``silent``: which
    devices did not answer. bool[d]"""

    cap: np.ndarray
    cap2: np.ndarray
    tick: np.ndarray
    silent: np.ndarray


def read_performance_agents(gets: PacedGets, targets: Targets) -> PerformanceAgents:
    """Ask the agent of each end port."""
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
    """PortSamplesControl.Tick of the first port of each agent stands for all of its ports."""
    _, first = np.unique(targets.end, return_index=True)

    def heard(tags: np.ndarray, mad: np.ndarray) -> None:
        data = mad[:, DATA_AT : DATA_AT + perf.PortSamplesControl.size]
        agents.tick[targets.end[first[tags]]] = perf.PortSamplesControl.tick.get(data).astype(np.float64) + 1

    batch = port_gets(perf.PortSamplesControl.attr, targets, first)
    gets.run(batch, targets.device[first], len(targets.device_guid), heard)
