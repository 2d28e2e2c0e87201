"""One comparison of a prediction with a measurement."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Row"]


class Row(NamedTuple):
    """``metric`` of ``dataset`` at ``size`` octets on ``nodes`` hosts: ``measured`` and ``predicted`` (with the machine described) in ``unit``; ``bar``: largest error (0.15 is
    15 %) that the project asks for, 0 where it asks for none; ``machine``: whose measurement it is; ``default``: the answer without a description; ``baselines``: what
    data sheets alone and the library's own model say."""

    dataset: str
    metric: str
    size: int
    nodes: int
    measured: float
    predicted: float
    unit: str
    bar: float
    machine: str = ""
    default: float = math.nan
    baselines: tuple[float, ...] = ()

    @property
    def error(self) -> float:
        """Relative error with its sign."""
        return (self.predicted - self.measured) / self.measured
