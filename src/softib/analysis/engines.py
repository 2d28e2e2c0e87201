"""Comparison of routing engines on one fabric, with the same hosts and traffic, and the bandwidth that is lost if
``ftree`` rejects a tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.analysis.endpoints import Endpoints, endpoints_of
from softib.analysis.model import RoutingPart
from softib.analysis.prediction import SAMPLES, network_of, sampled_shifts
from softib.analysis.routing import with_names
from softib.errors import SoftibError
from softib.fabric.model import Fabric
from softib.plural import counted
from softib.result import Result
from softib.routing.engine import NEEDS, RouteOptions, engines, route
from softib.routing.engines.ftree import remedy
from softib.routing.graph import SwitchGraph
from softib.routing.proof.verify import verify
from softib.sim import static

__all__ = ["EngineRow", "FtreeUnfit", "compare_engines", "ftree_unfit"]


LEAST = 0.02
"""Smallest loss, as a share of the bisection bandwidth, that is reported."""


@dataclass(frozen=True)
class FtreeUnfit:
    """A fabric that ftree rejects. ``reason``: the reason, with names of nodes. ``bisection`` and ``with_files``: share
    of their links' rate that random pairs get, with the tables in use, and with ftree and the roots and I/O nodes in
    ``options``."""

    reason: str
    bisection: float
    with_files: float
    options: RouteOptions

    @property
    def cost(self) -> float:
        """Return the share of the bandwidth that is lost without the files."""
        return 1 - self.bisection / self.with_files


def ftree_unfit(
    fabric: Fabric, graph: SwitchGraph, lft: np.ndarray, options: RouteOptions | None = None, seed: int = 0
) -> FtreeUnfit | None:
    """Return the gain from ftree with files of roots and I/O nodes. Return None if ftree accepts the fabric without
    files, rejects it with all files, or would not carry more traffic than ``lft``. Random pairs are the same as in the
    report (:func:`softib.sim.static.effective_bisection`, same seed and number).
    """
    choice = remedy(graph, options)
    if choice is None:
        return None
    ends = endpoints_of(fabric, graph)
    if len(ends.row) < 2:
        return None
    used, better = (
        static.effective_bisection(network_of(fabric, graph, table, ends.row), SAMPLES, seed).relative
        for table in (lft, choice.routing.lft)
    )
    (reason,) = with_names([choice.reason], fabric)
    unfit = FtreeUnfit(reason, used, better, choice.options)
    return unfit if better and unfit.cost >= LEAST else None


QUICK = ("minhop", "updn", "dnup", "ftree")
MOST_SWITCHES = 640
"""Largest number of switches for which every engine except :data:`BREAK_LOOPS` is tried: nue takes 2 s on 248 switches.
On larger fabrics, only :data:`QUICK` are tried."""
BREAK_LOOPS = ("dfsssp", "lash")
"""Engines that distribute shortest paths over VLs until no VL has a credit loop. They take 24 s or more on a torus of
512 switches, but one second if the shortest paths have no credit loop."""
MOST_WITH_LOOPS = 128
"""Largest number of switches for which :data:`BREAK_LOOPS` are tried if shortest paths make credit
loops: dfsssp takes 3 s on 192."""


@dataclass(frozen=True)
class EngineRow(Result):
    """Result of one routing engine; null if it failed."""

    engine: str
    """Name of the engine; ``file`` for tables read from a file."""
    tables: str
    """The engine that computed the tables; it differs after a fallback."""
    used: bool
    """True if the report is about these tables."""
    bisection: float | None
    """Mean rate of random pairs, relative to their links as in the prediction."""
    shift: float | None
    """Mean rate of shifts, relative to the hosts' links as in the prediction."""
    deadlock_free: bool | None
    unreachable: int | None
    note: str = ""
    """Reason why the engine failed, or the engine that it fell back to."""
    tried: bool = True
    """False if the engine was not run, because it is too slow for a fabric of this size."""


def compare_engines(
    fabric: Fabric,
    graph: SwitchGraph,
    ends: Endpoints,
    part: RoutingPart,
    lft: np.ndarray,
    options: RouteOptions | None = None,
    seed: int = 0,
    predicted: tuple[float, float] | None = None,
) -> list[EngineRow]:
    """Route the fabric with every engine, and predict random pairs and shifts for each. The random samples are those of
    the report's prediction. Rows are sorted, best bisection first.

    The tables in use (``part`` and ``lft``) have a row too; ``predicted`` are the two figures of this row, if known.
    """
    bisection, shift = predicted or _traffic(fabric, graph, ends, lft, seed)
    rows = [
        EngineRow(
            part.engine,
            part.tables,
            True,
            bisection,
            shift,
            part.deadlock_free,
            part.unreachable,
            "; ".join(part.notes),
        )
    ]
    for name in _ready(options):
        if name == part.engine:
            continue
        loops = not next((r.deadlock_free for r in rows if r.engine == "minhop"), True)
        if _takes_long(name, graph.n_switches, loops):
            rows.append(_not_tried(name, graph.n_switches))
        else:
            rows.append(_row(name, fabric, graph, ends, options, seed))
    order = [*engines(), part.engine]
    return sorted(rows, key=lambda r: (-(r.bisection or 0.0), not r.used, order.index(r.engine)))


def _ready(options: RouteOptions | None) -> list[str]:
    """Return the engines whose required options are set. minhop comes first, because it shows whether shortest paths
    have credit loops."""
    return [name for name in engines() if not (name in NEEDS and not getattr(options, NEEDS[name], ""))]


def _takes_long(name: str, switches: int, loops: bool) -> bool:
    """Return whether engine ``name`` would take longer than the rest of a report. ``loops``: whether shortest paths
    have credit loops."""
    if name in BREAK_LOOPS and loops:
        return switches > MOST_WITH_LOOPS
    return switches > MOST_SWITCHES and name not in QUICK


def _not_tried(name: str, switches: int) -> EngineRow:
    note = f"not tried: takes long on {counted(switches, 'switch')}; use softib route --engine {name}"
    return EngineRow(name, name, False, None, None, None, None, note, tried=False)


def _row(
    name: str, fabric: Fabric, graph: SwitchGraph, ends: Endpoints, options: RouteOptions | None, seed: int
) -> EngineRow:
    try:
        tables = route(graph, name, options)
    except SoftibError as error:
        return EngineRow(name, name, False, None, None, None, None, with_names([str(error)], fabric)[0])
    proof = verify(graph, tables.lft, tables.path_sl, tables.sl2vl)
    bisection, shift = _traffic(fabric, graph, ends, tables.lft, seed)
    return EngineRow(
        name,
        tables.engine,
        False,
        bisection,
        shift,
        proof.deadlock_free,
        proof.unreachable,
        with_names(["; ".join(tables.notes)], fabric)[0],
    )


def _traffic(fabric: Fabric, graph: SwitchGraph, ends: Endpoints, lft: np.ndarray, seed: int) -> tuple[float, float]:
    """Return the mean relative rates of random pairs and of shifts."""
    network = network_of(fabric, graph, lft, ends.row)
    shifts = static.all_shifts(network, shifts=sampled_shifts(network, seed)).relative
    return static.effective_bisection(network, static.SAMPLES, seed).relative, float(shifts.mean())
