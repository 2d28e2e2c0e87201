"""``dragonfly``: switches of a group are connected all-to-all, and so are the groups.
``dragonfly+``: each group is a two-tier tree, with hosts on leaves and global cables on spines.

Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008: a
switch has p hosts and h global cables, and a group has a switches. The radix is k = p + a + h - 1;
there are at most g = a h + 1 groups and N = a p g hosts. The network is balanced if a = 2p = 2h.
Any two switches are at most 3 hops apart (local, global, local).

Shpiner, Haramaty, Eliad, Zdornov, Gafni and Zahavi, "Dragonfly+: low cost topology for scaling
datacenters", HiPINEB 2017: every leaf of a group is cabled to every spine of the group, and spines
of different groups are cabled to each other. The network is balanced if half of each switch's ports
lead in each direction. It has at most s h + 1 groups (s spines per group). Two leaves are at most 3
hops apart (up, global, down), because every leaf is cabled to the spine at which the cable between
the two groups ends.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.topologies.blueprint import Blueprint, check_size, host_names
from softib.fabric.topologies.params import (
    Kind,
    Parameter,
    adapters_parameter,
    default_radix,
    impossible,
    radix_parameter,
)
from softib.plural import counted, plural
from softib.ragged import spread

__all__ = ["KINDS"]


def global_links(groups: int, ports: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return every global cable once, as (group, its port, other group, its port). The global ports
    of each group are numbered from 0 to ``ports`` - 1.

    The ports of a group lead to the other groups in order. Camarero, Vallejo and Beivide (TACO
    2014) call this the consecutive allocation, Hastings et al. (CLUSTER 2015) the absolute one;
    figure 5 of Kim et al. (ISCA 2008) shows it. If there are fewer groups than ``ports + 1``, every
    pair of groups gets the same number of cables, ``ports // (groups - 1)``: first one cable for
    each pair, then the next. The remaining ports stay free.
    """
    others = groups - 1
    rounds = ports // others if others > 0 else 0
    a, b = np.triu_indices(groups, 1)
    r = np.arange(rounds)[:, None]
    # Index of the global port to another group. A group does not count itself: its port to group b
    # is b - 1 if b is a later group, and b's port to the earlier group a is a.
    port_a, port_b = r * others + (b - 1), r * others + a
    group_a, group_b = np.broadcast_to(a, port_a.shape), np.broadcast_to(b, port_b.shape)
    return group_a.ravel(), port_a.ravel(), group_b.ravel(), port_b.ravel()


def _dragonfly(values: dict[str, Any]) -> Blueprint:
    """Build the dragonfly that ``values`` (checked parameters) describe. Ports are used in this
    order: hosts, local cables, global cables."""
    g = values["g"]
    values = _balanced(values)
    p, a, h, radix = values["p"], values["a"], values["h"], values["radix"]
    if g > a * h + 1:
        raise impossible(
            "dragonfly",
            "g",
            f": {counted(g, 'group')} are too many: a group has {a * h} global cables, so use at most {a * h + 1} "
            f"groups",
        )
    if p + a - 1 + h > radix:
        raise impossible(
            "dragonfly",
            "radix",
            f": {counted(radix, 'port')} {plural(radix, 'does', 'do')} not hold {counted(p, 'host')}, {a - 1} local "
            f"and {h} global cables; "
            f"it needs {p + a - 1 + h}",
        )
    check_size("dragonfly", a * p * g, a * g, radix)
    b = Blueprint("dragonfly", values)
    n = np.arange(a * g)
    switch = b.switches(
        [f"g{i // a + 1}-switch-{i % a + 1}" for i in range(a * g)], radix, group=n // a, position=n % a
    )
    i, j = np.triu_indices(a, 1)
    first = np.arange(g)[:, None] * a
    b.links("local", switch[first + i], p + j, switch[first + j], p + 1 + i)
    group_a, port_a, group_b, port_b = global_links(g, a * h)
    start = p + a
    b.links(
        "global",
        switch[group_a * a + port_a // h],
        start + port_a % h,
        switch[group_b * a + port_b // h],
        start + port_b % h,
    )
    at = np.arange(a * p * g)
    host = b.hosts(host_names(len(at)), group=at // (a * p))
    b.links("host-switch", switch[at // p], at % p + 1, host, 1)
    return b


def _balanced(values: dict[str, Any]) -> dict[str, Any]:
    """Fill in missing values: a = 2p = 2h, with the largest value that the radix allows (k = 4h -
    1)."""
    radix = values["radix"]
    given = [values[x] for x in ("p", "a", "h")]
    if None in given:
        base = max(1, ((radix or default_radix(values["generation"])) + 1) // 4)
        defaults = {"p": base, "a": 2 * base, "h": base}
        values = {**values, **{k: values[k] or v for k, v in defaults.items()}}
    need = values["p"] + values["a"] - 1 + values["h"]
    return {**values, "radix": radix or need}


DRAGONFLY = Kind(
    "dragonfly",
    "groups of switches, all-to-all inside and between; g1-switch-1 …, host-0001 …",
    "Kim, Dally, Scott, Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008",
    (
        Parameter("g", "whole", "groups, at most a*h + 1", required=True),
        Parameter("a", "whole", "switches per group; by default balanced for the radix: a = 2h", high=254),
        Parameter("p", "whole", "hosts per switch; by default balanced: p = h", high=254),
        Parameter("h", "whole", "global cables per switch; by default (radix + 1)/4", high=254),
        Parameter("radix", "whole", "ports per switch; by default p + a - 1 + h", low=3, high=254),
    ),
    _dragonfly,
)


def _dragonfly_plus(values: dict[str, Any]) -> Blueprint:
    """Build the dragonfly+ that ``values`` (checked parameters) describe. The ports of a leaf are
    used for hosts, then for spines; those of a spine for leaves, then for global cables."""
    values = _filled(values)
    g, leaves, spines, p, h, radix, cables = (values[x] for x in ("g", "l", "s", "p", "h", "radix", "parallel"))
    if g > spines * h + 1:
        raise impossible(
            "dragonfly+",
            "g",
            f": {counted(g, 'group')} are too many: a group has {spines * h} global cables, so use at most "
            f"{spines * h + 1} groups",
        )
    for name, first, need in (
        ("p", f"{counted(p, 'host')} and {spines * cables} uplinks of a leaf", p + spines * cables),
        ("h", f"{leaves * cables} leaf and {h} global cables of a spine", leaves * cables + h),
    ):
        if need > radix:
            raise impossible("dragonfly+", name, f": {first} need {counted(need, 'port')}; the switches have {radix}")
    check_size("dragonfly+", g * leaves * p, g * (leaves + spines), radix)
    b = Blueprint("dragonfly+", values)
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
    of_leaf = _hosts_of_leaves(g, leaves, p, values["hosts"])
    at, place = spread(of_leaf)
    host = b.end_hosts(len(at), values["adapters"], group=at // leaves)
    b.links("host-leaf", leaf[at], place + 1, host, 1)
    return b


def _hosts_of_leaves(groups: int, leaves: int, p: int, hosts: int | None) -> np.ndarray:
    """Return the number of hosts on each leaf in use (int64): ``p``, or one fewer on the last
    leaves of each group if there are fewer hosts."""
    of_leaf = np.full(groups * leaves, p)
    if hosts is None:
        return of_leaf
    idle = len(of_leaf) * p - hosts
    if not 0 <= idle < len(of_leaf):
        least = len(of_leaf) * (p - 1) + 1
        raise impossible(
            "dragonfly+",
            "hosts",
            f": {hosts:,}; {counted(len(of_leaf), 'leaf', 'leaves')} with p = {p} hold {least:,} to "
            f"{len(of_leaf) * p:,}; use another p",
        )
    group, position = np.divmod(np.arange(len(of_leaf)), leaves)
    of_leaf[np.lexsort((group, -position))[:idle]] -= 1
    return of_leaf


def _bundled(port: np.ndarray, groups: int, ports: int) -> np.ndarray:
    """Renumber global port ``port`` of a group so that the cables to one other group have adjacent
    numbers. (Before, ports are numbered so that each pair of groups gets one cable, then each the
    next.) Adjacent ports are on different spines, so the number of paths from a leaf to another
    group is the lower of the number of cables to this group and the number of spines.
    """
    others = max(1, groups - 1)
    return port % others * (ports // others) + port // others


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    radix = values["radix"] or default_radix(values["generation"])
    cables = values["parallel"]
    half = radix // 2
    defaults = {"l": max(1, half // cables), "s": max(1, half // cables), "p": half, "h": half}
    return {**values, "radix": radix, **{k: values[k] or v for k, v in defaults.items()}}


DRAGONFLY_PLUS = Kind(
    "dragonfly+",
    "groups of leaves and spines, joined all-to-all by the spines; g1-leaf-1 …, g1-spine-1 …, host-0001 …",
    "Shpiner et al., Dragonfly+: low cost topology for scaling datacenters, HiPINEB 2017",
    (
        Parameter("g", "whole", "groups, at most s*h + 1", required=True),
        Parameter("l", "whole", "leaves per group; by default half the radix", high=254),
        Parameter("s", "whole", "spines per group; by default half the radix", high=254),
        Parameter("p", "whole", "hosts per leaf; by default half the radix", high=254),
        Parameter("hosts", "whole", "host ports, p or p - 1 at each leaf; by default all", high=1 << 20),
        Parameter("h", "whole", "global cables per spine; by default half the radix", high=254),
        Parameter("parallel", "whole", "cables between a leaf and each spine of its group", 1, high=127),
        adapters_parameter(),
        radix_parameter(),
    ),
    _dragonfly_plus,
)


KINDS = (DRAGONFLY, DRAGONFLY_PLUS)
