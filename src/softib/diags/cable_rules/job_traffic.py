"""Jobs that do not use the HCAs of their hosts: the unintended fallback to TCP
(``NCCL_IB_DISABLE=1``, no ``libibverbs`` in a container, a transport that UCX left out).

Counters do not know what a program wanted. They say that the data counters of all of a job's hosts
stand still while it runs, or move far less than those of other jobs' hosts; and what the packets
are like that do move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.diags.cable_rules.case import Case, span_text
from softib.diags.cable_rules.job_environment import JobProcess, explained, ipoib_named
from softib.diags.finding import Finding, Severity, code, finding
from softib.plural import counted

__all__ = ["JobPorts", "job_traffic"]

JOB_OFF_HCAS = code(
    "job-off-hcas",
    Severity.WARNING,
    "the HCAs of a job's hosts carry next to nothing while it runs: it uses TCP, or waits",
    "look into the job: NCCL_IB_DISABLE and NCCL_DEBUG=INFO (NET/Socket), UCX_TLS, OMPI_MCA_pml and btl, "
    "/dev/infiniband in its container, ulimit -l; "
    "where it only waits or computes, nothing",
)
JOB_ON_IPOIB = code(
    "job-like-ipoib",
    Severity.INFO,
    "a job's packets are as large as IPoIB's and multicasts are among them, while those of other jobs are larger: "
    "TCP over IPoIB",
    "look into the job: torch's backend gloo and NCCL's sockets go over whatever interface GLOO_SOCKET_IFNAME and "
    "NCCL_SOCKET_IFNAME name; ss -ti on ib0 shows its connections",
)
OCTETS = 4
"""Of a unit of PortXmitData (IBA 16.1.3.5)."""
LEVEL = 1e-3
EXPLAINED = 0.99
"""Confidence where counters stand still and the environment says why: our choice."""
LEAST_OTHERS = 4
"""Hosts of other jobs that move data, below which no comparison with them is made."""
IPOIB_PACKET = 2044 + 4 + 8 + 12 + 8 + 4
"""Octets that counters see of a full packet of IPoIB in datagram mode on 2,048 octets of MTU (RFC
4391: 2,044 of IP, 4 of its header; LRH, BTH, DETH, ICRC)."""


@dataclass(frozen=True)
class JobPorts:
    """A job, and of each of its adapters' ports: the host, NodeGUID and portnum."""

    name: str
    ports: Sequence[tuple[str, int, int]]


ProcessesOf = Callable[[str, Sequence[str]], Iterable[JobProcess]]
"""(job, its hosts) -> those of its processes whose environment can be read."""


def job_traffic(case: Case, jobs: Sequence[JobPorts], processes: ProcessesOf = lambda job, hosts: ()) -> list[Finding]:
    """One finding for each job of several hosts whose HCAs stand still, or move far less than those
    of other jobs.

    ``processes`` are asked for a job that has such a finding alone: variables that keep a program
    from the HCAs explain it.
    """
    if not jobs or not case.n or not case.obs.intervals:
        return []
    octets, seconds = _moved(case)
    rates = [_by_host(case, j, octets, seconds) for j in jobs]
    of_jobs = {row for j in jobs for _, g, p in j.ports if (row := case.row_of(g, p)) >= 0}
    idle = [r for r in np.flatnonzero(~np.asarray(case.ports.switch) & (seconds > 0)).tolist() if r not in of_jobs]
    background = float(np.quantile(octets[idle] / seconds[idle], 0.9)) if idle else 0.0
    return list(_judged(case, jobs, rates, seconds, max(case.limits["job_still"], 2 * background), processes))


def _moved(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """(octets in both directions, seconds for which both are known), by port."""
    names = ("port_xmit_data", "port_rcv_data")
    both = case.known(names[0]) & case.known(names[1])
    total = sum((np.where(both, case.column(n), 0.0).sum(axis=0) for n in names), np.zeros(case.n))
    return total * OCTETS, np.where(both, case.span_s, 0.0).sum(axis=0)


def _by_host(case: Case, job: JobPorts, octets: np.ndarray, seconds: np.ndarray) -> dict[str, float]:
    """Octets a second of each host of the job whose ports were all observed for long enough."""
    out: dict[str, float] = {}
    missing = set()
    for host, guid, portnum in job.ports:
        row = case.row_of(guid, portnum)
        if row < 0 or seconds[row] < case.limits["job_observed"]:
            missing.add(host)
            continue
        out[host] = out.get(host, 0.0) + float(octets[row] / seconds[row])
    return {h: r for h, r in out.items() if h not in missing}


def _judged(
    case: Case,
    jobs: Sequence[JobPorts],
    rates: Sequence[Mapping[str, float]],
    seconds: np.ndarray,
    still: float,
    processes: ProcessesOf,
) -> Iterator[Finding]:
    for i, (job, of_host) in enumerate(zip(jobs, rates, strict=True)):
        if len(of_host) < 2:
            continue
        values = np.array(list(of_host.values()))
        others = np.array(
            [r for k, m in enumerate(rates) if k != i for h, r in m.items() if h not in of_host and r > still]
        )
        rows = [row for _, g, p in job.ports if (row := case.row_of(g, p)) >= 0]
        span = float(seconds[rows].min())
        evidence: dict[str, Any] = {
            "job": job.name,
            "hosts": len(of_host),
            "octets_per_second": {h: round(r, 1) for h, r in sorted(of_host.items())},
            "observed_s": round(span, 3),
            **_packets(case, rows),
        }
        if len(others):
            evidence["other_jobs_octets_per_second"] = round(float(np.median(others)), 1)
        text, confidence = _text(case, job, values, others, still, span)
        if text:
            evidence["confidence"] = confidence
            because = explained(processes(job.name, list(of_host)))
            if because:
                evidence["environment"] = because
                evidence["confidence"] = EXPLAINED
            where = [case.node_location(r) for r in _first_rows(case, job)]
            yield finding(JOB_OFF_HCAS, where, text + _like_ipoib(evidence) + _because(because), evidence)
            continue
        larger = _larger_packets(case, [j for k, j in enumerate(jobs) if k != i])
        if float(values.min()) >= still and larger and _like_ipoib(evidence):
            yield _on_ipoib(case, job, evidence, larger, float(np.median(values)), processes(job.name, list(of_host)))


def _larger_packets(case: Case, others: Sequence[JobPorts]) -> float:
    """Octets of a packet of the other jobs, the median of those that send larger ones than IPoIB
    has; 0 where fewer than half of them do."""
    sizes = []
    for job in others:
        rows = [row for _, g, p in job.ports if (row := case.row_of(g, p)) >= 0]
        size = _packets(case, rows).get("octets_per_packet", 0.0) if rows else 0.0
        if size:
            sizes.append(float(size))
    large = [s for s in sizes if s > IPOIB_PACKET]
    return float(np.median(large)) if 2 * len(large) > len(sizes) else 0.0


def _on_ipoib(
    case: Case, job: JobPorts, evidence: dict[str, Any], larger: float, rate: float, processes: Iterable[JobProcess]
) -> Finding:
    """The finding of a job that moves, in packets like IPoIB's. A warning where its environment
    names an IPoIB interface, else what counters permit: information."""
    because = ipoib_named(processes)
    evidence |= {"other_jobs_octets_per_packet": round(larger, 1), "confidence": EXPLAINED if because else 0.5}
    if because:
        evidence["environment"] = because
    where = [case.node_location(r) for r in _first_rows(case, job)]
    text = (
        f"job {job.name}: its hosts move {_rate(rate)} each in packets of {evidence['octets_per_packet']:.0f} "
        f"octets with multicasts among them, those of other jobs "
        f"have {larger:.0f}: looks like TCP over IPoIB (counters do not know the transport)"
    )
    severity = Severity.WARNING if because else Severity.INFO
    return finding(JOB_ON_IPOIB, where, text + _because(because), evidence, severity=severity)


def _text(
    case: Case, job: JobPorts, values: np.ndarray, others: np.ndarray, still: float, span: float
) -> tuple[str, float]:
    """(the finding's message, confidence); "" where there is nothing to say."""
    middle = float(np.median(values))
    if float(values.max()) < still:
        compared = f"; hosts of other jobs move {_rate(float(np.median(others)))} each" if len(others) else ""
        text = (
            f"job {job.name}: the data counters of its {counted(len(values), 'host')} stand still over "
            f"{span_text(span)} (at most {_rate(float(values.max()))} a host){compared}"
        )
        return text, 0.9 if len(others) else 0.7
    if len(others) < LEAST_OTHERS or middle >= case.limits["job_share"] * float(np.median(others)):
        return "", 0.0
    p = _probability(len(values), int((others <= values.max()).sum()), len(others))
    if p >= LEVEL:
        return "", 0.0
    text = (
        f"job {job.name}: its {counted(len(values), 'host')} move {_rate(middle)} each over {span_text(span)}, "
        f"those of other jobs {_rate(float(np.median(others)))}"
    )
    return text, round(min(0.8, 1 - p), 6)


def _probability(n: int, below: int, others: int) -> float:
    """Chance that the ``n`` hosts of a job are the slowest of all but ``below`` others by accident:
    every choice of n among them is as likely (rank test)."""
    return math.comb(n + below, n) / math.comb(n + others, n)


def _packets(case: Case, rows: Sequence[int]) -> dict[str, Any]:
    """What the sent packets are like, where counters tell."""
    at = np.array(rows, np.int64)
    sent = float(case.column("port_xmit_pkts")[:, at].sum())
    figures: dict[str, Any] = {}
    if sent and case.known("port_xmit_pkts")[:, at].any():
        figures["packets"] = int(sent)
        figures["octets_per_packet"] = round(float(case.column("port_xmit_data")[:, at].sum()) * OCTETS / sent, 1)
    if case.known("port_multicast_xmit_pkts")[:, at].any():
        figures["multicast_packets"] = int(case.column("port_multicast_xmit_pkts")[:, at].sum())
    return figures


def _like_ipoib(evidence: Mapping[str, Any]) -> str:
    """Small packets with multicasts among them: counters permit no more than that they look like
    IPoIB's."""
    size = evidence.get("octets_per_packet", 0)
    if evidence.get("multicast_packets", 0) > 0 and 0 < size <= IPOIB_PACKET:
        return (
            f"; what they send looks like IPoIB (multicasts, {size:.0f} octets a packet; counters do not know the "
            f"transport)"
        )
    return ""


def _because(variables: Mapping[str, Sequence[str]]) -> str:
    """The variables that explain it, and a process that has them."""
    if not variables:
        return ""
    first = next(iter(variables.values()))
    rest = f" and {len(first) - 1} more" if len(first) > 1 else ""
    return f"; {', '.join(variables)} in the environment of {first[0]}{rest}"


def _rate(octets: float) -> str:
    for size, unit in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s")):
        if octets >= size:
            return f"{octets / size:.3g} {unit}"
    return f"{octets:.3g} B/s"


def _first_rows(case: Case, job: JobPorts) -> list[int]:
    """A port of each host."""
    first: dict[str, int] = {}
    for host, guid, portnum in job.ports:
        row = case.row_of(guid, portnum)
        if row >= 0:
            first.setdefault(host, row)
    return list(first.values())
