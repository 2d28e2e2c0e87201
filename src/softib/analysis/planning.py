"""Figures of a design: counts, bisection, and the effect of a failed part. They are computed on the fabric that the
design describes, after the subnet manager has brought the fabric up over MADs like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from softib.analysis.endpoints import endpoints_of
from softib.analysis.pipeline import Steps, quietly
from softib.analysis.prediction import network_of
from softib.components import components
from softib.diags.structure.recognise import recognise
from softib.errors import InputError
from softib.fabric.model import Fabric
from softib.fabric.topologies.cables import apply_cables
from softib.iba.catalogue import CABLES
from softib.plan.designs import DRAGONFLY, Candidate, Candidates, Demand, candidates
from softib.plan.growth import Growth, growth
from softib.plan.plugs import links_of, media_of, power_of, share_cages
from softib.plan.price_book import CostBook, Price, price_of
from softib.plural import counted
from softib.routing.engine import route
from softib.routing.graph import SwitchGraph
from softib.routing.tables import min_hops
from softib.scenario.bring_up import BringUp, bring_up
from softib.scenario.graph_view import graph_of
from softib.sim import static
from softib.sim.static_network import Network
from softib.sm.config import config_of

__all__ = ["Design", "Failure", "Power", "RankedDesigns", "design_of", "designs", "largest_demand", "price_of_size"]

MATCHED_PORTS = 8192
"""Total number of ports in all random matchings of a design. For any size of fabric, the relative standard error of the
effective bisection is 0.5 to 0.9 divided by the square root of this number, which is at most 1 %."""
MOST_SAMPLES = 128
TIERS = ("host", "leaf", "spine", "core")
HOST_M, FABRIC_M = 3.0, 20.0
"""Cable lengths in metres that are assumed without a floor plan: to hosts (within a row), and between switches (between
rows). ``softib plan cables`` computes the lengths from a floor plan."""


@dataclass(frozen=True)
class Failure:
    """``part``: the device or cable that fails. ``lost``: number of host ports that the manager no longer reaches.
    ``effective``: effective bisection of the other host ports, relative to their own links, with the tables that the
    subnet manager writes after the failure."""

    part: str
    lost: int
    effective: float


@dataclass(frozen=True)
class Power:
    """Power in watts of switches, adapters and cables (both ends), as far as the catalogue contains it. ``unknown``:
    device without a published figure → number of such devices."""

    watts: float
    unknown: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Design:
    """A candidate with its figures.

    ``switches`` and ``cables`` by tier; ``host_ports``; ``hops``: number of switches on the longest
    of the shortest paths; ``bisection``: bandwidth of the narrowest bisection relative to the hosts' links, None if
    there is none; ``effective``: effective bisection relative to the hosts' links; ``failures``: effect of each part's
    failure; ``growth``: the changes needed for twice the hosts, None if no design of this kind supports that number;
    ``price``: that of adapters, switches and cables.
    """

    candidate: Candidate
    fabric: Fabric
    host_ports: int
    switches: dict[str, int]
    cables: dict[str, int]
    hops: int
    bisection: float | None
    effective: float
    failures: tuple[Failure, ...]
    growth: Growth | None
    power: Power
    price: Price


class RankedDesigns(NamedTuple):
    """The designs that meet a demand, with their figures, best first."""

    designs: list[Design]
    refused: list[str]
    """A line for each kind of design that cannot meet the demand, with the reason."""


def designs(demand: Demand, book: CostBook, *, seed: int = 0, steps: Steps = quietly) -> RankedDesigns:
    """Return every design that meets ``demand``, trees with the requested oversubscription and the fewest switches
    first, and one line for each kind that cannot. ``steps`` is entered with the label of each design
    while its figures are computed.
    """
    shapes, refused = _in_order(demand)
    twice: dict[str, Candidate] = {}
    try:
        twice = {_family(c): c for c in candidates(replace(demand, hosts=2 * demand.hosts)).designs}
    except Exception as error:
        refused.append(f"twice the hosts: {error}")
    accepted = []
    for shape in shapes:
        with steps(shape.label):
            accepted.append(design_of(shape, demand.name, book, twice.get(_family(shape)), seed))
    return RankedDesigns(accepted, refused)


def _in_order(demand: Demand) -> Candidates:
    """Return the designs for ``demand``, and the refused kinds. Trees with the requested oversubscription come first,
    then a dragonfly+, whose bisection between groups is smaller, then trees with another oversubscription. Among each,
    the fewest switches come first, then the fewest cables between switches (UFM's cables, which some designs include,
    do not count)."""
    shapes, refused = candidates(demand)
    other = lambda c: c.parameters.get("oversubscription", 1) != demand.oversubscription
    order = lambda c: (
        2 * other(c) if c.kind != DRAGONFLY else 1,
        int(c.wiring.is_switch.sum()),
        c.wiring.between_switches,
    )
    return Candidates(sorted(shapes, key=order), refused)


def design_of(shape: Candidate, name: str, book: CostBook, twice: Candidate | None = None, seed: int = 0) -> Design:
    """Return the figures of one candidate. ``twice``: the design for twice the number of hosts."""
    fabric = shape.fabric
    fabric.name = name
    generator = fabric.source.generator
    _cut_cables(fabric)
    cut = recognise(fabric).bisection
    up = _brought_up(fabric)
    ports = _port(up.fabric, up.graph, endpoints_of(up.fabric, up.graph).row)
    effective, hops, _ = _figures(up.fabric, up.graph, up.routing.lft, ports, seed)
    level = generator["node_level"]
    by_tier = np.bincount(generator["cable_tier"], minlength=len(generator["tiers"]))
    return Design(
        candidate=shape,
        fabric=fabric,
        host_ports=int(np.count_nonzero(level == 0)),
        switches={_tier(k): int(np.count_nonzero(level == k)) for k in range(1, generator["levels"] + 1)},
        cables={tier: int(n) for tier, n in zip(generator["tiers"], by_tier, strict=True)},
        hops=hops,
        bisection=None if cut.percent is None else cut.percent / 100,
        effective=effective,
        failures=tuple(_failures(up, level, ports, seed)),
        growth=None if twice is None else growth(shape.wiring, twice.wiring),
        power=_power(fabric, shape.parameters["generation"]),
        price=price_of(book, fabric, shape.parameters["generation"], whole=True),
    )


def _cut_cables(fabric: Fabric) -> None:
    """Set the length of each cable to that of its tier."""
    apply_cables(
        fabric, "auto", {t: HOST_M if t == "host-leaf" else FABRIC_M for t in fabric.source.generator["tiers"]}
    )


def price_of_size(demand: Demand, book: CostBook) -> Price:
    """Return the price (``Design.price``) of the first design for ``demand``."""
    fabric = _in_order(demand)[0][0].fabric
    _cut_cables(fabric)
    return price_of(book, fabric, demand.generation, whole=True)


def largest_demand(demand: Demand, book: CostBook, budget: float) -> Demand:
    """Return ``demand`` with the largest number of hosts for which the first design costs at most ``budget``. The mean
    of the price range counts.

    Raises :class:`~softib.errors.InputError` if one host costs more, or if the book lacks a price.
    """

    def affordable(hosts: int) -> bool:
        price = price_of_size(replace(demand, hosts=hosts), book)
        if price.missing:
            raise InputError(f"a budget needs the price of {', '.join(price.missing)}; add it to a cost book")
        return price.middle <= budget

    if not affordable(1):
        raise InputError(
            f"budget {budget:,.0f} does not pay for one host, a switch and their cables; use a larger budget"
        )
    fits, over = 1, 2
    try:
        while affordable(over):
            fits, over = over, 2 * over
    except InputError as error:
        raise InputError(f"budget {budget:,.0f} pays for more than {counted(fits, 'host')}; {error}") from None
    while over - fits > 1:
        half = (fits + over) // 2
        fits, over = (half, over) if affordable(half) else (fits, half)
    return replace(demand, hosts=fits)


def _family(shape: Candidate) -> str:
    """Return the kind and oversubscription of a design, which stay the same when it grows."""
    return f"{shape.kind} {shape.parameters.get('oversubscription', 1)}"


def _tier(level: int) -> str:
    return TIERS[level] if level < len(TIERS) else f"level {level}"


def _brought_up(fabric: Fabric) -> BringUp:
    """Bring ``fabric`` up with a subnet manager on its last host."""
    return bring_up(fabric, node=int(fabric.cas[-1]), config=config_of({}))


def _port(fabric: Fabric, graph: SwitchGraph, ends: np.ndarray) -> np.ndarray:
    """Return the port rows of ``fabric`` for the rows ``ends`` among the end ports of ``graph``."""
    return fabric.node_base[graph.end_node[ends]] + graph.end_portnum[ends]


def _figures(
    fabric: Fabric, graph: SwitchGraph, lft: np.ndarray, ports: np.ndarray, seed: int
) -> tuple[float, int, int]:
    """Return three figures for those of ``ports`` that are in ``graph``: the effective bisection, the number of
    switches on the longest of the shortest paths, and the number of these ports."""
    end_of = np.full(fabric.sizes.ports, -1, np.int32)
    compute = np.flatnonzero(graph.end_is_compute & (graph.end_node >= 0))
    end_of[_port(fabric, graph, compute)] = compute
    ends = end_of[ports][end_of[ports] >= 0]
    if len(ends) < 2:
        return 0.0, 0, len(ends)
    network = network_of(fabric, graph, lft, ends)
    hops = min_hops(graph).hops
    with_hosts = np.unique(network.host_switch)
    between = hops[np.ix_(with_hosts, with_hosts)]
    longest = int(between[between < 255].max(initial=0)) + 1
    return _effective(network, seed), longest, network.n_hosts


def _effective(network: Network, seed: int) -> float:
    """Return the effective bisection relative to the hosts' links."""
    samples = min(-(-MATCHED_PORTS // network.n_hosts), MOST_SAMPLES)
    return static.effective_bisection(network, samples, seed).relative


def _failures(up: BringUp, level: np.ndarray, ports: np.ndarray, seed: int) -> list[Failure]:
    """Return the effect of a dead switch in each tier, and of a dead cable between switches, one at a time. The
    manager's engine computes new tables without the dead part."""
    fabric = up.fabric
    hosts = int(np.count_nonzero(level == 0))
    parts: list[tuple[str, np.ndarray]] = []
    for k in range(1, int(level.max()) + 1):
        node = int(np.flatnonzero(level == k)[0])
        parts.append((f"{_tier(k)} {fabric.node_name(node)}", np.array(fabric.ports_of(node))))
    inner = np.flatnonzero((level[fabric.port_node[fabric.cable_port]] > 0).all(axis=1))
    if len(inner):
        port = int(fabric.cable_port[inner[0], 0])
        parts.append((f"cable {fabric.port_name(port)}", np.array([port])))
    failures = []
    for part, dead in parts:
        graph, lft = _without(up, dead)
        effective, _, alive = (0.0, 0, 0) if graph is None else _figures(fabric, graph, lft, ports, seed)
        failures.append(Failure(part, hosts - alive, effective))
    return failures


def _without(up: BringUp, dead_ports: np.ndarray) -> tuple[SwitchGraph | None, np.ndarray]:
    """Return the part of the fabric that the manager reaches if ``dead_ports`` are down (None:
    nothing), and the tables that the manager's engine computes for it with the roots of the whole
    tree."""
    fabric, whole = up.fabric, up.routing
    dead = np.zeros(fabric.sizes.ports, bool)
    dead[dead_ports] = True
    peer = int(fabric.port_peer[up.port])
    if dead[peer] or dead[up.port]:
        return None, whole.lft
    part = components(fabric.sizes.nodes, *_joined(fabric, dead))
    dead |= (part != part[fabric.port_node[up.port]])[fabric.port_node]
    graph = graph_of(fabric, dead)
    config = up.sm.config
    roots = whole.roots if whole.engine == "ftree" else ()
    return graph, route(graph, config.engines, replace(config.options, past_roots=roots)).lft


def _joined(fabric: Fabric, dead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes at both ends of each cable that works."""
    ports = fabric.cable_port[(fabric.cable_port >= 0).all(axis=1)]
    nodes = fabric.port_node[ports[~dead[ports].any(axis=1)]]
    return nodes[:, 0], nodes[:, 1]


def _power(fabric: Fabric, generation: str) -> Power:
    """Return the power of the fabric from catalogue figures. Each cable has the cheapest plugs that reach over its
    length."""
    links = links_of(fabric, generation)
    kind = None
    if any(c.generation == generation for c in CABLES):
        media = media_of(generation)
        reach = np.maximum.accumulate([c.reach_m for c in media])
        kind = np.minimum(np.searchsorted(reach, fabric.cable_length_m[links.row]), len(media) - 1)
        kind = share_cages(links, kind)
    power = power_of(links, kind, fabric.sizes.switches)
    return Power(power.watts, tuple(sorted(power.unknown.items())))
