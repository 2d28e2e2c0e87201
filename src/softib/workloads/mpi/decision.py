"""Open MPI's choice of algorithms: the fixed decision rules of its component tuned (``coll_tuned_decision_fixed.c``) in
4.0, and those in 4.1, which 5.0 still uses. If ranks share hosts, 5.0 first tries its component HAN
(:mod:`softib.workloads.mpi.han`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

from softib.errors import UnknownName

__all__ = ["COLLECTIVES", "VERSIONS", "Choice", "choose"]

VERSIONS = ("4.0", "4.1", "5.0")
COLLECTIVES = (
    "allreduce",
    "allgather",
    "alltoall",
    "barrier",
    "bcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
)
MIB = 1 << 20


@dataclass(frozen=True)
class Choice:
    """An algorithm, and its segment in bytes (0: no segments)."""

    algorithm: str
    segment: int = 0


@cache
def _table() -> dict[str, list[tuple[float, list[tuple[float, str]]]]]:
    """Return the rules of each collective as (limit of ranks, [(limit of bytes, algorithm)]); both limits are
    exclusive."""
    import yaml

    text = resources.files("softib.workloads.mpi").joinpath("decision.yaml").read_text(encoding="utf-8")
    out = {}
    for name, rows in yaml.safe_load(text).items():
        out[name] = [
            (float("inf") if ranks == "more" else float(ranks), [_rule(piece) for piece in rules.split(", ")])
            for ranks, rules in rows.items()
        ]
    return out


def _rule(text: str) -> tuple[float, str]:
    algorithm, _, below = text.partition(" <")
    return (float(below) if below else float("inf")), algorithm


def choose(collective: str, octets: int, ranks: int, version: str = "4.1", element: int = 4) -> Choice:
    """Return the choice of Open MPI ``version`` for ``collective`` of ``octets`` bytes (of the
    vector, or of a rank's block, see
    decision.yaml).
    Raises :class:`UnknownName` for an unknown version or collective.
    """
    if version not in VERSIONS:
        raise UnknownName("version of Open MPI", version, VERSIONS)
    if collective not in COLLECTIVES:
        raise UnknownName("MPI collective", collective, COLLECTIVES)
    if version == "4.0":
        return _OLD[collective](octets, ranks, max(octets // element, 1))
    rules = next(rules for below, rules in _table()[collective] if ranks < below)
    algorithm = next(name for below, name in rules if octets < below)
    return Choice(algorithm, MIB if algorithm == "segmented-ring" else 0)


def _allreduce(octets: int, ranks: int, count: int) -> Choice:
    if octets < 10_000:
        return Choice("recursive-doubling")
    if count <= ranks:
        return Choice("nonoverlapping")
    return Choice("ring") if ranks * MIB >= octets else Choice("segmented-ring", MIB)


def _alltoall(octets: int, ranks: int, count: int) -> Choice:
    if octets < 200 and ranks > 12:
        return Choice("bruck")
    return Choice("linear" if octets < 3000 and ranks > 2 else "pairwise")


def _barrier(octets: int, ranks: int, count: int) -> Choice:
    return Choice("recursive-doubling" if ranks & (ranks - 1) == 0 else "bruck")


def _bcast(octets: int, ranks: int, count: int) -> Choice:
    if octets < 2048 or count <= 1:
        return Choice("binomial")
    if octets < 370_728:
        return Choice("split-binary", 1024)
    if ranks < 1.6134e-6 * octets + 2.1102:
        return Choice("pipeline", 128 << 10)
    if ranks < 13:
        return Choice("split-binary", 8 << 10)
    if ranks < 2.3679e-6 * octets + 1.1787:
        return Choice("pipeline", 64 << 10)
    return Choice("pipeline", (16 if ranks < 3.2118e-6 * octets + 8.7936 else 8) << 10)


def _reduce(octets: int, ranks: int, count: int) -> Choice:
    kib = octets / 1024
    if ranks < 8 and octets < 512:
        return Choice("linear")
    if (ranks < 8 and octets < 20_480) or octets < 2048 or count <= 1:
        return Choice("binomial")
    if ranks > 0.6016 * kib + 1.3496:
        return Choice("binomial", 1024)
    if ranks > 0.0410 * kib + 9.7128:
        return Choice("pipeline", 1024)
    if ranks > 0.0422 * kib + 1.1614:
        return Choice("binary", 32 << 10)
    return Choice("pipeline", (32 if ranks > 0.0033 * kib + 1.6761 else 64) << 10)


def _reduce_scatter(octets: int, ranks: int, count: int) -> Choice:
    power = ranks & (ranks - 1) == 0
    small = octets <= 12 << 10 or (octets <= 256 << 10 and power) or ranks >= 0.0012 * octets + 8
    return Choice("recursive-halving" if small else "ring")


def _allgather(octets: int, ranks: int, count: int) -> Choice:
    if ranks == 2:
        return Choice("pairwise")
    if octets * ranks < 50_000:
        return Choice("recursive-doubling" if ranks & (ranks - 1) == 0 else "bruck")
    return Choice("ring" if ranks % 2 else "neighbor")


def _gather(octets: int, ranks: int, count: int) -> Choice:
    if octets > 6000:
        return Choice("linear-sync", 32 << 10 if octets > 92_160 else 1024)
    return Choice("binomial" if ranks > 60 or (ranks > 10 and octets < 1024) else "linear")


def _scatter(octets: int, ranks: int, count: int) -> Choice:
    return Choice("binomial" if ranks > 10 and octets < 300 else "linear")


_OLD = {
    "allreduce": _allreduce,
    "alltoall": _alltoall,
    "barrier": _barrier,
    "bcast": _bcast,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "allgather": _allgather,
    "gather": _gather,
    "scatter": _scatter,
}
