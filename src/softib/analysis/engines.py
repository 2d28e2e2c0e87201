"""What every routing engine would make of the fabric: the same hosts, the same traffic, other
tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.analysis.endpoints import Endpoints
from softib.analysis.model import RoutingPart
from softib.analysis.prediction import network_of, sampled_shifts
from softib.analysis.routing import with_names
from softib.errors import SoftibError
from softib.fabric.model import Fabric
from softib.plural import counted
from softib.routing.engine import ENGINES, NEEDS, RouteOptions, route
from softib.routing.graph import SwitchGraph
from softib.routing.proof.verify import verify
from softib.sim import static

__all__ = ["EngineRow", "compare_engines"]


QUICK = ("minhop", "updn", "dnup", "ftree")
MOST_SWITCHES = 640
"""Switches up to which every engine is tried but those of :data:`BREAK_LOOPS`: nue takes 2 s on
248. Above, :data:`QUICK`."""
BREAK_LOOPS = ("dfsssp", "lash")
"""They share shortest paths out over VLs until none has a credit loop: 24 s and more on a torus of
512 switches, a second where shortest paths make none."""
MOST_WITH_LOOPS = 128
"""Switches up to which :data:`BREAK_LOOPS` are tried where shortest paths make credit loops: dfsssp
takes 3 s on 192."""


@dataclass(frozen=True)
class EngineRow:
    """One engine: ``bisection`` and ``shift`` are relative as in the prediction (None where the
    engine refused).

    ``tables`` is the engine that really made the tables (another where this one fell back),
    ``used`` marks the row of the tables that the report is about (``engine`` is ``file`` where they
    come from one), ``note`` says why an engine refused, or what it fell back to. ``tried`` is false
    for an engine that takes long on a fabric of this size: its note says so.
    """

    engine: str
    tables: str
    used: bool
    bisection: float | None
    shift: float | None
    deadlock_free: bool | None
    unreachable: int | None
    note: str = ""
    tried: bool = True

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return vars(self).copy()


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
    """Route with every engine and predict random pairs and shifts, all with the prediction's draws;
    best bisection first.

    ``part`` and ``lft`` are the tables in use: their row is about them, as they are, not about new
    ones; ``predicted`` are its two figures, if at hand.
    """
    bisection, shift = predicted or _traffic(fabric, graph, ends, lft, seed)
    rows = [
        EngineRow(
            part.engine,
            part.tables or part.engine,
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
    order = [*ENGINES, part.engine]
    return sorted(rows, key=lambda r: (-(r.bisection or 0.0), not r.used, order.index(r.engine)))


def _ready(options: RouteOptions | None) -> list[str]:
    """Engines that have what they need; minhop, which tells whether shortest paths make credit
    loops, is the first."""
    return [name for name in ENGINES if not (name in NEEDS and not getattr(options, NEEDS[name], ""))]


def _takes_long(name: str, switches: int, loops: bool) -> bool:
    """Would engine ``name`` take longer than the rest of a report? ``loops``: shortest paths make
    credit loops."""
    if name in BREAK_LOOPS and loops:
        return switches > MOST_WITH_LOOPS
    return switches > MOST_SWITCHES and name not in QUICK


def _not_tried(name: str, switches: int) -> EngineRow:
    note = f"not tried: takes long on {counted(switches, 'switch')}; softib route --engine {name} does it"
    return EngineRow(name, name, False, None, None, None, None, note, tried=False)


def _row(
    name: str, fabric: Fabric, graph: SwitchGraph, ends: Endpoints, options: RouteOptions | None, seed: int
) -> EngineRow:
    try:
        found = route(graph, name, options)
    except SoftibError as error:
        return EngineRow(name, name, False, None, None, None, None, with_names([str(error)], fabric)[0])
    proof = verify(graph, found.lft, found.path_sl, found.sl2vl)
    bisection, shift = _traffic(fabric, graph, ends, found.lft, seed)
    return EngineRow(
        name,
        found.engine,
        False,
        bisection,
        shift,
        proof.deadlock_free,
        proof.unreachable,
        with_names(["; ".join(found.notes)], fabric)[0],
    )


def _traffic(fabric: Fabric, graph: SwitchGraph, ends: Endpoints, lft: np.ndarray, seed: int) -> tuple[float, float]:
    """(random pairs, shifts), relative."""
    network = network_of(fabric, graph, lft, ends)
    shifts = static.all_shifts(network, shifts=sampled_shifts(network, seed)).relative
    return static.effective_bisection(network, static.SAMPLES, seed).relative, float(shifts.mean())
