"""A running fabric as an input of analyses: a copy of its arrays at one moment.

It contains what discovery would find: a cable whose ends are not LinkUp (failed, disabled, remote
end dead) is not in the copy, as ``ibnetdiscover`` would not list it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from softib.errors import PeerError, SoftibError
from softib.fabric.formats.base import ReadResult
from softib.fabric.model import Fabric, Source
from softib.fabric.plugging import delete_cables
from softib.fabric.subnets import mark_internal, master_port, subnet_of
from softib.iba.constants import CapMask, PhysState
from softib.iba.smp import PortInfo, SMInfo
from softib.live.control import ask
from softib.live.instances import Instance
from softib.live.sa_client import pair_sls, path_sls
from softib.live.shared_fabric import SharedFabric
from softib.live.subnet_reader import SubnetReader, manager_of
from softib.live.umad_client.fabric_port import FabricPort
from softib.sm.config import SmConfig

__all__ = ["FORMAT", "read"]

FORMAT = "running"
RECORDS = frozenset({"lids", "lmcs", "states", "speeds", "capabilities", "lfts", "sm", "unlinked", "lost links"})
PATIENCE_S = 15.0
PAUSE_S = 0.1


def read(instance: Instance) -> ReadResult:
    """Return a private copy of the fabric of ``instance``: tables, states and counters as they are
    now.

    ``extra["path_sls"]`` is a function that queries the subnet administrator for the SLs of all paths between the ends
    of a graph (:func:`softib.live.sa_client.path_sls`). ``extra["pair_sls"]`` queries the SLs of some pairs
    (:func:`softib.live.sa_client.pair_sls`). Raises :class:`PeerError` if its configuration keeps changing, or its
    daemon has ended.
    """
    fabric, status = _still(instance)
    of_source = fabric.source.records & {"lengths"}
    sms = mark_internal(_managers(fabric), fabric, status)
    if not all(sm.get("internal") for sm in sms):  # most fabrics have only the internal one: no MAD needed
        sms = [_answered(instance, fabric, sm) for sm in sms]
    fabric.source = Source(FORMAT, f"the running fabric {instance.name!r}", RECORDS | of_source, sms=sms)
    down = _down(fabric)
    ends = fabric.cable_port[down].astype(np.int64)
    fabric.source.down_cables = ends[(ends >= 0).all(axis=1)]
    delete_cables(fabric, down)
    return ReadResult(
        fabric, [], FORMAT, extra={"path_sls": partial(path_sls, instance), "pair_sls": partial(pair_sls, instance)}
    )


def _still(instance: Instance) -> tuple[Fabric, dict[str, Any]]:
    """Return a consistent copy and the daemon's status: its configuration epoch is the same before and after the copy.

    (The epoch in the mapping is not enough: it is written up to one step of the loop after the change.)
    """
    until = time.monotonic() + PATIENCE_S
    before = ask(instance, "status")["epoch"]
    while True:
        fabric = SharedFabric.snapshot(instance.shared_fabric)
        status = ask(instance, "status")
        after = status["epoch"]
        if before == after:
            return fabric, status
        if time.monotonic() > until:
            raise PeerError(
                f"the configuration of {instance.name!r} keeps changing; try again when its subnet manager has finished"
            )
        before = after
        time.sleep(PAUSE_S)


def _down(f: Fabric) -> np.ndarray:
    """Return cables without a working link. A cable whose remote end is unknown is judged by its known end."""
    up = PortInfo.port_phys_state.get(f.port_info) == PhysState.LINK_UP
    return np.flatnonzero(~np.where(f.cable_port >= 0, up[f.cable_port], True).all(axis=1))


def _answered(instance: Instance, f: Fabric, sm: dict[str, Any]) -> dict[str, Any]:
    """Return ``sm`` with the priority and state of its SMInfo, read on its own port, if it answers."""
    node, portnum = f"{int(f.node_guid[sm['node']]):#018x}", int(sm["portnum"])
    try:
        port = FabricPort(instance, node, portnum=portnum or None)  # port 0 is the only port of a switch with a QP0
    except SoftibError:
        return sm
    try:
        info = SubnetReader(port, SmConfig(), lambda phase, nodes, mads: None).manager_here()
    finally:
        port.close()
    return sm if info is None or int(SMInfo.guid.get(info)) != sm["guid"] else {**sm, **manager_of(info)}


def _managers(f: Fabric) -> list[dict[str, Any]]:
    """Return ports with IsSM set, without priorities. The master of a subnet is the manager whose LID its ports hold as
    MasterSMLID."""
    ends, subnet = f.end_ports(), subnet_of(f)
    says = ends[(PortInfo.cap_mask.get(f.port_info[ends]) & CapMask.IS_SM) > 0]
    masters = {master_port(f, ends[subnet[ends] == number]) for number in np.unique(subnet[says]).tolist()}
    return [
        {
            "node": int(f.port_node[p]),
            "portnum": int(f.port_num[p]),
            "priority": None,
            "guid": int(f.port_guid[p]),
            "state": "master" if p in masters else "standby",
        }
        for p in says.tolist()
    ]
