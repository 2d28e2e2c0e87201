"""Unicast forwarding: make a graph from the database, run an engine, and find the blocks of tables
that changed (IBA 14.2.5.10).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE, SmpAttr
from softib.iba.devices import is_host
from softib.iba.smp import SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.routing.engine import RouteOptions, Routing, route
from softib.routing.graph import PortColumns, SwitchGraph
from softib.routing.proof.reach import ProvenTables
from softib.sm.database import Database
from softib.sm.managers import link_mgr
from softib.sm.managers.ucast_cache import EndLocations, with_absent
from softib.sm.tables.lft_order import LftUpdate
from softib.sm.tables.sl_history import SlHistory
from softib.sm.vports.vport_table import with_vports

__all__ = ["LftStore", "graph_from", "queue_round", "route_subnet", "start_update"]


class LftStore:
    """The tables written to each switch, by NodeGUID: (LinearFDBTop, table). It is kept between
    sweeps, so that the next one sends only changes. If the LinearFDBTop of a switch differs from
    the value that was written, the switch was reset, and gets its whole table again."""

    def __init__(self) -> None:
        self.tables: dict[int, tuple[int, np.ndarray]] = {}
        self.roots: tuple[int, ...] = ()
        """NodeGUIDs of the top switches in the last sweep in which the subnet was a fat tree, so
        that a missing cable does not change the roots."""
        self.proven = ProvenTables()
        self.refused: dict[int, int] = {}
        """First LID of a block that the switch rejected, by NodeGUID."""
        self.sls = SlHistory()
        """SLs that are assigned to paths."""
        self.locations = EndLocations.none()
        """Locations of hosts, both present and absent."""

    def known(self, db: Database, nodes: np.ndarray) -> list[np.ndarray | None]:
        """Return the table of each of ``nodes``, None if it is unknown."""
        tops = SwitchInfo.linear_fdb_top.get(db.switch_info[nodes]).tolist()
        held = [self.tables.get(guid, (0, None)) for guid in db.node_guid[nodes].tolist()]
        return [table if top == now and top else None for (top, table), now in zip(held, tops, strict=True)]

    def held(self, db: Database, graph: SwitchGraph, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the tables of the switches of ``graph``, uint8[n_switches, ``width``] (without
        columns if no switch is known), and which switches are known."""
        tables = self.known(db, graph.switch_node)
        stored = np.array([table is not None for table in tables], bool)
        held = np.full((len(tables), width if stored.any() else 0), LFT_NO_ROUTE, np.uint8)
        for s, table in enumerate(tables):
            if table is not None:
                held[s, : len(table)] = table[:width]
        return held, stored

    def forget(self, guids: list[int]) -> None:
        """Record that Sets were lost, so that the tables of these switches are unknown."""
        for g in guids:
            self.tables.pop(g, None)


def graph_from(db: Database) -> SwitchGraph:
    """Return the graph that engines route. Switches are ascending by NodeGUID, so that tables do
    not depend on the order of answers.

    ``switch_node`` and ``end_node`` are nodes of the database.
    """
    order = np.argsort(db.node_guid, kind="stable")
    rank = np.empty(db.n_nodes, np.int32)
    rank[order] = np.arange(db.n_nodes, dtype=np.int32)
    node_type = np.where(db.node_ok, db.node_type, 0)[order]
    graph = SwitchGraph.from_ports(
        PortColumns(
            node_type=node_type,
            node_guid=db.node_guid[order],
            node_nports=db.node_nports[order],
            port_node=rank[db.port_node],
            port_num=db.port_num,
            port_guid=db.port_guid,
            port_peer=db.port_peer,
            port_lid=db.port_lid,
            port_lmc=db.port_lmc,
            sys_guid=db.sys_guid[order],
            is_host=is_host(db.node_type, db.node_desc)[order],
            node_desc=db.node_desc,
        )
    )
    graph.switch_node[:] = order[graph.switch_node]
    graph.end_node[:] = order[graph.end_node]
    return graph


def route_subnet(
    db: Database, engine: str, options: RouteOptions, store: LftStore | None = None, max_op_vls: int = 5
) -> tuple[SwitchGraph, Routing]:
    """Return the graph and the tables. ``store`` holds the roots of the previous tables and the
    locations of hosts, and receives the new ones. The engine uses only VLs that every link between
    switches has if OperationalVLs is limited to code ``max_op_vls``."""
    store = store or LftStore()
    graph, locations = with_absent(graph_from(db), store.locations)
    store.locations = locations
    vls = link_mgr.fewest_data_vls(db, max_op_vls)
    options = replace(options, data_vls=min(options.data_vls or vls, vls))
    routing = route(graph, engine, replace(options, past_roots=store.roots, proven=store.proven))
    if routing.engine == "ftree":
        store.roots = routing.roots
    return with_vports(db, graph, routing)


def start_update(
    db: Database,
    graph: SwitchGraph,
    lft: np.ndarray,
    store: LftStore,
    stage: np.ndarray | None = None,
    discard: bool = False,
) -> LftUpdate:
    """Return the rounds of Sets that change the tables of switches to ``lft``. ``store`` is updated
    after each round. ``stage`` and ``discard`` are arguments of
    :class:`~softib.sm.tables.lft_plan.LftPlan`."""
    held, stored = store.held(db, graph, lft.shape[1])
    update = LftUpdate(graph, held, np.ascontiguousarray(lft), stored, stage, discard)
    for s, guid in enumerate(graph.switch_guid.tolist()):
        store.tables[guid] = (graph.max_lid, update.held[s])
    return update


def queue_round(db: Database, queue: RequestQueue, graph: SwitchGraph, update: LftUpdate) -> None:
    """Queue the Sets of the next round. Tags are ``switch * blocks + block``, where switch is a row of the graph."""
    which = update.next_round()
    switch, block = np.divmod(which, update.blocks)
    route_of = db.port_route[db.node_base[graph.switch_node]]
    queue.set(SmpAttr.LFT, route_of[switch], which, block, update.images, data_row=which)
