"""What the wrong engine costs a tree that ``ftree`` does not take as it stands, measured by the
prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.analysis.endpoints import endpoints_of
from softib.analysis.prediction import SAMPLES, network_of
from softib.analysis.routing import with_names
from softib.fabric.model import Fabric
from softib.routing.engine import RouteOptions
from softib.routing.graph import SwitchGraph
from softib.routing.remedy import remedy
from softib.sim import static

__all__ = ["FtreeUnfit", "ftree_unfit"]

LEAST = 0.02
"""Share of the bisection bandwidth from which the other engine's cost is worth a word."""


@dataclass(frozen=True)
class FtreeUnfit:
    """``reason``: why ftree does not fit, with names of nodes. ``bisection`` is what random pairs
    get of their links' rate under the tables in use, ``with_files`` what they get under ftree with
    ``options``' roots and I/O nodes."""

    reason: str
    bisection: float
    with_files: float
    options: RouteOptions

    @property
    def cost(self) -> float:
        """Share of the bandwidth that is lost for want of the files."""
        return 1 - self.bisection / self.with_files


def ftree_unfit(
    fabric: Fabric, graph: SwitchGraph, lft: np.ndarray, options: RouteOptions | None = None, seed: int = 0
) -> FtreeUnfit | None:
    """None where ftree fits, where no files make it fit, or where it would carry no more than
    ``lft`` does.

    Random pairs as the report draws them (:func:`softib.sim.static.effective_bisection`, same seed
    and number).
    """
    found = remedy(graph, options)
    if found is None:
        return None
    ends = endpoints_of(fabric, graph)
    if len(ends.row) < 2:
        return None
    used, better = (
        static.effective_bisection(network_of(fabric, graph, table, ends), SAMPLES, seed).relative
        for table in (lft, found.routing.lft)
    )
    (reason,) = with_names([found.reason], fabric)
    unfit = FtreeUnfit(reason, used, better, found.options)
    return unfit if better and unfit.cost >= LEAST else None
