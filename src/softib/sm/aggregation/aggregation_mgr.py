"""The aggregation manager. It builds trees over the aggregation nodes of a subnet, writes them with
MADs of class 0x0b, and assigns trees to jobs.

softib defines all layouts of this class (:mod:`softib.iba.vendor.sharp`), so the manager supports
only softib's devices. If the content of a node (:class:`Part`) must change, all of it is written
again, in this order: the node's QPs are released (which ends its trees), reserved, connected, and
named in its trees. Other nodes are not written. MADs of this class are addressed by LID, so they
are sent last in a sweep.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.iba.constants import DEFAULT_PKEY, Method, MgmtClass, NodeType
from softib.iba.devices import is_aggregation_node
from softib.iba.smp import PortInfo
from softib.iba.vendor.sharp import (
    CHILD_BLOCK,
    ENABLED,
    LATENCY,
    SHARP_CLASS_VERSION,
    STREAMING,
    ANInfo,
    QPAllocation,
    QPCConfig,
    QuotaConfig,
    TreeConfig,
)
from softib.mad.gmp_requests import GMP_DATA, GmpRequests, kind_of
from softib.mad.smp_requests import RequestQueue
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.aggregation.aggregation_trees import NOT_IN, AggregationTree, Job, build_tree, job_tree, roots_of
from softib.sm.database import Database
from softib.sm.options.softib_options import AggregationConfig
from softib.sm.sweep.phases import GMP_PHASES, SweepExtension
from softib.sm.sweep.report import attribute_name

if TYPE_CHECKING:
    from softib.sm.sweep.sweep import Sweep

__all__ = ["AggregationManager", "AggregationPhases"]


@dataclass
class Part:
    """The content of one aggregation node: the contexts of its QPs, and its trees as (modifier,
    TreeConfig) and (modifier, QuotaConfig)."""

    qps: list[bytes]
    trees: list[tuple[int, bytes]]
    quotas: list[tuple[int, bytes]]

    def image(self) -> bytes:
        """Return the whole content as bytes, for comparisons."""
        return repr((self.qps, self.trees, self.quotas)).encode()


class AggregationManager:
    """The manager's work in one sweep. Its methods are called in this order: :meth:`ask`,
    :meth:`heard`, :meth:`queue_qps`, :meth:`queue_edges`, :meth:`queue_trees`.

    ``held`` maps NodeGUID → image of the content that was written to the node; it is kept between
    sweeps. ``nodes``: nodes of the database that are aggregation nodes. ``tree_list``: the trees
    over them.
    """

    def __init__(
        self, db: Database, graph: SwitchGraph, routing: Routing, config: AggregationConfig, held: dict[int, bytes]
    ):
        self.db, self.graph, self.routing, self.config, self.held = db, graph, routing, config, held
        self.notes: list[str] = []
        self.tree_list: list[AggregationTree] = []
        self.load: dict[int, int] = {}
        row_of = {int(node): s for s, node in enumerate(graph.switch_node.tolist())}
        nodes = np.flatnonzero(is_aggregation_node(db.node_desc) & (db.node_type == NodeType.CA) & db.node_ok)
        port = db.node_base[nodes] + 1
        peer = db.port_peer[port]
        switch = np.array([row_of.get(int(db.port_node[p]), -1) if p >= 0 else -1 for p in peer.tolist()], np.int64)
        fits = (switch >= 0) & (db.port_lid[port] > 0)
        self.nodes, self.port, self.switch_of = nodes[fits], port[fits], switch[fits]
        self.caps = np.zeros((len(self.nodes), 3), np.int64)
        """Maximum numbers of trees, streaming trees and children of each node; zeros until the node
        answers."""
        self._parts: dict[int, Part] = {}

    # -- capabilities of nodes --

    def ask(self, queue: RequestQueue, held_caps: dict[int, np.ndarray], fresh: np.ndarray) -> None:
        """Queue Get(ANInfo) for nodes that are not in ``held_caps`` (NodeGUID → answer in an
        earlier sweep), or whose port came up again (``fresh`` bool[ports]). Tags are rows of
        ``nodes``."""
        if not len(self.nodes):
            self.notes.append("aggregation: the subnet has no aggregation node")
        answers = [held_caps.get(guid) for guid in self.db.node_guid[self.nodes].tolist()]
        wanted = [row for row, answer in enumerate(answers) if answer is None or fresh[self.port[row]]]
        for row, answer in enumerate(answers):
            if answer is not None:
                self.caps[row] = answer
        self._put(queue, Method.GET, ANInfo.attr, np.array(wanted, np.int64), 0, None)

    def heard(self, tags: np.ndarray, data: np.ndarray, held_caps: dict[int, np.ndarray]) -> None:
        """Store the ANInfo of nodes in ``held_caps``."""
        self.caps[tags] = np.stack(
            [f.get(data) for f in (ANInfo.tree_cap, ANInfo.streaming_tree_cap, ANInfo.child_cap)], axis=1
        )
        held_caps.update(zip(self.db.node_guid[self.nodes[tags]].tolist(), self.caps[tags], strict=True))

    # -- trees --

    def plan(self) -> None:
        """Choose roots, build the trees, and compute the content that each node should have."""
        able = self.caps[:, 0] > 0
        if not able.any():
            return
        rows = np.flatnonzero(able)
        streaming_trees = self._most(self.config.streaming_trees, int(self.caps[rows, 1].min()), "streaming trees")
        trees = self._most(self.config.trees, int(self.caps[rows, 0].min()) - streaming_trees, "trees")
        kinds = [False] * trees + [True] * streaming_trees
        order = roots_of(self.graph, self.routing.ranks, self.switch_of[rows])
        lid = self.db.port_lid[self.port]
        for tree, streaming in enumerate(kinds):
            root = int(order[tree % len(order)])
            built = build_tree(self.graph, self.routing.lft, self.switch_of[rows], lid[rows], root, tree, streaming)
            parent = np.full(len(self.nodes), NOT_IN, np.int32)
            back = np.concatenate([rows, [NOT_IN, -1]])  # parents NOT_IN and ROOT stay as they are
            parent[rows] = back[built.parent]
            self.tree_list.append(self._without_crowds(AggregationTree(tree, streaming, int(rows[root]), parent)))
        self._make_parts()

    def _most(self, wanted: int, room: int, kind: str) -> int:
        if wanted > room:
            self.notes.append(f"aggregation: {wanted} {kind} requested, but a node holds only {room}")
        return min(wanted, max(room, 0))

    def _without_crowds(self, tree: AggregationTree) -> AggregationTree:
        """Omit the children beyond a node's maximum, and the nodes below them."""
        parent = tree.parent.copy()
        count = np.bincount(parent[parent >= 0], minlength=len(parent))
        for node in np.flatnonzero(count > self.caps[:, 2]).tolist():
            extra = np.flatnonzero(parent == node)[int(self.caps[node, 2]) :]
            parent[extra] = NOT_IN
            self.notes.append(
                f"aggregation: {self.db.name(int(self.nodes[node]))} takes {int(self.caps[node, 2])} children; "
                f"{len(extra)} are left out"
            )
        while True:
            lost = (parent >= 0) & (parent[np.maximum(parent, 0)] == NOT_IN)
            if not lost.any():
                return AggregationTree(tree.tree, tree.streaming, tree.root, parent)
            parent[lost] = NOT_IN

    def _make_parts(self) -> None:
        """Assign QPNs in the order of the trees. In each tree, the QP to the parent comes first,
        then those to children."""
        next_qpn = np.ones(len(self.nodes), np.int64)
        up: dict[tuple[int, int], int] = {}
        down: dict[tuple[int, int], int] = {}
        for tree in self.tree_list:
            for node in tree.members.tolist():
                if tree.parent[node] >= 0:
                    up[tree.tree, node] = int(next_qpn[node])
                    next_qpn[node] += 1
                    above = int(tree.parent[node])
                    down[tree.tree, node] = int(next_qpn[above])
                    next_qpn[above] += 1
        lid = self.db.port_lid[self.port].tolist()
        mtu = PortInfo.neighbor_mtu.get(self.db.port_info[self.port]).tolist()
        qps: list[dict[int, bytes]] = [{} for _ in self.nodes]
        for (number, node), qpn in up.items():
            above = int(self.tree_list[number].parent[node])
            other = down[number, node]
            for here, qpn_here, remote, qpn_there in ((node, qpn, above, other), (above, other, node, qpn)):
                qps[here][qpn_here] = QPCConfig.pack(
                    qp_state=ENABLED,
                    mtu=min(mtu[here], mtu[remote]),
                    pkey=DEFAULT_PKEY,
                    remote_lid=lid[remote],
                    remote_qpn=qpn_there,
                ).tobytes()
        for row in range(len(self.nodes)):
            part = Part([qps[row][q] for q in sorted(qps[row])], [], [])
            for tree in self.tree_list:
                if tree.parent[row] != NOT_IN:
                    self._add_tree(part, tree, row, up, down)
            self._parts[row] = part

    def _add_tree(
        self,
        part: Part,
        tree: AggregationTree,
        row: int,
        up: dict[tuple[int, int], int],
        down: dict[tuple[int, int], int],
    ) -> None:
        children = [down[tree.tree, child] for child in np.flatnonzero(tree.parent == row).tolist()]
        kind = STREAMING if tree.streaming else LATENCY
        # the block with the head, which enables the tree, is last
        for block in range(max(1, -(-len(children) // CHILD_BLOCK)))[::-1]:
            block_qpns = children[CHILD_BLOCK * block :][:CHILD_BLOCK]
            image = TreeConfig.pack(
                tree_state=ENABLED,
                kind=kind,
                children=len(children),
                parent_qpn=up.get((tree.tree, row), 0),
                child_qpn=np.array(block_qpns + [0] * (CHILD_BLOCK - len(block_qpns)), np.int64),
            )
            part.trees.append((tree.tree | block << 16, image.tobytes()))
        quota = QuotaConfig.pack(
            groups=16,
            osts=STREAMING_OSTS if tree.streaming else LATENCY_OSTS,
            buffers=BUFFERS,
            payload=STREAMING_PAYLOAD if tree.streaming else LATENCY_PAYLOAD,
        )
        part.quotas.append((tree.tree, quota.tobytes()))

    def job(self, host_switch: np.ndarray, streaming: bool = False) -> Job | None:
        """Return a tree for hosts on these switches of the graph, or None if no tree is possible
        (:func:`~softib.sm.aggregation.aggregation_trees.job_tree`)."""
        return job_tree(self.tree_list, self.switch_of, host_switch, self.load, streaming)

    # -- requests --

    def _changed(self) -> list[int]:
        guid = self.db.node_guid[self.nodes].tolist()
        return [row for row, part in self._parts.items() if self.held.get(guid[row]) != part.image()]

    def queue_qps(self, queue: RequestQueue, fresh: np.ndarray) -> None:
        """Queue requests that release and reserve the QPs of every node whose content must change.
        ``fresh`` bool[ports]: ports that came up again."""
        for row, port in enumerate(self.port.tolist()):
            if fresh[port]:
                self.held.pop(int(self.db.node_guid[self.nodes[row]]), None)
        self.plan()
        rows = self._changed()
        data = QPAllocation.zeros(len(rows))
        QPAllocation.release.set(data, 1)
        QPAllocation.count.set(data, np.array([len(self._parts[r].qps) for r in rows], np.int64))
        self._put(queue, Method.SET, QPAllocation.attr, np.array(rows, np.int64), 0, data)

    def queue_edges(self, queue: RequestQueue) -> None:
        """Queue requests that connect the QPs of these nodes."""
        self._each(queue, QPCConfig.attr, lambda part: list(enumerate(part.qps, 1)))

    def queue_trees(self, queue: RequestQueue) -> None:
        """Queue requests that name the QPs in their trees and set quotas. After this, the content
        of the nodes counts as written."""
        self._each(queue, QuotaConfig.attr, lambda part: part.quotas)
        self._each(queue, TreeConfig.attr, lambda part: part.trees)
        for row in self._changed():
            self.held[int(self.db.node_guid[self.nodes[row]])] = self._parts[row].image()

    def lost(self, tags: np.ndarray) -> np.ndarray:
        """Handle failed requests: the content of their nodes is now unknown. Return these nodes of
        the database."""
        nodes = self.nodes[np.unique(tags)]
        for node in nodes.tolist():
            self.held.pop(int(self.db.node_guid[node]), None)
        return nodes

    def _each(self, queue: RequestQueue, attr: int | None, of: Callable[[Part], list[tuple[int, bytes]]]) -> None:
        rows, modifiers, images = [], [], []
        for row in self._changed():
            for modifier, image in of(self._parts[row]):
                rows.append(row)
                modifiers.append(modifier)
                images.append(image)
        if rows:
            data = np.frombuffer(b"".join(images), np.uint8).reshape(len(rows), -1)
            self._put(queue, Method.SET, attr, np.array(rows, np.int64), np.array(modifiers, np.int64), data)

    def _put(
        self,
        queue: RequestQueue,
        method: Method,
        attr: int | None,
        rows: np.ndarray,
        modifier: Any,
        data: np.ndarray | None,
    ) -> None:
        assert attr is not None
        image = np.zeros((len(rows), GMP_DATA), np.uint8)
        if data is not None:
            image[:, : data.shape[-1]] = data
        queue.put(
            GmpRequests(
                MgmtClass.SHARP,
                SHARP_CLASS_VERSION,
                int(method),
                attr,
                self.db.port_lid[self.port[rows]],
                rows.astype(np.int64),
                modifier,
                image,
            )
        )


LATENCY_OSTS, STREAMING_OSTS = 128, 2
LATENCY_PAYLOAD, STREAMING_PAYLOAD = 256, 1 << 24
BUFFERS = 1 << 20
"""Quota of a tree. It allows either many small operations of up to 256 bytes at the same time, or
two streams of up to 16 MiB. softib chose these values."""


class AggregationPhases(SweepExtension):
    """The phases of the aggregation manager in a sweep. ``manager`` is None if aggregation is not
    configured."""

    def __init__(self, sweep: Sweep):
        super().__init__(sweep)
        self.manager: AggregationManager | None = None
        self.enter = {
            "sharp_info": self._ask,
            "sharp_qps": self._queue_qps,
            "sharp_edges": lambda: self.manager.queue_edges(self.queue) if self.manager else None,
            "sharp_trees": lambda: self.manager.queue_trees(self.queue) if self.manager else None,
        }

    def _ask(self) -> None:
        sweep = self.sweep
        if self.config.aggregation is not None:
            assert sweep.graph is not None and sweep.routing is not None
            held = sweep.stores.aggregation
            self.manager = AggregationManager(self.db, sweep.graph, sweep.routing, self.config.aggregation, held)
            self.manager.ask(self.queue, sweep.stores.aggregation_caps, sweep.fresh)

    def _queue_qps(self) -> None:
        if self.manager is not None:
            self.manager.queue_qps(self.queue, self.sweep.fresh)
            self.report.notes += self.manager.notes

    def heard(self, phase: str, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Store the ANInfo of nodes. Answers to Sets contain no new information."""
        if phase == "sharp_info" and self.manager is not None:
            self.manager.heard(tags, data, self.sweep.stores.aggregation_caps)

    def lost(self, phase: str, attr: int, tags: np.ndarray, why: str) -> None:
        """Add the nodes to the report, because their content is unknown."""
        assert self.manager is not None
        name = attribute_name(kind_of(GMP_PHASES[phase], attr & 0xFFFF))
        for node in self.manager.lost(tags).tolist():
            self.sweep.stores.congestion.forget(int(self.db.node_guid[node]))
            self.report.mute_nodes.append((node, name, why))
