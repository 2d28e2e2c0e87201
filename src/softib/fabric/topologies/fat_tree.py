"""``fat-tree``: k-ary n-trees, XGFTs, and the trees that sites build from switches of one radix.

A full tree of radix r and n tiers has 2 (r/2)^n hosts and (2n - 1) (r/2)^(n-1) switches (Petrini
and Vanneschi, IPPS 1997; Zahavi's RLFT). With 36 ports and 3 tiers, these are 11,664 hosts and
1,620 switches.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from softib.fabric.topologies.blueprint import Blueprint, check_size
from softib.fabric.topologies.params import (
    MAX_PORTS,
    Kind,
    Parameter,
    adapters_parameter,
    default_radix,
    impossible,
    radix_parameter,
)
from softib.fabric.topologies.tree import TreeShape, grow, wire_tree
from softib.plural import counted

__all__ = ["KIND", "SizedTree", "host_ports", "shape_of"]

NAME = "fat-tree"
MAX_LEVELS = 8


def build(values: dict[str, Any]) -> Blueprint:
    """Build the tree that ``values`` (checked parameters) describe. Hosts fill the leaves from the
    left."""
    radix = values["radix"]
    if values["m"] or values["w"] or values["p"]:
        shape, hosts = _explicit_shape(values)
        radix = radix or min(shape.ports_used, MAX_PORTS)
        if shape.ports_used > radix:
            raise impossible(
                NAME,
                "radix",
                f": {radix}-port switches cannot hold this tree; it needs {counted(shape.ports_used, 'port')}",
            )
    else:
        radix = radix or default_radix(values["generation"])
        shape, hosts = shape_of(radix, values)
    check_size(NAME, hosts, shape.n_switches, radix)
    b = Blueprint(NAME, {**values, "radix": radix, "levels": shape.levels, "hosts": hosts})
    tiers = wire_tree(b, shape, radix, max(1, shape.levels - 1))
    leaf = np.arange(hosts) // shape.m[0]
    pod_leaves = math.prod(shape.m[1 : shape.levels - 1])
    host = b.end_hosts(hosts, values["adapters"], leaf=leaf, pod=leaf // pod_leaves)
    b.links("host-leaf", tiers[0][leaf], np.arange(hosts) % shape.m[0] + 1, host, 1)
    return b


class SizedTree(NamedTuple):
    """The shape of a tree, and its number of hosts."""

    shape: TreeShape
    hosts: int


def shape_of(radix: int, values: dict[str, Any]) -> SizedTree:
    """Return the shape and number of hosts of a tree of ``radix``-port switches. Raises
    :class:`TopologyError`."""
    levels, hosts, parallel = values["levels"], values["hosts"], values["parallel"]
    if isinstance(parallel, list):
        levels = levels or len(parallel) + 1
        if len(parallel) != levels - 1:
            raise impossible(
                NAME, "parallel", f": {len(parallel)} numbers for {levels} levels; give {levels - 1}, leaves first"
            )
    if levels is None:
        levels = _fewest_levels(radix, hosts, values) if hosts else 2
    cables = parallel if isinstance(parallel, list) else [parallel] * (levels - 1)
    h, u = _leaf_ports(radix, levels, values)
    most = _capacity(radix, levels, h, cables)
    full = h * math.prod(most)
    hosts = full if hosts is None else hosts
    if hosts > full:
        raise impossible(
            NAME,
            "hosts",
            f": {hosts:,} do not fit; {levels} levels of {radix}-port switches hold {full:,}"
            + _more_levels(radix, levels, values)
            + (f", with {h} host ports and {u} uplinks a leaf" if u and u != h else ""),
        )
    _check_parallel(radix, u, cables)
    return SizedTree(grow(radix, h, u, -(-hosts // h), most, cables), hosts)


def _leaf_ports(radix: int, levels: int, values: dict[str, Any]) -> tuple[int, int]:
    """Return the number of a leaf's ports for hosts, and for uplinks."""
    ratio, h, u = values["oversubscription"], values["hosts_per_leaf"], values["uplinks"]
    if levels == 1:
        return h or radix, 0
    if u is None:
        u = radix - h if h and ratio == 1 else int(h / ratio) if h else int(radix / (1 + ratio))
    if u < 1:
        hosts = f" with {counted(h, 'host')}" if h else ""
        raise impossible(
            NAME, "uplinks", f": none are left{hosts} on a {radix}-port leaf; give it fewer hosts_per_leaf"
        )
    h = h or host_ports(radix, ratio, u)
    if radix % 2 and values["uplinks"] is None and values["hosts_per_leaf"] is None and ratio == 1:
        raise impossible(
            NAME,
            "radix",
            f": {radix} is odd, but half of the ports are uplinks; use {radix - 1} or {radix + 1}, or leave a "
            f"port of each leaf free with hosts_per_leaf: {radix // 2} and uplinks: {radix // 2}",
        )
    if h + u > radix:
        raise impossible(
            NAME, "hosts_per_leaf", f": {counted(h, 'host')} and {u} uplinks need {h + u} ports; a leaf has {radix}"
        )
    return h, u


def host_ports(radix: int, ratio: float, uplinks: int | None = None) -> int:
    """Return the largest number of hosts on a leaf for which the oversubscription is at most
    ``ratio``; 0 if no port is left for an uplink."""
    uplinks = int(radix / (1 + ratio)) if uplinks is None else uplinks
    return min(radix - uplinks, int(uplinks * ratio + 1e-9))


def _capacity(radix: int, levels: int, h: int, cables: list[int | None]) -> list[int]:
    """Return the number of children that a switch can have, for each tier above the leaves."""
    out = []
    for t, parallel in enumerate(cables, 2):
        down = radix if t == levels else radix // 2
        out.append(down // (parallel or 1))
    return out


def _check_parallel(radix: int, u: int, cables: list[int | None]) -> None:
    up = u
    for parallel in cables:
        if parallel and up % parallel:
            right = [d for d in range(1, up + 1) if up % d == 0]
            raise impossible(
                NAME,
                "parallel",
                f": {parallel} parallel cables do not divide {up} uplinks; use one of {', '.join(map(str, right))}",
            )
        up = radix // 2


def _fewest_levels(radix: int, hosts: int, values: dict[str, Any]) -> int:
    for levels in range(1, MAX_LEVELS + 1):
        h, _ = _leaf_ports(radix, levels, values)
        if h * math.prod(_capacity(radix, levels, h, [values["parallel"]] * (levels - 1))) >= hosts:
            return levels
    raise impossible(
        NAME, "hosts", f": {hosts:,} do not fit in {MAX_LEVELS} levels of {radix}-port switches; use a larger radix"
    )


def _more_levels(radix: int, levels: int, values: dict[str, Any]) -> str:
    if isinstance(values["parallel"], list) or levels >= MAX_LEVELS:
        return ""
    h, _ = _leaf_ports(radix, levels + 1, values)
    capacity = h * math.prod(_capacity(radix, levels + 1, h, [values["parallel"]] * levels))
    return f", {levels + 1} levels {capacity:,}"


def _explicit_shape(values: dict[str, Any]) -> tuple[TreeShape, int]:
    """Return the PGFT with the parameters ``m``, ``w`` and ``p``. If ``hosts`` is smaller than its
    number of hosts, return only its left part."""
    m = values["m"]
    if not m:
        raise impossible(NAME, "m", "is missing: w and p need m, the children of a switch, leaves first")
    w, p = values["w"] or [1] * len(m), values["p"] or [1] * len(m)
    for name, column in (("w", w), ("p", p)):
        if len(column) != len(m):
            raise impossible(NAME, name, f": {len(column)} numbers, m has {len(m)}; use one per level, leaves first")
        if column[0] != 1:
            raise impossible(
                NAME, name, f": the first number is {column[0]}, but a host has one cable to one leaf; use 1"
            )
    for other in ("oversubscription", "hosts_per_leaf", "uplinks", "parallel", "levels"):
        given = values[other]
        if (
            given is not None
            and not (other == "levels" and given == len(m))
            and not (other == "oversubscription" and given == 1)
        ):
            raise impossible(NAME, other, "cannot be combined with m, w and p, which already determine it; remove it")
    full = math.prod(m)
    hosts = values["hosts"] or full
    if hosts > full:
        raise impossible(NAME, "hosts", f": {hosts:,} do not fit; this tree holds {full:,}")
    first_up = tuple(children * cables + 1 for children, cables in zip(m[:-1], p[:-1], strict=True))
    return TreeShape(tuple(m), tuple(w), tuple(p), first_up, -(-hosts // m[0])), hosts


KIND = Kind(
    NAME,
    "tree of switches of one radix; leaf-1 …, spine-1 …, core-1 …, host-0001 …",
    "Öhring et al., On generalized fat trees, IPPS 1995; Petrini and Vanneschi, k-ary n-trees, IPPS 1997; "
    "Zahavi, D-Mod-K routing for real life fat trees, CCIT report 776, 2010",
    (
        radix_parameter(),
        Parameter(
            "levels", "whole", "tiers of switches; by default the fewest that hold the hosts, or 2", high=MAX_LEVELS
        ),
        Parameter("hosts", "whole", "host ports, leaves filled in order; by default as many as fit", high=1 << 40),
        adapters_parameter(),
        Parameter("oversubscription", "ratio", 'host ports to uplinks at a leaf: 1, 2 or "2:1" …', 1.0),
        Parameter("hosts_per_leaf", "whole", "host ports per leaf; by default derived from oversubscription", high=254),
        Parameter("uplinks", "whole", "uplinks per leaf; by default derived from oversubscription", high=254),
        Parameter(
            "parallel",
            "whole or list",
            "cables between a switch and each parent (list: leaves first); by default 1 in a full tree, otherwise "
            "the number that spreads all uplinks over the fewest parents",
            high=254,
        ),
        Parameter("m", "list", "XGFT instead of radix and levels: children of a switch by level, leaves first"),
        Parameter("w", "list", "XGFT: parents of a node by level (first 1)"),
        Parameter("p", "list", "XGFT: parallel cables to each parent by level (first 1)", high=254),
    ),
    build,
)
