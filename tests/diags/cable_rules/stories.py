"""Stories of fabrics that run for hours: what is planted, what the counters of the mechanisms then say, and what the rules make of it.

A story is a fabric that a subnet manager brought up by MADs, on virtual time. Every link makes bit errors as its cable does (the agents' link layer draws them,
``agents/kernels/faults/ber.py``), the static layer's loads give data and packets of every port, the packet layer the waiting of congestion trees, and the agents
what links and switches count when they fall. The counters are read every few minutes as a collector reads them; nothing else reaches the rules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from softib.agents.plane import AgentPlane
from softib.diags.cable_rules.judge import judge
from softib.diags.check import check
from softib.diags.finding import Finding, Severity
from softib.diags.observations import Observations, ObservedPorts, tables_of
from softib.fabric.end_ports import end_ports, port_gbps
from softib.fabric.faults import inject
from softib.fabric.model import Fabric
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.iba.rates import SPEED_BY_NAME
from softib.scenario.bring_up import bring_up
from softib.scenario.failures import ManagerSettings, run_failures
from softib.scenario.faults_in_time import TimedFault
from softib.scenario.graph_view import graph_of
from softib.sim import static
from softib.sim.messages import messages
from softib.sim.packet.options import PacketOptions
from tests.diags.cable_rules.jobs_in_time import JobInTime, draw_jobs

S = 10**12
FABRICS: dict[str, tuple[str, dict[str, Any], str]] = {
    "small": ("fat-tree", {"radix": 16, "levels": 2}, "NDR"),
    "tree-216": ("fat-tree", {"radix": 12, "levels": 3}, "EDR"),
    "tree-512": ("fat-tree", {"radix": 32, "levels": 2}, "HDR"),
    "rails-504": ("rail-optimized", {"nodes": 63, "rails": 8, "radix": 64}, "NDR"),
    "tree-1024": ("fat-tree", {"radix": 16, "levels": 3}, "QDR"),
    "tree-2000": ("fat-tree", {"radix": 20, "levels": 3}, "NDR"),
}
KINDS = ("ber", "flap", "slow-port", "half-dead-switch", "hot-spot", "miscabling", "downgrade", "several")
EXTENDED = (
    "symbol_error_counter",
    "link_error_recovery_counter",
    "link_downed_counter",
    "port_rcv_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "vl15_dropped",
    "port_xmit_wait",
    "port_xmit_data",
    "port_rcv_data",
    "port_rcv_pkts",
    "port_xmit_pkts",
    "port_rcv_constraint_errors",
    "port_xmit_constraint_errors",
)
DETAILS = (
    "port_inactive_discards",
    "port_sw_hoq_lifetime_limit_discards",
    "port_buffer_overrun_errors",
    "port_local_physical_errors",
)
LANES = ("port_fec_corrected_symbol_ctr",)
PACKET = 4096 + 30
"""Octets of a full packet on the wire."""
WINDOW_PS = 60_000_000
"""The packet layer's run that gives the shares of time that ports wait: 60 us, some 700 packets of each sender at NDR."""


@cache
def _ready(name: str) -> Fabric:
    kind, params, generation = FABRICS[name]
    fabric = generate(kind, **params, generation=generation)
    bring_up(fabric)
    return fabric


@dataclass
class Planted:
    """What was planted: ``kind``; ``ports`` (guid, portnum) of which one must be named first (an end of the cable, the slow port), ``nodes`` (GUIDs)
    that may be named instead; ``fault``: False for a hot spot; from when on (ps)."""

    kind: str
    ports: set[tuple[int, int]]
    nodes: set[int] = field(default_factory=set)
    fault: bool = True
    begin_ps: int = 0


class World:
    """A fabric, its agents, its traffic, and the readings of its counters."""

    def __init__(self, name: str, seed: int, period_s: float = 300.0, miscable: bool = False, jobs_until: int = 0):
        """``jobs_until``: applications are what sends (``jobs_in_time``), up to this time (ps); 0: the static layer's random pairings."""
        self.rng = np.random.default_rng(seed)
        self.f = _ready(name).copy()
        self.planted: list[Planted] = []
        self.away: set[int] = set()
        if miscable:
            self._miscable(name)
        self.plane = AgentPlane(self.f)
        self.faults = self.plane.faults
        self.faults.seed(seed)
        self.period_ps = int(period_s * S)
        self.now = 0
        rows = np.flatnonzero((self.f.port_peer >= 0) & (self.f.port_num > 0) & self.f.linked)
        guid = self.f.node_guid[self.f.port_node[rows]]
        self.rows = rows[np.lexsort((self.f.port_num[rows], guid))]
        self.events: list[tuple[int, Any]] = []
        self.wait: list[tuple[int, np.ndarray]] = []
        self.readings: list[tuple[int, dict[str, np.ndarray], np.ndarray]] = []
        self.gbps = port_gbps(self.f)
        self.jobs: list[JobInTime] = []
        if jobs_until:
            self.octets_a_second = np.zeros(self.f.sizes.ports)
            self.jobs = draw_jobs(self.f, self.rng, jobs_until)
        else:
            self.octets_a_second = self._traffic()
        self._background()

    # -- what is always there --

    def _traffic(self) -> np.ndarray:
        """Octets a second that each port sends: hosts in random pairs at 5 to 40 % of their rate (static layer)."""
        graph = graph_of(self.f)
        net = static.Network.build(graph, self.f.lft[:, : graph.lft_size])
        out = np.zeros(self.f.sizes.ports)
        n = net.n_hosts
        total = np.zeros(net.n_channels)
        for _ in range(3):
            weight = self.rng.uniform(0.02, 0.12, n)
            total += static.loads(net, np.arange(n), self.rng.permutation(n), weight).load
        links = self.f.port(graph.switch_node[net.link_owner], graph.out_port.astype(np.int64))
        host_rate = np.median(self.gbps[self.gbps > 0]) * 1e9 / 8
        out[links] = np.minimum(total[: net.n_links] * host_rate, 0.7 * self.gbps[links] * 1e9 / 8)
        eject = self.f.port(graph.switch_node[net.host_switch], graph.end_port[net.hosts].astype(np.int64))
        out[eject] = total[net.n_links + n :] * host_rate
        out[self.f.port_peer[eject]] = total[net.n_links : net.n_links + n] * host_rate
        return out

    def _background(self) -> None:
        """Raw bit error ratios of good cables: 1e-18 to 1e-15.5 without FEC, 1e-10 to 1e-6 under it."""
        ends = self.f.cable_port
        good = np.flatnonzero((ends >= 0).all(axis=1))
        fec = self._fec(ends[good, 0])
        ratio = 10 ** np.where(fec, self.rng.uniform(-10, -6, len(good)), self.rng.uniform(-18, -15.5, len(good)))
        for cable, ber in zip(good.tolist(), ratio.tolist(), strict=True):
            self.faults.noise(int(ends[cable, 0]), ber, 0)

    def _fec(self, ports: np.ndarray) -> np.ndarray:
        return self.gbps[ports] > 4 * SPEED_BY_NAME["EDR"].lane_data_gbps * 1.01

    def host_restarts(self, share: float, span_ps: int) -> None:
        """Hosts that start again, each once: their links fall, their counters begin anew, minutes later they are back."""
        hosts = np.flatnonzero(~self.f.is_switch)
        for node in self.rng.choice(hosts, int(self.rng.poisson(share * len(hosts))), replace=False).tolist():
            ports = [p for p in self.f.ports_of(node) if self.f.port_peer[p] >= 0]
            at = int(self.rng.uniform(0.05, 0.9) * span_ps)
            self.at(at, lambda now, ports=ports: self._host_falls(ports, now))
            self.at(at + int(self.rng.uniform(60, 400) * S), lambda now, ports=ports: self._comes_up(ports, now))

    def switch_restart(self, at: int) -> None:
        """Somebody updates a switch's firmware: it is away for three minutes."""
        node = int(self.rng.choice(np.flatnonzero(self.f.is_switch)))
        self.away.add(int(self.f.node_guid[node]))
        state = self._configuration(node)
        self.at(at, lambda now: self.faults.power(node, False, now))
        self.at(at + 180 * S, lambda now: self._switch_back(node, state, now))

    def _configuration(self, node: int) -> tuple[Any, ...]:
        switch, ports = int(self.f.switch_of_node[node]), list(self.f.ports_of(node, port0=True))
        return switch, ports, self.f.lft[switch].copy(), self.f.port_info[ports].copy()

    def _switch_back(self, node: int, state: tuple[Any, ...], now: int) -> None:
        self.faults.power(node, True, now)
        switch, ports, lft, info = state
        self.f.lft[switch], self.f.port_info[ports] = lft, info  # as the manager writes them again
        self._activate(ports)

    def _host_falls(self, ports: list[int], now: int) -> None:
        for p in ports:
            self.faults.cut(p, now)
            self.f.counters[p] = 0
            self.f.lane_counters[p] = np.zeros((), self.f.lane_counters.dtype)
            self.f.detail_counters[p] = np.zeros((), self.f.detail_counters.dtype)

    def _comes_up(self, ports: list[int], now: int) -> None:
        for p in ports:
            self.faults.mend(p, now)
        self._activate(ports)

    def _activate(self, ports: list[int]) -> None:
        """What the manager does when links have trained: ACTIVE at both ends."""
        from softib.iba.smp import PortInfo

        both = np.unique([q for p in ports for q in (p, int(self.f.port_peer[p])) if q >= 0])
        up = both[self.f.port_state[both] > PortState.DOWN]
        PortInfo.port_state.set(self.f.port_info, np.full(len(up), PortState.ACTIVE), up)

    def at(self, ps: int, do: Any) -> None:
        """Let ``do(now)`` happen at ``ps``."""
        self.events.append((ps, do))

    # -- what is planted --

    def cable(self, between: bool | None = None) -> int:
        """A random port with a cable: ``between`` switches, to a host, or any."""
        f, rows = self.f, self.rows
        taken = {p for s in self.planted for p in s.ports}
        inside = f.is_switch[f.port_node[rows]] & f.is_switch[f.port_node[f.port_peer[rows]]]
        fits = rows if between is None else rows[inside == between]
        while True:
            port = int(self.rng.choice(fits))
            if self.key(port) not in taken:
                return port

    def key(self, port: int) -> tuple[int, int]:
        """(NodeGUID, portnum)."""
        return int(self.f.node_guid[self.f.port_node[port]]), int(self.f.port_num[port])

    def ends(self, port: int) -> set[tuple[int, int]]:
        """Both ends of its cable."""
        return {self.key(port), self.key(int(self.f.port_peer[port]))}

    def plant(self, kind: str, begin: int, until: int) -> None:
        """Plant a fault (or the hot spot that is none) at a random place, from ``begin`` on."""
        getattr(self, "_" + kind.replace("-", "_"))(begin, until)

    def _ber(self, begin: int, until: int) -> None:
        port = self.cable()
        self._noise(port, begin)
        self.planted.append(Planted("ber", self.ends(port), begin_ps=begin))

    def _noise(self, port: int, begin: int) -> None:
        fec = bool(self._fec(np.array([port]))[0])
        ber = float(10 ** (self.rng.uniform(-4.5, -3.0) if fec else self.rng.uniform(-13.5, -8.0)))
        self.at(begin, lambda now: self.faults.noise(port, ber, now))

    def _flaps(self, port: int, begin: int, until: int, times: int) -> None:
        for at in np.sort(self.rng.uniform(begin, until - 60 * S, times)).astype(np.int64).tolist():
            self.at(at, lambda now: self.faults.cut(port, now))
            self.at(at + int(self.rng.uniform(0.1, 5) * S), lambda now: self._comes_up([port], now))

    def _flap(self, begin: int, until: int) -> None:
        inside = bool(self.rng.random() < 0.5)
        port = self.cable(inside)
        self._flaps(port, begin, until, int(self.rng.integers(1 if inside else 2, 12)))
        self.planted.append(Planted("flap", self.ends(port), begin_ps=begin))

    def _downgrade(self, begin: int, until: int) -> None:
        port = self.cable(True)

        def limit(now: int) -> None:
            self.faults.limit(port, 1, None, now)
            self._activate([port])

        self.at(begin, limit)
        self.planted.append(Planted("downgrade", self.ends(port), begin_ps=begin))

    def _half_dead_switch(self, begin: int, until: int) -> None:
        node = int(self.rng.choice(np.flatnonzero(self.f.is_switch)))
        ports = [p for p in self.f.ports_of(node) if self.f.port_peer[p] >= 0]
        half = self.rng.choice(ports, max(3, len(ports) // 2), replace=False).tolist()
        for p in half:
            if self.rng.random() < 0.5:
                self._noise(p, begin)
            else:
                self._flaps(p, begin, until, int(self.rng.integers(2, 6)))
        around = {e for p in ports for e in self.ends(p)}
        self.planted.append(Planted("half-dead-switch", around, {int(self.f.node_guid[node])}, begin_ps=begin))

    def _miscable(self, name: str) -> None:
        f = self.f
        inside = np.flatnonzero(f.is_switch[f.port_node[np.maximum(f.cable_port, 0)]].all(axis=1))
        while True:
            a, b = self.rng.choice(inside, 2, replace=False)
            ends = f.cable_port[[a, b]]
            if len(np.unique(f.port_node[ends])) == 4:
                break
        planted = {(int(f.node_guid[f.port_node[p]]), int(f.port_num[p])) for p in ends.ravel()}
        inject.swap_cables(f, int(f.cable_port[a, 0]), int(f.cable_port[b, 0]))
        power_on(f)
        bring_up(f)
        self.planted.append(Planted("miscabling", planted))

    def _slow_port(self, begin: int, until: int) -> None:
        """A port that drains slowly while eight hosts send through it, and others send through the same switches: mostly that of the receiving host, else the
        one by which the leaf before it takes in what they send."""
        self._congest(begin, slow=True)

    def _hot_spot(self, begin: int, until: int) -> None:
        """Sixteen hosts send to one as fast as they can: the receiver takes what its link brings."""
        self._congest(begin, slow=False)

    def _congest(self, begin: int, slow: bool) -> None:
        f, ends = self.f, end_ports(self.f)
        hosts = np.flatnonzero(f.port_num[ends] > 0)
        some = self.rng.choice(hosts, min(len(hosts), 97), replace=False)
        target, senders, others = some[0], some[1:9] if slow else some[1:17], some[17:]
        half = len(others) // 2
        src = np.concatenate([senders, others[:half]])
        dst = np.concatenate([np.full(len(senders), target), others[half : 2 * half]])
        port = int(ends[target])
        if slow and self.rng.random() < 0.25:
            port = self._into_leaf(int(ends[senders[0]]), port)
        rate = float(self.gbps[port])
        gbps = float(self.rng.uniform(0.05, 0.4)) * rate if slow else 0.0
        size = max(int(rate * 1e9 / 8 * WINDOW_PS / S), 1 << 16)
        if slow:  # each of the eight has little to send: the link alone would bear it
            size_of = np.where(np.arange(len(src)) < len(senders), size // 10, size // 3)
            start = np.where(np.arange(len(src)) < len(senders), 0, 0)
        else:
            size_of, start = np.where(np.arange(len(src)) < len(senders), size, size // 3), np.zeros(len(src))
        faults = [TimedFault(0, "slow-port", f.port_name(port), {"gbps": gbps})] if slow else []
        run = run_failures(
            f.copy(),
            messages(src, dst, size_of, start_ps=start.astype(np.int64)),
            faults,
            PacketOptions(until_ps=WINDOW_PS),
            ManagerSettings(config=None),
        )
        span = min(run.outcome.end_ps, WINDOW_PS)
        self.wait.append((begin, run.outcome.counters.copy()))
        self.window_ps = max(span, 1)
        whose = {self.key(port)} if slow else self.ends(port)
        self.planted.append(Planted("slow-port" if slow else "hot-spot", whose, fault=slow, begin_ps=begin))

    def _into_leaf(self, source: int, target: int) -> int:
        """The port by which traffic from ``source`` enters the switch of ``target`` (``target`` itself where both hang on one switch)."""
        f, lid = self.f, int(self.f.lid[target])
        at, last = int(f.port_peer[source]), int(f.port_node[f.port_peer[target]])
        entered = target
        while int(f.port_node[at]) != last:
            node = int(f.port_node[at])
            at = entered = int(f.port_peer[f.node_base[node] + f.lft[f.switch_of_node[node], lid]])
        return entered

    # -- time --

    def run(self, until: int) -> None:
        """Let time pass to ``until``, and read the counters each period."""
        queue = sorted(self.events, key=lambda e: e[0])
        self._read()
        while self.now < until:
            target = min(self.now + self.period_ps, until)
            while queue and queue[0][0] <= target:
                at, do = queue.pop(0)
                self._pass(at)
                do(at)
                self.faults.publish()
            self._pass(target)
            self._read()
        self.events.clear()  # what is to happen knows this world: two that know each other are freed late

    def let_go(self) -> None:
        """Free what no judgement needs: counters of every reading, and what programs counted. The times of the readings stay."""
        self.readings = [(when, {}, alive) for when, _, alive in self.readings]
        self.jobs.clear()
        self.wait.clear()

    def _pass(self, to: int) -> None:
        """Traffic and its losses up to ``to``; the agents' counters are drawn when they are read."""
        span = (to - self.now) / S
        if span <= 0:
            return
        f, up = self.f, self.f.port_state == PortState.ACTIVE
        peer = np.maximum(f.port_peer, 0)
        both = up & up[peer] & (f.port_peer >= 0)
        octets = np.where(both, self.octets_a_second * span, 0.0)
        parts = [(c, max(0.0, (to - max(begin, self.now)) / self.window_ps)) for begin, c in self.wait]
        for counters, part in parts:  # what is slow in the packet layer's run bears no other traffic
            octets[(counters["port_xmit_data"] > 0) & (part > 0)] = 0.0
        packets, words = (octets / PACKET).astype(np.uint64), (octets / 4).astype(np.uint64)
        for job in self.jobs:
            seconds = max(0, min(to, job.end_ps) - max(self.now, job.begin_ps)) / S
            mine = {k: (v * seconds * both).astype(np.uint64) for k, v in job.rate.items()} if seconds else {}
            if mine:
                packets, words = packets + mine["port_xmit_pkts"], words + mine["port_xmit_data"]
                f.counters["port_xmit_wait"] += mine["port_xmit_wait"]
                f.counters["port_xmit_discards"] += mine["port_xmit_discards"]
        for counters, part in parts:
            packets += (counters["port_xmit_pkts"] * part * both).astype(np.uint64)
            words += (counters["port_xmit_data"] * part * both).astype(np.uint64)
            f.counters["port_xmit_wait"] += (counters["port_xmit_wait"] * part * both).astype(np.uint64)
            f.counters["port_xmit_discards"] += (counters["port_xmit_discards"] * part * both).astype(np.uint64)
        f.counters["port_xmit_data"] += words
        f.counters["port_xmit_pkts"] += packets
        loss = -np.expm1(-(f.port_loss[:, 0] + f.port_loss[:, 1] * PACKET))
        arrived = np.where(f.port_peer >= 0, packets[peer], np.uint64(0))
        lost = self.rng.poisson(arrived * loss).astype(np.uint64)
        f.counters["port_rcv_data"] += np.where(f.port_peer >= 0, words[peer], np.uint64(0))
        f.counters["port_rcv_pkts"] += arrived - np.minimum(lost, arrived)
        f.counters["port_rcv_errors"] += lost
        f.detail_counters["port_local_physical_errors"] += lost.astype(
            f.detail_counters["port_local_physical_errors"].dtype
        )
        self.now = to

    def _read(self) -> None:
        """One round of a collector; what has no power or no answer is not read."""
        f, rows = self.f, self.rows
        self.faults.settle(self.faults.marked(), self.now)
        values = {n: f.counters[n][rows].astype(np.uint64) for n in EXTENDED}
        values |= {n: f.detail_counters[n][rows].astype(np.uint64) for n in DETAILS}
        values |= {n: f.lane_counters[n][rows].astype(np.uint64) for n in LANES}
        values["state"] = f.port_state[rows].astype(np.uint64)
        gbps = port_gbps(f, rows)
        values["rate"] = (np.where(f.port_state[rows] > PortState.DOWN, gbps, 0.0) * 1000).astype(np.uint64)
        dead = np.array([self.faults.is_dead(n) for n in range(f.sizes.nodes)])
        self.readings.append((self.now, values, ~dead[f.port_node[rows]]))

    # -- what the rules see --

    def observations(self) -> Observations:
        """Increases between readings; a counter that fell means that the device began anew: nothing is known of it then."""
        f, rows = self.f, self.rows
        at = np.full(f.sizes.ports, -1, np.int32)
        at[rows] = np.arange(len(rows))
        names, node = f.node_names(), f.port_node[rows]
        ports = ObservedPorts(
            f.node_guid[node],
            f.port_num[rows].astype(np.int32),
            f.is_switch[node],
            tuple(names[n] for n in node.tolist()),
            f.lid[rows].astype(np.int32),
            at[f.port_peer[rows]],
            port_gbps(f, rows),
        )
        pairs = list(zip(self.readings[:-1], self.readings[1:], strict=True))
        counters = (*EXTENDED, *DETAILS, *LANES)
        usable = np.array([~np.any([b[1][n] < a[1][n] for n in counters], axis=0) & a[2] & b[2] for a, b in pairs])
        increase = {
            n: np.array(
                [np.where(ok, b[1][n] - a[1][n], 0) for (a, b), ok in zip(pairs, usable, strict=True)], np.uint64
            )
            for n in counters
        }
        begin, end = (np.array([[p[i][0] // 1000] * len(rows) for p in pairs], np.int64) for i in (0, 1))
        end = np.where(np.array([b[2] for _, b in pairs]), end, begin)
        level = {
            "state": np.array([np.where(b[2], b[1]["state"], np.nan) for _, b in pairs]),
            "rate_gbps": np.array([np.where(b[2] & (b[1]["rate"] > 0), b[1]["rate"] / 1000, np.nan) for _, b in pairs]),
        }
        return Observations(ports, begin, end, increase, dict.fromkeys(counters, usable), level)


def upto(o: Observations, k: int) -> Observations:
    """The first ``k`` intervals."""
    return Observations(
        o.ports,
        o.begin_ns[:k],
        o.end_ns[:k],
        {n: c[:k] for n, c in o.increase.items()},
        {n: c[:k] for n, c in o.known.items()},
        {n: c[:k] for n, c in o.level.items()},
    )


@dataclass
class Score:
    """What came of a story: planted ``kinds``, which of them were ``named`` and after how many seconds, false alarms (codes and places)."""

    kinds: list[str]
    named: list[bool]
    after_s: list[float]
    stray: list[str]


def tell(kind: str, name: str, seed: int, hours: float = 6.0, jobs: bool = False) -> tuple[World, Observations]:
    """Run a story; ``jobs``: applications are what sends."""
    until = int(hours * 3600 * S)
    world = World(name, seed, miscable=kind == "miscabling", jobs_until=until if jobs else 0)
    rng = world.rng
    world.host_restarts(0.01, until)
    chosen = (
        rng.choice(["ber", "flap", "slow-port", "downgrade"], int(rng.integers(2, 4)), replace=False).tolist()
        if kind == "several"
        else [kind]
    )
    for each in chosen:
        if each != "miscabling":
            world.plant(each, int(rng.uniform(0.1, 0.4) * until), until)
    world.run(until)
    o = world.observations()
    world.let_go()
    return world, o


def findings_of(world: World, o: Observations) -> list[Finding]:
    """The rules' findings."""
    return judge(o, tables_of(world.f, o.ports))


def is_named(p: Planted, found: list[Finding]) -> bool:
    """A warning or an error begins with the guilty port (of a cable: either end) or the guilty switch; a hot spot is called one, and nothing worse."""
    for f in found:
        first = [(w.guid, w.portnum) for w in f.where[:1]]
        if not p.fault:
            if f.code == "congestion-hot-spot" and first and first[0] in p.ports:
                return True
        elif f.severity >= Severity.WARNING and first:
            switch = first[0][0] in p.nodes
            if switch if p.kind == "half-dead-switch" else first[0] in p.ports:
                return True
    return False


def strays(planted: list[Planted], found: list[Finding]) -> list[str]:
    """Warnings and errors that name nothing of what was planted."""
    out = []
    for f in found:
        named = {(w.guid, w.portnum) for w in f.where}
        guilty = any(p.fault and (named & p.ports or {g for g, _ in named} & p.nodes) for p in planted)
        if f.severity >= Severity.WARNING and not guilty:
            out.append(f"{f.code} {f.message[:150]}")
    return out


def score(kind: str, name: str, seed: int, hours: float = 6.0, jobs: bool = False) -> Score:
    """Tell a story and judge it."""
    world, o = tell(kind, name, seed, hours, jobs)
    if kind == "miscabling":
        world.f.source.records |= {"lids", "states", "speeds", "lfts", "capabilities", "unlinked"}
        structure = [f for f in check(world.f) if f.code in ("swapped-cables", "misplaced-cable", "uneven-spines")]
        p = world.planted[0]
        hit = any({(w.guid, w.portnum) for w in f.where} & p.ports for f in structure)
        return Score([kind], [hit], [0.0], strays(world.planted, findings_of(world, o)))
    found = findings_of(world, o)
    named = [is_named(p, found) for p in world.planted]
    after = [_after(world, o, p) if ok else np.nan for p, ok in zip(world.planted, named, strict=True)]
    return Score([p.kind for p in world.planted], named, after, strays(world.planted, found))


def _after(world: World, o: Observations, p: Planted) -> float:
    """Seconds from the beginning of the fault to the first judgement that names it (by halving)."""
    low, high = p.begin_ps // world.period_ps, o.intervals
    while high - low > 1:
        middle = (low + high) // 2
        if is_named(p, findings_of(world, upto(o, middle))):
            high = middle
        else:
            low = middle
    return (world.readings[high][0] - p.begin_ps) / S


def healthy_day(name: str, seed: int, looks: int = 24, jobs: bool = False) -> list[str]:
    """False alarms of a day without a fault, judged every hour over all that was seen until then; each counts once. That a switch is gone is no false alarm
    while it is. ``jobs``: applications are what sends."""
    until = 24 * 3600 * S
    world = World(name, seed, period_s=900.0, jobs_until=until if jobs else 0)
    world.host_restarts(0.02, until)
    if world.rng.random() < 0.25:
        world.switch_restart(int(world.rng.uniform(0.1, 0.8) * until))
    if world.rng.random() < 0.25:
        world.plant("hot-spot", int(world.rng.uniform(0.1, 0.8) * until), until)
    world.run(until)
    o = world.observations()
    world.let_go()
    alarms: set[str] = set()
    for k in np.unique(np.linspace(1, o.intervals, looks).astype(int)).tolist():
        for f in findings_of(world, upto(o, k)):
            gone = f.code == "switch-gone" and f.where[0].guid in world.away  # it is true while somebody restarts it
            if f.severity >= Severity.WARNING and not gone:
                alarms.add(f"{f.code} {', '.join(map(str, f.where))}")
    return sorted(alarms)
