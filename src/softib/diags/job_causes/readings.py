"""Features of each port at the time of a failure, from counters and states: present, absent or
unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from softib.diags.job_causes.site import Site
from softib.diags.observations import Observations

__all__ = ["Readings", "Window"]

ACTIVE = 4
WAITING = 0.3
"""Share of the time with waiting from which a port counts as congested."""
SYMBOLS = 10
"""Symbol errors in the window from which a link counts as faulty (infiniband-diags' threshold)."""
SYMBOL_BITS = 8.0
_DAMAGE = (
    "symbol_error_counter",
    "port_rcv_errors",
    "link_error_recovery_counter",
    "local_link_integrity_errors",
    "port_fec_uncorrectable_block_ctr",
)
RECOVERIES = 5
"""Number of recoveries of a link in the window from which it counts as faulty."""


@dataclass(frozen=True)
class Window:
    """The analysed time, in seconds since 1970; ``source``: its origin; ``likely_s``: the cause is probably not
    earlier (None: anywhere in the window)."""

    begin_s: float
    end_s: float
    source: str
    likely_s: float | None = None


@dataclass
class Readings:
    """Features by port row: 1 present, 0 absent, -1 unknown (int8[ports])."""

    site: Site
    window: Window | None
    notes: list[str] = field(default_factory=list)
    reported: dict[int, str] = field(default_factory=dict)
    """Port → ``link-down`` or ``link-errors``, reported by a kernel or a manager in the logs."""
    lost: frozenset[int] = frozenset()
    """Ports of the job's paths that have no link in the fabric."""
    explained: frozenset[int] = frozenset()
    """Ports of links that a switch without power explains."""

    @cached_property
    def _intervals(self) -> np.ndarray:
        """Return which intervals of the observations are in the window (bool[k])."""
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
        """Feature → int8[ports]: its counters rose in the likely part of the window (``link``, ``damaged``); -1 without
        a reading of that time, and if the window has no such part."""
        seen, likely = self.site.observed, None if self.window is None else self.window.likely_s
        if seen is None or likely is None or not len(self._intervals):
            return {}
        recent = self._intervals[:, None] & ((seen.begin_ns + seen.end_ns) / 2e9 >= likely)
        features = {}
        for feature, counters in (("link", ("link_downed_counter",)), ("damaged", _DAMAGE)):
            rose, read = np.zeros((2, len(seen.ports)))
            for name in (c for c in counters if c in seen.increase):
                use = recent & seen.known[name]
                rose += np.where(use, seen.increase[name], 0).sum(axis=0)
                read += use.any(axis=0)
            features[feature] = self._spread(np.where(read > 0, rose > 0, -1)).astype(np.int8)
        return features

    def _spread(self, by_row: np.ndarray, missing: float = -1) -> np.ndarray:
        """Return a column of the observed ports as a column of the fabric's ports."""
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
        """Return damaged packets and symbols (float64[ports]); NaN if unknown."""
        return self._rose(
            "symbol_error_counter",
            "port_rcv_errors",
            "port_local_physical_errors",
            "local_link_integrity_errors",
            "port_fec_uncorrectable_block_ctr",
        )

    @cached_property
    def recoveries(self) -> np.ndarray:
        """int8[ports]: number of recoveries of each port's link; NaN if unknown."""
        return self._rose("link_error_recovery_counter")

    @cached_property
    def damaged(self) -> np.ndarray:
        """int8[ports]: packets were damaged on the way to the port. PortRcvErrors also counts packets that found its
        buffer full, which are none of these (IBA 16.1.4)."""
        received = self._rose("port_rcv_errors") - np.nan_to_num(self._rose("port_buffer_overrun_errors"))
        yes = (received > 0) | (self._rose("local_link_integrity_errors", "port_fec_uncorrectable_block_ctr") > 0)
        yes |= self._rose("symbol_error_counter") >= SYMBOLS
        yes |= self.recoveries >= RECOVERIES
        feature = self._until_silence(_feature(yes, self.errors))
        feature[[port for port, report in self.reported.items() if report == "link-errors"]] = 1
        return feature

    @cached_property
    def refused(self) -> np.ndarray:
        """int8[ports]: packets with a wrong P_Key were dropped."""
        rose = self._rose("port_xmit_constraint_errors", "port_rcv_constraint_errors")
        return _feature(rose > 0, rose)

    @cached_property
    def waits(self) -> np.ndarray:
        """int8[ports]: the port waited for credits, or dropped packets that waited too long."""
        dropped = self._rose("port_sw_hoq_lifetime_limit_discards")
        discards, inactive = self._rose("port_xmit_discards"), self._rose("port_inactive_discards")
        unexplained = (discards > np.nan_to_num(inactive)) & ~(self.falls > 0)
        overrun = self._rose("excessive_buffer_overrun_errors", "port_buffer_overrun_errors") > 0
        return self._until_silence(_feature((dropped > 0) | unexplained | (self._waited > WAITING) | overrun, discards))

    def _until_silence(self, feature: np.ndarray) -> np.ndarray:
        """Return the counts with unknown values after a port stopped answering. Until then, such a
        port counted nothing."""
        return np.where((feature == 0) & (self.silent == 1), -1, feature).astype(np.int8)

    @cached_property
    def _waited(self) -> np.ndarray:
        """Return the share of the window that each port waited (float64[ports]); 0 if unknown."""
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
        """Return the state of each port's link (int8[ports]): failed or never up, and down (1),
        failed and came back (2), neither (0), unknown (-1)."""
        fell = self.falls > 0
        up = self.down == 0
        counted = ~np.isnan(self.falls)
        states = np.where(self.down == 1, 1, np.where(fell & up, 2, np.where(fell, 1, np.where(counted, 0, -1))))
        states[self._unreachable & (states <= 0)] = -1
        cabled = self.site.peer >= 0
        states[cabled & (states == 0) & (self.silent == 1) & (self.silent[self.site.peer] == 1)] = -1
        for port, report in self.reported.items():
            if report == "link-down" and states[port] <= 0:
                states[port] = 2 if up[port] else 1
        return states.astype(np.int8)

    @cached_property
    def _unreachable(self) -> np.ndarray:
        """Return adapter ports that stopped answering, or that are missing in the history although
        most adapters are in it, and whose peer was not observed (bool[ports])."""
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
        """int8[ports]: an adapter's port stopped answering, and no other port tells the state of its link."""
        site = self.site
        adapter = ~site.is_switch & (site.peer >= 0)
        alone = adapter & np.isnan(self.falls[site.peer]) & (self.silent == 0)
        return np.where(self._unreachable & (self.link < 0), 1, np.where(alone, 0, -1)).astype(np.int8)

    @cached_property
    def unheard(self) -> np.ndarray:
        """int8[ports]: an adapter's port stopped answering although the link at the other end of
        its cable is up and did not fail. Packets to it or from it are lost, or it does not accept
        packets."""
        site = self.site
        adapter = ~site.is_switch & (site.peer >= 0) & (self.silent >= 0)
        up = (self.link[site.peer] == 0) & (self.down[site.peer] == 0)
        judged = adapter & ((self.silent == 0) | (self.link[site.peer] >= 0))
        return _feature(adapter & (self.silent == 1) & up, np.where(judged, 0.0, np.nan))

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
        """Return which ports answered before but not at the end of the window (int8[ports])."""
        seen = self.site.observed
        if seen is None or not len(self._intervals):
            return np.full(len(self.site.peer), -1, np.int8)
        answered = (seen.end_ns > seen.begin_ns)[: int(np.flatnonzero(self._intervals)[-1]) + 1]
        before = answered.any(axis=0)
        tail = answered[-2:].any(axis=0) if len(answered) > 2 else answered[-1]
        return self._spread(np.where(before, np.where(tail, 0, 1), -1)).astype(np.int8)

    @cached_property
    def down(self) -> np.ndarray:
        """Return which ports have no link now, in the given fabric or at the end of the history
        (int8[ports])."""
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
        """Return whether the link of a cable is up in a fabric that runs now."""
        f, peer = self.site.fabric, int(self.site.peer[port])
        return self.site.is_live and peer >= 0 and int(f.port_peer[port]) == peer

    @cached_property
    def ever(self) -> dict[str, np.ndarray]:
        """Return totals since the last clear, if the fabric's source has counters: ``falls`` and
        ``errors`` (float64[ports])."""
        counters = self.site.fabric.counters
        names = {
            "falls": ("link_downed_counter",),
            "errors": ("symbol_error_counter", "port_rcv_errors", "local_link_integrity_errors"),
        }
        if not any(np.asarray(counters[name]).any() for several in names.values() for name in several):
            return {}
        return {k: np.sum([np.asarray(counters[n], float) for n in several], axis=0) for k, several in names.items()}

    def moved(self, ports: list[int]) -> float | None:
        """Return the bytes that ports sent and received in the window; None if unknown."""
        rose = self._rose("port_xmit_data", "port_rcv_data")[ports] * 4.0
        return None if not len(ports) or np.isnan(rose).all() else float(np.nansum(rose))

    def span_s(self) -> float:
        """Return the seconds of history in the window."""
        seen: Observations | None = self.site.observed
        if seen is None or not self._intervals.any():
            return 0.0
        return float((seen.end_ns[self._intervals].max() - seen.begin_ns[self._intervals].min()) / 1e9)

    def when(self, port: int, counter: str) -> float | None:
        """Return the first time at which a counter of the port rose in the window, in seconds since
        1970."""
        seen, row = self.site.observed, int(self.site.row[port])
        if seen is None or row < 0 or counter not in seen.increase:
            return None
        at = np.flatnonzero(self._intervals & (seen.increase[counter][:, row] > 0))
        return float(seen.end_ns[at[0], row] / 1e9) if len(at) else None


def _feature(yes: np.ndarray, stated: np.ndarray) -> np.ndarray:
    return np.where(yes, 1, np.where(np.isnan(stated), -1, 0)).astype(np.int8)
