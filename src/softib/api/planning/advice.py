"""Advice on which network a workload needs, from rules, times and costs."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from softib.api.arguments import Suggests
from softib.api.fabric import Fabric
from softib.errors import InputError, SoftibError, UnknownName
from softib.plan.advice import Facts
from softib.plan.design_records import BreakEven, MessageFigures, NetworkTime, PriceRange, Reason, Recommendation

if TYPE_CHECKING:
    from softib.api.simulation.comparison import Comparison
    from softib.plan.advice import Opinion, Verdict

__all__ = ["KINDS", "Advice", "Facts", "Recommendation", "advise", "kind_of"]

KINDS = ("training", "mpi", "storage", "service", "independent")
MOST_PORTS = 64
"""Host ports of the fabric on which the networks are compared; of a larger fabric only the first ports are used."""
NETWORKS = ("NDR", "HDR", "roce", "tcp")
ETHERNET = ("roce", "tcp")
MOST_PACKETS = 300_000
"""Maximum number of packets in a comparison with RoCE and TCP, which only the packet layer
supports: about a minute per network on one core."""
PACKET_BYTES = 4096


class Advice(Suggests):
    """``verdict``: ethernet, either or infiniband. ``reasons``: the rules that apply, decisive ones
    first. ``comparison``: the workload on each network (None: it was not simulated)."""

    def __init__(
        self,
        facts: Facts,
        reasons: tuple[Opinion, ...],
        verdict: str,
        comparison: Comparison | None,
        breaks: list[BreakEven],
        notes: tuple[str, ...],
        messages: MessageFigures | None,
    ):
        self.facts, self.reasons, self.verdict, self.messages = facts, reasons, verdict, messages
        self.comparison, self.break_even, self.notes = comparison, breaks, notes

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``softib advise --json``."""
        return self._recommendation().to_json()

    def _recommendation(self) -> Recommendation:
        rows = [] if self.comparison is None else self.comparison.rows()
        reasons = [Reason(r.verdict, r.reason, r.decides) for r in self.reasons]
        networks = [_network(row) for row in rows]
        facts = dataclasses.asdict(self.facts)
        notes = list(self.notes)
        return Recommendation(self.verdict, facts, reasons, self.messages, networks, self.break_even, notes)

    def print(self) -> None:
        """Print the text of ``softib advise``."""
        from softib.render.planning import print_advice
        from softib.render.terminal import console

        print_advice(self._recommendation(), console())


def _network(row: Any) -> NetworkTime:
    price = row["price"]
    paid = None if price is None else PriceRange(price["low"], price["high"])
    return NetworkTime(row["network"], row["completion_us"], row["ratio"], paid, row["per_price"], row["why"])


def advise(
    facts: Facts,
    workload: Any = None,
    *,
    networks: Sequence[str] = NETWORKS,
    gpus_per_host: int = 8,
    prices: str | os.PathLike[str] | None = None,
) -> Advice:
    """Advise on the network for a job that ``facts`` describe. ``workload`` (as in :func:`softib.simulate`) is
    simulated on each of ``networks``; without a workload, only rules apply. The time of a step and the share of
    communication come from the run if ``facts`` do not state them. ``gpus_per_host``: GPUs of a host, and adapters if
    the job uses GPUs; a training job without a number of GPUs uses all of its hosts. Raises :class:`InputError`.

    >>> import softib
    >>> softib.advise(softib.Facts(hosts=8)).verdict
    'ethernet'
    >>> softib.advise(softib.Facts(hosts=128, gpus=1024, kind="training")).verdict
    'infiniband'
    """
    from softib.plan.advice import opinions, verdict_of

    _check(facts)
    if facts.kind == "training" and not facts.gpus:
        facts = dataclasses.replace(facts, gpus=facts.hosts * gpus_per_host)
    comparison, per_money, messages = None, None, None
    notes: list[str] = []
    breaks: list[BreakEven] = []
    if workload is not None and facts.hosts > 1:
        comparison, measured, messages, notes = _compared(facts, workload, networks, gpus_per_host, prices)
        facts = dataclasses.replace(
            facts,
            communication=measured.get("communication", facts.communication),
            step_ms=facts.step_ms if facts.step_ms is not None else measured.get("step_ms"),
        )
        per_money, breaks = _money(comparison)
    given = opinions(facts)
    undecided = not any(o.decides for o in given)
    if per_money is not None and undecided:
        given = (per_money, *given)
    if comparison is None and undecided:
        notes.append(
            "no reason outweighs all others; add a workload, for example mpi-allreduce:16K, to compare the time and "
            "cost of each network"
        )
    reasons = tuple(sorted(given, key=lambda o: not o.decides))
    return Advice(facts, reasons, verdict_of(given), comparison, breaks, tuple(notes), messages)


def _check(facts: Facts) -> None:
    for label, number in (("calls_a_second", facts.calls_a_second), ("step_ms", facts.step_ms)):
        if number is not None and not (0 <= number < math.inf):
            raise InputError(f"{label} {number:g}: use a finite number, 0 or more")
    if facts.kind not in KINDS:
        raise UnknownName("kind of workload", facts.kind, KINDS)
    for name, value in (("storage", facts.storage), ("existing", facts.existing)):
        if value not in ("", "ethernet", "infiniband"):
            raise UnknownName(f"network of {name}", value, ("ethernet", "infiniband"))
    if facts.hosts < 1:
        raise InputError(f"hosts={facts.hosts}: a job needs at least one node; use 1 or more")


def kind_of(workload: Any) -> str:
    """Return the kind of job that follows from the pattern of a workload's first job."""
    from softib.workloads.workload import read

    pattern = str(read(workload).jobs[0].pattern)  # type: ignore[attr-defined]
    if pattern == "training-step" or pattern.startswith("nccl"):
        return "training"
    return "storage" if "checkpoint" in pattern or "storage" in pattern else "mpi"


def _compared(
    facts: Facts, workload: Any, networks: Sequence[str], per_host: int, prices: str | os.PathLike[str] | None
) -> tuple[Comparison, dict[str, float], MessageFigures, list[str]]:
    """Return (the workload on each network, share of communication, figures of its messages, notes). The fabric has
    full bisection and the size of the job, or, for large jobs, only its first ports."""
    from softib.api.fabric import generate
    from softib.api.simulation.comparison import compare
    from softib.api.simulation.simulate import simulate
    from softib.workloads.workload import read

    rails = per_host if facts.gpus else 1
    ports = facts.hosts * rails
    notes = []
    nodes = facts.hosts
    if ports > MOST_PORTS:
        nodes = max(2, MOST_PORTS // rails)
        notes.append(
            f"compared on the first {nodes} of {facts.hosts} nodes; larger jobs have more flows, and the slowest one "
            f"delays the job"
        )
    patterns = {job.pattern_name for job in read(workload).jobs}
    reduces: dict[str, Any] = {"aggregation_nodes": True} if "aggregation" in patterns else {}
    fabric: Fabric
    if rails > 1:
        fabric = generate("rail-optimized", nodes=nodes, rails=rails, ufm=False, **reduces)
    else:
        fabric = generate("fat-tree", hosts=nodes, levels=1 if nodes <= 64 else 2, **reduces)
    if "multicast" in patterns:  # only the packet layer runs it, and that layer has no factors of sensitivity
        run = simulate(fabric, workload, layer="packet").to_json()
    else:
        run = simulate(fabric, workload, layer="fluid", what_if=["sensitivity"]).to_json()
    messages = MessageFigures(run["messages"], run["bytes"] / max(1, run["messages"]), run.get("sensitivity") or {})
    packets = int(run["bytes"]) // PACKET_BYTES
    layer = "packet"
    if packets > MOST_PACKETS:
        layer = "fluid"
        networks = [n for n in networks if n.partition(",")[0] not in ETHERNET]
        notes.append(
            f"RoCE and TCP were not compared: only the packet layer supports them, and {packets:,} packets are too "
            f"many for it; run softib compare on a shorter workload"
        )
    comparison = compare(fabric, workload, networks=tuple(networks), layer=layer, prices=prices)
    if not comparison.base.good:
        raise InputError("the workload does not complete on InfiniBand; use softib simulate to see why")
    return comparison, _figures(comparison, facts, workload), messages, notes


def _figures(comparison: Comparison, facts: Facts, workload: Any) -> dict[str, float]:
    """Return the time of a training step on InfiniBand, and the share of communication in it."""
    from softib.api.simulation.simulate import scaling

    if facts.kind != "training":
        return {}
    base = comparison.base
    figures = {"step_ms": base.simulated_us / 1000}
    try:
        (row,) = scaling(base.fabric, workload, [base.fabric.hosts])
    except SoftibError:
        return figures  # only collectives, without computation between them
    return {**figures, "communication": 1 - row["efficiency"]}


def _money(comparison: Comparison) -> tuple[Opinion | None, list[BreakEven]]:
    """Return two values: which of InfiniBand and Ethernet does more work for its price, at middle prices (None: a price
    or a time is unknown); and the price difference at which the other one would."""
    from softib.plan.advice import Opinion

    rows = [r for r in comparison.rows() if r["completion_us"]]
    sides: dict[Verdict, list[dict[str, Any]]] = {
        "ethernet": [r for r in rows if r["network"].partition(",")[0] in ETHERNET],
        "infiniband": [r for r in rows if r["network"].partition(",")[0] not in ETHERNET],
    }
    if not all(sides.values()):
        return None, []
    fastest = {side: min(of, key=lambda r: float(r["completion_us"])) for side, of in sides.items()}
    eth, ib = fastest["ethernet"], fastest["infiniband"]
    ratio = eth["completion_us"] / ib["completion_us"]
    both = BreakEven(ib["network"], eth["network"], ratio)
    priced = {side: [r for r in of if r["price"] is not None] for side, of in sides.items()}
    if not all(priced.values()):
        return None, [both]
    middle = lambda r: (r["price"]["low"] + r["price"]["high"]) / 2
    work = lambda r: 1 / (r["completion_us"] * middle(r))
    if ib["price"] is not None and eth["price"] is not None:
        both = dataclasses.replace(both, price_ratio=middle(ib) / middle(eth))
    best = {side: max(of, key=work) for side, of in priced.items()}
    side: Verdict = max(best, key=lambda s: work(best[s]))
    other: Verdict = "infiniband" if side == "ethernet" else "ethernet"
    more = work(best[side]) / work(best[other]) - 1
    reason = (
        f"{best[side]['network']} does {more:.0%} more work for the money than {best[other]['network']}, by middle "
        "prices"
    )
    return Opinion(side, reason, decides=True), [both]
