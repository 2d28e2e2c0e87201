"""The answers to a sweep's requests: data, rejections, and missing answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.iba.constants import SmpAttr
from softib.iba.smp import PortInfo
from softib.mad.gmp_requests import kind_of
from softib.sm.managers.link_policy import EXTENSIONS
from softib.sm.managers.router_mgr import ROUTER_ATTRIBUTES, TAG_BLOCKS
from softib.sm.sweep.phases import GMP_PHASES, READING_PHASES
from softib.sm.sweep.report import attribute_name
from softib.sm.sweep.wrong_answers import refused_blocks, wrong_lids, wrong_tops

if TYPE_CHECKING:
    from softib.sm.sweep.sweep import Sweep

__all__ = ["SweepAnswers"]


class SweepAnswers:
    """Writes answers to requests of ``sweep`` into its database, or passes them to the part of the
    manager that sent the request.

    ``stale``: a port had changed when it was read again, or could not be read. ``stale_switches``:
    NodeGUIDs of the switches with such ports.
    """

    def __init__(self, sweep: Sweep):
        self.sweep = sweep
        self.stale = False
        self.stale_switches: set[int] = set()

    def heard(self, phase: str, attr: int, tags: np.ndarray, data: np.ndarray) -> None:
        """Handle answers to requests of ``phase``: ``tags`` as queued, ``data`` uint8[n, 64]."""
        sweep = self.sweep
        if phase == "discover":
            sweep.discovery.handle(attr, tags, data)
        elif phase == "managers":
            sweep.election.heard(tags, data)
        elif phase == "held":
            assert sweep.held is not None
            sweep.held.heard(attr, tags, data)
        elif attr in EXTENSIONS:
            sweep.features.link_extensions(attr, tags, data)
        elif (extension := sweep.extension_of(phase)) is not None:
            extension.heard(phase, attr, tags, data)
        elif attr in ROUTER_ATTRIBUTES:
            sweep.stores.routers.heard(sweep.database, attr, tags, data)
        elif sweep.features.heard(phase, tags, data):
            pass
        elif phase == "reread":
            self._note_stale(tags[PortInfo.port_state.get(data) != sweep.database.port_state(tags)])
        elif attr == SmpAttr.PORT_INFO:
            sweep.database.port_info[tags] = data
            if phase == "lids":
                sweep.stores.mkeys.written(sweep.database, tags, PortInfo.mkey.get(sweep.wanted[tags]))
                sweep.report.wrong_answers += wrong_lids(sweep.database, tags, data)
        elif attr == SmpAttr.SWITCH_INFO:
            sweep.database.switch_info[tags] = data
            if sweep.graph is not None:
                sweep.report.wrong_answers += wrong_tops(sweep.database, tags, data, sweep.graph.max_lid)

    def refused(self, phase: str, attr: int, tags: np.ndarray) -> None:
        """Handle answers with a bad status."""
        sweep = self.sweep
        if attr in ROUTER_ATTRIBUTES:
            return  # only the vendor's newer routers support this attribute
        reads = phase in READING_PHASES or (phase == "policy" and attr in EXTENSIONS)
        if phase in GMP_PHASES:
            attr = kind_of(GMP_PHASES[phase], attr)
        sweep.features.refused(phase, tags)
        kind = f"{'Get' if reads else 'Set'} {attribute_name(attr)}"
        sweep.report.refused[kind] = sweep.report.refused.get(kind, 0) + len(tags)
        if phase == "tables" and sweep.graph is not None and sweep.update is not None:
            refused_blocks(
                sweep.store, sweep.graph.switch_guid[tags // sweep.update.blocks], tags % sweep.update.blocks
            )
        self.lost(phase, attr, tags, "is refused")

    def lost(self, phase: str, attr: int, tags: np.ndarray, why: str) -> None:
        """Handle requests without a good answer."""
        sweep, db = self.sweep, self.sweep.database
        if phase == "reread":
            self._note_stale(tags)
            return
        if phase == "held":
            return  # all blocks are then written
        if attr in EXTENSIONS:
            sweep.features.link_extensions(attr, tags, None)
            return
        if (extension := sweep.extension_of(phase)) is not None:
            extension.lost(phase, attr, tags, why)
            return
        if attr in ROUTER_ATTRIBUTES:
            tags = np.unique(db.port_node[tags // TAG_BLOCKS])
            sweep.discovery.lost(attr, tags, why)
            return
        if phase in sweep.features.enter:
            nodes = sweep.features.lost(phase, attr, tags, why)
            if nodes is None:
                return
            tags = nodes
        elif attr == SmpAttr.SM_INFO:
            return  # the port has IsSM but no manager, which is not a problem
        elif attr == SmpAttr.LFT:
            assert sweep.graph is not None and sweep.update is not None
            sweep.update.lost(tags)
            switches = np.unique(tags // sweep.update.blocks)
            sweep.store.forget(sweep.graph.switch_guid[switches].tolist())
            tags = sweep.graph.switch_node[switches]
        elif attr == SmpAttr.MFT:
            tags = np.unique(tags)
            for node in tags.tolist():
                sweep.groups.forget_switch(int(db.node_guid[node]))
        sweep.discovery.lost(attr, tags, why)

    def _note_stale(self, ports: np.ndarray) -> None:
        self.stale |= len(ports) > 0
        db = self.sweep.database
        self.stale_switches.update(db.node_guid[db.port_node[ports]].tolist())
