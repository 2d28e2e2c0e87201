"""Switches on a grid of coordinates: what ``torus``, ``mesh``, ``ring`` and ``hyperx`` share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.topologies.blueprint import Blueprint, check_size, host_names
from softib.fabric.topologies.params import Parameter, impossible
from softib.plural import counted

__all__ = ["GRID_PARAMETERS", "Grid", "build_grid"]

MAX_DIMS = 6

DIMS = Parameter("dims", "list", "switches along each dimension, such as [4, 4, 4]", required=True, low=2, high=65536)
GRID_PARAMETERS = (
    DIMS,
    Parameter("hosts_per_switch", "whole", "hosts of a switch", 1, low=0, high=254),
    Parameter("parallel", "whole", "cables between neighbours", 1, high=127),
    Parameter("radix", "whole", "ports of a switch; by default as many as are used", high=254),
)


class Grid:
    """The switches and hosts of a grid; ``coordinates`` is int[switches, dims], the last dimension
    runs fastest."""

    def __init__(
        self, kind: str, values: dict[str, Any], dims: list[int], link_ports: int, names: list[str] | None = None
    ):
        hosts = values["hosts_per_switch"]
        if len(dims) > MAX_DIMS:
            raise impossible(kind, "dims", f": {len(dims)} dimensions; at most {MAX_DIMS}")
        need = hosts + link_ports
        radix = values["radix"] or need
        if need > radix or need > 254:
            raise impossible(
                kind,
                "radix",
                f": {counted(hosts, 'host')} and {counted(link_ports, 'cable')} need {counted(need, 'port')}; a "
                f"switch here has "
                f"{min(radix, 254)}",
            )
        self.dims, self.n, self.hosts_each = dims, math.prod(dims), hosts
        check_size(kind, self.n * hosts, self.n, radix)
        self.coordinates = np.stack(np.unravel_index(np.arange(self.n), dims), axis=1)
        self.stride = np.array([math.prod(dims[k + 1 :]) for k in range(len(dims))])
        self.b = Blueprint(kind, {**values, "radix": radix})
        names = names or ["switch-" + "-".join(map(str, c)) for c in self.coordinates.tolist()]
        self.switch = self.b.switches(names, radix, coordinates=self.coordinates)

    def build(self) -> Fabric:
        """Hang the hosts on ports 1… of their switches and make the fabric."""
        at = np.repeat(np.arange(self.n), self.hosts_each)
        host = self.b.hosts(host_names(len(at)), coordinates=self.coordinates[at])
        self.b.links("host-switch", self.switch[at], np.arange(len(at)) % max(1, self.hosts_each) + 1, host, 1)
        return self.b.build()


def build_grid(
    kind: str, values: dict[str, Any], dims: list[int], wrap: bool, names: list[str] | None = None
) -> Fabric:
    """A torus (``wrap``) or mesh of ``dims``. Ports: hosts, then for each dimension the cables up,
    then the cables down.

    A dimension of 2 has one neighbour, not two: the way around would be the same pair again.
    """
    cables = values["parallel"]
    grid = Grid(kind, values, dims, 2 * cables * len(dims), names)
    first = values["hosts_per_switch"] + 1
    s = np.arange(cables)
    for k, size in enumerate(dims):
        at = grid.coordinates[:, k]
        low = np.flatnonzero((at < size - 1) | (wrap and size > 2))
        high = low + np.where(at[low] < size - 1, 1, 1 - size) * grid.stride[k]
        up = first + 2 * k * cables + s
        grid.b.links(f"dim-{k}", grid.switch[low][:, None], up, grid.switch[high][:, None], up + cables)
    return grid.build()
