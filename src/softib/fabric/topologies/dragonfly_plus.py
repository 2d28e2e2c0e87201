"""``dragonfly+``: groups that are two-tier trees (hosts on leaves, global cables on spines), joined
all-to-all.

Shpiner, Haramaty, Eliad, Zdornov, Gafni and Zahavi, "Dragonfly+: low cost topology for scaling
datacenters", HiPINEB 2017: every leaf of a group meets every spine of it, spines of different
groups are joined; balanced with half of each switch's ports each way, at most s h + 1 groups. Two
leaves are at most 3 hops apart (up, global, down) where their groups' common cable ends on a spine,
which every leaf reaches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.topologies.blueprint import Blueprint, check_size, host_names
from softib.fabric.topologies.global_links import global_links
from softib.fabric.topologies.params import Kind, Parameter, default_radix, impossible, radix_parameter
from softib.plural import counted

__all__ = ["KIND"]

NAME = "dragonfly+"


def build(values: dict[str, Any]) -> Fabric:
    """The dragonfly+ that ``values`` (checked parameters) describe. Leaf ports: hosts, then spines;
    spine: leaves, then global."""
    values = _filled(values)
    g, leaves, spines, p, h, radix, cables = (values[x] for x in ("g", "l", "s", "p", "h", "radix", "parallel"))
    if g > spines * h + 1:
        raise impossible(
            NAME,
            "g",
            f": {counted(g, 'group')}, but a group has {spines * h} global cables; at most {spines * h + 1} groups",
        )
    for name, first, need in (
        ("p", f"{counted(p, 'host')} and {spines * cables} uplinks of a leaf", p + spines * cables),
        ("h", f"{leaves * cables} leaf and {h} global cables of a spine", leaves * cables + h),
    ):
        if need > radix:
            raise impossible(NAME, name, f": {first} need {counted(need, 'port')}; the switches have {radix}")
    check_size(NAME, g * leaves * p, g * (leaves + spines), radix)
    b = Blueprint(NAME, values)
    n, k = np.arange(g * leaves), np.arange(g * spines)
    leaf = b.switches(
        [f"g{i // leaves + 1}-leaf-{i % leaves + 1}" for i in range(len(n))],
        radix,
        1,
        group=n // leaves,
        position=n % leaves,
    )
    spine = b.switches(
        [f"g{i // spines + 1}-spine-{i % spines + 1}" for i in range(len(k))],
        radix,
        2,
        group=k // spines,
        position=k % spines,
    )
    group, i, j, c = np.ix_(range(g), range(leaves), range(spines), range(cables))
    b.links(
        "leaf-spine", leaf[group * leaves + i], p + 1 + j * cables + c, spine[group * spines + j], i * cables + c + 1
    )
    group_a, port_a, group_b, port_b = global_links(g, spines * h)
    port_a, port_b = _bundled(port_a, g, spines * h), _bundled(port_b, g, spines * h)
    start = leaves * cables + 1
    b.links(
        "global",
        spine[group_a * spines + port_a % spines],
        start + port_a // spines,
        spine[group_b * spines + port_b % spines],
        start + port_b // spines,
    )
    at = np.arange(g * leaves * p)
    host = b.hosts(host_names(len(at)), group=at // (leaves * p))
    b.links("host-leaf", leaf[at // p], at % p + 1, host, 1)
    return b.build()


def _bundled(port: np.ndarray, groups: int, ports: int) -> np.ndarray:
    """Global port ``port`` of a group, numbered round by round over the other groups, numbered so
    that the cables to one group are side by side.

    Side by side means on different spines, which take the ports in turn: what goes from a leaf to
    one other group has as many ways up as there are cables to that group, or spines.
    """
    others = max(1, groups - 1)
    return port % others * (ports // others) + port // others


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    radix = values["radix"] or default_radix(values["generation"])
    cables = values["parallel"]
    half = radix // 2
    defaults = {"l": max(1, half // cables), "s": max(1, half // cables), "p": half, "h": half}
    return {**values, "radix": radix, **{k: values[k] or v for k, v in defaults.items()}}


KIND = Kind(
    NAME,
    "groups of leaves and spines, joined all-to-all by the spines; g1-leaf-1 …, g1-spine-1 …, host-0001 …",
    "Shpiner et al., Dragonfly+: low cost topology for scaling datacenters, HiPINEB 2017",
    (
        Parameter("g", "whole", "groups, at most s*h + 1", required=True),
        Parameter("l", "whole", "leaves of a group; by default half the radix", high=254),
        Parameter("s", "whole", "spines of a group; by default half the radix", high=254),
        Parameter("p", "whole", "hosts of a leaf; by default half the radix", high=254),
        Parameter("h", "whole", "global cables of a spine; by default half the radix", high=254),
        Parameter("parallel", "whole", "cables between a leaf and each spine of its group", 1, high=127),
        radix_parameter(),
    ),
    build,
)
