"""One comparison of a prediction with a measurement."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Row"]


class Row(NamedTuple):
    """``dataset`` and ``metric`` as in the measurements, ``size`` octets, ``nodes``; ``measured`` and ``predicted`` in ``unit``; ``bar``: largest error
    (a share of the measurement) that is good."""

    dataset: str
    metric: str
    size: int
    nodes: int
    measured: float
    predicted: float
    unit: str
    bar: float
