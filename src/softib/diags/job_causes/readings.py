"""Features of each port at the time of a failure. Counters and states show whether a feature is present, absent or
unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from softib.diags.job_causes.site import Site
from softib.diags.observations import Observations

__all__ = ["Readings", "Window"]

ACTIVE = 4
WAITING = 0.3
"""Minimum share of the time for which a congested port waits for credits."""
SYMBOLS = 10
"""Minimum number of symbol errors of a faulty link in the window (infiniband-diags' threshold)."""
SYMBOL_BITS = 8.0
_DAMAGE = (
    "symbol_error_counter",
    "port_rcv_errors",
    "link_error_recovery_counter",
    "local_link_integrity_errors",
    "port_fec_uncorrectable_block_ctr",
)
REPORTED_S = 10.0
"""Maximum time in seconds from a fault to the error that a program prints: a lost packet is repeated for seconds."""
RECOVERIES = 5
"""Minimum number of recoveries of a faulty link in the window."""


@dataclass(frozen=True)
class Window:
    """The analysed time in seconds since 1970. ``source``: how it was determined. ``likely_s``: the time before which
    the cause is improbable (None: the cause may be anywhere in the window). ``failed_s``: the time of the first error
    (None: unknown); a counter that was last read before this time does not prove that nothing happened.
    """

    begin_s: float
    end_s: float
    source: str
    likely_s: float | None = None
    failed_s: float | None = None


@dataclass
class Readings:
    """Features of each port. A feature is int8[ports]: 1 present, 0 absent, -1 unknown."""

    site: Site
    window: Window | None
    notes: list[str] = field(default_factory=list)
    reported: dict[int, str] = field(default_factory=dict)
    """Port → ``link-down`` or ``link-errors``, if a kernel or a manager reported it in the logs."""
    lost: frozenset[int] = frozenset()
    """Ports on the job's paths that have no link in the fabric."""
    explained: frozenset[int] = frozenset()
    """Ports of links that were lost because a switch has no power."""

    @cached_property
    def _intervals(self) -> np.ndarray:
        """Return whether each interval of the observations is in the window (bool[k])."""
        seen = self.site.observed
        if seen is None or not seen.intervals:
            return np.zeros(0, bool)
        if self.window is None:
            return np.ones(seen.intervals, bool)
        begin, end = seen.begin_ns.min(axis=1) / 1e9, seen.end_ns.max(axis=1) / 1e9
        inside = (end >= self.window.begin_s) & (begin <= self.window.end_s)
        if not inside.any():
            self.notes.append("the history has no round at that time: all of it was used")
            return np.ones(seen.intervals, bool)
        return np.asarray(inside)

    @cached_property
    def recent(self) -> dict[str, np.ndarray]:
        """Return, for the features ``link`` and ``damaged``, whether their counters rose in the likely part of the
        window (int8[ports]); -1 if no reading covers that part, or the window has no likely part.
        """
        seen, likely = self.site.observed, None if self.window is None else self.window.likely_s
        if seen is None or likely is None or not len(self._intervals):
            return {}
        likely_part = self._intervals[:, None] & ((seen.begin_ns + seen.end_ns) / 2e9 >= likely)
        features = {}
        for feature, counters in (("link", ("link_downed_counter",)), ("damaged", _DAMAGE)):
            rose, read = np.zeros((2, len(seen.ports)))
            for name in (c for c in counters if c in seen.increase):
                use = likely_part & seen.known[name]
                rose += np.where(use, seen.increase[name], 0).sum(axis=0)
                read += use.any(axis=0)
            features[feature] = self._spread(np.where(read > 0, rose > 0, -1)).astype(np.int8)
        return features

    def _spread(self, by_row: np.ndarray, missing: float = -1) -> np.ndarray:
        """Return values of the observed ports as values of the fabric's ports; ``missing`` for ports that were not
        observed.
        """
        row = self.site.row
        return np.where(row >= 0, by_row[np.maximum(row, 0)], missing)

    def _rose(self, *counters: str) -> np.ndarray:
        """Return the increase of the counters in the window (float64[ports]); NaN if unknown."""
        seen = self.site.observed
        ports = len(self.site.peer)
        if seen is None or not len(self._intervals):
            return np.full(ports, np.nan)
        total, counted = np.zeros(len(seen.ports)), np.zeros(len(seen.ports), bool)
        for name in counters:
            if name in seen.increase:
                total += seen.increase[name][self._intervals].sum(axis=0)
                counted |= seen.known[name][self._intervals].any(axis=0)
        row = self.site.row
        return np.where((row >= 0) & counted[np.maximum(row, 0)], total[np.maximum(row, 0)], np.nan)

    @cached_property
    def falls(self) -> np.ndarray:
        """Return the number of link failures of each port (float64[ports]); NaN if unknown."""
        return self._rose("link_downed_counter")

    @cached_property
    def errors(self) -> np.ndarray:
        """Return the number of damaged packets and symbol errors (float64[ports]); NaN if unknown."""
        return self._rose(
            "symbol_error_counter",
            "port_rcv_errors",
            "port_local_physical_errors",
            "local_link_integrity_errors",
            "port_fec_uncorrectable_block_ctr",
        )

    @cached_property
    def recoveries(self) -> np.ndarray:
        """Return the number of recoveries of each port's link (float64[ports]); NaN if unknown."""
        return self._rose("link_error_recovery_counter")

    @cached_property
    def damaged(self) -> np.ndarray:
        """Return whether packets to each port were damaged in transit (int8[ports]). PortRcvErrors also counts packets
        that arrived while the port's buffer was full (IBA 16.1.4); these are subtracted.
        """
        received = self._rose("port_rcv_errors") - np.nan_to_num(self._rose("port_buffer_overrun_errors"))
        yes = (received > 0) | (self._rose("local_link_integrity_errors", "port_fec_uncorrectable_block_ctr") > 0)
        yes |= self._rose("symbol_error_counter") >= SYMBOLS
        yes |= self.recoveries >= RECOVERIES
        feature = self._while_read(_feature(yes, self.errors))
        feature[[port for port, report in self.reported.items() if report == "link-errors"]] = 1
        return feature

    @cached_property
    def refused(self) -> np.ndarray:
        """Return whether each port dropped packets with a wrong P_Key (int8[ports])."""
        rose = self._rose("port_xmit_constraint_errors", "port_rcv_constraint_errors")
        return self._while_read(_feature(rose > 0, rose))

    @cached_property
    def waits(self) -> np.ndarray:
        """Return whether each port waited for credits, or dropped packets that had waited too long (int8[ports])."""
        dropped = self._rose("port_sw_hoq_lifetime_limit_discards")
        discards, inactive = self._rose("port_xmit_discards"), self._rose("port_inactive_discards")
        unexplained = (discards > np.nan_to_num(inactive)) & ~(self.falls > 0)
        overrun = self._rose("excessive_buffer_overrun_errors", "port_buffer_overrun_errors") > 0
        return self._while_read(_feature((dropped > 0) | unexplained | (self._waited > WAITING) | overrun, discards))

    def _while_read(self, feature: np.ndarray) -> np.ndarray:
        """Return the feature with "absent" replaced by "unknown" for ports that stopped answering, or whose last
        reading is older than the failure: such ports may have counted events after their last reading.
        """
        return np.where((feature == 0) & ((self.silent == 1) | ~self.covered), -1, feature).astype(np.int8)

    @cached_property
    def covered(self) -> np.ndarray:
        """Return whether each port was read after the failure, if the time of the failure is known (bool[ports])."""
        seen, ports = self.site.observed, len(self.site.peer)
        if seen is None or self.window is None or self.window.failed_s is None:
            return np.ones(ports, bool)
        read = (seen.end_ns > seen.begin_ns) & self._intervals[:, None]
        last = np.where(read, seen.end_ns, 0).max(axis=0, initial=0)
        return np.asarray(self._spread(last >= (self.window.failed_s - REPORTED_S) * 1e9, 0) > 0)

    def covers(self, ports: list[int]) -> bool:
        """Return whether each of ``ports`` (or the other end of its cable) was read after the failure, or has no
        link.
        """
        peer = np.where(self.site.peer >= 0, self.site.peer, np.arange(len(self.site.peer)))
        return bool((self.covered[ports] | self.covered[peer[ports]] | (self.down[ports] == 1)).all())

    @cached_property
    def _waited(self) -> np.ndarray:
        """Return the share of the window for which each port waited for credits (float64[ports]); 0 if unknown."""
        seen = self.site.observed
        if seen is None or "port_xmit_wait" not in seen.increase or "tick_symbols" not in seen.level:
            return np.zeros(len(self.site.peer))
        span = np.maximum(seen.end_ns - seen.begin_ns, 1)[self._intervals] / 1e9
        ticks = seen.increase["port_xmit_wait"][self._intervals]
        lane_gbps = (
            np.nan_to_num(seen.level["lane_gbps"][self._intervals], nan=25.0) if "lane_gbps" in seen.level else 25.0
        )
        second = (
            np.nan_to_num(seen.level["tick_symbols"][self._intervals])
            * SYMBOL_BITS
            / (np.maximum(lane_gbps, 1.0) * 1e9)
        )
        share = np.max(ticks * second / span, axis=0, initial=0.0)
        return np.asarray(self._spread(share, 0))

    @cached_property
    def link(self) -> np.ndarray:
        """Return the state of each port's link (int8[ports]). 1: it failed or was never up, and is down. 2: it failed
        and came back. 0: neither. -1: unknown.
        """
        fell = self.falls > 0
        up = self.down == 0
        counted = ~np.isnan(self.falls)
        states = np.where(self.down == 1, 1, np.where(fell & up, 2, np.where(fell, 1, np.where(counted, 0, -1))))
        states[self._unreachable & (states <= 0)] = -1
        cabled = self.site.peer >= 0
        unread = (self.silent == 1) | ~self.covered
        states[cabled & (states == 0) & unread & unread[self.site.peer]] = -1
        for port, report in self.reported.items():
            if report == "link-down" and states[port] <= 0:
                states[port] = 2 if up[port] else 1
        return states.astype(np.int8)

    @cached_property
    def _unreachable(self) -> np.ndarray:
        """Return the adapter ports whose peer was not observed, and that stopped answering, or are missing in the
        history although most adapters are in it (bool[ports]).
        """
        site = self.site
        adapter = ~site.is_switch & (site.peer >= 0)
        if site.observed is None or not adapter.any():
            return np.zeros(len(site.peer), bool)
        absent = adapter & (site.row < 0)
        unreachable = self.silent == 1
        if absent.sum() < adapter.sum() / 2:
            unreachable |= absent
        return np.asarray(adapter & unreachable & np.isnan(self.falls[site.peer]))

    @cached_property
    def unreached(self) -> np.ndarray:
        """Return whether each adapter port stopped answering while the state of its link is also unknown from the other
        end (int8[ports]).
        """
        site = self.site
        adapter = ~site.is_switch & (site.peer >= 0)
        alone = adapter & np.isnan(self.falls[site.peer]) & (self.silent == 0)
        return np.where(self._unreachable & (self.link < 0), 1, np.where(alone, 0, -1)).astype(np.int8)

    @cached_property
    def unheard(self) -> np.ndarray:
        """Return whether each adapter port stopped answering although, according to the other end of its cable, the
        link is up and did not fail (int8[ports]). Then packets to the port or from it are lost, or it does not accept
        packets.
        """
        site = self.site
        adapter = ~site.is_switch & (site.peer >= 0) & (self.silent >= 0)
        up = (self.link[site.peer] == 0) & (self.down[site.peer] == 0)
        reported = adapter & ((self.silent == 0) | (self.link[site.peer] >= 0))
        return _feature(adapter & (self.silent == 1) & up, np.where(reported, 0.0, np.nan))

    def _last(self, level: str) -> np.ndarray:
        seen = self.site.observed
        if seen is None or level not in seen.level:
            return np.full(len(self.site.peer), np.nan)
        values = seen.level[level][self._intervals]
        index = np.where(~np.isnan(values), np.arange(len(values))[:, None], -1).max(axis=0)
        last = np.where(index >= 0, values[np.maximum(index, 0), np.arange(values.shape[1])], np.nan)
        return np.asarray(self._spread(last, np.nan))

    @cached_property
    def silent(self) -> np.ndarray:
        """Return whether each port answered before, but not at the end of the window (int8[ports])."""
        seen = self.site.observed
        if seen is None or not len(self._intervals):
            return np.full(len(self.site.peer), -1, np.int8)
        answered = (seen.end_ns > seen.begin_ns)[: int(np.flatnonzero(self._intervals)[-1]) + 1]
        before = answered.any(axis=0)
        tail = answered[-2:].any(axis=0) if len(answered) > 2 else answered[-1]
        return self._spread(np.where(before, np.where(tail, 0, 1), -1)).astype(np.int8)

    @cached_property
    def down(self) -> np.ndarray:
        """Return whether each port has no link now, according to the given fabric or the end of the history
        (int8[ports]).
        """
        state = self._last("state")
        by_history = np.where(np.isnan(state), -1, np.where(state == ACTIVE, 0, 1))
        f = self.site.fabric
        if self.site.not_cabled.any() or not {"states", "unlinked"} & set(f.source.records):
            listed = np.where(self.site.not_cabled, 1, -1)
        else:
            adapters = ~self.site.is_switch & (f.port_num > 0)
            listed = np.where(f.port_peer >= 0, 0, np.where(adapters, 1, -1))
        down = np.maximum(by_history, listed).astype(np.int8)
        down[list(self.lost)] = 1
        return down

    def up_now(self, port: int) -> bool:
        """Return whether the fabric is read live and the port's link is up now."""
        f, peer = self.site.fabric, int(self.site.peer[port])
        return self.site.is_live and peer >= 0 and int(f.port_peer[port]) == peer

    @cached_property
    def ever(self) -> dict[str, np.ndarray]:
        """Return the totals ``falls`` and ``errors`` since the counters were cleared (float64[ports]), if the fabric's
        source has counters.
        """
        counters = self.site.fabric.counters
        names = {
            "falls": ("link_downed_counter",),
            "errors": ("symbol_error_counter", "port_rcv_errors", "local_link_integrity_errors"),
        }
        if not any(np.asarray(counters[name]).any() for several in names.values() for name in several):
            return {}
        return {k: np.sum([np.asarray(counters[n], float) for n in several], axis=0) for k, several in names.items()}

    def moved(self, ports: list[int]) -> float | None:
        """Return the number of bytes that ``ports`` sent and received in the window; None if unknown."""
        rose = self._rose("port_xmit_data", "port_rcv_data")[ports] * 4.0
        return None if not len(ports) or np.isnan(rose).all() else float(np.nansum(rose))

    def span_s(self) -> float:
        """Return the number of seconds of the window that the history covers."""
        seen: Observations | None = self.site.observed
        if seen is None or not self._intervals.any():
            return 0.0
        return float((seen.end_ns[self._intervals].max() - seen.begin_ns[self._intervals].min()) / 1e9)

    def when(self, port: int, counter: str) -> float | None:
        """Return the first time in the window at which the port's ``counter`` rose, in seconds since 1970."""
        seen, row = self.site.observed, int(self.site.row[port])
        if seen is None or row < 0 or counter not in seen.increase:
            return None
        at = np.flatnonzero(self._intervals & (seen.increase[counter][:, row] > 0))
        return float(seen.end_ns[at[0], row] / 1e9) if len(at) else None


def _feature(yes: np.ndarray, stated: np.ndarray) -> np.ndarray:
    return np.where(yes, 1, np.where(np.isnan(stated), -1, 0)).astype(np.int8)
