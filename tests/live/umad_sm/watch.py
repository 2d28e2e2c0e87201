"""Looks on while managers are killed: ``watch.py paths MAPPING FILE`` or ``watch.py masters LID,LID FILE`` (the latter under
``softib run``). Each look is a line of FILE, which begins with the time of the monotonic clock in seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from softib.iba.constants import PortState, SmpAttr
from softib.iba.smp import PortInfo, SMInfo
from softib.live.shared_fabric import SharedFabric
from softib.live.umad_client import wire
from softib.live.umad_client.abi import ASKS
from softib.live.umad_client.devices import find_device
from softib.live.umad_client.port import UmadPort

EVERY_S = 0.02
HOPS = 16


class Paths:
    """Which pairs of hosts the tables and the links connect, looked up in the mapping of a running fabric."""

    def __init__(self, mapping: Path):
        f = self.f = SharedFabric.open(mapping).fabric
        self.hosts = np.flatnonzero(f.linked & ~f.is_switch[f.port_node])
        self.row = np.full(f.sizes.nodes, -1)
        self.row[f.switch_node] = np.arange(f.sizes.switches)

    def connected(self) -> np.ndarray:
        """bool[hosts, hosts]"""
        f, hosts = self.f, self.hosts
        n = len(hosts)
        lid = PortInfo.lid.get(f.port_info[hosts]).astype(np.int64)
        active = PortInfo.port_state.get(f.port_info) == PortState.ACTIVE
        target = np.tile(np.arange(n), n)
        at = np.where(active[hosts], f.port_peer[hosts], -1).repeat(n)  # the port by which the packet comes in
        arrived = np.zeros(n * n, bool)
        for _ in range(HOPS):
            at = np.where((at >= 0) & active[at], at, -1)
            node = np.where(at >= 0, f.port_node[at], 0)
            arrived |= (at >= 0) & (at == hosts[target])
            on_switch = (at >= 0) & (self.row[node] >= 0)
            out = f.lft[np.where(on_switch, self.row[node], 0), lid[target]].astype(np.int64)
            on_switch &= (out > 0) & (out <= f.node_nports[node])
            leaves = np.where(on_switch, f.node_base[node] + out, 0)
            at = np.where(on_switch & active[leaves], f.port_peer[leaves], -1)
        return arrived.reshape(n, n) | np.eye(n, dtype=bool)


def watch_paths(mapping: Path, out: Path) -> None:
    paths = Paths(mapping)
    n = len(paths.hosts)
    since: dict[int, float] = {}
    with out.open("w", buffering=1) as file:
        while True:
            now = time.monotonic()
            lost = set(np.flatnonzero(~paths.connected().ravel()).tolist())
            for pair in [p for p in since if p not in lost]:
                file.write(f"{now:.3f} {pair // n} {pair % n} {now - since.pop(pair):.3f}\n")
            for pair in lost:
                since.setdefault(pair, now)
            time.sleep(EVERY_S)


def watch_masters(lids: list[int], out: Path) -> None:
    wire.TIMEOUT_PS, wire.RETRIES = 60 * 10**9, 0
    port = UmadPort(find_device(), ASKS, 50)
    with out.open("w", buffering=1) as file:
        while True:
            answers = [wire.transact(port, wire.smp_get(SmpAttr.SM_INFO, dlid=lid)) for lid in lids]
            states = [-1 if a is None else int(SMInfo.sm_state.get(a)) for a in answers]
            file.write(f"{time.monotonic():.3f} {' '.join(map(str, states))}\n")
            time.sleep(EVERY_S)


if __name__ == "__main__":
    what, about, to = sys.argv[1:]
    if what == "paths":
        watch_paths(Path(about), Path(to))
    else:
        watch_masters([int(lid) for lid in about.split(",")], Path(to))
