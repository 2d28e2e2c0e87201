"""A running fabric in a thread of the test, its manager softib's own, with a tenant service on it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np

from softib.fabric.virtual_ports import give_virtual_ports
from softib.iba.smp import PortInfo
from softib.live.internal_sm.settings import ManagerSettings
from softib.live.umad_client.abi import ASKS
from softib.live.umad_client.fabric_port import FabricPort
from softib.monitor.opening import Opened
from softib.sm.config import SmConfig
from softib.tenants import changes
from softib.tenants.changes import Options
from softib.tenants.managers import InternalManager
from softib.tenants.model import Member
from softib.tenants.service import TenantService
from tests.preload.verbs.fabric_up import FabricUp, tree

FOREIGN_KEY = 0x1234


class SubnetLab(FabricUp):
    """``hosts``: their PortGUIDs; ``service`` keeps its tenants in ``folder``."""

    def __init__(self, folder: Path, levels: int = 2, functions: tuple[int, ...] = ()):
        """``functions``: virtual functions of the first hosts."""
        fabric = tree(levels)
        ends = np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])[: len(functions)]
        counts = np.zeros(fabric.sizes.ports, np.int64)
        counts[ends] = functions
        give_virtual_ports(fabric, counts, np.zeros(fabric.sizes.ports, bool))
        super().__init__(fabric, reread=ManagerSettings().read, config=SmConfig(engine="minhop"))
        f = self.fabric
        self.rows = {int(f.port_guid[p]): p for p in f.end_ports().tolist() if f.port_num[p]}
        self.hosts = list(self.rows)
        self.folder = folder
        self.service = self.serve(folder)

    def restart(self) -> None:
        """Another process of the service goes on with its database."""
        self.service.close()
        self.service = self.serve(self.folder)

    def serve(self, folder: Path, go: threading.Event | None = None) -> TenantService:
        """``go``: the subnet is not read before, and the service is returned at once."""

        def opened() -> Opened:
            assert go is None or go.wait(60)
            port = FabricPort(self.instance, None, ASKS)
            return Opened(port, "lab", None, port.close)

        service = TenantService(folder, opened, InternalManager(self.instance, folder))
        assert service.programmer is not None and (go is not None or service.programmer.ready.wait(60))
        return service

    def table(self, guid: int) -> list[int]:
        """The P_Keys in the device's own memory: port and the switch port before it."""
        f, row = self.fabric, self.rows[guid]
        both = [self._table(row), self._table(int(f.port_peer[row]))]
        assert sorted(both[0]) == sorted(both[1])
        return both[0]

    def _table(self, row: int) -> list[int]:
        f = self.fabric
        keys = f.pkeys[f.pkey_base[row] : f.pkey_base[row] + f.pkey_cap[row]]
        return keys[keys > 0].tolist()

    def change(self, change, request_id: str | None = None):
        return self.service.change(change, "test", "test", request_id)

    def settled(self, done, seconds: float = 30.0):
        return self.service.settled(done.revision, seconds)

    def lock(self, guid: int, key: int = FOREIGN_KEY) -> None:
        """Another manager owns the port: anybody may read it, Sets without its M_Key are refused (IBA 14.2.4, level 1)."""
        row = np.array([self.rows[guid]])
        self.do(
            lambda: (
                PortInfo.mkey.set(self.fabric.port_info, key, row),
                PortInfo.mkey_protect.set(self.fabric.port_info, bool(key), row),
            )
        )

    def close(self) -> None:
        self.service.close()
        super().close()


def members(*guids: int, full: bool = True) -> dict[int, Member]:
    return dict.fromkeys(guids, Member(full))


def add(lab, pkey, guids, **options):
    return lab.change(lambda d: changes.add_members(d, pkey, guids, Options(**options), lab.service.view.room))


def remove(lab, pkey, *guids):
    return lab.change(lambda d: changes.remove_members(d, pkey, guids))


def delete(lab, pkey):
    """Without the quarantine by time."""
    return lab.change(lambda d: changes.delete_partition(d, pkey, 0.0, 0.0))


def search_now(lab):
    """The search that is due once a minute: one that begins now."""
    programmer, begun = lab.service.programmer, []

    def begin() -> None:
        if programmer._search is None:
            programmer._due = 0.0
            begun.append(True)

    until(lambda: programmer.call(begin) or begun)


def until(what, seconds=20.0):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)
