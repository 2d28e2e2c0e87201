"""Metrics of the rounds, of the subnet manager and of the exporter's process (with prometheus-client), and metrics of
all devices, ports and cables that were seen, even if they no longer answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.monitor.exporter.labels import escaped, hca_name
from softib.monitor.exporter.names import GUILBAULTS, SERVICE, STANDING, TREYDOCK, Metric
from softib.monitor.exporter.standing_findings import StandingFindings
from softib.monitor.seen_ports import DOWN, SeenPorts, names_cable
from softib.monitor.watch import Watch

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

__all__ = ["ServiceMetrics", "down_states", "standing_text"]


def standing_text(seen: SeenPorts) -> bytes:
    """Return ``softib_device_up``, ``softib_port_info`` and ``softib_link_up`` (one per cable, with the labels of one
    end) for all devices, ports and cables that were seen."""
    names = {p.key: escaped(hca_name(p.node)) for p in seen.ports.values()}
    device, info, link = (_head(m) for m in STANDING)
    listed: set[str] = set()
    for port in seen.of_shard(seen.ports.values()):
        if port.port_guid not in listed:
            listed.add(port.port_guid)
            kind, up = "switch" if port.switch else "hca", int(port.key[0] in seen.up)
            device.append(f'softib_device_up{{guid="{port.port_guid}",node="{names[port.key]}",kind="{kind}"}} {up}\n')
        other = None if port.peer is None else seen.ports.get(port.peer)
        peer = ("", "", "") if other is None else (other.port_guid, names[other.key], str(other.key[1]))
        labels = (
            f'{{guid="{port.port_guid}",port="{port.key[1]}",node="{names[port.key]}",peer_guid="{peer[0]}",peer="{peer[1]}",'
            f'peer_port="{peer[2]}"}}'
        )
        info.append(f"softib_port_info{labels} 1\n")
        if other is None or names_cable(port, other):
            up = int(port.down_since is None and (other is None or other.down_since is None))
            link.append(f"softib_link_up{labels} {up}\n")
    return "".join((*device, *info, *link)).encode()


def down_states(seen: SeenPorts, listed: frozenset[tuple[int, int]]) -> str:
    """Return lines of ``softib_port_state`` for the ports that are down and whose state is unknown
    (``listed``: keys of ports with a known state)."""
    return "".join(
        f'softib_port_state{{guid="{p.port_guid}",port="{p.key[1]}"}} {DOWN}\n'
        for p in seen.of_shard(seen.down())
        if p.key not in listed
    )


def _head(metric: Metric) -> list[str]:
    return [f"# HELP {metric.name} {metric.help}\n# TYPE {metric.name} {metric.kind}\n"]


_BY_NAME = {m.name: m for m in (*SERVICE, *TREYDOCK, *GUILBAULTS)}
Samples = list[tuple[tuple[str, ...], float]]


class ServiceMetrics:
    """A prometheus-client collector of ``watch``; ``fresh()`` returns whether its last round is
    recent enough to be shown."""

    def __init__(self, watch: Watch, seen: SeenPorts, findings: StandingFindings, scheme: str, fresh: Any):
        self.watch, self.seen, self.scheme, self.fresh = watch, seen, scheme, fresh
        self.findings = findings

    def collect(self) -> Iterator[Family]:
        """Yield the families of one scrape."""
        yield _family("softib_up", [((), float(self.fresh()))])
        yield _family("softib_rounds_total", [((), float(self.watch.poller.rounds))])
        if self.watch.round is None or not self.fresh():
            return
        yield from self._rounds()
        yield from self._managers()
        yield from self._administration()
        if self.watch.manager.reported:
            yield from _of_status(self.watch.manager.reported, self.watch.manager.sweep_s)

    def _rounds(self) -> Iterator[Family]:
        one = self.watch.round
        assert one is not None
        r = one.reading
        held, silent = np.ones(len(r), bool), one.silent
        if self.seen.shard is not None:
            held, silent = self.seen.shard.holds(r.guid), silent[self.seen.shard.holds(silent)]
        read = int((r.answered & held).sum())
        yield _family("softib_round_duration_seconds", [((), one.duration_s)])
        yield _family("softib_round_timestamp_seconds", [((), float(r.time_ns.max(initial=0)) / 1e9)])
        yield _family("softib_round_mads", [((), float(one.mads))])
        yield _family("softib_ports", [(("yes",), float(read)), (("no",), float(held.sum() - read))])
        yield _family("softib_devices_silent", [((), float(len(silent)))])
        down = {p.key[0] for p in self.seen.of_shard(tuple(self.seen.ports.values()))} - self.seen.up
        yield _family("softib_devices_down", [((), float(len(down)))])
        if self.findings.judged_s:
            yield _family("softib_findings_judged_timestamp_seconds", [((), self.findings.judged_s)])
        if self.scheme == "guilbaults":
            yield _family("infiniband_scrape_ok", [((), float(read == held.sum()))])
            yield _family("infiniband_scrape_duration_seconds", [((), one.duration_s)])
            return
        silent_guids = set(silent.tolist())
        errors: Samples = []
        timeouts: Samples = []
        durations: Samples = []
        for kind, of in (("switch", one.targets.ports.switch), ("hca", ~one.targets.ports.switch)):
            guids = one.targets.ports.node_guid[of & held & ~r.answered].tolist()
            errors.append(((kind,), float(sum(g not in silent_guids for g in guids))))
            timeouts.append(((kind,), float(len({g for g in guids if g in silent_guids}))))
            durations.append(((kind,), one.duration_s))
        yield _family("infiniband_exporter_collector_duration_seconds", durations)
        yield _family("infiniband_exporter_collect_errors", errors)
        yield _family("infiniband_exporter_collect_timeouts", timeouts)

    def _administration(self) -> Iterator[Family]:
        seconds = self.watch.manager.sa_answer_s
        if seconds == seconds:
            yield _family("softib_sa_answer_seconds", [((), seconds)])

    def _managers(self) -> Iterator[Family]:
        watch = self.watch.manager
        if not watch.managers:
            return
        every = [(f"{m.guid:#018x}", m) for m in watch.managers.values()]
        yield _family("softib_sm_state", [((g, m.state), 1.0) for g, m in every])
        yield _family("softib_sm_priority", [((g,), float(m.priority)) for g, m in every])
        yield _family("softib_sm_activity_total", [((g,), float(m.act_count)) for g, m in every])
        yield _family("softib_sm_still_seconds", [((g,), m.still_s) for g, m in every])
        yield _family("softib_sm_answers", [((g,), float(m.answers)) for g, m in every])
        yield _family("softib_sm_stalled", [((g,), float(m.stalled)) for g, m in every])
        if watch.answer_s == watch.answer_s:
            yield _family("softib_sm_answer_seconds", [((), watch.answer_s)])


def _of_status(status: Mapping[str, Any], sweep_s: Mapping[str, float]) -> Iterator[Family]:
    """Yield the metrics from the status that the daemon of a running fabric reports."""
    sm = status.get("sm", {})
    if "sweeps" in sm:
        yield _family("softib_sm_sweeps_total", [((), float(sm["sweeps"]))])
        yield _family("softib_sm_sweep_seconds", [((phase,), float(s)) for phase, s in sweep_s.items()])
        yield _family("softib_sm_sweep_problems", [((), float(len(sm["problems"])))])
    sa = sm.get("sa", {})
    for metric, name in (
        ("softib_sa_requests_total", "requests"),
        ("softib_sa_busy_total", "busy"),
        ("softib_sa_waiting", "waiting"),
    ):
        if name in sa:
            yield _family(metric, [((), float(sa[name]))])
    wait = sa.get("wait")
    if wait:
        yield _wait(wait)
        yield _family("softib_sa_oldest_wait_seconds", [((), float(wait["oldest_s"]))])
    traps = status.get("traps", {})
    yield _family("softib_traps", [((name,), float(n)) for name, n in traps.items() if not name.startswith("trap_")])
    raised = {name.removeprefix("trap_"): n for name, n in traps.items() if name.startswith("trap_")}
    yield _family("softib_traps_raised_total", [((number,), float(n)) for number, n in raised.items()])
    yield _family("softib_fabric_mads_total", [((name,), float(n)) for name, n in status.get("mads", {}).items()])


def _wait(wait: Mapping[str, Any]) -> Family:
    from prometheus_client.core import HistogramMetricFamily

    buckets = [("+Inf" if bound == "inf" else bound, float(n)) for bound, n in wait["buckets"].items()]
    metric = _BY_NAME["softib_sa_wait_seconds"]
    return HistogramMetricFamily(metric.name, metric.help, buckets=buckets, sum_value=float(wait["sum_s"]))


def _family(name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    metric: Metric = _BY_NAME[name]
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(
        metric.name.removesuffix("_total") if metric.kind == "counter" else metric.name,
        metric.help,
        labels=metric.labels,
    )
    for labels, value in samples:
        family.add_metric(labels, value)
    return family
