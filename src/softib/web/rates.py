"""The load, wait and errors of each port between two rounds, stored for a limited time. All values are derived from
increases of counters."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from softib.fabric.model import Fabric
from softib.monitor.exporter.ratios import utilization, wait_ratio
from softib.monitor.intervals import Interval
from softib.monitor.ranking import ERRORS

__all__ = ["Recent", "Sample", "port_rows", "sample_of"]


@dataclass(frozen=True)
class Sample:
    """``time_s``: clock time of the later reading. By port (``guid`` uint64, ``portnum`` int32):
    ``load`` float16, bytes sent as a share of the link's capacity, and ``wait`` float16, the share
    of time in which data waited for credits, both NaN if unknown; ``errors`` uint16, the increase
    of :data:`softib.monitor.ranking.ERRORS`, at most 65,535."""

    time_s: float
    guid: np.ndarray
    portnum: np.ndarray
    load: np.ndarray
    wait: np.ndarray
    errors: np.ndarray


def sample_of(one: Interval) -> Sample:
    """Return the data of an interval."""
    errors = np.zeros(len(one.guid), np.uint64)
    for name in ERRORS:
        if name in one.increase:
            errors += one.increase[name]
    # The counters of a link whose speed has changed may exceed its present capacity.
    load = np.minimum(utilization(one), 16.0).astype(np.float16)
    return Sample(
        int(one.end_ns.max(initial=0)) / 1e9,
        one.guid,
        one.portnum,
        load,
        wait_ratio(one).astype(np.float16),
        np.minimum(errors, 65535).astype(np.uint16),
    )


def port_rows(f: Fabric, guid: np.ndarray, portnum: np.ndarray) -> np.ndarray:
    """Return rows in ``f`` of ports by NodeGUID and portnum; -1 if ``f`` does not contain the port. int64[n]"""
    if not f.sizes.nodes:
        return np.full(len(guid), -1, np.int64)
    order = np.argsort(f.node_guid, kind="stable")
    at = np.minimum(np.searchsorted(f.node_guid[order], guid), len(order) - 1)
    node = order[at]
    there = (f.node_guid[node] == guid) & (portnum <= f.node_nports[node])
    return np.where(there, f.node_base[node] + portnum.astype(np.int64), -1)


class Recent:
    """The last ``keep`` samples. A sample takes 18 bytes per port."""

    def __init__(self, keep: int):
        self.samples: deque[Sample] = deque(maxlen=keep)

    def add(self, sample: Sample) -> None:
        """Add a sample. It is ignored if it is not later than the last one."""
        if not self.samples or sample.time_s > self.samples[-1].time_s:
            self.samples.append(sample)

    def times(self) -> list[float]:
        """Return clock times of the samples, oldest first."""
        return [s.time_s for s in list(self.samples)]

    def at(self, time_s: float | None) -> Sample | None:
        """Return the sample nearest to ``time_s``; None: the newest. None if there is no sample yet."""
        samples = list(self.samples)
        if not samples:
            return None
        return samples[-1] if time_s is None else min(samples, key=lambda s: abs(s.time_s - time_s))
