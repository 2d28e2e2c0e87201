"""``dragonfly``: groups of switches, all-to-all inside, all-to-all between groups.

Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology", ISCA 2008: p
hosts on a switch, a switches in a group, h global cables on a switch; radix k = p + a + h - 1, at
most a h + 1 groups, N = a p g hosts, balanced when a = 2p = 2h. Any two switches are at most 3 hops
apart (local, global, local).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.topologies.blueprint import Blueprint, check_size, host_names
from softib.fabric.topologies.global_links import global_links
from softib.fabric.topologies.params import Kind, Parameter, default_radix, impossible
from softib.plural import counted, plural

__all__ = ["KIND"]

NAME = "dragonfly"


def build(values: dict[str, Any]) -> Fabric:
    """The dragonfly that ``values`` (checked parameters) describe. Ports: hosts, then local, then
    global cables."""
    g = values["g"]
    values = _balanced(values)
    p, a, h, radix = values["p"], values["a"], values["h"], values["radix"]
    if g > a * h + 1:
        raise impossible(
            NAME, "g", f": {counted(g, 'group')}, but a group has {a * h} global cables; at most {a * h + 1} groups"
        )
    if p + a - 1 + h > radix:
        raise impossible(
            NAME,
            "radix",
            f": {counted(radix, 'port')} {plural(radix, 'does', 'do')} not hold {counted(p, 'host')}, {a - 1} local "
            f"and {h} global cables; "
            f"it needs {p + a - 1 + h}",
        )
    check_size(NAME, a * p * g, a * g, radix)
    b = Blueprint(NAME, values)
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
    return b.build()


def _balanced(values: dict[str, Any]) -> dict[str, Any]:
    """Fill in what is not given: a = 2p = 2h, the largest that the radix holds (k = 4h - 1)."""
    radix = values["radix"]
    given = [values[x] for x in ("p", "a", "h")]
    if None in given:
        base = max(1, ((radix or default_radix(values["generation"])) + 1) // 4)
        defaults = {"p": base, "a": 2 * base, "h": base}
        values = {**values, **{k: values[k] or v for k, v in defaults.items()}}
    need = values["p"] + values["a"] - 1 + values["h"]
    return {**values, "radix": radix or need}


KIND = Kind(
    NAME,
    "groups of switches, all-to-all inside and between; g1-switch-1 …, host-0001 …",
    "Kim, Dally, Scott, Abts, Technology-driven, highly-scalable dragonfly topology, ISCA 2008",
    (
        Parameter("g", "whole", "groups, at most a*h + 1", required=True),
        Parameter("a", "whole", "switches of a group; by default balanced for the radix: a = 2h", high=254),
        Parameter("p", "whole", "hosts of a switch; by default balanced: p = h", high=254),
        Parameter("h", "whole", "global cables of a switch; by default (radix + 1)/4", high=254),
        Parameter("radix", "whole", "ports of a switch; by default p + a - 1 + h", low=3, high=254),
    ),
    build,
)
