"""The wiring of a fabric: names of its nodes, and the nodes at both ends of each cable.

A comparison of two sizes of a design needs no more, and the wiring of a generated fabric is known before its tables
exist (:attr:`softib.fabric.topologies.blueprint.Blueprint.wiring`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Wiring"]


class Wiring(NamedTuple):
    """``names``: name of each node. ``is_switch``: bool[nodes]. ``cable_node``: int32[cables, 2], the nodes at both
    ends of each cable."""

    names: list[str]
    is_switch: np.ndarray
    cable_node: np.ndarray

    @property
    def between_switches(self) -> int:
        """Number of cables between switches."""
        return int(self.is_switch[self.cable_node].all(axis=1).sum())
