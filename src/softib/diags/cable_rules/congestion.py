"""Finds the cause of congestion: follows PortXmitWait through the forwarding tables to the root of a congestion tree. A
port waits because the next port grants no credits (IBA 7.9, 16.1.3.5). If the next port is on a switch, some egress
ports of the switch hold the received packets; the forwarding tables identify these ports. The *root* of the tree is a
port whose waiting is not explained by a port after it. A root has one of three causes. If it sends at its full rate
while it has packets, it is a **hot spot by traffic**: many senders share one link, which is not a fault. If it waits
and the next device is a host, that host is a **slow receiver**. If it waits for a switch on which no port is busy or
waits, that switch does not drain its buffer. *Branches* are the ports between root and hosts; *victims* are the hosts
whose ports wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, signalling_rate, span_text
from softib.diags.finding import Finding, Severity, code, finding
from softib.iba.constants import PortState
from softib.plural import counted

SLOW_RECEIVER = code(
    "slow-receiver",
    Severity.WARNING,
    "a port drains more slowly than its link, so other ports wait",
    "on a host, check the PCIe link, memory, and programs that do not post receives; on a switch, the firmware; "
    "compare with its peers",
)
HOT_SPOT = code(
    "congestion-hot-spot",
    Severity.INFO,
    "many senders wait for one link that is always busy",
    "not a fault: use fewer senders at once, congestion control, adaptive routing, or more links there",
)
CONGESTED_SLOW_LINK = code(
    "congested-slow-link",
    Severity.WARNING,
    "a link that is slower than its peers makes other ports wait",
    "find out why it is slower: cable, modules, enabled speeds",
)
PACKETS_DISCARDED = code(
    "packets-discarded",
    Severity.WARNING,
    "a port discards packets that waited too long",
    "check the device behind the port: it accepts no packets, or too slowly for HOQLife",
)
WAIT, DATA, DOWNED = "port_xmit_wait", "port_xmit_data", "link_downed_counter"
DISCARDS, HOQ, INACTIVE = "port_xmit_discards", "port_sw_hoq_lifetime_limit_discards", "port_inactive_discards"
INTERVALS = 64
"""Maximum number of intervals to analyse. If there are more, the intervals in which ports waited most are used."""
BEHIND = 0.9
"""If a port waits for another one, the other port must send or wait for at least this share of the waiting time. (It
would be 1 if PortXmitData counted all headers.)
"""
SAME = 0.9
"""Two ports count as equally busy if the ratio of their loads is at least this."""
LONGEST = 63
"""Maximum number of hops of a path (IBA 14.2.1.2)."""
SLOWER = 0.75
"""A link is slow if its rate is below this share of its peers' rate."""
SLOW, FAST, STUCK = "slow", "hot", "stuck"


@dataclass
class _Root:
    """A root: its ``kind``, its intervals, and, for each port (row) that waits for it, the share of time in which the
    port waits."""

    row: int
    kind: str
    intervals: list[int] = field(default_factory=list)
    waits: dict[int, float] = field(default_factory=dict)
    busy: float = 0.0
    waited: float = 0.0


def congestion_roots(case: Case) -> Iterator[Suspicion]:
    """Report the roots of congestion trees over all intervals, the root with the longest duration first; then ports
    that discard packets although no root explains it.
    """
    wait, busy = _shares(case)
    blocked = _blocked(case)
    roots: dict[tuple[int, str], _Root] = {}
    limit = case.limits["wait_share"]
    many = ((wait >= limit) | blocked).sum(axis=1)
    for k in sorted(np.argsort(-many, kind="stable")[:INTERVALS].tolist()):
        if many[k]:
            _Interval(case, (wait, busy), blocked, roots, k).trace()
    accused: set[int] = set()
    for root in sorted(roots.values(), key=lambda r: (-len(r.intervals), -sum(r.waits.values()), r.row)):
        suspicion = _of_root(case, root)
        accused.update([root.row, suspicion.port])
        yield suspicion
    yield from _discards(case, accused)


def _shares(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return the share of each interval in which each port waited, and the data that it sent as a share of its data
    rate (float64[k, n] each).
    """
    tick = case.level("tick_symbols")
    tick = np.where(np.isnan(tick), case.limits["tick_symbols"], tick)
    per_tick = np.zeros_like(case.rates)
    for gbps in np.unique(case.rates[case.rates > 0]).tolist():
        per_tick[case.rates == gbps] = 10.0 / signalling_rate(gbps)
    with np.errstate(divide="ignore", invalid="ignore"):
        wait = np.where(case.span_s > 0, case.column(WAIT) * tick * per_tick / case.span_s, 0.0)
        busy = np.where(
            (case.span_s > 0) & (case.rates > 0), case.column(DATA) * 32 / (case.span_s * case.rates * 1e9), 0.0
        )
    return np.clip(wait, 0.0, 1.0), np.clip(busy, 0.0, 1.0)


def _blocked(case: Case) -> np.ndarray:
    """Return whether each switch port discarded packets because they waited too long at the head of their queue
    (bool[k, n])."""
    return np.asarray(case.column(HOQ) >= case.limits["hoq_discards"])


def _was_down(case: Case, k: int) -> np.ndarray:
    """Return whether each port's link went down in interval ``k`` (counted by either end), or was down at the start or
    end of the interval (bool[n])."""
    state = case.level("state")[max(k - 1, 0) : k + 1]
    here = (case.column(DOWNED)[k] > 0) | (state < PortState.ACTIVE).any(axis=0)
    peer = case.ports.peer
    return np.asarray(here | np.where(peer >= 0, here[np.maximum(peer, 0)], False))


class _Interval:
    """One interval, in which each waiting port is traced to the port that it waits for."""

    def __init__(
        self,
        case: Case,
        shares: tuple[np.ndarray, np.ndarray],
        blocked: np.ndarray,
        roots: dict[tuple[int, str], _Root],
        k: int,
    ):
        self.case, self.found, self.k = case, roots, k
        self.wait, self.busy = np.where(blocked[k], 1.0, shares[0][k]), shares[1][k]
        # A port whose link was down for part of the interval may have been busy in the rest: its data rate is unknown.
        self.sent_known = case.known(DATA)[k] & ~_was_down(case, k)
        self.limit = case.limits["wait_share"]
        self.kinds: dict[int, list[tuple[int, str]]] = {}

    def trace(self) -> None:
        """Add the roots of the interval."""
        rows = np.flatnonzero(self.wait >= self.limit)
        roots = set()
        for row in rows.tolist():
            for at, kind in self._roots_of(row, ()):
                root = self.found.setdefault((at, kind), _Root(at, kind))
                root.waits[row] = max(root.waits.get(row, 0.0), float(self.wait[row]))
                root.busy, root.waited = max(root.busy, float(self.busy[at])), max(root.waited, float(self.wait[at]))
                roots.add((at, kind))
        for key in roots:
            self.found[key].intervals.append(self.k)

    def _roots_of(self, row: int, path: tuple[int, ...]) -> list[tuple[int, str]]:
        """Return the roots that the waiting port ``row`` waits for."""
        if row in self.kinds:
            return self.kinds[row]
        self.kinds[row] = []  # ends a cycle of ports that wait for each other
        ports, peer = self.case.ports, int(self.case.ports.peer[row])
        if peer < 0:
            return []
        if not ports.switch[peer]:
            # The switch port leads to a host, so only the host determines how fast this port drains.
            share = self.busy[row] / max(self.busy[row] + self.wait[row], 1e-12)
            self.kinds[row] = [(row, FAST if share >= self.case.limits["saturated"] else SLOW)]
            return self.kinds[row]
        onwards = self._onwards(row, peer)
        waiting = [q for q in onwards if self.wait[q] >= self.limit and q not in path]
        if waiting:
            roots = {r for q in waiting for r in self._roots_of(q, (*path, row))}
        else:
            held = self.busy + self.wait  # a port with data sends or waits; here less than the limit
            hot = [q for q in onwards if held[q] >= BEHIND * self.wait[row]]
            most = max((float(self.busy[q]) for q in hot), default=0.0)
            roots = {(self._receiver(q), FAST) for q in hot if self.busy[q] >= SAME * most}
            in_sum = float(
                held[onwards].sum()
            )  # the ports may be busy one after another, as in the phases of a shuffle
            if not roots and in_sum >= BEHIND * self.wait[row]:
                roots = {(self._receiver(q), FAST) for q in onwards if held[q] >= self.limit}
            elif not roots and onwards and self.sent_known[onwards].all():
                share = self.busy[row] / (self.busy[row] + self.wait[row])
                roots = {(row, FAST if share >= self.case.limits["saturated"] else STUCK)}
        self.kinds[row] = sorted(roots)
        return self.kinds[row]

    def _receiver(self, row: int) -> int:
        """Return the last port that is as busy as ``row``, where the flows join. If all flows have one receiver, every
        link from that port to the receiver is full.
        """
        for _ in range(LONGEST):
            peer = int(self.case.ports.peer[row])
            if peer < 0 or not self.case.ports.switch[peer]:
                break
            onwards = max(self._onwards(row, peer), key=lambda q: self.busy[q], default=-1)
            if onwards < 0 or self.busy[onwards] < SAME * self.busy[row]:
                break
            row = onwards
        return row

    def _onwards(self, row: int, peer: int) -> list[int]:
        """Return the ports through which the switch that owns ``peer`` forwards the traffic that arrives from
        ``row``. If the forwarding tables are unknown, these are all ports of that switch except the ingress port.
        """
        case, ports = self.case, self.case.ports
        guid = int(ports.node_guid[peer])
        if case.tables is None or case.tables.row(guid) < 0:
            of_switch = np.flatnonzero(ports.node_guid == ports.node_guid[peer])
            return [int(q) for q in of_switch.tolist() if q != peer and ports.portnum[q] > 0]
        out = case.tables.onwards(int(ports.node_guid[row]), int(ports.portnum[row]), guid)
        return [q for p in sorted(out) if (q := case.row_of(guid, p)) >= 0 and q != peer]


def _of_root(case: Case, root: _Root) -> Suspicion:
    row, ports = root.row, case.ports
    peer = int(ports.peer[row])
    waiting = sorted(root.waits, key=lambda r: -root.waits[r])
    victims = [r for r in waiting if not ports.switch[r]]
    branches = [r for r in waiting if ports.switch[r] and r != row]
    seconds = float(case.span_s[root.intervals, row].sum())
    rate = float(case.best_rate[row])
    drained = rate * root.busy / max(root.busy + root.waited, 1e-12)
    evidence = {
        "root": str(case.location(row)),
        "intervals": len(root.intervals),
        "seconds": round(seconds, 6),
        "busy_share": round(root.busy, 4),
        "wait_share": round(root.waited, 4),
        "gbps": rate,
        "drained_gbps": round(drained, 3),
        "branches": {str(case.location(r)): round(root.waits[r], 4) for r in branches},
        "n_branches": len(branches),
        "victims": {str(case.location(r)): round(root.waits[r], 4) for r in victims},
        "n_victims": len(victims),
        "source": case.limits.of("wait_share").source,
        "first_ns": int(case.obs.begin_ns[root.intervals[0], row]),
        "last_ns": int(case.obs.end_ns[root.intervals[-1], row]),
    }
    behind = (
        f"; {counted(len(branches), 'port')} of switches and {len(victims)} of hosts wait behind it"
        if branches or victims
        else ""
    )
    lasted = f"in {span_text(seconds)}"
    could, whose = _could(case, row)
    if root.kind == FAST and rate < SLOWER * could:
        report: Finding = finding(
            CONGESTED_SLOW_LINK,
            case.ends(row),
            f"{case.link(row)} runs at {rate:.0f} Gb/s, {whose} at {could:.0f}, and is {root.busy:.0%} busy "
            f"{lasted}{behind}",
            evidence | {"peers_gbps": could},
        )
        return Suspicion(report, row, 0.95)
    if root.kind == FAST:
        report = finding(
            HOT_SPOT,
            case.ends(row),
            f"{case.link(row)} is {root.busy:.0%} busy {lasted}: traffic, not a fault{behind}",
            evidence,
        )
        return Suspicion(report, row, 0.9, cable=False)
    end = peer if peer >= 0 else row
    report = finding(
        SLOW_RECEIVER,
        case.ends(end),
        f"{case.location(end)} drains {drained:.3g} of {rate:.0f} Gb/s: {case.location(row)} waits "
        f"{root.waited:.0%} of the time "
        f"{lasted} and is {root.busy:.0%} busy{behind}",
        evidence,
    )
    return Suspicion(report, end, 0.95)


def _could(case: Case, row: int) -> tuple[float, str]:
    """Return the rate that the link could have, and the source of this rate. If PortInfo states the capabilities of
    both ends, it is the rate that both support (an adapter of an older generation is not a fault); otherwise it is the
    rate of the peers.
    """
    stated = case.level("best_gbps")[:, row]
    stated = stated[~np.isnan(stated)]
    return (float(stated[-1]), "both ends could") if len(stated) else (_usual_rate(case, row), "its peers")


def _usual_rate(case: Case, row: int) -> float:
    """Return the median rate of the ports of this node that lead to the same kind of node."""
    same = (case.node == case.node[row]) & (case.to_host == case.to_host[row]) & (case.best_rate > 0)
    others = np.flatnonzero(same & (np.arange(case.n) != row))
    return float(np.median(case.best_rate[others])) if len(others) else 0.0


def _discards(case: Case, accused: set[int]) -> Iterator[Suspicion]:
    """Report ports that discard packets although their link is up, unless a congestion tree explains the discards."""
    lost = np.maximum(case.column(DISCARDS) - case.column(INACTIVE), 0.0)
    lost[case.trained] = 0.0
    rate = np.divide(lost, case.span_s, out=np.zeros_like(lost), where=case.span_s > 0)
    for row in np.flatnonzero(rate.max(axis=0, initial=0.0) > case.limits["discards_per_second"]).tolist():
        if row in accused:
            continue
        seconds = float(case.observed_s(DISCARDS)[row])
        peer = int(case.ports.peer[row])
        yield Suspicion(
            finding(
                PACKETS_DISCARDED,
                case.ends(peer if peer >= 0 else row),
                f"{case.link(row)}: {case.location(row)} threw {counted(int(lost[:, row].sum()), 'packet')} away in "
                f"{span_text(seconds)}, up to "
                f"{rate[:, row].max():.3g} a second",
                {
                    "PortXmitDiscards": int(lost[:, row].sum()),
                    "per_second": float(rate[:, row].max()),
                    "observed_s": round(seconds, 3),
                    "source": case.limits.of("discards_per_second").source,
                    **case.when(np.array([row]), DISCARDS),
                },
            ),
            peer if peer >= 0 else row,
            0.9,
        )
