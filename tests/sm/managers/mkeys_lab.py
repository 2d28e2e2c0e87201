"""A fabric whose managers come one after another, each with its M_Key."""

from __future__ import annotations

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.topologies.registry import generate
from softib.iba.constants import PortState
from softib.iba.smp import PortInfo
from softib.sm.config import SmConfig
from softib.sm.subnet_manager import SubnetManager
from tests.sm.wire import settle

A, B = 0xAAAA_1111_2222_3333, 0xBBBB_4444_5555_6666


class Lab:
    """One fabric; each manager comes after the one before is gone. ``keys``: what the last one knew."""

    def __init__(self):
        self.fabric = generate("fat-tree", radix=4, levels=2)
        self.plane = AgentPlane(self.fabric)
        self.port = int(np.flatnonzero(self.fabric.linked & ~self.fabric.is_switch[self.fabric.port_node])[0])
        self.now_ps = 0

    def managed(self, knows: SubnetManager | None = None, **config) -> SubnetManager:
        sm = SubnetManager(SmConfig(window=64, **config))
        sm.mkeys.local_guid = int(self.fabric.port_guid[self.port])
        if knows is not None:
            sm.mkeys.update(knows.mkeys.held)
            sm.mkeys.neighbours.update(knows.mkeys.neighbours)
        self.now_ps = settle(sm, self.plane, self.port, self.now_ps)
        return sm

    @property
    def ends(self) -> np.ndarray:
        f = self.fabric
        hosts = np.flatnonzero(f.linked & ~f.is_switch[f.port_node])
        return np.concatenate([hosts, f.node_base[f.switch_node]])

    def keys(self) -> set[int]:
        return set(PortInfo.mkey.get(self.fabric.port_info[self.ends]).tolist())

    def violations(self) -> int:
        return int(PortInfo.mkey_violations.get(self.fabric.port_info[self.ends]).sum())

    def down(self) -> None:
        """All links between switches and hosts train anew: they are INIT, and keys stay."""
        f = self.fabric
        PortInfo.port_state.set(f.port_info, int(PortState.INIT), np.flatnonzero(f.linked))
