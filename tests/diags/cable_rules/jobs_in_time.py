"""Jobs of a story: applications that begin and end, and what the packet layer says that their messages make every port count."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.fabric.model import Fabric
from softib.sim import packet
from softib.sim.packet.options import PacketOptions
from softib.workloads.hosts import Hosts, hosts_of
from softib.workloads.workload import parse

S = 10**12
US = 10**6
APPLICATIONS = (
    ("mpi-allreduce:256KiB", 1000),
    ("nccl-all-reduce:1MiB,machine=dgx-h100", 300),
    ("all-to-all:256KB", 40),
    ("storage:1MiB", 300),
    ("checkpoint:64MiB", 40),
    ("hot-spot:1MB", 40),
    ("bandwidth:1MiB,bidirectional=true", 40),
)
"""Lines as ``softib simulate`` takes them (``hosts`` are added), and the microseconds of virtual time at most whose run of the packet layer stands for the communication
of the job: buffers of congested ports are full long before, and those that compute first have sent by then."""
COUNTED = ("port_xmit_data", "port_xmit_pkts", "port_xmit_wait", "port_xmit_discards")


@dataclass(frozen=True)
class JobInTime:
    """A job: its line, from when to when it runs (ps), and what each port counts a second while it does (float64[ports], by counter)."""

    line: str
    begin_ps: int
    end_ps: int
    rate: dict[str, np.ndarray]


def draw_jobs(f: Fabric, rng: np.random.Generator, until_ps: int) -> list[JobInTime]:
    """Jobs on disjoint runs of neighbouring hosts, as a scheduler places them; each of two to four places has one job after another for as long as the story takes."""
    hosts = hosts_of(f)
    out: list[JobInTime] = []
    places = int(rng.integers(2, 5))
    width = len(hosts) // places
    for place in range(places):
        now = int(rng.uniform(0, 0.1) * until_ps)
        while now < until_ps:
            n = min(width, int(2 ** rng.uniform(3, 6)))
            first = place * width + int(rng.integers(0, width - n + 1))
            application, us = APPLICATIONS[int(rng.integers(len(APPLICATIONS)))]
            end = now + int(rng.uniform(0.15, 0.6) * until_ps)
            busy = float(rng.uniform(0.1, 0.7))
            line = _line(application, hosts, first, n)
            rate = {k: v * busy for k, v in counted_a_second(f, hosts, line, us).items()}
            out.append(JobInTime(line, now, min(end, until_ps), rate))
            now = end + int(rng.uniform(30, 900) * S)
    return out


def _line(application: str, hosts: Hosts, first: int, n: int) -> str:
    if application.startswith("hot-spot"):
        application += f",senders={min(6, n - 3)}"  # the pattern takes a target and two victims beside
    joint = "," if ":" in application else ":"
    return f"{application}{joint}hosts={first}-{first + n - 1}"


def counted_a_second(f: Fabric, hosts: Hosts, line: str, us: int) -> dict[str, np.ndarray]:
    """What each port counts a second while the application communicates. One that ends before ``us`` microseconds does its step again and again."""
    sent, _ = parse(line).messages(hosts)
    run = packet.run(f, sent, PacketOptions(until_ps=us * US))
    took = max(min(run.end_ps, us * US), 1)
    return {k: run.counters[k].astype(float) * (S / took) for k in COUNTED}
