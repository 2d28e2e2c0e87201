"""The manager of adaptive routing. It gives every switch that supports it a group of ports for each
destination. If no port of the group is up, the switch uses the port in the forwarding table.

Only ports that follow the up*/down* rule are in a group (:mod:`softib.routing.adaptive`), so
adaptive routing needs an engine that ranks switches. If its tables contain paths that go up after
down, these must close no cycle of dependencies. The meaning of a group number never changes while a
table may use it: a new set of ports gets a number that no table of the previous sweep uses. Groups
are written first, then the LIDs that use them, and ``ar_enabled`` last.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import SmpAttr
from softib.iba.devices import AR_SWITCHES
from softib.iba.vendor import ar
from softib.mad.smp_requests import RequestQueue
from softib.plural import counted
from softib.ragged import spread
from softib.routing.adaptive import AdaptivePorts, adaptive_ports, could_deadlock
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.database import Database
from softib.sm.options.softib_options import ArConfig
from softib.sm.stores import ArStore

__all__ = ["ArManager"]

INFO, GROUP, LFT = int(SmpAttr.MLNX_AR_INFO), int(SmpAttr.MLNX_AR_GROUP), int(SmpAttr.MLNX_AR_LFT)


class ArManager:
    """The manager's work in one sweep. Its methods are called in this order: :meth:`ask`,
    :meth:`heard`, :meth:`queue_groups`, :meth:`queue_lids`, :meth:`queue_info`.

    With ``config`` None, adaptive routing is switched off on switches where it is on.
    """

    def __init__(self, db: Database, graph: SwitchGraph, routing: Routing, config: ArConfig | None, store: ArStore):
        self.db, self.graph, self.routing, self.config, self.store = db, graph, routing, config, store
        self.notes: list[str] = []
        self.caps = np.zeros(graph.n_switches, np.int64)
        """Number of groups of each switch; 0 if the switch uses only its forwarding table."""
        self._group_of: dict[int, np.ndarray] = {}

    @property
    def switches(self) -> np.ndarray:
        """Return the participating switches of the graph."""
        return np.flatnonzero(self.caps > 0)

    def ask(self, queue: RequestQueue) -> None:
        """Queue Get(ARInfo) for switches whose DeviceID supports adaptive routing, unless their
        ARInfo is known. Tags are switches of the graph."""
        if self.config is None or not self._possible():
            return
        device = self.db.device_id[self.graph.switch_node]
        rows = np.flatnonzero(np.isin(device, list(AR_SWITCHES)))
        if not len(rows):
            self.notes.append("adaptive routing: no switch of this subnet supports it (Switch-IB 2 and later do)")
        caps = np.array([self.store.caps.get(guid, -1) for guid in self.graph.switch_guid[rows].tolist()], np.int64)
        self.caps[rows] = np.maximum(caps, 0)
        rows = rows[caps < 0]
        queue.get(INFO, self._route(rows), rows.astype(np.int64))

    def _possible(self) -> bool:
        ranks = self.routing.ranks
        if ranks is None:
            self.notes.append(
                f"adaptive routing: {self.routing.engine} does not rank switches; use updn, dnup or ftree"
            )
            return False
        if self.routing.path_sl is not None or could_deadlock(self.graph, ranks, self.routing.lft):
            self.notes.append(
                f"adaptive routing: {self.routing.engine} has paths that go up after going down, which could deadlock "
                f"with adaptive choices"
            )
            return False
        return True

    def heard(self, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle the ARInfo of switches."""
        self.caps[tags] = np.minimum(ar.ARInfo.group_cap.get(data), ar.AR_GROUPS)
        self.store.caps.update(zip(self.graph.switch_guid[tags].tolist(), self.caps[tags].tolist(), strict=True))

    # -- tables --

    def queue_groups(self, queue: RequestQueue, reset: np.ndarray) -> None:
        """Queue a Set for each block of groups that the switch does not have yet. ``reset``: nodes
        that lost all values written to them."""
        for node in reset.tolist():
            self.store.forget(int(self.db.node_guid[node]))
        rows = self.switches
        if not len(rows) or self.routing.ranks is None:
            return
        choices = adaptive_ports(self.graph, self.routing.ranks)
        owners, blocks, data = [], [], []
        for s in rows.tolist():
            masks = self._number(s, choices[s])
            for block in sorted({number // ar.AR_GROUP_BLOCK for number in masks}):
                owners.append(s)
                blocks.append(block)
                data.append(b"".join(masks.get(ar.AR_GROUP_BLOCK * block + i, bytes(32)) for i in range(2)))
        image = np.frombuffer(b"".join(data), np.uint8).reshape(-1, 64)
        self._set(queue, GROUP, np.array(owners, np.int64), np.array(blocks, np.int64), image)

    def _number(self, s: int, choice: AdaptivePorts) -> dict[int, bytes]:
        """Assign numbers to the groups of one switch: number → mask as on the wire."""
        guid = int(self.graph.switch_guid[s])
        before = self.store.numbers.get(guid, {})
        wire = [m[::-1].astype(">u8").tobytes() for m in choice.masks]
        free = iter(sorted(set(range(1, int(self.caps[s]))) - set(before.values())))
        numbers: dict[bytes, int] = {}
        for mask in wire:
            number = before.get(mask) or next(free, 0)
            if number:
                numbers[mask] = number
        if len(numbers) < len(wire):
            self.notes.append(
                f"adaptive routing: {self.db.name(int(self.graph.switch_node[s]))} has no room for "
                f"{len(wire) - len(numbers)} of"
                f" {counted(len(wire), 'group')}; their destinations have one port"
            )
        by_mask = np.array([*(numbers.get(mask, 0) for mask in wire), 0], np.int64)
        self._group_of[s] = by_mask[choice.mask_of]  # -1 is the last entry: no group
        self.store.numbers[guid] = numbers
        # Groups that only tables of the previous sweep use are kept until these tables are
        # replaced.
        return {number: mask for mask, number in {**before, **numbers}.items()}

    def queue_lids(self, queue: RequestQueue) -> None:
        """Queue a Set for each block of 16 LIDs that the switch does not have yet."""
        if self.config is None or not self._group_of:
            return
        switch_of_lid = self._switch_of_lid()
        owners, blocks, data = [], [], []
        for s in self.switches.tolist():
            port = np.full(len(switch_of_lid), 255, np.uint8)
            held = self.routing.lft[s][: len(port)]
            port[: len(held)] = held
            group = np.where(switch_of_lid >= 0, self._group_of[s][switch_of_lid], 0)
            group = np.where(self._holds(s, group, port), group, 0)
            entry = np.zeros((len(port), 4), np.uint8)
            entry[:, 0] = np.where(group > 0, self.config.state, ar.STATIC) << 6
            entry[:, 1], entry[:, 2], entry[:, 3] = port, group >> 8, group & 0xFF
            data.append(entry.reshape(-1, 64))
            owners.append(np.full(len(data[-1]), s))
            blocks.append(np.arange(len(data[-1])))
        self._set(queue, LFT, np.concatenate(owners), np.concatenate(blocks), np.concatenate(data))

    def _holds(self, s: int, group: np.ndarray, port: np.ndarray) -> np.ndarray:
        """Return bool[LIDs]: whether the port of the forwarding table is in the group."""
        masks64 = np.zeros((int(self.caps[s]), 4), np.uint64)
        for mask, number in self.store.numbers[int(self.graph.switch_guid[s])].items():
            masks64[number] = np.frombuffer(mask, ">u8")[::-1]
        bit = np.uint64(1) << (port % 64).astype(np.uint64)
        return (masks64[group, port // 64] & bit) > 0

    def _switch_of_lid(self) -> np.ndarray:
        """Return int32[LIDs, a multiple of the block size]: the switch of each LID, -1 for none."""
        g = self.graph
        out = np.full(-(-(g.max_lid + 1) // ar.AR_LFT_BLOCK) * ar.AR_LFT_BLOCK, -1, np.int32)
        end, offset = spread(1 << g.end_lmc.astype(np.int64))
        out[g.end_lid[end] + offset] = g.end_switch[end]
        return out

    def queue_info(self, queue: RequestQueue) -> None:
        """Queue a Set(ARInfo) if it differs. A switch that no longer uses adaptive routing gets
        zeros."""
        if self.config is None:
            on = np.zeros(0, np.int64)
        else:
            on = self.switches
            top = [max(self.store.numbers[int(self.graph.switch_guid[s])].values(), default=0) for s in on.tolist()]
            info = ar.ARInfo.pack(
                ar_enabled=int(self.config.state != ar.STATIC),
                fr_enabled=int(self.config.repair),
                by_sl_en=int(self.config.sl_mask != 0xFFFF),
                enable_by_sl_mask=self.config.sl_mask,
                by_transport_disable=0xF & ~self.config.transport_mask,
                group_top=np.array(top, np.int64).reshape(-1),
            )
            self._set(queue, INFO, on, np.zeros(len(on), np.int64), info)
        running = {key[0] for key in self.store.tables.held if key[2] == INFO} - set(
            self.graph.switch_guid[on].tolist()
        )
        off = np.array([s for s, guid in enumerate(self.graph.switch_guid.tolist()) if guid in running], np.int64)
        self._set(queue, INFO, off, np.zeros(len(off), np.int64), np.zeros((len(off), 64), np.uint8))
        for guid in running:
            self.store.forget(guid)

    # -- requests --

    def _route(self, rows: np.ndarray) -> np.ndarray:
        return self.db.port_route[self.db.node_base[self.graph.switch_node[rows]]]

    def _set(self, queue: RequestQueue, attr: int, rows: np.ndarray, modifier: np.ndarray, data: np.ndarray) -> None:
        ports = self.db.node_base[self.graph.switch_node[rows]]
        fresh = np.zeros(self.db.n_ports, bool)
        keep = self.store.tables.changed(self.db, attr, ports, modifier, data, fresh)
        rows = rows[keep]
        queue.set(attr, self._route(rows), rows.astype(np.int64), modifier[keep], np.ascontiguousarray(data[keep]))
