"""``ring``: a one-dimensional torus, switch-1 … in a circle (a line of two where there are two)."""

from __future__ import annotations

from typing import Any

from softib.fabric.model import Fabric
from softib.fabric.topologies.blueprint import numbered
from softib.fabric.topologies.grid import GRID_PARAMETERS, build_grid
from softib.fabric.topologies.params import Kind, Parameter

__all__ = ["KIND"]


def build(values: dict[str, Any]) -> Fabric:
    """The ring that ``values`` (checked parameters) describe."""
    return build_grid("ring", values, [values["switches"]], True, numbered("switch", values["switches"]))


KIND = Kind(
    "ring",
    "switches in a circle; switch-1 …, host-0001 …",
    "Dally and Towles, Principles and Practices of Interconnection Networks, 2004, chapter 5",
    (Parameter("switches", "whole", "switches", required=True, low=2, high=65536), *GRID_PARAMETERS[1:]),
    build,
)
