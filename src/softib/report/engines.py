"""What every routing engine would make of the fabric: the same hosts, the same traffic, other tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from softib.errors import SoftibError
from softib.fabric.model import Fabric
from softib.report.endpoints import Endpoints
from softib.report.prediction import network_of
from softib.routing.engine import ENGINES, RouteOptions, route
from softib.routing.graph import SwitchGraph
from softib.routing.verify import verify
from softib.sim import static
from softib.sim import static_patterns as patterns

__all__ = ["EngineRow", "compare_engines"]

SAMPLES, SHIFTS = 20, 64


@dataclass(frozen=True)
class EngineRow:
    """One engine: ``bisection`` and ``shift`` are relative as in the prediction (None where the engine refused).

    ``tables`` is the engine that really made the tables (another where this one fell back), ``used`` marks the engine whose tables the report is about, ``note`` why an engine refused, or what it fell back to.
    """

    engine: str
    tables: str
    used: bool
    bisection: float | None
    shift: float | None
    deadlock_free: bool | None
    unreachable: int | None
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return vars(self).copy()


def compare_engines(
    fabric: Fabric, graph: SwitchGraph, ends: Endpoints, used: str, options: RouteOptions | None = None, seed: int = 0
) -> list[EngineRow]:
    """Route with every engine and predict random pairs and shifts, all with the same draws; best bisection first."""
    rows = [_row(name, fabric, graph, ends, used, options, seed) for name in ENGINES]
    return sorted(rows, key=lambda r: (-(r.bisection or 0.0), not r.used, list(ENGINES).index(r.engine)))


def _row(
    name: str, fabric: Fabric, graph: SwitchGraph, ends: Endpoints, used: str, options: RouteOptions | None, seed: int
) -> EngineRow:
    try:
        found = route(graph, name, options)
    except SoftibError as error:
        return EngineRow(name, name, name == used, None, None, None, None, str(error))
    proof = verify(graph, found.lft, found.path_sl, found.sl2vl)
    network = network_of(fabric, graph, found.lft, ends)
    which = patterns.sample_shifts(network.n_hosts, SHIFTS, np.random.default_rng(seed))
    return EngineRow(
        name, found.engine, name == used, static.effective_bisection(network, SAMPLES, seed).relative,
        float(static.all_shifts(network, shifts=which).relative.mean()), proof.deadlock_free, proof.unreachable,
        "; ".join(found.notes),
    )  # fmt: skip
