"""Finds jobs that do not use the HCAs of their hosts, because they unintentionally fall back to TCP
(``NCCL_IB_DISABLE=1``, no ``libibverbs`` in a container, a transport excluded from UCX). Counters do not show which
program sent packets, but they show two signs of such a job. The data counters of its hosts do not change while it runs,
or change far less than those of other jobs' hosts. The size of the packets, and multicast packets among them, indicate
IPoIB.
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
    "the HCAs of a job's hosts carry almost no data while it runs: it uses TCP, or waits",
    "check in the job: NCCL_IB_DISABLE and NCCL_DEBUG=INFO (NET/Socket), UCX_TLS, OMPI_MCA_pml and btl, "
    "/dev/infiniband in its container, ulimit -l; if it only waits or computes, do nothing",
)
JOB_ON_IPOIB = code(
    "job-like-ipoib",
    Severity.INFO,
    "a job's packets have the size of IPoIB packets and include multicasts, while those of other jobs are larger: "
    "TCP over IPoIB",
    "check in the job: torch's gloo backend and NCCL's sockets use the interface in GLOO_SOCKET_IFNAME and "
    "NCCL_SOCKET_IFNAME; ss -ti on ib0 shows the connections",
)
OCTETS = 4
"""Bytes per unit of PortXmitData (IBA 16.1.3.5)."""
LEVEL = 1e-3
EXPLAINED = 0.99
"""Confidence if counters do not change and an environment variable explains this (chosen by softib)."""
LEAST_OTHERS = 4
"""Minimum number of hosts with traffic in other jobs for a comparison."""
IPOIB_PACKET = 2044 + 4 + 8 + 12 + 8 + 4
"""Bytes that counters count for a full IPoIB packet in datagram mode with an MTU of 2,048 bytes: 2,044 of IP and 4 of
the IPoIB header (RFC 4391), then LRH, BTH, DETH and ICRC.
"""


@dataclass(frozen=True)
class JobPorts:
    """A job, with the host, NodeGUID and portnum of each port of its adapters."""

    name: str
    ports: Sequence[tuple[str, int, int]]


ProcessesOf = Callable[[str, Sequence[str]], Iterable[JobProcess]]
"""(job, its hosts) -> the processes of the job whose environment is readable."""


def job_traffic(case: Case, jobs: Sequence[JobPorts], processes: ProcessesOf = lambda job, hosts: ()) -> list[Finding]:
    """Report each job of several hosts whose HCAs carry no data, or far less than those of other jobs. ``processes`` is
    called only for such jobs; the finding then names environment variables that prevent the use of HCAs.
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
    """Return, for each port, the bytes in both directions, and the seconds for which both directions are known."""
    names = ("port_xmit_data", "port_rcv_data")
    both = case.known(names[0]) & case.known(names[1])
    total = sum((np.where(both, case.column(n), 0.0).sum(axis=0) for n in names), np.zeros(case.n))
    return total * OCTETS, np.where(both, case.span_s, 0.0).sum(axis=0)


def _by_host(case: Case, job: JobPorts, octets: np.ndarray, seconds: np.ndarray) -> dict[str, float]:
    """Return the bytes per second of each host of the job whose ports were all observed long
    enough."""
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
    """Return the median packet size in bytes of the other jobs whose packets are larger than IPoIB's; 0 if fewer than
    half of the other jobs have larger packets.
    """
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
    """Return the finding of a job with IPoIB-like packets: a warning if its environment names an
    IPoIB interface, otherwise only information."""
    because = ipoib_named(processes)
    evidence |= {"other_jobs_octets_per_packet": round(larger, 1), "confidence": EXPLAINED if because else 0.5}
    if because:
        evidence["environment"] = because
    where = [case.node_location(r) for r in _first_rows(case, job)]
    text = (
        f"job {job.name}: its hosts move {_rate(rate)} each in packets of {evidence['octets_per_packet']:.0f} "
        f"bytes with multicasts among them, those of other jobs "
        f"have {larger:.0f}: looks like TCP over IPoIB (counters do not know the transport)"
    )
    severity = Severity.WARNING if because else Severity.INFO
    return finding(JOB_ON_IPOIB, where, text + _because(because), evidence, severity=severity)


def _text(
    case: Case, job: JobPorts, values: np.ndarray, others: np.ndarray, still: float, span: float
) -> tuple[str, float]:
    """Return the message of the finding ("" if there is none) and the confidence."""
    middle = float(np.median(values))
    if float(values.max()) < still:
        compared = f"; hosts of other jobs move {_rate(float(np.median(others)))} each" if len(others) else ""
        text = (
            f"job {job.name}: the data counters of its {counted(len(values), 'host')} do not change over "
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
    """Return the probability that, by accident, at most ``below`` hosts of other jobs are slower than one of the ``n``
    hosts of a job (rank test: every choice of n hosts is equally likely).
    """
    return math.comb(n + below, n) / math.comb(n + others, n)


def _packets(case: Case, rows: Sequence[int]) -> dict[str, Any]:
    """Return the evidence about the sent packets that counters provide."""
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
    """Return a text for the message if the packets look like those of IPoIB (small, with multicasts), otherwise "".
    Counters do not prove that they are IPoIB packets.
    """
    size = evidence.get("octets_per_packet", 0)
    if evidence.get("multicast_packets", 0) > 0 and 0 < size <= IPOIB_PACKET:
        return (
            f"; what they send looks like IPoIB (multicasts, {size:.0f} bytes a packet; counters do not know the "
            f"transport)"
        )
    return ""


def _because(variables: Mapping[str, Sequence[str]]) -> str:
    """Return the end of the message: the variables that explain the missing traffic, and a process with the first of
    them.
    """
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
    """Return one port of each host."""
    first: dict[str, int] = {}
    for host, guid, portnum in job.ports:
        row = case.row_of(guid, portnum)
        if row >= 0:
            first.setdefault(host, row)
    return list(first.values())
