"""Rules, with reasons, that decide between InfiniBand and Ethernet.

The rules and their numbers come from practitioners (:data:`RULES` names the sources). :func:`softib.advise` adds time
and cost from a simulation of the workload.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["RULES", "SMALL_GPUS", "SMALL_HOSTS", "Facts", "Kind", "Opinion", "Verdict", "opinions", "verdict_of"]

Verdict = Literal["ethernet", "either", "infiniband"]
Kind = Literal["training", "mpi", "storage", "service", "independent"]

SMALL_HOSTS = 16
"""Number of nodes below which Ethernet is sufficient for jobs without GPUs."""
SMALL_GPUS = 64
"""Number of GPUs below which cost decides."""
MANY_GPUS = 1000
"""Number of GPUs from which InfiniBand is usual."""
SYNCHRONOUS_GPUS = 256
"""From this number of GPUs on, exchanging gradients every few hundred milliseconds requires InfiniBand."""
STEP_MS = 500.0
"""Time that counts as a few hundred milliseconds."""
CALLS_A_SECOND = 1000.0
"""Rate of ``MPI_Allreduce`` calls per second that counts as thousands."""
DOZENS = 24
"""Number of nodes from which a job with thousands of collective calls per second requires InfiniBand: the guides say
dozens."""
BUSY = 0.05
"""Share of the time in communication below which a job is embarrassingly parallel."""


@dataclass(frozen=True)
class Facts:
    """Known facts about a workload. ``communication``: share of its time in communication on the slowest examined
    network, 0 to 1; ``calls_a_second``: collective operations of a rank; ``step_ms``: time between two exchanges of
    gradients; None: unknown. ``storage``: network of the parallel file system, ``existing``: existing network;
    empty: none. ``staff``: whether the staff already operates lossless Ethernet or InfiniBand."""

    hosts: int
    gpus: int = 0
    kind: Kind = "mpi"
    communication: float | None = None
    calls_a_second: float | None = None
    step_ms: float | None = None
    storage: str = ""
    existing: str = ""
    staff: bool = True
    tenants: int = 1


@dataclass(frozen=True)
class Opinion:
    """A rule that applies. It supports ``verdict`` because of ``reason``. ``decides``: the rule outweighs all rules
    without this mark."""

    verdict: Verdict
    reason: str
    decides: bool


@dataclass(frozen=True)
class Rule:
    """A rule: if ``applies`` is true of the facts, it supports ``verdict``. ``reason``: its text, a format string in
    which ``f`` is the facts."""

    verdict: Verdict
    applies: Callable[[Facts], bool]
    reason: str
    decides: bool = False


def _idle(f: Facts) -> bool:
    return f.communication is not None and f.communication < BUSY


def _frequent(f: Facts) -> bool:
    calls = f.calls_a_second
    return f.kind == "mpi" and calls is not None and calls >= CALLS_A_SECOND and f.hosts >= DOZENS


def _synchronous(f: Facts) -> bool:
    often = f.step_ms is not None and f.step_ms <= STEP_MS
    return f.kind == "training" and f.gpus >= SYNCHRONOUS_GPUS and often


RULES: tuple[Rule, ...] = (
    Rule(
        "ethernet",
        lambda f: f.hosts <= 1,
        "one node: its GPUs and processes communicate over NVLink and memory, not over the fabric",
        decides=True,
    ),
    Rule(
        "ethernet",
        lambda f: f.kind == "independent",
        "independent jobs do not communicate",
        decides=True,
    ),
    Rule("ethernet", lambda f: f.kind == "service", "services wait for clients and their own code", decides=True),
    Rule("ethernet", _idle, "only {f.communication:.1%} of the time is communication", decides=True),
    Rule(
        "infiniband",
        lambda f: f.gpus >= MANY_GPUS,
        "{f.gpus:,} GPUs: from about 1,000 on, the slowest of many flows sets the pace of every step",
        decides=True,
    ),
    Rule("infiniband", _synchronous, "{f.gpus:,} GPUs exchange gradients every {f.step_ms:.0f} ms", decides=True),
    Rule(
        "infiniband",
        _frequent,
        "{f.calls_a_second:,.0f} collectives a second over {f.hosts} nodes: latency is the run time",
        decides=True,
    ),
    Rule(
        "infiniband",
        lambda f: f.kind == "storage" and f.hosts > 1,
        "a parallel file system with RDMA moves data without the servers' processors",
    ),
    Rule("either", lambda f: 0 < f.gpus < SMALL_GPUS and f.hosts > 1, "{f.gpus} GPUs: below 64, cost decides"),
    Rule(
        "ethernet",
        lambda f: not f.gpus and 1 < f.hosts < SMALL_HOSTS,
        "{f.hosts} nodes: below about 16, Ethernet is enough",
    ),
    Rule(
        "infiniband",
        lambda f: f.storage == "ethernet" and f.existing == "infiniband",
        "storage on Ethernet beside compute on InfiniBand makes storage the bottleneck: put both on InfiniBand, or "
        "accept slow I/O phases",
    ),
    Rule(
        "infiniband",
        lambda f: f.storage == "infiniband" and f.hosts > 1,
        "a parallel file system on InfiniBand: hosts on the same network reach it with RDMA, hosts on Ethernet through "
        "gateways",
    ),
    Rule(
        "either",
        lambda f: f.storage == "ethernet" and f.existing != "infiniband" and f.hosts > 1,
        "storage on Ethernet: beside compute on InfiniBand it becomes the bottleneck",
    ),
    Rule(
        "either",
        lambda f: f.calls_a_second is not None and not _frequent(f),
        "{f.calls_a_second:,.0f} collectives a second over {f.hosts} nodes: they decide from "
        f"{CALLS_A_SECOND:,.0f} over {DOZENS} nodes on, in an MPI job",
    ),
    Rule(
        "either",
        lambda f: f.step_ms is not None and not _synchronous(f),
        "{f.gpus:,} GPUs exchange gradients every {f.step_ms:,.0f} ms: this decides from "
        f"{SYNCHRONOUS_GPUS} GPUs and at most {STEP_MS:.0f} ms on, in training",
    ),
    Rule(
        "either",
        lambda f: not f.staff,
        "RoCE needs a lossless Ethernet (PFC, ECN) to be tuned, InfiniBand a subnet manager to be run",
    ),
    Rule(
        "either",
        lambda f: f.tenants > 1,
        "{f.tenants} tenants: InfiniBand isolates with P_Keys at the adapter, Ethernet with VXLAN at the switch; both "
        "need automation",
    ),
    Rule(
        "ethernet",
        lambda f: f.existing == "ethernet" and f.hosts > 1,
        "an Ethernet exists already: only the difference in price counts for it",
    ),
    Rule(
        "infiniband",
        lambda f: f.existing == "infiniband" and f.hosts > 1,
        "an InfiniBand exists already: only the difference in price counts for it",
    ),
    Rule("either", lambda f: f.hosts > 1, "vendor risk: one vendor builds InfiniBand switches; several build Ethernet"),
)
"""The rules in display order, with numbers from engineers' guides to InfiniBand of 2024 to 2026. If no rule
decides, time and cost decide."""


def opinions(facts: Facts) -> tuple[Opinion, ...]:
    """Return the rules that apply to ``facts``."""
    return tuple(Opinion(r.verdict, r.reason.format(f=facts), r.decides) for r in RULES if r.applies(facts))


def verdict_of(given: tuple[Opinion, ...]) -> Verdict:
    """Return the verdict of the first rule that decides. If none decides, return that of the first rule that prefers a
    network, otherwise ``either``."""
    for opinion in given:
        if opinion.decides:
            return opinion.verdict
    sides: list[Verdict] = [o.verdict for o in given if o.verdict != "either"]
    return sides[0] if sides else "either"
