"""Candidate designs for a demand: the topologies that can connect the hosts, each with the fewest switches.

A candidate is a generator (:mod:`softib.fabric.topologies`) with its parameters, so that numbers of devices are counted
on the generated fabric and need no second formula.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from softib.errors import InputError, SoftibError
from softib.fabric.model import Fabric
from softib.fabric.topologies.blueprint import Blueprint
from softib.fabric.topologies.fat_tree import host_ports, shape_of
from softib.fabric.topologies.params import MOST_RATIO, default_radix
from softib.fabric.topologies.rail_optimized import UFM_HOSTS, UFM_PORTS
from softib.fabric.topologies.registry import blueprint
from softib.fabric.topologies.wiring import Wiring
from softib.iba.constants import LID_UCAST_MAX
from softib.plural import counted

__all__ = ["DRAGONFLY", "Candidate", "Candidates", "Demand", "candidates"]

FAT_TREE, RAILS, DRAGONFLY = "fat-tree", "rail-optimized", "dragonfly+"
GROUPS = range(2, 33)
"""Numbers of groups of a dragonfly+ that are examined; the paper describes up to 33 groups with switches of radix
64."""


@dataclass(frozen=True)
class Demand:
    """The demand. ``hosts``: number of hosts. ``adapters``: ports of each host on the fabric. ``generation``: speed of
    the links (for example NDR).

    ``gpus``: GPUs of a host (0: none). ``radix``: ports of a switch (None: the catalogue's switch of the generation).
    ``oversubscription``: host ports per uplink of a leaf, 1 or more. ``prefix``: text in front of all names of nodes.
    """

    hosts: int
    adapters: int = 1
    generation: str = "NDR"
    gpus: int = 0
    radix: int | None = None
    oversubscription: float = 1.0
    name: str = "design"
    prefix: str = ""

    def __post_init__(self) -> None:
        for name, value, least in (("hosts", self.hosts, 1), ("adapters", self.adapters, 1)):
            if value < least:
                raise InputError(f"{name} {value}: a design needs at least {counted(least, name.removesuffix('s'))}")
        if not self.oversubscription >= 1:  # NaN included
            raise InputError(
                f"oversubscription {self.oversubscription:g}: use 1 for a full bisection, 2 for half as many uplinks"
            )
        if self.oversubscription > MOST_RATIO:
            raise InputError(
                f"oversubscription {self.oversubscription:g}: use at most {MOST_RATIO} host ports per uplink"
            )

    @classmethod
    def of_gpus(cls, gpus: int, per_host: int = 8, adapters: int | None = None, **options: Any) -> Demand:
        """Return the demand of ``gpus`` GPUs, with ``per_host`` GPUs in a host and, by default, an adapter for each
        GPU. The last host may have fewer GPUs. Raises :class:`InputError` for a number below 1."""
        if gpus < 1 or per_host < 1:
            raise InputError(f"{gpus} GPUs with {per_host} per host: both numbers must be at least 1")
        return cls(-(-gpus // per_host), per_host if adapters is None else adapters, gpus=per_host, **options)

    @property
    def ports(self) -> int:
        """Number of host ports on the fabric."""
        return self.hosts * self.adapters

    @property
    def switch_ports(self) -> int:
        """Ports of a switch."""
        return self.radix or default_radix(self.generation)


@dataclass(frozen=True)
class Candidate:
    """A design: topology ``kind`` with ``parameters``. ``leaf_ports``: largest number of host ports on a leaf."""

    label: str
    kind: str
    parameters: dict[str, Any] = field(hash=False)
    leaf_ports: int
    note: str = ""

    @cached_property
    def blueprint(self) -> Blueprint:
        """Return names, levels and cables of its nodes."""
        return blueprint(self.kind, **self.parameters)

    @cached_property
    def wiring(self) -> Wiring:
        """Return the nodes and cables that it describes."""
        return self.blueprint.wiring

    @cached_property
    def fabric(self) -> Fabric:
        """Return the fabric that it describes."""
        return self.blueprint.build()

    @property
    def remarks(self) -> str:
        """Return the ``note``, and the number of host ports beyond the demand."""
        added = self.blueprint.values.get("ufm", False)
        ufm = f"{UFM_HOSTS} UFM hosts with {UFM_PORTS} ports each are included, in a free slot (ufm: false omits them)"
        return "; ".join(filter(None, (self.note, ufm if added else "")))

    @property
    def room(self) -> int:
        """Number of hosts for which the leaves have ports; at least that of the demand."""
        leaves = int(np.count_nonzero(self.blueprint.node_level == 1))
        slots = leaves * self.leaf_ports // self.parameters.get("rails", self.parameters.get("adapters", 1))
        return slots - bool(self.blueprint.values.get("ufm"))  # UFM has one slot


class Candidates(NamedTuple):
    """The designs that meet a demand."""

    designs: list[Candidate]
    refused: list[str]
    """A line, with the reason, for each kind that cannot meet the demand."""


def candidates(demand: Demand) -> Candidates:
    """Return the designs that meet ``demand``, and one line for each kind that cannot, with the
    reason.

    Raises :class:`InputError` if none can.
    """
    if demand.ports >= LID_UCAST_MAX:
        raise InputError(
            f"no design for {_size(demand)}: a subnet has {LID_UCAST_MAX:,} LIDs for host ports and switches "
            "(IBA 4.1.3); plan several subnets"
        )
    refused: list[tuple[Candidate, str]] = []
    designs = list(_possible(demand, refused))
    if not designs:
        reasons = [why for c, why in refused if c.parameters.get("oversubscription", 1.0) == demand.oversubscription]
        reason = reasons[-1] if reasons else f"no switch of {demand.switch_ports} ports holds it"
        raise InputError(f"no design for {_size(demand)}: {reason}")
    return Candidates(designs, [f"{attempt.label}: {why}" for attempt, why in refused])


def _size(demand: Demand) -> str:
    return f"{counted(demand.hosts, 'host')} x {demand.adapters}"


def _possible(demand: Demand, refused: list[tuple[Candidate, str]]) -> Iterator[Candidate]:
    """Yield the attempts that can be built and that one subnet can address; ``refused`` receives
    the others, each with the reason."""
    for attempt in _attempts(demand):
        try:
            lids = len(attempt.wiring.names)  # each node is a host port or a switch
        except SoftibError as error:
            refused.append((attempt, str(error)))
            continue
        if lids > LID_UCAST_MAX:
            why = f"{lids:,} host ports and switches need a LID each; a subnet has {LID_UCAST_MAX:,} (IBA 4.1.3)"
            refused.append((attempt, why))
        else:
            yield attempt


def _attempts(demand: Demand) -> Iterator[Candidate]:
    """Yield every design that could meet the demand, those of the cheapest shape first."""
    common = {"generation": demand.generation, **({"radix": demand.radix} if demand.radix else {})}
    common |= {"prefix": demand.prefix} if demand.prefix else {}
    radix, ports = demand.switch_ports, demand.ports
    named = {**common, **({"adapters": demand.adapters} if demand.adapters > 1 else {})}
    if ports <= radix:
        yield Candidate("one switch", FAT_TREE, {**named, "levels": 1, "hosts": ports}, radix)
        return
    if demand.adapters > 1 and demand.oversubscription == 1:
        yield from _rail_optimized(demand, common)
    yield from _fat_trees(demand, named)
    design = _dragonfly_plus(demand, named)
    if design is not None:
        yield design


def _rail_optimized(demand: Demand, common: dict[str, Any]) -> Iterator[Candidate]:
    radix, slots = demand.switch_ports, demand.switch_ports // 2
    units = -(-demand.hosts // slots)
    tiers = 2 if units * demand.adapters <= radix else 3
    yield Candidate(
        f"rail-optimized, {tiers} tiers",
        RAILS,
        {
            **common,
            "nodes": demand.hosts,
            "rails": demand.adapters,
            "tiers": tiers,
            **({"nodes_per_unit": slots} if radix % 2 else {}),
        },
        slots,
        "adapter r of every host is on leaf r of its unit: rings and all-to-all inside a rail stay below one leaf",
    )


def _fat_trees(demand: Demand, common: dict[str, Any]) -> Iterator[Candidate]:
    radix, over = demand.switch_ports, demand.oversubscription
    for levels in (2, 3):
        for ratio in (over,) if over > 1 else (1.0, 2.0):
            label = f"fat tree, {levels} tiers" + (f", {ratio:g}:1" if ratio != 1 else "")
            taken = {**common, "levels": levels, "hosts": demand.ports}
            if ratio != 1:
                taken["oversubscription"] = ratio
            usual = host_ports(radix, ratio), int(radix / (1 + ratio))
            hosts, uplinks = _leaf_of_the_smallest(radix, demand.ports, ratio, levels) or usual
            # with an odd number of ports, the generator cannot use half of them as uplinks
            if (hosts, uplinks) != usual or radix % 2:
                taken |= {"hosts_per_leaf": hosts, "uplinks": uplinks}
            yield Candidate(label, FAT_TREE, taken, hosts)
        if demand.ports <= host_ports(radix, over) * radix:
            return


def _leaf_of_the_smallest(radix: int, ports: int, ratio: float, levels: int) -> tuple[int, int] | None:
    """Return (host ports, uplinks) of a leaf of the tree with the fewest switches; of several, the one with the most
    host ports, then the most uplinks. None if no tree has ``ports`` host ports.

    The number of spines must divide the uplinks of a leaf. So 25 leaves with 21 uplinks and 42 host ports need 21
    spines, but 26 leaves with 20 uplinks and 40 host ports only 10.
    """
    shapes = []
    for uplinks in range(1, radix):
        hosts = host_ports(radix, ratio, uplinks)
        values = {"levels": levels, "hosts": ports, "parallel": None, "oversubscription": ratio}
        try:
            shape = shape_of(radix, {**values, "hosts_per_leaf": hosts, "uplinks": uplinks}).shape
        except SoftibError:
            continue
        shapes.append((-shape.n_switches, hosts, uplinks))
    return max(shapes)[1:] if shapes else None


def _dragonfly_plus(demand: Demand, common: dict[str, Any]) -> Candidate | None:
    """Return the dragonfly+ with the fewest switches that meets the demand with full bisection inside a group. A leaf
    has p hosts and p uplinks; a spine has as many cables to other groups as to leaves."""
    radix, ports = demand.switch_ports, demand.ports
    half = radix // 2
    best: tuple[int, int, dict[str, Any]] | None = None
    for groups in GROUPS:
        for leaves in range(2, half + 1):
            p = -(-ports // (groups * leaves))
            if not 1 <= p <= half or groups * leaves * p - ports >= demand.adapters * groups:
                continue
            spines = -(-p * leaves // half)
            while spines <= half and p % spines:
                spines += 1
            if spines < 2 or spines > min(half, p) or groups - 1 > spines * half:
                continue
            h = -(-p * leaves // spines)
            if h > half:
                continue
            shape = {"g": groups, "l": leaves, "s": spines, "p": p, "h": h, "parallel": p // spines}
            shape |= {"hosts": ports} if ports < groups * leaves * p else {}
            key = (groups * (leaves + spines), groups * leaves * p)
            if best is None or key < best[:2]:
                best = (*key, shape)
    if best is None:
        return None
    return Candidate(
        f"dragonfly+, {best[2]['g']} groups",
        DRAGONFLY,
        {**common, **best[2]},
        best[2]["p"],
        "groups joined directly: cheapest to grow by groups; needs adaptive routing under uneven traffic",
    )
