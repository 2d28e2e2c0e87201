"""One comparison of a prediction with a measurement."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Row"]


class Row(NamedTuple):
    """``metric`` of ``dataset`` at ``size`` octets on ``nodes`` hosts: ``measured`` and ``predicted`` in ``unit``; ``bar``: largest error (0.15 is 15 %) that the
    project asks for, 0 where it asks for none."""

    dataset: str
    metric: str
    size: int
    nodes: int
    measured: float
    predicted: float
    unit: str
    bar: float

    @property
    def error(self) -> float:
        """Relative error with its sign."""
        return (self.predicted - self.measured) / self.measured
