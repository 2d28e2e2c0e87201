"""``hyperx``: a grid of switches in which every line is all-to-all.

Ahn, Binkert, Davis, McLaren and Schreiber, "HyperX: topology, routing, and packaging of efficient
large-scale networks", SC 2009: L dimensions of S_k switches, K_k cables between two switches of a
line, T hosts on a switch; switch radix T + sum((S_k - 1) K_k), diameter L. A flattened butterfly is
the regular one with K = 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.topologies.grid import DIMS, GRID_PARAMETERS, Grid
from softib.fabric.topologies.params import Kind, Parameter, impossible

__all__ = ["KIND"]

NAME = "hyperx"


def build(values: dict[str, Any]) -> Fabric:
    """The HyperX that ``values`` (checked parameters) describe. Ports: hosts, then each dimension's
    cables by coordinate."""
    dims, given = values["dims"], values["parallel"]
    cables = given if isinstance(given, list) else [given] * len(dims)
    if len(cables) != len(dims):
        raise impossible(
            NAME, "parallel", f": {len(cables)} numbers for {len(dims)} dimensions; give one each, or one for all"
        )
    each = [(size - 1) * k for size, k in zip(dims, cables, strict=True)]
    grid = Grid(NAME, {**values, "parallel": cables}, dims, sum(each))
    first = values["hosts_per_switch"] + 1
    for k, (size, parallel) in enumerate(zip(dims, cables, strict=True)):
        i, j = np.triu_indices(size, 1)
        origin = np.flatnonzero(grid.coordinates[:, k] == 0)[:, None, None]
        i, j, s = i[None, :, None], j[None, :, None], np.arange(parallel)[None, None, :]
        a, b = origin + i * grid.stride[k], origin + j * grid.stride[k]
        # The port to coordinate c skips its own: c - 1 from below it, c from above it.
        grid.b.links(
            f"dim-{k}", grid.switch[a], first + (j - 1) * parallel + s, grid.switch[b], first + i * parallel + s
        )
        first += each[k]
    return grid.build()


KIND = Kind(
    NAME,
    "grid of switches, every line all-to-all; switch-0-0 … by coordinates, host-0001 …",
    "Ahn, Binkert, Davis, McLaren, Schreiber, HyperX, SC 2009",
    (
        DIMS,
        GRID_PARAMETERS[1],
        Parameter(
            "parallel", "whole or list", "cables between two switches of a line (list: by dimension)", 1, high=127
        ),
        GRID_PARAMETERS[3],
    ),
    build,
)
