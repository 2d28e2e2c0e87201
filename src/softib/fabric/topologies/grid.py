"""Switches on a grid of coordinates: ``torus``, ``mesh``, ``ring`` and ``hyperx``.

In a mesh, any two switches are at most sum(d - 1) hops apart, in a torus at most sum(floor(d/2))
(Dally and Towles, Principles and Practices of Interconnection Networks, 2004, chapter 5). A ring is
a torus of one dimension.

In a HyperX, the switches of every line are connected all-to-all (Ahn, Binkert, Davis, McLaren and
Schreiber, "HyperX: topology, routing, and packaging of efficient large-scale networks", SC 2009).
It has L dimensions of size S_k, K_k cables between any two switches of a line, and T hosts per
switch. The switch radix is T + sum((S_k - 1) K_k), the diameter L. A flattened butterfly is a
HyperX with equal sizes and K = 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from softib.fabric.topologies.blueprint import Blueprint, check_size, host_names, numbered
from softib.fabric.topologies.params import Kind, Parameter, impossible
from softib.plural import counted

__all__ = ["KINDS"]

MAX_DIMS = 6

DIMS = Parameter(
    "dims", "list", "switches along each dimension, for example [4, 4, 4]", required=True, low=2, high=65536
)
GRID_PARAMETERS = (
    DIMS,
    Parameter("hosts_per_switch", "whole", "hosts per switch", 1, low=0, high=254),
    Parameter("parallel", "whole", "cables between neighbours", 1, high=127),
    Parameter("radix", "whole", "ports per switch; by default as many as are used", high=254),
)


class Grid:
    """The switches and hosts of a grid. ``coordinates`` is int[switches, dims]; the last dimension
    changes fastest."""

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

    def with_hosts(self) -> Blueprint:
        """Attach the hosts to ports 1… of their switches, and return the blueprint."""
        at = np.repeat(np.arange(self.n), self.hosts_each)
        host = self.b.hosts(host_names(len(at)), coordinates=self.coordinates[at])
        self.b.links("host-switch", self.switch[at], np.arange(len(at)) % max(1, self.hosts_each) + 1, host, 1)
        return self.b


def build_grid(
    kind: str, values: dict[str, Any], dims: list[int], wrap: bool, names: list[str] | None = None
) -> Blueprint:
    """Build a torus (``wrap``) or a mesh of ``dims``. Ports are used in this order: hosts, then for
    each dimension the cable to the next coordinate and the cable to the previous one. In a
    dimension of size 2, a switch has one neighbour, so there is no wrap-around cable.
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
    return grid.with_hosts()


def _torus(values: dict[str, Any]) -> Blueprint:
    return build_grid("torus", values, values["dims"], wrap=True)


def _mesh(values: dict[str, Any]) -> Blueprint:
    return build_grid("mesh", values, values["dims"], wrap=False)


def _ring(values: dict[str, Any]) -> Blueprint:
    return build_grid("ring", values, [values["switches"]], True, numbered("switch", values["switches"]))


def _hyperx(values: dict[str, Any]) -> Blueprint:
    """Build the HyperX that ``values`` (checked parameters) describe. Ports are used in this order:
    hosts, then for each dimension its cables, ordered by coordinate."""
    dims, given = values["dims"], values["parallel"]
    cables = given if isinstance(given, list) else [given] * len(dims)
    if len(cables) != len(dims):
        raise impossible(
            "hyperx",
            "parallel",
            (f": {len(cables)} numbers for {len(dims)} dimensions; give one number each, or one for all"),
        )
    each = [(size - 1) * k for size, k in zip(dims, cables, strict=True)]
    grid = Grid("hyperx", {**values, "parallel": cables}, dims, sum(each))
    first = values["hosts_per_switch"] + 1
    for k, (size, parallel) in enumerate(zip(dims, cables, strict=True)):
        i, j = np.triu_indices(size, 1)
        origin = np.flatnonzero(grid.coordinates[:, k] == 0)[:, None, None]
        i, j, s = i[None, :, None], j[None, :, None], np.arange(parallel)[None, None, :]
        a, b = origin + i * grid.stride[k], origin + j * grid.stride[k]
        # A switch has no port to its own coordinate: the port to coordinate c is c - 1 if the
        # switch has a lower coordinate, otherwise c.
        grid.b.links(
            f"dim-{k}", grid.switch[a], first + (j - 1) * parallel + s, grid.switch[b], first + i * parallel + s
        )
        first += each[k]
    return grid.with_hosts()


_TEXTBOOK = "Dally and Towles, Principles and Practices of Interconnection Networks, 2004, chapter 5"
KINDS = (
    Kind(
        "torus",
        "grid of switches with wrap-around; switch-0-0-0 … by coordinates, host-0001 …",
        _TEXTBOOK,
        GRID_PARAMETERS,
        _torus,
    ),
    Kind(
        "mesh",
        "grid of switches without wrap-around; switch-0-0-0 … by coordinates, host-0001 …",
        _TEXTBOOK,
        GRID_PARAMETERS,
        _mesh,
    ),
    Kind(
        "hyperx",
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
        _hyperx,
    ),
    Kind(
        "ring",
        "switches in a circle; switch-1 …, host-0001 …",
        _TEXTBOOK,
        (Parameter("switches", "whole", "switches", required=True, low=2, high=65536), *GRID_PARAMETERS[1:]),
        _ring,
    ),
)
"""Kinds in the order in which the documentation lists them."""
