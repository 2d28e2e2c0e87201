"""The performance manager: reads the counters and states of a fabric in rounds of Gets, and records which devices
answer. It uses a clock only for the times of the readings.

A round reads PortCountersExtended of every port and, if these lack the error counters, PortCounters. It then reads
NodeInfo of every end port, because a LID may have moved to another device. For totals that rose, it also reads the
counters of their causes (PortRcvErrorDetails, PortXmitDiscardDetails, PortVLXmitFlowCtlUpdateErrors). PortInfo and
PortExtendedSpeedsCounters are read from all ports each round on fabrics of up to :data:`SMALL` ports, and in turn on
larger ones. The same applies to registers of modules and FEC histograms, on devices with readable registers
(:mod:`softib.monitor.registers`). Only Gets are sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softib.errors import InputError, MadTimeout
from softib.iba import perf
from softib.iba.constants import PhysState, SmpAttr
from softib.iba.smp import DATA_AT, NodeInfo, PortInfo
from softib.live.clock import SteadyClock
from softib.live.umad_client.wire import NO_ANSWER, MadWire
from softib.mad.batch import MadBatch
from softib.monitor.port_counters import PortCounters, read_performance_agents, read_ticks
from softib.monitor.reading import DETAILS, FEC, Attribute, Reading
from softib.monitor.registers import Registers, with_firmware
from softib.monitor.requests import PacedGets, port_gets, smp_gets
from softib.monitor.sharding.shard import Shard
from softib.monitor.sharding.shared_discovery import latest_discovery
from softib.monitor.targets import Targets, best_gbps, lanes_of, rate_gbps, targets_of
from softib.sm.config import SmConfig

__all__ = ["COLLECTORS", "MOST_SKIPPED", "SMALL", "Pace", "Poller", "Round", "SilentDevices"]


COLLECTORS = ("details", "fec", "modules", "manager", "findings")
"""Optional parts of a round: the causes of errors and discards (PortRcvErrorDetails …), FEC counters and histograms,
modules, the subnet manager, findings of the rules."""
MOST_SKIPPED = 64
"""Maximum number of rounds for which a silent device is skipped; the number is 1 at first and then doubles."""


class SilentDevices:
    """Devices (by NodeGUID) that do not answer, with the number of consecutive rounds that each has missed, and the
    round until which it is skipped."""

    def __init__(self) -> None:
        self._missed: dict[int, int] = {}
        self._skip_until: dict[int, int] = {}

    def skipped(self, guids: np.ndarray, round_: int) -> np.ndarray:
        """Return which of ``guids`` are skipped in this round."""
        away = [g for g, until in self._skip_until.items() if until > round_]
        return np.isin(guids, np.array(away, np.uint64))

    def missed(self, guid: int, round_: int) -> None:
        """Record that the device did not answer in this round."""
        missed = self._missed[guid] = self._missed.get(guid, 0) + 1
        self._skip_until[guid] = round_ + 1 + min(MOST_SKIPPED, 1 << (missed - 1))

    def ask_soon(self, guid: int) -> None:
        """Read the device in the next round, because it showed activity."""
        self._skip_until.pop(guid, None)

    def settle(self, silent: np.ndarray, well: np.ndarray, round_: int) -> bool:
        """Record the result of a round: the devices that were ``silent``, and those that answered (``well``). Return
        whether a device that answered was silent before."""
        for guid in silent.tolist():
            self.missed(guid, round_)
        back = [g for g in well.tolist() if g in self._missed] if self._missed else []
        for guid in back:
            del self._missed[guid]
            self._skip_until.pop(guid, None)
        return bool(back)


SMALL = 10_000
"""Maximum number of ports of a fabric from which every round reads all data."""
APART = 10
"""On larger fabrics, each round reads PortInfo of one in this number of ports. A port's FEC counters are read in two of
this number of rounds, because an interval needs two consecutive rounds."""
HURRIED_S = 60.0
"""Seconds between discoveries while a port or device is down, so that its return is noticed soon."""
OF_LINK = ("link_downed_counter", "link_error_recovery_counter")


@dataclass(frozen=True)
class Pace:
    """``most``: maximum number of requests in flight at one device; ``timeout_ps`` and ``retries``: those of each
    request; ``rediscover_s``: interval between discoveries of the whole subnet."""

    most: int = 4
    timeout_ps: int = 200 * 10**9
    retries: int = 1
    rediscover_s: float = 300.0


@dataclass
class Round:
    """One round: its ``reading``, its ``targets``, its number of MADs and seconds, and NodeGUIDs of devices that
    did not answer."""

    reading: Reading
    targets: Targets
    mads: int
    duration_s: float
    silent: np.ndarray
    number: int = 0


class Poller:
    """Reads counters of the subnet of ``wire`` in rounds (:meth:`round`): of the ports of ``shard`` (None: all ports),
    and of the far ends of their cables. Shards share discoveries in the file ``shared``."""

    def __init__(
        self,
        wire: MadWire,
        pace: Pace | None = None,
        *,
        now_ns: Callable[[], int] | None = None,
        shard: Shard | None = None,
        shared: Path | None = None,
    ):
        self.shard, self._shared = shard, shared
        self.left_out: frozenset[str] = frozenset()
        """The :data:`COLLECTORS` that rounds leave out."""
        self.wire, self.pace, self.now_ns = wire, pace or Pace(), now_ns or SteadyClock()
        self.gets = PacedGets(wire, self.pace.most, self.pace.timeout_ps, self.pace.retries)
        self.rounds = 0
        self.targets: Targets
        self.manager_lids: dict[int, int] = {}
        """PortGUID → LID of the ports on which the last discovery found a subnet manager."""
        self.problems: list[str] = []
        self._last: Reading | None = None
        self._silent = SilentDevices()
        self._stale = False
        self.keeps_down = False
        """Whether rounds also read ports whose link went down after an earlier discovery."""
        self.hurried = False
        """Whether a port or device that the last discovery did not find is known to be down."""
        self.discover()

    # -- discovery --

    @property
    def last(self) -> Reading | None:
        """The result of the last round."""
        return self._last

    @property
    def master_lid(self) -> int:
        """The LID of the master subnet manager according to most end ports (PortInfo.MasterSMLID); 0: none."""
        lids = PortInfo.master_sm_lid.get(self._info)
        lids = lids[lids > 0]
        return int(np.bincount(lids).argmax()) if len(lids) else 0

    @property
    def _rediscover_s(self) -> float:
        return min(HURRIED_S, self.pace.rediscover_s) if self.hurried else self.pace.rediscover_s

    def discover(self) -> None:
        """Discover the whole subnet again, with devices, LIDs, cables and capabilities of agents. Raises
        :class:`MadTimeout` if the reader's own port does not answer."""
        config = SmConfig(timeout_ps=self.pace.timeout_ps, retries=self.pace.retries)
        oldest_s = time.time() - (0.0 if self._stale else self._rediscover_s)
        discovery = latest_discovery(self.wire, config, self._shared, oldest_s)
        if discovery.db.sm_port < 0:
            raise MadTimeout(f"no subnet can be seen: {NO_ANSWER}")
        self.problems = discovery.problems
        lid = PortInfo.lid.get(discovery.db.port_info)
        self.manager_lids = {int(discovery.db.port_guid[p]): int(lid[p]) for p in discovery.managers}
        self.targets = t = targets_of(discovery.db, self.targets.ports if self.keeps_down else None, self.shard)
        if self.shard is not None and not len(t):
            raise InputError(f"{self.shard.source}: shard {self.shard} has no port; use fewer shards")
        age_s = 0.0 if self._shared is None else max(0.0, time.time() - discovery.began_s)
        self._discovered_ns = self.now_ns() - round(age_s * 1e9)
        self._stale = False
        self._info = t.info.copy()
        self._agents = read_performance_agents(self.gets, t)
        for guid in t.device_guid[self._agents.silent].tolist():
            self._silent.missed(guid, self.rounds)
        self._refused = {a.id: np.zeros(len(t.end_lid), bool) for a in DETAILS}
        """AttributeID → agents that do not support the attribute (bool[e])."""
        self.targets, able = with_firmware(t, self.gets)
        read_ticks(self.gets, self.targets, self._agents)
        self._fec = self._agents.cap[t.end] & int(perf.CapMask.RSFEC_COUNTERS) > 0
        self._counters = PortCounters(self.gets, self.targets, self._agents, self.now_ns)
        self._identity = smp_gets(SmpAttr.NODE_INFO, t.end_lid)
        self._registers = Registers(self.gets, self.targets, able[t.end], self._fec)
        for name, texts in self._registers.texts().items():
            self.targets = self.targets.with_text(name, texts)

    def _ask(self, batch: MadBatch, device: np.ndarray, heard: Callable[[np.ndarray, np.ndarray], None]) -> np.ndarray:
        return self.gets.run(batch, device, len(self.targets.device_guid), heard)

    def rediscover_soon(self) -> None:
        """Discover the subnet before the next round."""
        self._stale = True

    # -- rounds --

    def round(self) -> Round:
        """Read everything once. Counters without an answer are missing in the result; earlier values do not replace
        them."""
        if self._stale or self.now_ns() - self._discovered_ns > self._rediscover_s * 1e9:
            self.discover()
        began, sent = time.monotonic(), self.gets.sent
        t = self.targets
        r = Reading.empty(t.ports.node_guid, t.ports.portnum)
        away = self._silent.skipped(t.device_guid, self.rounds)
        silent = self._counters.read(r, away)
        silent |= self._who(r, away)
        if "details" not in self.left_out:
            self._causes(r)
        if "fec" not in self.left_out and (len(t) <= SMALL or self.rounds % APART < 2):
            self._attribute(r, FEC, np.flatnonzero(r.answered & self._fec))
            self._registers.histograms(r)
        self._states(r)
        if "modules" not in self.left_out:
            self._registers.modules(r, self._wanted_now())
        self._settle(away, silent)
        self._last = r
        self.rounds += 1
        return Round(r, t, self.gets.sent - sent, time.monotonic() - began, t.device_guid[silent | away], self.rounds)

    def _who(self, r: Reading, away: np.ndarray) -> np.ndarray:
        """Return whether each LID still belongs to the same device. If a LID does not, its ports are not read, and the
        subnet is discovered again before the next round."""
        t = self.targets
        right = np.zeros(len(t.end_lid), bool)
        wanted = np.arange(len(t.end_lid))

        def heard(tags: np.ndarray, mad: np.ndarray) -> None:
            data = mad[:, DATA_AT : DATA_AT + NodeInfo.size]
            same = NodeInfo.node_guid.get(data) == t.device_guid[t.end_device[tags]]
            number = t.end_portnum[tags]
            right[tags] = same & ((number == 0) | (NodeInfo.local_port_num.get(data) == number))
            if not right[tags].all():
                self._stale = True

        silent = self._ask(self._identity, t.end_device, heard)
        r.forget(np.flatnonzero(~right[t.end]))
        back = right & away[t.end_device]
        for guid in t.device_guid[t.end_device[wanted[back]]].tolist():
            self._silent.ask_soon(guid)
        return silent

    def _causes(self, r: Reading) -> None:
        """Read the detail counters of totals that changed; other detail counters cannot have changed."""
        last = self._last
        same = (
            last is not None
            and len(last) == len(r)
            and bool((last.guid == r.guid).all() and (last.portnum == r.portnum).all())
        )
        for attribute in DETAILS:
            if not same or last is None:
                self._attribute(r, attribute, np.flatnonzero(r.answered & self._has(attribute)))
                continue
            still = r.answered & last.answered
            for name in (*attribute.totals, *attribute.names):
                if name in last.have:
                    still &= last.have[name]
            for name in attribute.totals:
                if name in r.have and name in last.have:
                    still &= r.have[name] & (r.value[name] == last.value[name]) & ~r.stuck[name]
            rows = np.flatnonzero(still)
            for name in attribute.names:
                if name in last.value:
                    r.put(name, rows, last.value[name][rows], 2**64 - 1)
                    r.stuck[name][rows] = last.stuck[name][rows]
            self._attribute(r, attribute, np.flatnonzero(r.answered & ~still & self._has(attribute)))

    def _has(self, attribute: Attribute) -> np.ndarray:
        """Return the ports (bool[n]) without those whose agent reported that it does not support the attribute."""
        return np.asarray(~self._refused[attribute.id][self.targets.end])

    def _attribute(self, r: Reading, attribute: Attribute, rows: np.ndarray) -> None:
        if not len(rows):
            return

        def heard(tags: np.ndarray, mad: np.ndarray) -> None:
            r.take(attribute, attribute.names, rows[tags], mad)

        def lost(tags: np.ndarray, refused: bool) -> None:
            if refused and attribute.id in self._refused:
                self._refused[attribute.id][self.targets.end[rows[tags]]] = True

        t = self.targets
        self.gets.run(port_gets(attribute.id, t, rows), t.device[rows], len(t.device_guid), heard, lost)

    def _wanted_now(self) -> np.ndarray:
        """Return the ports whose slowly changing data is read in this round: all ports of a small fabric, or a tenth of
        the ports of a large one (bool[n])."""
        n = len(self.targets)
        return np.ones(n, bool) if n <= SMALL else np.arange(n) % APART == self.rounds % APART

    def _states(self, r: Reading) -> None:
        """Read PortInfo: on a small fabric from all ports, on a large one from the ports whose turn it is and those
        whose link counters changed."""
        t, last = self.targets, self._last
        due = self._wanted_now()
        if last is not None and len(last) == len(r):
            for name in OF_LINK:
                if name in r.value and name in last.value:
                    due |= r.value[name] != last.value[name]
        rows = np.flatnonzero(due & r.answered)

        def heard(tags: np.ndarray, mad: np.ndarray) -> None:
            self._info[rows[tags]] = mad[:, DATA_AT : DATA_AT + PortInfo.size]

        batch = smp_gets(SmpAttr.PORT_INFO, t.dlid[rows], t.modifier[rows])
        self._ask(batch, t.device[rows], heard)
        up = PortInfo.port_phys_state.get(self._info) == PhysState.LINK_UP
        if (up & (PortInfo.port_phys_state.get(t.info) != PhysState.LINK_UP)).any():
            self._stale = True  # discovery did not find this link: its peer may have changed
        unknown = ~r.answered
        lanes, lane_gbps = lanes_of(self._info)
        for name, values in (
            ("state", PortInfo.port_state.get(self._info)),
            ("physical_state", PortInfo.port_phys_state.get(self._info)),
            ("rate_gbps", rate_gbps(self._info)),
            ("tick_symbols", self._agents.tick[t.end]),
            ("lanes", lanes),
            ("lane_gbps", lane_gbps),
            ("best_gbps", best_gbps(self._info, t.ports.peer)),
        ):
            level = values.astype(np.float64)
            level[unknown] = np.nan
            r.level[name] = level

    def _settle(self, away: np.ndarray, silent: np.ndarray) -> None:
        guids = self.targets.device_guid
        if self._silent.settle(guids[silent & ~away], guids[~silent & ~away], self.rounds):
            self._stale = True  # the device may have come back with another LID or other cables
