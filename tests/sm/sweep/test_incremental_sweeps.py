"""A sweep that a trap or PortStateChange calls for asks what changed alone, and leaves what a whole sweep would have left.

The law: after any sequence of faults, what devices hold and what the manager knows is what a fresh manager, with the same memory
of LIDs, of the tree's roots and of where hosts were, finds and writes when it looks at everything.
"""

from __future__ import annotations

import numpy as np
import pytest

from softib.agents.plane import AgentPlane
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import LFT_NO_ROUTE, NodeType, PortState
from softib.iba.smp import PortInfo, SwitchInfo
from softib.sm.subnet_manager import SubnetManager
from tests.sm.room import LOOK_PS, Room
from tests.sm.wire import settle

GETS = ("Get NODE_INFO", "Get NODE_DESC", "Get SWITCH_INFO", "Get PORT_INFO")
TRANSIENT = (
    PortInfo.mkey_violations,
    PortInfo.pkey_violations,
    PortInfo.qkey_violations,
    PortInfo.client_reregister,
    PortInfo.local_port_num,
)
"""Counters, a command, and the port by which the SMP came."""


def picture(sm: SubnetManager) -> dict[tuple[int, int], tuple[object, ...]]:
    """What a manager knows, by NodeGUID and portnum: without row numbers, and without counters of PortInfo."""
    db = sm.database
    info = db.port_info.copy()
    for f in TRANSIENT:
        f.set(info, 0)
    out: dict[tuple[int, int], tuple[object, ...]] = {}
    for p in range(db.n_ports):
        node, peer = int(db.port_node[p]), int(db.port_peer[p])
        far = (int(db.node_guid[db.port_node[peer]]), int(db.port_num[peer])) if peer >= 0 else None
        out[int(db.node_guid[node]), int(db.port_num[p])] = (
            far,
            int(db.port_guid[p]),
            int(db.port_lid[p]),
            int(db.port_lmc[p]),
            bool(db.has_port_info[p]),
            info[p].tobytes(),
            bytes(db.node_desc[node]),
            bytes(db.switch_info[node]),
            int(db.sys_guid[node]),
        )
    return out


def held(f: Fabric) -> dict[str, np.ndarray]:
    """What devices hold."""
    info = f.port_info.copy()
    for field in TRANSIENT:
        field.set(info, 0)
    return {
        "lft": f.lft.copy(),
        "mft": f.mft.copy(),
        "port_info": info,
        "switch_info": f.switch_info.copy(),
        "pkeys": f.pkeys.copy(),
    }


def check_law(room: Room) -> None:
    """A fresh manager changes nothing, and learns the same."""
    sm = room.manager.sm
    before = held(room.f)
    fresh = SubnetManager(sm.config)
    fresh.lids.update(sm.lids)
    fresh._stores.lft.roots, fresh._stores.lft.locations = sm._stores.lft.roots, sm._stores.lft.locations
    copy = room.f.copy()
    settle(fresh, AgentPlane(copy), room.manager.port)
    after = held(copy)
    for name, column in before.items():
        assert (column == after[name]).all(), name
    assert picture(sm) == picture(fresh)


def reset_switch(f: Fabric, node: int) -> None:
    """A switch lost power: its tables and settings are gone."""
    row = int(f.switch_of_node[node])
    f.lft[row] = LFT_NO_ROUTE
    info = f.switch_info[row : row + 1]
    SwitchInfo.linear_fdb_top.set(info, 0)
    PortInfo.lid.set(f.port_info[int(f.node_base[node])][None], 0)


class Faults:
    """Faults of every kind by a seed; ports and nodes that the manager itself hangs on are left alone."""

    def __init__(self, room: Room, seed: int):
        self.room, self.f, self.rng = room, room.f, np.random.default_rng(seed)
        f = self.f
        own = int(f.port_peer[room.manager.port])
        self.own = {int(f.port_node[room.manager.port]), int(f.port_node[own])}
        port = np.arange(len(f.port_peer))
        switch = f.is_switch[f.port_node]
        one_end = (f.port_peer >= 0) & switch & ((f.port_peer > port) | ~switch[np.maximum(f.port_peer, 0)])
        self.cables = [p for p in np.flatnonzero(one_end).tolist() if f.port_peer[p] != room.manager.port]
        self.switches = [n for n in np.flatnonzero(f.is_switch).tolist() if n not in self.own]

    def one(self) -> None:
        kind = self.rng.choice(
            ["down", "up", "flap", "reboot", "swap", "kill", "revive", "describe"],
            p=[0.3, 0.25, 0.1, 0.1, 0.05, 0.05, 0.1, 0.05],
        )
        getattr(self, kind)()

    def _cable(self, up: bool | None = None) -> int | None:
        f = self.f
        state = f.port_state[self.cables] > PortState.DOWN
        fitting = [c for c, s in zip(self.cables, state, strict=True) if up is None or s == up]
        return int(self.rng.choice(fitting)) if fitting else None

    def down(self) -> None:
        if (cable := self._cable(True)) is not None:
            self.room.set_link(cable, False)

    def up(self) -> None:
        if (cable := self._cable(False)) is not None:
            self.room.set_link(cable, True)

    def flap(self) -> None:
        if (cable := self._cable(True)) is not None:
            self.room.set_link(cable, False)
            self.room.set_link(cable, True)

    def reboot(self) -> None:
        """A host restarts: its port comes up without a LID."""
        f = self.f
        hosts = [
            c for c in self.cables if not f.is_switch[f.port_node[f.port_peer[c]]] and f.port_state[c] > PortState.DOWN
        ]
        if hosts:
            cable = int(self.rng.choice(hosts))
            self.room.set_link(cable, False)
            PortInfo.lid.set(f.port_info[int(f.port_peer[cable])][None], 0)
            self.room.set_link(cable, True)

    def swap(self) -> None:
        """Two cables are pulled and plugged crosswise."""
        f = self.f
        a, b = (int(c) for c in self.rng.choice(self.cables, 2, replace=False))
        x, y = int(f.port_peer[a]), int(f.port_peer[b])
        if f.port_node[a] == f.port_node[y] or f.port_node[b] == f.port_node[x]:
            return
        for cable in (a, b):
            self.room.set_link(cable, False)
        f.port_peer[[a, y, b, x]] = [y, a, x, b]
        for cable in (a, b):
            self.room.set_link(cable, True)

    def _links_of(self, node: int) -> list[int]:
        f = self.f
        first = int(f.node_base[node])
        return [p for p in range(first + 1, first + int(f.node_nports[node]) + 1) if f.port_peer[p] >= 0]

    def kill(self) -> None:
        for p in self._links_of(int(self.rng.choice(self.switches))):
            self.room.set_link(p, False)

    def revive(self) -> None:
        """A switch comes back from nothing, with all its cables."""
        node = int(self.rng.choice(self.switches))
        for p in self._links_of(node):
            self.room.set_link(p, False)
        reset_switch(self.f, node)
        for p in self._links_of(node):
            self.room.set_link(p, True)

    def describe(self) -> None:
        hosts = np.flatnonzero(self.f.node_type == NodeType.CA)
        node = int(self.rng.choice(hosts))
        self.room.board.plane.describe(node, f"renamed-{self.rng.integers(1000)}", self.room.now)
        self.room.board.traps(self.room.now)


FABRICS = {
    "fat-tree": {"kind": "fat-tree", "radix": 8, "levels": 2},
    "three-level": {"kind": "fat-tree", "radix": 4, "levels": 3},
    "torus": {"kind": "torus", "dims": [3, 3, 2]},
}


def run_seed(seed: int, kind: str, engine: str) -> Room:
    spec = dict(FABRICS[kind])
    room = Room(generate(spec.pop("kind"), **spec), engine=engine)
    room.rest()
    faults = Faults(room, seed)
    for _ in range(6):
        for _ in range(int(faults.rng.integers(1, 4))):
            faults.one()
            for _ in range(int(faults.rng.integers(0, 12)) * int(faults.rng.integers(0, 2))):
                room.step()
        room.rest()
        check_law(room)
    return room


@pytest.mark.parametrize("seed", [n if n < 3 else pytest.param(n, marks=pytest.mark.slow) for n in range(6)])
@pytest.mark.parametrize(("kind", "engine"), [("fat-tree", "ftree,updn"), ("three-level", "updn"), ("torus", "minhop")])
def test_faults_leave_what_a_whole_sweep_leaves(kind, engine, seed):
    run_seed(seed, kind, engine)


def test_cables_exchanged_while_tables_are_written():
    """What the manager sent to one leaf by a directed route its twin took, and answered: it knows when it sees the cables, and writes both anew."""
    run_seed(184, "three-level", "updn")


def test_a_switch_that_restarts_after_it_was_read_gets_its_lid():
    """It lost power between the Get of SwitchInfo and the Set that clears PortStateChange, which gave it the LinearFDBTop of before."""
    run_seed(4, "torus", "minhop")


def test_traps_that_keep_coming_do_not_put_off_the_look_at_everybody():
    """One host's cable falls or comes back every five seconds. A switch far from it lost power for a moment, and nobody says so: its own trap was lost."""
    room = Room(generate("fat-tree", radix=8, levels=2), engine="updn")
    room.rest()
    faults = Faults(room, 1)
    f = room.f
    host = next(c for c in faults.cables if not f.is_switch[f.port_node[f.port_peer[c]]])
    other = next(n for n in faults.switches if n != f.port_node[host])
    reset_switch(f, other)
    for k in range(6):
        room.set_link(host, bool(k % 2))
        for _ in range(200):  # a sweep, and what is due after it
            room.step()
        room.now += LOOK_PS // 2
    assert SwitchInfo.linear_fdb_top.get(f.switch_info[f.switch_of_node[other]][None])[0] > 0
    assert (f.lft[f.switch_of_node[other]] != LFT_NO_ROUTE).any()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
@pytest.mark.parametrize(("kind", "engine"), [("fat-tree", "ftree,updn"), ("three-level", "updn"), ("torus", "minhop")])
def test_more_faults_leave_what_a_whole_sweep_leaves(kind, engine, seed):
    run_seed(seed, kind, engine)
