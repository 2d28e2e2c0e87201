"""Forwarding tables of a source, with their proof. The tables are those of a dump, those in the switches of a running
fabric, or those that softib's subnet manager writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from softib.analysis.model import OtherSubnet, SwitchRoutes
from softib.analysis.routing import Routed, Steps, from_engine, from_unmanaged, judge, note_parts
from softib.components import components
from softib.errors import InputError, PeerError, SoftibError
from softib.fabric.end_ports import valid_lids
from softib.fabric.formats.base import Problem, ReadResult
from softib.fabric.model import Fabric
from softib.fabric.subnets import managed_subnets, master_port, one_subnet, subnet_of, subnets_by_lids
from softib.iba.constants import LFT_NO_ROUTE
from softib.iba.smp import PortInfo, SwitchInfo
from softib.plural import counted, plural
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import NO_PATH

__all__ = ["RUNNING", "as_programmed", "from_file", "routed"]

DUMPS = "a dump of tables has none"
RUNNING = "running"
"""Format of a source that is a running fabric."""
PER_SUBNET = ("path_sls", "pair_sls")
"""Keys in the reader's result of a running fabric whose data depends on the port from which it is queried."""


ONE_VL = "all paths taken on one VL, which has no credit loop; then paths on several VLs have none"
"""Note for the case that SLs were not queried because they do not matter. The check treats the VLs of a link as a
single channel, so it would also find a loop over several VLs."""


def routed(
    result: ReadResult,
    engine: str | None,
    lfts: str | None,
    steps: Steps,
    guid_files: Mapping[str, str | None] | None = None,
) -> Routed:
    """Return the forwarding tables for ``result``: those of the dump ``lfts``, those of a running fabric, or newly
    computed ones (if ``engine`` or ``guid_files`` is given, or if there are no other tables)."""
    if lfts:
        return from_file(result, lfts, steps)
    if result.format == RUNNING and engine is None and all(v is None for v in (guid_files or {}).values()):
        return as_programmed(result, steps)
    return from_engine(result, engine, steps, guid_files)


def as_programmed(result: ReadResult, steps: Steps) -> Routed:
    """Analyse the tables in the switches of a running fabric, up to the LinearFDBTop of each switch, for each subnet
    with a separate manager. The default port's subnet comes first. If all traffic on one VL could deadlock, the paths'
    SLs are queried from the subnet administration (``path_sls`` of the source) and followed through the SL2VL tables in
    the switches; if they are unavailable, the proof states that all paths use one SL. Raises :class:`PeerError` if no
    manager has run yet.
    """
    fabric = result.fabric
    if not SwitchInfo.linear_fdb_top.get(fabric.switch_info).any() and (fabric.sizes.switches or not fabric.lid.any()):
        raise PeerError(
            "no switch has forwarding tables, because no subnet manager has run yet; use an engine to route a copy of "
            "the fabric"
        )
    subnets = managed_subnets(fabric)
    if len(subnets) < 2:
        return note_parts(_subnet_as_programmed(result, steps))
    every = []
    for ends in subnets:
        per_port = {name: partial(result.extra[name], port=int(ends[0])) for name in PER_SUBNET if name in result.extra}
        alone = replace(result, fabric=one_subnet(fabric, ends), extra={**result.extra, **per_port})
        every.append(_subnet_as_programmed(alone, steps))
    names = [f"managed by {fabric.port_name(master_port(fabric, ends))}" for ends in subnets]
    return _first_of(fabric, subnets, names, every)


def _first_of(fabric: Fabric, subnets: list[np.ndarray], names: list[str], every: list[Routed]) -> Routed:
    """Return the first of ``every``, with a note that names its subnet, and with a summary of the tables of the other
    ``subnets``."""
    compute = fabric.is_host[fabric.port_node]
    for ends, of in zip(subnets, every, strict=True):
        of.part.ports_without_lid -= int(compute[np.setdiff1d(fabric.end_ports(), ends)].sum())
    sizes = [counted(int(compute[ends].sum()), "host port") for ends in subnets]
    others = ", another ".join(f"{name} ({size})" for name, size in zip(names[1:], sizes[1:], strict=True))
    first = every[0].part
    first.notes.insert(
        0, f"{len(names)} subnets: these are the tables of the one {names[0]} ({sizes[0]}); another is {others}"
    )
    first.other_subnets = [
        OtherSubnet(
            name,
            int(compute[ends].sum()),
            of.part.unreachable,
            of.part.ports_without_lid,
            of.part.deadlock_free,
        )
        for name, ends, of in zip(names[1:], subnets[1:], every[1:], strict=True)
    ]
    return replace(every[0], others=every[1:])


def _subnet_as_programmed(result: ReadResult, steps: Steps) -> Routed:
    from softib.routing.proof.credit_loops import has_credit_loop
    from softib.scenario.graph_view import graph_of, vls_of

    fabric = result.fabric
    with steps("proof"):
        graph = graph_of(fabric)
        lft = fabric.lft[:, : graph.lft_size].copy()
        top = SwitchInfo.linear_fdb_top.get(fabric.switch_info)
        lft[np.arange(lft.shape[1]) > top[:, None]] = LFT_NO_ROUTE
        loops = has_credit_loop(graph, lft)
    vl_tables: dict[str, Any] = {"notes": [ONE_VL]}
    if loops:
        with steps("asking for the paths' SLs"):
            vl_tables = _sls(result, graph)
        if "path_sl" in vl_tables:
            vl_tables |= vls_of(fabric, graph)._asdict()
    with steps("proof"):
        part, proof, even = judge(fabric, graph, lft, "as programmed", "as they are in the switches", **vl_tables)
    return Routed(
        fabric, graph, lft, part, proof, even, path_sl=vl_tables.get("path_sl"), ask_sls=result.extra.get("pair_sls")
    )


def _sls(result: ReadResult, graph: SwitchGraph) -> dict[str, Any]:
    """Return the keyword arguments ``path_sl`` and a note on its source, or ``assumed``, the reason why there are no
    SLs."""
    ask = result.extra.get("path_sls")
    if ask is None:
        return {"assumed": "this source does not provide them"}
    try:
        sls = ask(graph)
    except SoftibError as error:
        return {"assumed": str(error)}
    used = np.unique(sls[sls != NO_PATH]).tolist()
    return {
        "path_sl": sls,
        "notes": [f"paths' SLs from the subnet administration: {', '.join(map(str, used))}"],
    }


def from_file(result: ReadResult, path: str, steps: Steps) -> Routed:
    """Analyse the tables of a dump. Ports without a unique LID in the fabric's file (netlists,
    ``.topo``) get it from the dump's destinations. Raises :class:`InputError` if neither file has
    LIDs.
    """
    from softib.fabric.formats.lft.dump import read_lfts

    fabric, unknown = _with_lids_of(result.fabric, path)
    with steps("reading tables"):
        lft, problems = read_lfts(path, fabric)
    fabric, notes = _without_unrouted_parts(fabric, lft)
    problems = [*unknown, *problems]
    if not (subnets := subnets_by_lids(fabric)):
        return note_parts(_subnet_of_file(fabric, path, lft, notes, problems, steps))
    fabric = _with_tables(fabric, lft, lft.shape[1] - 1)
    alone = [one_subnet(fabric, ends) for ends in subnets]
    every = [_subnet_of_file(one, path, one.lft[:, : lft.shape[1]], list(notes), problems, steps) for one in alone]
    return _first_of(fabric, subnets, [f"of {fabric.port_name(int(ends[0]))}" for ends in subnets], every)


def _subnet_of_file(
    fabric: Fabric, path: str, lft: np.ndarray, notes: list[str], problems: list[Problem], steps: Steps
) -> Routed:
    from softib.scenario.graph_view import graph_of

    with steps("proof"):
        graph = graph_of(fabric)
        fabric = _with_tables(fabric, lft, graph.lft_size - 1)
        lft = lft[:, : graph.lft_size]
        part, proof, even = judge(fabric, graph, lft, "file", f"read from {path}", notes=notes, assumed=DUMPS)
    # The routes from every switch to every LID of another end port.
    routes = (proof.switch_switch, proof.switch_ca)
    arrived, total = sum(p.arrived for p in routes), sum(p.total for p in routes) - from_unmanaged(graph)
    part.switch_routes = SwitchRoutes(total, arrived)
    return Routed(fabric, graph, lft, part, proof, even, problems=problems)


def _with_tables(fabric: Fabric, lft: np.ndarray, top: int) -> Fabric:
    """Return a copy of ``fabric`` whose switches have ``lft``, up to LID ``top`` (LinearFDBTop),
    for simulations with these tables."""
    fabric = fabric.copy()
    fabric.lft[:, : lft.shape[1]] = lft
    SwitchInfo.linear_fdb_top.set(fabric.switch_info, top)
    return fabric


def _with_lids_of(fabric: Fabric, path: str) -> tuple[Fabric, list[Problem]]:
    """Return ``fabric``, or a copy in which ports without a unique LID have the LID from the dump."""
    from softib.fabric.formats.lft.dump import read_lids

    ports, valid = valid_lids(fabric)
    if valid.all():
        return fabric, []
    lids, unknown = read_lids(path, fabric)
    if not valid.any() and not lids.any() and not fabric.lid.any():
        raise InputError(
            f"{fabric.source.path}: neither this file nor {path} has LIDs, without which tables cannot be read; use a "
            f"file with LIDs"
        )
    stated, dumped = (subnet_of(fabric)[ports] << 17 | lid[ports].astype(np.int64) for lid in (fabric.lid, lids))
    filled = ports[~valid & (lids[ports] > 0) & ~np.isin(dumped, stated[valid])]
    if len(filled):
        fabric = fabric.copy()
        PortInfo.lid.set(fabric.port_info, lids[filled], filled)
    return fabric, [] if valid.any() else unknown


def _without_unrouted_parts(fabric: Fabric, lft: np.ndarray) -> tuple[Fabric, list[str]]:
    """Return ``fabric``, or a copy in which the parts whose switches have no table entry have no LIDs, because the
    manager that wrote the tables did not see them."""

    ends = fabric.cable_port[(fabric.cable_port >= 0).all(axis=1)]
    part = components(fabric.sizes.nodes, fabric.port_node[ends[:, 0]], fabric.port_node[ends[:, 1]])
    seen = np.zeros(fabric.sizes.nodes, bool)
    seen[part[fabric.switch_node[(lft != LFT_NO_ROUTE).any(axis=1)]]] = True
    unrouted = ~seen[part]
    ports = np.flatnonzero(unrouted[fabric.port_node] & (fabric.lid > 0))
    if not len(ports) or not seen.any():
        return fabric, []
    fabric = fabric.copy()
    PortInfo.lid.set(fabric.port_info, 0, ports)
    return fabric, [
        f"{counted(int(unrouted.sum()), 'node')} {plural(int(unrouted.sum()), 'is', 'are')} "
        f"not connected to the switches of these routing tables; ignored"
    ]
