"""The phases of a sweep for optional features of a subnet: link policy, partitions, QoS, adaptive
routing, and congestion control.

The configuration turns each feature on. A feature stores the values that it wrote in
:class:`~softib.sm.stores.Stores`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.iba.constants import SmpAttr
from softib.mad.gmp_requests import kind_of
from softib.mad.smp_requests import RequestQueue
from softib.routing.engine import Routing
from softib.routing.graph import SwitchGraph
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.managers.ar_mgr import ArManager
from softib.sm.managers.congestion_mgr import queue_congestion
from softib.sm.managers.link_policy import LinkExtensions, LinkPolicyManager
from softib.sm.managers.pkey_mgr import PkeyManager
from softib.sm.managers.qos_mgr import QosManager, needs_qos
from softib.sm.managers.sl2vl import sl_troubles
from softib.sm.options.qos import QosConfig
from softib.sm.stores import Stores
from softib.sm.sweep.phases import GMP_PHASES
from softib.sm.sweep.report import SweepReport, attribute_name

__all__ = ["Features"]


class Features:
    """``enter`` maps each phase to the function that queues its requests. The sweep provides
    ``wanted`` (the PortInfo that ports should have), ``reset`` (switches that lost all values
    written to them), and ``fresh`` (bool[ports]: ports that came up again, and those of switches
    that were reset)."""

    def __init__(self, db: Database, queue: RequestQueue, config: SmConfig, stores: Stores, report: SweepReport):
        self.database, self.queue, self.config, self.stores, self.report = db, queue, config, stores, report
        self.graph: SwitchGraph | None = None
        self.routing: Routing | None = None
        self.wanted = np.zeros((0, 64), np.uint8)
        self.reset, self.fresh = np.zeros(0, np.int64), np.zeros(0, bool)
        self.training: set[int] = set()
        """NodeGUIDs of switches whose links are training again."""
        self._links: LinkPolicyManager | None = None
        self._extensions: LinkExtensions | None = None
        self._pkeys: PkeyManager | None = None
        self._qos: QosManager | None = None
        self._ar: ArManager | None = None
        self.enter: dict[str, Callable[[], None]] = {
            "policy": self._link_policy,
            "retrain": self._retrain,
            "qos": self._program_qos,
            "pkeys": self._read_pkeys,
            "partitions": self._partitions,
            "ar_info": self._ask_ar,
            "ar_groups": lambda: self._ar.queue_groups(self.queue, self.reset) if self._ar else None,
            "ar_lids": lambda: self._ar.queue_lids(self.queue) if self._ar else None,
            "ar_on": self._ar_on,
            "congestion": self._congestion,
        }

    def window(self, phase: str) -> int:
        """Return the maximum number of requests of ``phase`` in flight."""
        congestion = self.config.congestion
        return congestion.max_outstanding if phase == "congestion" and congestion is not None else self.config.window

    # -- progress of the sweep --

    def configured(self, wanted: np.ndarray) -> None:
        """Continue after the wanted PortInfo is complete except for QoS, and add the QoS part."""
        self.wanted = wanted
        if self.config.qos is not None:
            self._qos = QosManager(self.database, self.config.qos, wanted)
            self._qos.set_high_limit(wanted)

    def routed(self, graph: SwitchGraph, routing: Routing, reset: np.ndarray, fresh: np.ndarray) -> None:
        """Continue after routes are computed and the state of each switch is known."""
        self.graph, self.routing, self.reset, self.fresh = graph, routing, reset, fresh

    @property
    def enforcing(self) -> list[tuple[np.ndarray, bool, bool]]:
        """Switch ports, and whether they check the P_Keys of incoming and outgoing packets; empty
        if partitions are not programmed."""
        return [] if self._pkeys is None else self._pkeys.enforcing()

    # -- entering a phase --

    def _link_policy(self) -> None:
        if self.config.links is not None:
            self._links = LinkPolicyManager(self.database, self.config.links, self.stores.trained)
            self._links.queue_enabled(self.queue)
            self._extensions = LinkExtensions(self.database, self.config.links, self.stores.extensions)
            self._extensions.ask(self.queue)

    def queue_link_modes(self) -> None:
        """Queue the Sets of FDR10 and FEC."""
        if self._extensions is not None:
            self._extensions.queue(self.queue)

    def _retrain(self) -> None:
        if self._links is not None:
            also = np.zeros(0, np.int64) if self._extensions is None else self._extensions.training()
            db, ports = self.database, self._links.queue_training(self.queue, also)
            self.training = set(db.node_guid[db.port_node[ports]].tolist())
            self.report.notes += self._links.notes

    def _read_pkeys(self) -> None:
        if self.config.partitions is not None:
            self.stores.forget_ports(self.database.locations(np.flatnonzero(self.fresh)))
            self._pkeys = PkeyManager(self.database, self.config, self.stores.pkeys)
            self._pkeys.ask(self.queue)

    def _partitions(self) -> None:
        if self._pkeys is not None:
            self._pkeys.queue_tables(self.queue)
            self.report.notes += self._pkeys.notes

    def _program_qos(self) -> None:
        assert self.graph is not None and self.routing is not None
        if self._qos is None and needs_qos(self.routing):
            self._qos = QosManager(self.database, QosConfig(), self.wanted)
            self.report.notes.append(
                f"{self.routing.engine} assigns SLs to paths: SLtoVL and VL arbitration tables are programmed"
            )
        if self._qos is not None:
            self._qos.queue(self.queue, self.stores.qos, self.fresh, self.graph, self.routing)
            if self.routing.sl2vl is None:  # an engine that assigns VLs must check them itself
                self.report.sls = sl_troubles(self.database, self.config, self._qos, self.routing.path_sl)
                self.report.notes += [str(trouble) for trouble in self.report.sls]

    def _ask_ar(self) -> None:
        assert self.graph is not None and self.routing is not None
        for guid in self.database.node_guid[self.reset].tolist():
            self.stores.ar.forget(guid)
        if self.config.ar is not None or self.stores.ar.numbers:
            self._ar = ArManager(self.database, self.graph, self.routing, self.config.ar, self.stores.ar)
            self._ar.ask(self.queue)

    def _ar_on(self) -> None:
        if self._ar is not None:
            self._ar.queue_info(self.queue)
            self.report.notes += self._ar.notes

    def _congestion(self) -> None:
        if self.config.congestion is not None:
            queue_congestion(self.database, self.queue, self.config.congestion, self.stores.congestion, self.fresh)

    # -- answers --

    def link_extensions(self, attr: int, ports: np.ndarray, data: np.ndarray | None) -> None:
        """Handle answers about FDR10 and FEC of ports. ``data`` None means that there is no good
        answer."""
        assert self._extensions is not None
        if data is None:
            self._extensions.lost(attr, ports)
        else:
            self._extensions.heard(attr, ports, data)

    def heard(self, phase: str, tags: np.ndarray, data: np.ndarray) -> bool:
        """Handle answers to requests of ``phase``; return False if the phase belongs to no feature."""
        if phase == "pkeys":
            assert self._pkeys is not None
            self._pkeys.heard(tags, data)
        elif phase == "ar_info":
            assert self._ar is not None
            self._ar.heard(tags, data)
        elif phase in ("policy", "retrain"):
            self.database.port_info[tags] = data
        else:
            return phase in ("congestion", "ar_on")
        return True

    def refused(self, phase: str, tags: np.ndarray) -> None:
        """Handle answers with a bad status."""
        if phase == "congestion":
            self.stores.congestion.unable.update(self.database.node_guid[self.database.port_node[tags]].tolist())

    def lost(self, phase: str, attr: int, tags: np.ndarray, why: str) -> np.ndarray | None:
        """Handle requests without a good answer: the state of these devices is now unknown. Return
        the nodes (rows) that the report must name; None if it already names them or need not."""
        db = self.database
        if phase == "congestion":
            nodes = np.unique(db.port_node[tags])
            for node in nodes.tolist():
                self.stores.congestion.forget(int(db.node_guid[node]))
            name = attribute_name(kind_of(GMP_PHASES[phase], attr & 0xFFFF))
            self.report.mute_nodes.extend((n, name, why) for n in nodes.tolist())
            return None
        if phase in ("policy", "retrain"):
            self.report.mute_ports.extend((port, why) for port in tags.tolist())
            return None
        if phase == "pkeys":
            return None  # a table that cannot be read is written completely
        if phase.startswith("ar_"):
            assert self.graph is not None
            nodes = self.graph.switch_node[np.unique(tags)]
            for node in nodes.tolist():
                self.stores.ar.forget(int(db.node_guid[node]))
            return nodes
        if attr == SmpAttr.PKEY_TABLE:
            self.stores.forget_ports(db.locations(tags))
        nodes = np.unique(db.port_node[tags])
        if phase == "qos":
            for node in nodes.tolist():
                self.stores.qos.forget(int(db.node_guid[node]))
        return nodes
