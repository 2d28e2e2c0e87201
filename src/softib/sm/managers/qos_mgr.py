"""QoS tables of ports: SLtoVL mapping and VL arbitration (IBA 7.6.6, 7.6.9, 14.2.5.8-9; OpenSM's
``osm_qos.c``).

Every port gets the tables of its kind, limited to the VLs of its link. An engine that needs
separate VLs (torus-2QoS, LASH, DFSSSP) defines the VL of each SL at each switch, and this takes
precedence over the options. ``VLHighLimit`` is set together with PortInfo.

Tables that were written are stored by device, like forwarding tables. The next sweep sends only
differences, except to a switch that was reset and to a port whose link came up again: these get all
tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from softib.iba.constants import CapMask, NodeType, PortState, SmpAttr
from softib.iba.smp import PortInfo, SwitchInfo
from softib.mad.smp_requests import RequestQueue
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.database import Database
from softib.sm.managers.sl2vl import cut_to, engine_map, image_of_vls
from softib.sm.options.qos import KINDS, QosConfig, QosTables
from softib.sm.stores import TableStore

__all__ = ["QosManager", "needs_qos"]

P = PortInfo
BLOCK = 32
"""Number of entries in a VLArb block. Blocks 1 and 2 have low priority, 3 and 4 high priority."""
ALL_INPUTS = 0x20000
DATA = 64


def needs_qos(routing: Routing) -> bool:
    """Return whether the engine assigns SLs to paths or VLs to SLs."""
    return routing.path_sl is not None or routing.sl2vl is not None


class Blocks(NamedTuple):
    """Blocks of an attribute: their ports (rows of the database), their attribute modifiers, and their data."""

    attr: SmpAttr
    ports: np.ndarray
    modifiers: np.ndarray
    data: np.ndarray


class QosManager:
    """The manager's work in one sweep. ``wanted`` uint8[ports, 64] is the PortInfo that ports
    should have; its OperationalVLs are used."""

    def __init__(self, db: Database, config: QosConfig, wanted: np.ndarray):
        self.db = db
        self.tables: dict[str, QosTables] = {kind: config.tables(kind) for kind in KINDS}
        self.vls = np.maximum(P.operational_vls.get(wanted).astype(np.int64), 1)
        self.kind = self._kinds()
        up = db.port_state() >= PortState.INIT
        port0 = (db.port_num == 0) & db.is_switch[db.port_node]
        self.ports = np.flatnonzero((self.kind >= 0) & up & (port0 | (db.port_peer >= 0)) & db.node_ok[db.port_node])

    def _kinds(self) -> np.ndarray:
        """Return int8[ports]: index of KINDS; -1 for a base port 0, which has no data VL."""
        db = self.db
        node_type = db.node_type[db.port_node]
        enhanced = SwitchInfo.enhanced_port0.get(db.switch_info)[db.port_node] > 0
        kind = np.where(node_type == NodeType.ROUTER, KINDS.index("rtr"), KINDS.index("ca"))
        switch0 = np.where(enhanced, KINDS.index("sw0"), -1)
        return np.where(node_type == NodeType.SWITCH, np.where(db.port_num > 0, KINDS.index("swe"), switch0), kind)

    def set_high_limit(self, wanted: np.ndarray) -> None:
        """Set VLHighLimit of every port that has a target (IBA 7.6.9.2.1). A port with one data VL
        has no arbitration and gets 0."""
        limit = np.array([self.tables[kind].high_limit for kind in KINDS])
        arbitrates = P.vl_cap.get(self.db.port_info[self.ports]) > 1
        P.vl_high_limit.set(wanted, np.where(arbitrates, limit[self.kind[self.ports]], 0), self.ports)

    # -- requests --

    def queue(
        self, queue: RequestQueue, store: TableStore, fresh: np.ndarray, graph: SwitchGraph, routing: Routing
    ) -> None:
        """Queue a Set for each table that its port does not have yet. ``fresh`` bool[ports]: ports
        that lost all values written to them. Tags are ports."""
        for attr, rows, modifier, data in (self._vl_arb(), self._sl2vl(graph, routing)):
            keep = store.changed(self.db, int(attr), rows, modifier, data, fresh)
            rows, modifier, data = rows[keep], modifier[keep], data[keep]
            queue.set(attr, self.db.port_route[rows], rows.astype(np.int64), modifier, data)

    def _vl_arb(self) -> Blocks:
        """Return the blocks of the low and the high table, for the entries that the port has."""
        db = self.db
        info = db.port_info[self.ports]
        caps = {"vlarb_low": P.vl_arb_low_cap.get(info), "vlarb_high": P.vl_arb_high_cap.get(info)}
        images = {name: self._weights(name) for name in caps}
        rows, modifiers, data = [], [], []
        several = P.vl_cap.get(info) > 1
        external = db.external[self.ports]
        for number, (name, half) in enumerate(
            (("vlarb_low", 0), ("vlarb_low", 1), ("vlarb_high", 0), ("vlarb_high", 1)), 1
        ):
            entries = np.clip(caps[name].astype(np.int64) - BLOCK * half, 0, BLOCK)
            which = np.flatnonzero(several & (entries > 0))
            image = images[name][which, half].copy()
            image[np.arange(BLOCK)[None, :] >= entries[which, None]] = 0
            rows.append(self.ports[which])
            modifiers.append(
                number << 16 | np.where(external[which], db.port_num[self.ports[which]], 0).astype(np.int64)
            )
            data.append(image.reshape(-1, DATA))
        return Blocks(SmpAttr.VL_ARB, np.concatenate(rows), np.concatenate(modifiers), np.concatenate(data))

    def _weights(self, name: str) -> np.ndarray:
        """Return uint8[ports of ``ports``, 2, 32, 2]: (VL, weight) of both blocks."""
        table = np.zeros((len(KINDS), 2 * BLOCK, 2), np.uint8)
        for k, kind in enumerate(KINDS):
            pairs = getattr(self.tables[kind], name)
            if pairs:
                table[k, : len(pairs)] = pairs
        out = table[self.kind[self.ports]]
        mask = ((1 << (self.vls[self.ports] - 1)) - 1).astype(np.uint8)
        out[:, :, 0] &= mask[:, None]
        return out.reshape(-1, 2, BLOCK, 2)

    def _sl2vl(self, graph: SwitchGraph, routing: Routing) -> Blocks:
        """Return the blocks of the SLtoVL tables. A CA's or router's port has one table. A switch's port has one
        table for all inputs if their tables are equal and the switch supports it, otherwise one for each input."""
        db = self.db
        able = (P.cap_mask.get(db.port_info) & CapMask.SL_MAPPING) > 0
        base = np.where(db.is_switch[db.port_node], db.node_base[db.port_node], np.arange(db.n_ports))
        ports = self.ports[able[base[self.ports]]]
        options = np.array([self.tables[kind].sl2vl for kind in KINDS])
        vls = options[self.kind[ports]]
        on_switch = db.is_switch[db.port_node[ports]]
        ends = np.flatnonzero(~on_switch)
        end_map = getattr(routing, "end_sl2vl", None)
        if end_map is not None:
            vls[ends] = np.asarray(end_map)
        rows, modifiers, maps = [ports[ends]], [np.zeros(len(ends), np.int64)], [vls[ends]]
        # Ports of a switch are consecutive in the database.
        on_switches = np.flatnonzero(on_switch)
        nodes, first = np.unique(db.port_node[ports[on_switches]], return_index=True)
        row_of = {int(node): s for s, node in enumerate(graph.switch_node.tolist())}
        for node, which in zip(nodes.tolist(), np.split(on_switches, first[1:]), strict=True):
            wanted = engine_map(routing, row_of.get(node, -1), int(db.node_nports[node]) + 1)
            maps_of_switch = self._switch_maps(node, wanted, ports[which], vls[which])
            rows.append(maps_of_switch[0])
            modifiers.append(maps_of_switch[1])
            maps.append(maps_of_switch[2])
        row = np.concatenate(rows)
        data = np.zeros((len(row), DATA), np.uint8)
        data[:, :8] = image_of_vls(cut_to(np.concatenate(maps), self.vls[row][:, None]))
        return Blocks(SmpAttr.SL2VL, row, np.concatenate(modifiers), data)

    def _switch_maps(
        self, node: int, by_engine: np.ndarray | None, ports: np.ndarray, vls: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return (output ports, modifiers, VLs by SL) of one switch; ``by_engine`` is the engine's
        map."""
        db = self.db
        out = db.port_num[ports].astype(np.int64)
        inputs = int(db.node_nports[node]) + 1
        each = (
            np.broadcast_to(vls[:, None], (len(ports), inputs, 16))
            if by_engine is None
            else by_engine[:, out].transpose(1, 0, 2)
        )
        alike = (each == each[:, :1]).all(axis=(1, 2))
        alike &= bool(SwitchInfo.optimized_sl2vl.get(db.switch_info[node]))
        one, many = np.flatnonzero(alike), np.flatnonzero(~alike)
        modifier = np.concatenate(
            [ALL_INPUTS | out[one], (np.arange(inputs)[None, :] << 8 | out[many][:, None]).ravel()]
        )
        row = np.concatenate([ports[one], np.repeat(ports[many], inputs)])
        return row, modifier, np.concatenate([each[one, 0], each[many].reshape(-1, 16)])
