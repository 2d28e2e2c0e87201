"""``torus``: a grid of switches with the ends of each line joined: at most sum(floor(d/2)) hops
between switches (Dally and Towles, Principles and Practices of Interconnection Networks, 2004,
chapter 5)."""

from __future__ import annotations

from typing import Any

from softib.fabric.model import Fabric
from softib.fabric.topologies.grid import GRID_PARAMETERS, build_grid
from softib.fabric.topologies.params import Kind

__all__ = ["KIND"]


def build(values: dict[str, Any]) -> Fabric:
    """The torus that ``values`` (checked parameters) describe."""
    return build_grid("torus", values, values["dims"], wrap=True)


KIND = Kind(
    "torus",
    "grid of switches with wrap-around; switch-0-0-0 … by coordinates, host-0001 …",
    "Dally and Towles, Principles and Practices of Interconnection Networks, 2004, chapter 5",
    GRID_PARAMETERS,
    build,
)
