"""``umad:DEVICE``: a subnet, read by Gets, as a fabric."""

from __future__ import annotations

import numpy as np

from softib.errors import MadTimeout
from softib.fabric.builder import FabricBuilder
from softib.fabric.formats.base import Problem, ReadResult
from softib.fabric.model import Fabric, Source
from softib.iba.constants import PhysState
from softib.iba.smp import NodeInfo, PortInfo, SMInfo, SwitchInfo
from softib.live.subnet_reader.gets import Progress, Subnet, read_subnet
from softib.live.umad_client.devices import find_device
from softib.live.umad_client.port import UmadPort
from softib.live.umad_client.registrations import ASKS
from softib.live.umad_sm.wire import MadWire
from softib.sm.database import Database
from softib.sm.ha.election import SmState

__all__ = ["PREFIX", "fabric_of", "read", "read_wire"]

PREFIX = "umad:"
PROGRAMMED, BARE = "running", "umad"
"""Formats: a subnet that a manager programmed (its tables are judged as they are), and one that
none did."""
RECORDS = frozenset({"lids", "lmcs", "states", "speeds", "capabilities", "sm", "unlinked"})
MLIDS = 1024


def read(source: str, progress: Progress = lambda what, nodes, mads: None) -> ReadResult:
    """The subnet of ``umad:DEVICE`` (``umad:`` alone: the first port that is up). Nothing but Gets
    is sent.

    Raises :class:`InputError` where there is no such device, :class:`MadTimeout` where the port
    itself does not answer.
    """
    device = find_device(source.removeprefix(PREFIX) or None)
    port = UmadPort(device, ASKS)
    try:
        return read_wire(port, source, progress, f" from {device}")
    finally:
        port.close()


def read_wire(
    wire: MadWire, source: str, progress: Progress = lambda what, nodes, mads: None, device: str = ""
) -> ReadResult:
    """The subnet behind an open ``wire``, under the name ``source``. Raises :class:`MadTimeout`
    where the own port does not answer."""
    subnet = read_subnet(wire, None, progress)
    if subnet.db.sm_port < 0:
        why = "; ".join(subnet.report.problems[:3]) or "its link is down"
        raise MadTimeout(f"{source}: no subnet can be seen{device}: {why}")
    fabric = fabric_of(subnet, source)
    programmed = bool(SwitchInfo.linear_fdb_top.get(fabric.switch_info).any())
    problems = [Problem(source, 0, line) for line in subnet.report.problems]
    return ReadResult(fabric, problems, PROGRAMMED if programmed else BARE, notes=subnet.notes)


def fabric_of(subnet: Subnet, name: str) -> Fabric:
    """The arrays of what was read; nodes by NodeGUID, so that they do not depend on the order of
    answers."""
    db = subnet.db
    order = np.argsort(db.node_guid, kind="stable")
    node_at = np.empty(db.n_nodes, np.int64)
    node_at[order] = np.arange(db.n_nodes)
    b = FabricBuilder(name, mlids=MLIDS)
    partitions = np.asarray(NodeInfo.partition_cap.get(db.node_info))[order]
    enforced = np.where(db.is_switch, SwitchInfo.partition_enforcement_cap.get(db.switch_info), 0)[order]
    b.nodes(
        db.n_nodes,
        db.node_type[order],
        db.node_nports[order],
        node_guid=db.node_guid[order],
        sys_guid=db.sys_guid[order],
        vendor_id=db.vendor_id[order],
        device_id=db.device_id[order],
        revision=db.revision[order],
        pkey_cap=partitions,
        external_pkey_cap=enforced,
    )
    rows = np.flatnonzero(db.port_peer >= 0)
    peers = db.port_peer[rows]
    one = rows <= peers
    a, z = rows[one], peers[one]
    b.links(node_at[db.port_node[a]], db.port_num[a], node_at[db.port_node[z]], db.port_num[z])
    known = np.flatnonzero(~db.is_switch[db.port_node] & (db.port_guid > 0))
    b.port_guids(node_at[db.port_node[known]], db.port_num[known], db.port_guid[known])
    f = b.build()
    port_at = f.node_base[node_at[db.port_node]] + db.port_num.astype(np.int64)
    _images(f, db, order, port_at)
    _tables(f, subnet, node_at, port_at)
    records = RECORDS | ({"lfts"} if subnet.lft.size else frozenset())
    f.source = Source("umad", name, records, sms=_managers(subnet, node_at))
    return f


def _images(f: Fabric, db: Database, order: np.ndarray, port_at: np.ndarray) -> None:
    """What devices said of themselves; a port that said nothing is down."""
    f.node_desc[:] = db.node_desc[order]
    heard = db.has_port_info
    f.port_info[port_at[heard]] = db.port_info[heard]
    silent = port_at[~heard & (db.port_peer < 0)]
    PortInfo.port_phys_state.set(f.port_info, int(PhysState.POLLING), silent)
    PortInfo.port_state.set(f.port_info, 1, silent)
    f.switch_info[:] = db.switch_info[order][f.switch_node]


def _tables(f: Fabric, subnet: Subnet, node_at: np.ndarray, port_at: np.ndarray) -> None:
    if subnet.lft.size:
        width = min(subnet.lft.shape[1], f.lft.shape[1])
        f.lft[f.switch_of_node[node_at[subnet.switches]], :width] = subnet.lft[:, :width]
    for row, first, entries in subnet.pkeys:
        port = int(port_at[row])
        n = max(0, min(len(entries), int(f.pkey_cap[port]) - first))
        f.pkeys[f.pkey_base[port] + first : f.pkey_base[port] + first + n] = entries[:n]
    for row, source, vls in subnet.sl2vl:
        f.sl2vl[f.sl2vl_base[port_at[row]] + source] = vls


def _managers(subnet: Subnet, node_at: np.ndarray) -> list[dict[str, object]]:
    db = subnet.db
    return [
        {
            "node": int(node_at[db.port_node[p]]),
            "portnum": int(db.port_num[p]),
            "priority": int(SMInfo.priority.get(info)),
            "guid": int(SMInfo.guid.get(info)),
            "state": _state(int(SMInfo.sm_state.get(info))),
        }
        for p, info in sorted(subnet.others.items())
    ]


def _state(value: int) -> str:
    return SmState(value).name.lower().replace("_", "") if value in set(SmState) else str(value)
