"""Faults at random locations; the caller seeds the generator.

Each drawing function returns the arguments of a function in :mod:`softib.fabric.faults.inject`; locations are rows of
the arrays. It raises :class:`InputError` if the fabric has no suitable location.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from softib.errors import InputError, UnknownName
from softib.fabric.faults.inject import swap_cables
from softib.fabric.faults.kinds import FAULTS
from softib.fabric.faults.targets import Planted
from softib.fabric.model import Fabric
from softib.fabric.plugging import supported_speed_codes
from softib.iba.rates import SPEED_BY_CODE

__all__ = ["random_fault", "random_swap"]


def _pick(rng: np.random.Generator, rows: np.ndarray, kind: str) -> int:
    if not len(rows):
        raise InputError(f"this fabric has no {kind} to plant the fault at")
    return int(rows[rng.integers(len(rows))])


def _plain_cables(fabric: Fabric) -> np.ndarray:
    """Cables with two known ends on different nodes."""
    a, b = fabric.cable_port[:, 0], fabric.cable_port[:, 1]
    return np.flatnonzero((a >= 0) & (b >= 0) & (fabric.port_node[a] != fabric.port_node[b]))


def _any_end(fabric: Fabric, rng: np.random.Generator) -> int:
    return int(fabric.cable_port[_pick(rng, _plain_cables(fabric), "cable with two ends"), rng.integers(2)])


def _tier_of_cables(fabric: Fabric, cables: np.ndarray) -> np.ndarray:
    cable_tier = fabric.source.generator.get("cable_tier")
    if cable_tier is not None:
        return np.asarray(cable_tier)[cables]
    types = fabric.node_type[fabric.port_node[fabric.cable_port[cables]]].astype(np.int64)
    return types[:, 0] * 4 + types[:, 1]


def _two_cables(fabric: Fabric, rng: np.random.Generator, tier: str | None, same_nodes: bool) -> tuple[int, int]:
    """Return one port of each of two cables that :func:`random_swap` may exchange, both on the same side."""
    cables = _plain_cables(fabric)
    tiers = _tier_of_cables(fabric, cables)
    side_a, side_b = (fabric.port_node[fabric.cable_port[cables, side]] for side in (0, 1))
    usable = np.arange(len(cables))
    if tier is not None:
        names = fabric.source.generator.get("tiers", ())
        if tier not in names:
            raise UnknownName("tier of this fabric", tier, names)
        usable = np.flatnonzero(tiers == names.index(tier))
    for first in rng.permutation(usable)[:64].tolist():
        if same_nodes:
            fits = (side_a == side_a[first]) & (side_b == side_b[first])
        else:
            others = np.array([side_a[first], side_b[first]])
            fits = (tiers == tiers[first]) & ~np.isin(side_a, others) & ~np.isin(side_b, others)
        fits[first] = False
        if fits.any():
            second = _pick(rng, np.flatnonzero(fits), "second cable")
            side = int(rng.integers(2))
            return int(fabric.cable_port[cables[first], side]), int(fabric.cable_port[cables[second], side])
    raise InputError(f"no two cables{f' of {tier}' if tier else ''} of this fabric can be swapped that way")


def _cable(**arguments: Any) -> Callable[[Fabric, np.random.Generator], dict[str, Any]]:
    """Return a random port with a cable, and the fault's other arguments."""
    return lambda fabric, rng: {"cable": _any_end(fabric, rng), **arguments}


def _swap(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    """Return one port of each of two cables of one tier whose four ends are on four nodes."""
    a, b = _two_cables(fabric, rng, None, False)
    return {"a": a, "b": b}


def _slow(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    """Return a random cable and the lower speed it is limited to, or one lane."""
    port = _any_end(fabric, rng)
    best = int(supported_speed_codes(fabric, np.array([port, fabric.port_peer[port]])).min())
    if best > 1 and rng.integers(2):
        return {"cable": port, "speed": SPEED_BY_CODE[int(rng.integers(1, best))].name}
    return {"cable": port, "lanes": 1}


def _move(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    """Return a port with a cable and a free port."""
    port = _any_end(fabric, rng)
    on_switch = fabric.is_switch[fabric.port_node] & (fabric.port_num > 0)
    return {"port": port, "to": _pick(rng, np.flatnonzero(on_switch & (fabric.port_cable < 0)), "free switch port")}


def _hca(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    """Draw an adapter's port with a cable."""
    return {"port": _pick(rng, np.flatnonzero(fabric.is_host[fabric.port_node] & fabric.linked), "linked adapter")}


def _rails(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    """Return a node of a rail-optimized fabric and two of its rails."""
    truth = fabric.source.generator
    if truth.get("kind") != "rail-optimized":
        raise InputError("crossed rails need a rail-optimized fabric")
    node = int(rng.integers(truth["params"]["nodes"]))
    rows = np.flatnonzero(truth["node_host"] == node)
    pair = rng.permutation(truth["params"]["rails"])[:2].tolist()
    return {"node": fabric.node_name(int(rows[0])).split(" ")[0], "rails": tuple(pair)}


def _switch(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    """Return a switch with links."""
    linked = np.bincount(fabric.port_node[fabric.linked], minlength=fabric.sizes.nodes) > 0
    return {"switch": _pick(rng, np.flatnonzero(fabric.is_switch & linked), "linked switch")}


def _loop(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    """Return two free ports of one switch (or one port twice, for a loopback plug)."""
    free = np.flatnonzero(fabric.is_switch[fabric.port_node] & (fabric.port_num > 0) & (fabric.port_cable < 0))
    a = _pick(rng, free, "free switch port")
    return {"a": a, "b": _pick(rng, free[fabric.port_node[free] == fabric.port_node[a]], "free switch port")}


def _twins(key: str) -> Callable[[Fabric, np.random.Generator], dict[str, Any]]:
    """Return two nodes, or two end ports."""

    def draw(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
        rows = fabric.end_ports() if key == "port" else np.arange(fabric.sizes.nodes)
        if len(rows) < 2:
            raise InputError("this fabric is too small to hold a duplicate")
        a, b = rng.permutation(rows)[:2].tolist()
        return {key: a, "of": b}

    return draw


def _end(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    """Return an end port."""
    return {"port": _pick(rng, fabric.end_ports(), "end port")}


def _dangling(fabric: Fabric, rng: np.random.Generator) -> dict[str, Any]:
    """Draw a port with a cable."""
    return {"port": _any_end(fabric, rng)}


DRAWS: dict[str, Callable[[Fabric, np.random.Generator], dict[str, Any]]] = {
    "swap-cables": _swap,
    "crossed-rails": _rails,
    "move-cable": _move,
    "remove-cable": _cable(),
    "unlink-hca": _hca,
    "dead-switch": _switch,
    "self-loop": _loop,
    "slow-link": _slow,
    "ber": _cable(ber=1e-9),
    "length": _cable(length_m=77.0),
    "inactive-link": _cable(),
    "duplicate-guid": _twins("node"),
    "duplicate-description": _twins("node"),
    "duplicate-lid": _twins("port"),
    "lid-0": _end,
    "one-sided": _cable(),
    "dangling": _dangling,
}
"""Kind of fault → the function that draws its location."""


def random_fault(fabric: Fabric, kind: str, rng: np.random.Generator) -> Planted:
    """Plant one fault of ``kind`` at a location that ``rng`` draws. Raises :class:`InputError` if
    no location fits."""
    if kind not in FAULTS:
        raise UnknownName("fault", kind, FAULTS)
    return FAULTS[kind].plant(fabric, **DRAWS[kind](fabric, rng))


def random_swap(fabric: Fabric, rng: np.random.Generator, tier: str | None = None, same_nodes: bool = False) -> Planted:
    """Swap the plugs of two cables of one tier (in a fabric that was not generated: of two cables
    between equal node types).

    The four ends are on four different nodes, so the pairs of linked nodes change. With
    ``same_nodes`` the two cables run in parallel between the same two nodes, so only port numbers
    change, not the graph of nodes.
    """
    a, b = _two_cables(fabric, rng, tier, same_nodes)
    return swap_cables(fabric, a, b)
