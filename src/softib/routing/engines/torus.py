"""``torus-2QoS``: dimension order on a 2D or 3D torus or mesh, free of credit loops by SLs
(torus-2QoS(8), OpenSM's engine).

The SL of a path has one bit for each dimension whose dateline it crosses (bit 0: x, 1: y, 2: z);
bit 3 is available for QoS. On links between switches, VL bit 0 is the SL's bit for the dimension of
the link. VL bit 1 is set if the packet has just turned against the order of dimensions (only next
to a missing switch). VL bit 2 is SL bit 3. On links to CAs and on switches' own ports, the VL is SL
bit 3.

``RouteOptions.torus_config`` is the text of a torus-2QoS.conf(5). Coordinates start at the first
seed whose switches all exist. If a ring is broken, paths use its other direction. If a switch is
missing, paths turn one step earlier. The result is checked: if a pair has no path, or if missing
switches make a credit loop, the engine rejects the graph, as OpenSM's does.

There is one difference from OpenSM: if both directions of a ring are equally long, paths go up from
odd coordinates and down from even ones; OpenSM chooses differently. The manager makes the multicast
trees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from softib.plural import counted, plural
from softib.routing.engine import RouteOptions, Routing
from softib.routing.engines.minhop import DoesNotFit, by_minhop
from softib.routing.engines.torus_config import Seed, TorusConfig, parse
from softib.routing.engines.torus_kernels import Grid, dateline_sls, next_links, place, reach, ring_links
from softib.routing.graph import SwitchGraph
from softib.routing.proof.verify import verify
from softib.routing.tables import cables_of_ends, cas_per_switch, switch_tables

__all__ = ["Torus", "end_map", "recognise", "route", "vl_map"]

DATA_VLS = 8


@dataclass(frozen=True)
class Torus:
    """A graph interpreted as a torus. ``position`` int32[n, 3]: coordinates of each switch (-1 =
    not placed). ``at`` int32[X, Y, Z]: the switch at a position (-1 = none). ``link`` int32[n, 3,
    2]: a link down and one up each axis (-1 = none). ``strange``: links that do not connect
    neighbours."""

    config: TorusConfig
    position: np.ndarray
    at: np.ndarray
    link: np.ndarray
    strange: int

    @property
    def radix(self) -> np.ndarray:
        """Return int32[dimensions]: the number of switches in a ring."""
        return np.array(self.config.radix, np.int32)

    @property
    def wraps(self) -> np.ndarray:
        """Return bool[dimensions]: True for a ring, False for a line."""
        return np.array(self.config.wraps, np.bool_)


def route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    """Return tables, SLs and SL2VL of the torus. If ``graph`` is not a torus, return minhop's
    tables, with the reason in ``notes``."""
    try:
        return _route(graph, options)
    except DoesNotFit as why:
        return by_minhop(graph, options, "torus-2QoS", why)


def _route(graph: SwitchGraph, options: RouteOptions) -> Routing:
    if not options.torus_config.strip():
        raise DoesNotFit("no torus-2QoS.conf is given")
    torus = recognise(graph, parse(options.torus_config))
    n = graph.n_switches
    radix, wraps = torus.radix, torus.wraps
    clear, via = np.empty((n, 3, 2), np.int32), np.empty((n, n), np.int32)
    reach(radix, wraps, torus.at, torus.position, torus.link, clear)
    next_links(radix, wraps, torus.at, torus.position, torus.link, clear, via)
    sl = np.empty((n, n), np.uint8)
    dateline_sls(radix, wraps, torus.position, sl)
    lft = switch_tables(graph, via, _cables_by_order(graph, torus.config))
    routing = Routing(
        "torus-2QoS",
        lft,
        sl[:, graph.end_switch],
        vl_map(graph, torus),
        end_sl2vl=end_map(),
        vls=4 if torus.strange or (torus.at < 0).any() else 2,
    )
    shape = " x ".join(f"{r}{'' if w else 'm'}" for r, w in zip(torus.config.radix, torus.config.wraps, strict=True))
    routing.notes.append(f"torus {shape}; {counted(int(np.count_nonzero(torus.at < 0)), 'position')} without a switch")
    if torus.strange:
        routing.notes.append(
            f"{counted(torus.strange // 2, 'cable')} {plural(torus.strange // 2, 'joins', 'join')} no neighbours of "
            f"it; not used"
        )
    whole = (
        torus.at.size == n and (clear == np.where(wraps | (radix == 1), radix - 1, clear.min())[None, :, None]).all()
    )
    if not (whole and wraps[radix > 1].all()):
        _prove(graph, routing)
    return routing


def _prove(graph: SwitchGraph, routing: Routing) -> None:
    proof = verify(graph, routing.lft, routing.path_sl, routing.sl2vl, DATA_VLS)
    if proof.ca_ca.lost:
        raise DoesNotFit(
            f"interrupted rings or missing switches leave {counted(proof.ca_ca.lost, 'pair')} of CAs without a path"
        )
    if proof.credit_loop is not None:
        raise DoesNotFit(f"the missing switches make a credit loop of {len(proof.credit_loop)} channels")
    if proof.answer_loop is not None or proof.switch_loop is not None:
        routing.notes.append("answers with the SL of the request can make a credit loop next to the missing switches")
    if proof.unreachable:
        routing.notes.append(f"{counted(proof.unreachable, 'pair')} of a CA and a switch without CAs: no path")


def recognise(graph: SwitchGraph, config: TorusConfig) -> Torus:
    """Place the switches of ``graph``. Raise :class:`DoesNotFit` if no seed is complete, or if a
    switch with CAs has no position."""
    by_guid = {int(g): s for s, g in enumerate(graph.switch_guid)}
    seed = next(
        (s for s in config.seeds if s.links and all(g in by_guid for pair in s.links.values() for g in pair)), None
    )
    if seed is None:
        raise DoesNotFit("no seed of torus-2QoS.conf has all its switches in the fabric")
    at = np.full(config.radix, -1, np.int32)
    position = np.full((graph.n_switches, 3), -1, np.int32)
    _plant(config, seed, by_guid, at, position)
    torus = Torus(config, position, at, np.empty((graph.n_switches, 3, 2), np.int32), 0)
    grid = Grid(graph.first, graph.peer, torus.radix, torus.wraps, at, position)
    place(grid)
    strange = ring_links(grid, torus.link)
    lost = np.flatnonzero((position[:, 0] < 0) & (cas_per_switch(graph) > 0))
    if len(lost):
        where = f"{int(graph.switch_guid[lost[0]]):#018x}"
        raise DoesNotFit(
            f"{counted(len(lost), 'switch')} with CAs {plural(len(lost), 'has', 'have')} no position in the torus, "
            f"the first {where}; check radixes and seed"
        )
    _check_ports(graph, torus)
    return Torus(config, position, at, torus.link, strange)


def _check_ports(graph: SwitchGraph, torus: Torus) -> None:
    """Check the numbers of ports. ``portgroup_max_ports`` limits the number of parallel cables
    between two neighbours, and the number of a switch's CAs plus its own port. ``port_order`` must
    name ports that all switches have. OpenSM rejects a fabric that violates this.
    """
    config, n = torus.config, graph.n_switches
    owner, placed = graph.link_switch.astype(np.int64), torus.position[:, 0] >= 0
    both = placed[owner] & placed[graph.peer]
    _, cables = np.unique(owner[both] * n + graph.peer[both], return_counts=True)
    most = max(int(cables.max(initial=0)), int((cas_per_switch(graph) + 1)[placed].max(initial=0)))
    if most > config.max_ports:
        raise DoesNotFit(
            f"a switch has {most} ports in the same direction, more than portgroup_max_ports {config.max_ports}"
            " (its own port 0 counts as a CA)"
        )
    fewest = int(graph.switch_nports.min(initial=254))
    beyond = [p for p in config.port_order[: fewest + 1] if p > fewest]
    if beyond:
        raise DoesNotFit(f"port_order names port {beyond[0]}, but a switch has {fewest}")


def _plant(config: TorusConfig, seed: Seed, by_guid: dict[int, int], at: np.ndarray, position: np.ndarray) -> None:
    """Place the switches of the seed. The position of their common switch is minus the shift of the
    dateline."""
    radix = config.radix
    origin = [-shift % r for shift, r in zip(seed.dateline, radix, strict=True)]
    common = next(iter(seed.links.values()))[0]
    for axis in range(3):
        if radix[axis] > 1 and not {(axis, 1), (axis, -1)} & set(seed.links):
            raise DoesNotFit(f"the seed has no link along {'xyz'[axis]}")
    spots = [(common, origin)]
    for (axis, sign), (_, guid) in seed.links.items():
        spot = list(origin)
        spot[axis] += sign
        if config.wraps[axis]:
            spot[axis] %= radix[axis]
        elif not 0 <= spot[axis] < radix[axis]:
            raise DoesNotFit(f"a seed link along {'xyz'[axis]} leaves the mesh")
        spots.append((guid, spot))
    for guid, spot in spots:
        switch, where = by_guid[guid], tuple(spot)
        if (at[where] >= 0 and at[where] != switch) or (position[switch, 0] >= 0 and position[switch].tolist() != spot):
            raise DoesNotFit(f"the seed gives two positions for {guid:#018x}, or one position to two switches")
        at[where] = switch
        position[switch] = spot


def _cables_by_order(graph: SwitchGraph, config: TorusConfig) -> np.ndarray | None:
    """Return the order in which a switch's CA ports are distributed over parallel cables: ports in
    ``port_order`` first, then by number."""
    if not config.port_order:
        return None
    place = np.full(256, 255, np.int64)
    place[config.port_order] = np.arange(len(config.port_order))
    return cables_of_ends(graph, place)


def vl_map(graph: SwitchGraph, torus: Torus) -> np.ndarray:
    """Return uint8[n, ports + 1, ports + 1, 16]: VL by switch, input, output and SL."""
    n, ports = graph.n_switches, int(graph.switch_nports.max(initial=0)) + 1
    axis = np.full((n, ports), -1, np.int8)  # -1: a CA, the switch itself, or no device
    owner = graph.link_switch
    moved = torus.position[graph.peer] != torus.position[owner]
    good = (torus.position[owner, 0] >= 0) & (torus.position[graph.peer, 0] >= 0) & (moved.sum(axis=1) == 1)
    axis[owner[good], graph.out_port[good]] = moved[good].argmax(axis=1)
    sl = np.arange(16)
    by_axis = np.stack([sl >> 3, *[(sl >> d & 1) | (sl >> 3) << 2 for d in range(3)]]).astype(np.uint8)
    out = by_axis[axis + 1]  # [n, output, SL]
    against = (axis[:, :, None] > axis[:, None, :]) & (axis[:, None, :] >= 0)
    table: np.ndarray = out[:, None] | (against.astype(np.uint8) << 1)[..., None]
    return table


def end_map() -> np.ndarray:
    """Return uint8[16]: VL by SL on CA ports."""
    return (np.arange(16) >> 3).astype(np.uint8)
