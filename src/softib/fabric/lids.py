"""The LIDs that a fabric's ports have already: which of them a subnet manager can let stand (IBA
4.1.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from softib.fabric.subnets import subnet_of
from softib.iba.constants import PortState
from softib.iba.lids import may_stand
from softib.iba.smp import SwitchInfo

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["common_lmc", "unmanaged_ends", "valid_lids"]


def valid_lids(fabric: Fabric) -> tuple[np.ndarray, np.ndarray]:
    """``(ports, which)``: the rows of all end ports, and bool[ports] of those whose LIDs are
    unicast, aligned to their LMC and nobody else's on their subnet (of several owners of one LID the
    first keeps it)."""
    ports = fabric.end_ports()
    good = may_stand(fabric.lid[ports], fabric.lmc[ports])
    if not good.all():
        good = may_stand(fabric.lid[ports], fabric.lmc[ports], subnet_of(fabric)[ports])
    return ports, good


def common_lmc(fabric: Fabric) -> int:
    """The LMC that most CA ports with a LID have, 0 where none has one: what the subnet was given
    before."""
    ports = fabric.end_ports()
    ports = ports[~fabric.is_switch[fabric.port_node[ports]] & (fabric.lid[ports] > 0)]
    return int(np.bincount(fabric.lmc[ports], minlength=1).argmax()) if len(ports) else 0


def unmanaged_ends(fabric: Fabric) -> np.ndarray:
    """bool[ports]: end ports at switches that no manager has programmed while it has programmed
    others.

    The switch's LinearFDBTop is 0, and none of its links got beyond INIT: no path led there from
    the manager's port. What LIDs such ports hold are those of another time.
    """
    f = fabric
    bare = SwitchInfo.linear_fdb_top.get(f.switch_info) == 0
    out = np.zeros(f.sizes.ports, bool)
    if bare.all() or not bare.any():
        return out
    up = np.flatnonzero((f.port_state > PortState.INIT) & (f.port_num > 0) & f.is_switch[f.port_node])
    bare[f.switch_of_node[f.port_node[up]]] = False
    on_bare = np.zeros(f.sizes.nodes, bool)
    on_bare[f.switch_node[bare]] = True
    ends = f.end_ports()
    peer = np.where(f.is_switch[f.port_node[ends]], ends, np.maximum(f.port_peer[ends], 0))
    out[ends] = on_bare[f.port_node[peer]]
    return out
