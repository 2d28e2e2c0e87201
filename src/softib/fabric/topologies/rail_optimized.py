"""``rail-optimized``: the compute fabric of NVIDIA's DGX SuperPOD.

Each compute node has one adapter per rail. Adapter r of every node in a scalable unit is cabled to
this unit's leaf of rail r. Half of a leaf's ports are uplinks, distributed evenly over the fewest
spines (:func:`~softib.fabric.topologies.tree.evenly_spread`).

Source: NVIDIA DGX SuperPOD reference architecture (H100, B200). Its tables list leaves, spines and
cables of 1 to 4 units, which have 31, 63, 95 and 127 nodes; one slot of the last unit holds UFM.
Its table of larger systems has two tiers up to 8 units (64 leaves and 32 spines, limited by the 64
ports of a switch), and a core tier beyond. 16 units have 128 leaves, 128 spines and 64 cores; 32
units have 256, 256 and 128; 64 units have 512, 512 and 256. In these systems, all units are full,
and UFM is elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.topologies.blueprint import Blueprint, check_size
from softib.fabric.topologies.params import Kind, Parameter, default_radix, impossible, radix_parameter
from softib.fabric.topologies.tree import TreeShape, grow, wire_tree
from softib.plural import counted, plural

__all__ = ["KIND"]

NAME = "rail-optimized"
UFM_HOSTS, UFM_PORTS = 2, 2
UFM_UNITS = 4
"""Largest number of units for which the reference design places UFM in a slot of the last unit."""


def build(values: dict[str, Any]) -> Blueprint:
    """Build the SuperPOD that ``values`` (checked parameters) describe."""
    values = {**values, "radix": values["radix"] or default_radix(values["generation"])}
    radix, rails, nodes = values["radix"], values["rails"], values["nodes"]
    if radix % 2 and values["nodes_per_unit"] is None:
        raise impossible(
            NAME,
            "radix",
            f": {radix} is odd, but half of a leaf's ports are for nodes and half for spines; use {radix - 1} or "
            f"{radix + 1}, or leave a port of each leaf free with nodes_per_unit: {radix // 2}",
        )
    values["nodes_per_unit"] = slots = values["nodes_per_unit"] or radix // 2
    if slots > radix // 2:
        raise impossible(
            NAME,
            "nodes_per_unit",
            f": {counted(slots, 'node')} {plural(slots, 'does', 'do')} not fit with {radix // 2} uplinks on a "
            f"{radix}-port leaf; at most {radix // 2}",
        )
    units = -(-nodes // slots)
    values["ufm"] = _has_ufm(values, units)
    shape = _shape(values, units)
    check_size(NAME, nodes * rails, shape.n_switches, radix)
    b = Blueprint(NAME, {**values, "tiers": shape.levels})
    leaves = wire_tree(b, shape, radix, max(1, shape.levels - 1))[0]
    _label_leaves(b, leaves, rails)
    _add_nodes(b, leaves, values)
    if values["ufm"]:
        _add_ufm(b, leaves, units, values)
    return b


def _shape(values: dict[str, Any], units: int) -> TreeShape:
    radix, rails, tiers = values["radix"], values["rails"], values["tiers"]
    leaves, half = units * rails, radix // 2
    pod = half // rails * rails or half  # a pod consists of whole units, if at least one unit fits into a pod
    tiers = tiers or (2 if leaves <= radix else 3)
    most = [radix] if tiers == 2 else [pod, radix]
    room = int(np.prod(most))
    if leaves > room:
        fits = room // rails * values["nodes_per_unit"]
        raise impossible(
            NAME,
            "nodes",
            f": {counted(values['nodes'], 'node')} with {rails} rails need {leaves} leaves; {tiers} tiers of "
            f"{radix}-port switches take {room}: {f'at most {fits} nodes, or ' if fits else ''}"
            f"{'tiers: 3' if tiers == 2 else 'a larger radix'}",
        )
    return grow(radix, half, half, leaves, most, [None] * (tiers - 1))


def _has_ufm(values: dict[str, Any], units: int) -> bool:
    """Return whether UFM has the last slot of the last unit. By default it has this slot if the
    slot is free and the reference design places UFM there."""
    wanted, slots = values["ufm"], values["nodes_per_unit"]
    free = values["nodes"] < units * slots
    enough = values["rails"] >= UFM_HOSTS * UFM_PORTS
    if wanted is None:
        return units <= UFM_UNITS and free and enough
    if wanted and not free:
        raise impossible(
            NAME, "ufm", f": no slot is left in {units} full units; use nodes: {values['nodes'] - 1}, or ufm: false"
        )
    if wanted and not enough:
        raise impossible(
            NAME,
            "ufm",
            f": UFM's {UFM_HOSTS * UFM_PORTS} ports need {UFM_HOSTS * UFM_PORTS} rails; use ufm: false, or more rails",
        )
    return bool(wanted)


def _label_leaves(b: Blueprint, leaves: np.ndarray, rails: int) -> None:
    i = np.arange(len(leaves))
    b.label(leaves, unit=i // rails, rail=i % rails)


def _add_nodes(b: Blueprint, leaves: np.ndarray, values: dict[str, Any]) -> None:
    """Attach each node's adapter of rail r (``node-001 mlx5_r``) to port (slot + 1) of its unit's
    leaf for rail r."""
    nodes, rails, slots = values["nodes"], values["rails"], values["nodes_per_unit"]
    width = max(3, len(str(nodes)))
    names = [f"node-{n:0{width}d} mlx5_{r}" for n in range(1, nodes + 1) for r in range(rails)]
    i = np.arange(nodes * rails)
    node, rail = i // rails, i % rails
    unit, slot = node // slots, node % slots
    hca = b.hosts(names, system=node * rails, unit=unit, rail=rail, host=node)
    b.links("host-leaf", leaves[unit * rails + rail], slot + 1, hca, 1)


def _add_ufm(b: Blueprint, leaves: np.ndarray, units: int, values: dict[str, Any]) -> None:
    """Add two UFM hosts with two ports each to the last slot of the last unit, one port per rail.
    Each leaf of the unit has one free port for this slot."""
    rails, slots = values["rails"], values["nodes_per_unit"]
    i = np.arange(UFM_HOSTS * UFM_PORTS)
    names = [f"ufm-{n + 1} mlx5_{p}" for n in range(UFM_HOSTS) for p in range(UFM_PORTS)]
    host = values["nodes"] + i // UFM_PORTS
    hca = b.hosts(names, system=i // UFM_PORTS * UFM_PORTS, unit=units - 1, rail=i, host=host)
    b.links("host-leaf", leaves[(units - 1) * rails + i], slots, hca, 1)


KIND = Kind(
    NAME,
    "NVIDIA DGX SuperPOD: leaf-1 … by unit and rail, spine-1 …, core-1 …, adapters node-001 mlx5_0 …",
    "NVIDIA DGX SuperPOD reference architecture (H100, B200), compute fabric tables",
    (
        Parameter("nodes", "whole", "compute nodes", required=True, high=1 << 20),
        Parameter("rails", "whole", "adapters per node, each on a separate rail", 8, high=64),
        radix_parameter(),
        Parameter("nodes_per_unit", "whole", "nodes per scalable unit; by default half the radix", high=127),
        Parameter(
            "ufm",
            "yes/no",
            "two UFM hosts (4 cables) in the last slot of the last unit; by default if there are at most 4 units "
            "and a slot is free",
        ),
        Parameter(
            "tiers",
            "whole",
            "2 = leaf and spine, 3 = also core; by default 2 as long as the spines reach all leaves",
            low=2,
            high=3,
        ),
    ),
    build,
)
