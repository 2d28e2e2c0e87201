"""SLtoVL mapping (IBA 7.6.6, 14.2.5.8): the VLs of a mapping, the SLs that a subnet uses, and the
ports at which packets of an SL are dropped or starve. They are dropped if the VL of the SL is 15 or
not operational; they starve if the VL has no weight in either VL arbitration table (IBA 7.6.9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from softib.iba.smp import PortInfo
from softib.sm.config import SmConfig
from softib.sm.database import Database
from softib.sm.options.qos import DROP, KINDS

if TYPE_CHECKING:
    from softib.routing.engine import Routing
    from softib.sm.managers.qos_mgr import QosManager

__all__ = ["SlTrouble", "cut_to", "engine_map", "image_of_vls", "sl_troubles", "sls_in_use"]

NO_PATH = 255


def image_of_vls(vls: np.ndarray) -> np.ndarray:
    """Return uint8[..., 16] VLs by SL as SLtoVLMappingTable (uint8[..., 8])."""
    return np.asarray(vls[..., 0::2] << 4 | vls[..., 1::2]).astype(np.uint8)


def cut_to(vls: np.ndarray, operational: np.ndarray | int) -> np.ndarray:
    """Return the VLs on a link with OperationalVLs code ``operational``: the low bits are kept, and
    15, which drops, stays (as in OpenSM)."""
    mask = (1 << (np.asarray(operational, np.int64) - 1)) - 1
    return np.where(vls == DROP, DROP, vls & mask)


def engine_map(routing: Routing, s: int, inputs: int) -> np.ndarray | None:
    """Return uint8[inputs, outputs, 16] that the engine sets for switch ``s`` of the graph; None if it sets none."""
    if routing.sl2vl is None or s < 0:
        return None
    table = np.asarray(routing.sl2vl)
    table = table.reshape(-1, 1, 1, 16) if table.ndim < 4 else table
    of_switch = table[s % table.shape[0]]
    shape = (max(inputs, of_switch.shape[0]), max(inputs, of_switch.shape[1]), 16)
    return np.broadcast_to(of_switch, shape)[:inputs, :inputs]


@dataclass(frozen=True)
class SlTrouble:
    """A fault of an SL. ``user`` sends traffic on SL ``sl``. The fault ``what`` is at port
    ``portnum`` of node ``guid`` (``port`` is the text for both), and at ``more`` other ports of
    this ``kind``.
    """

    sl: int
    user: str
    port: str
    guid: int
    portnum: int
    kind: str
    more: int
    what: str

    def __str__(self) -> str:
        others = f" and {self.more} more of its kind ({self.kind})" if self.more else ""
        return f"SL {self.sl} of {self.user}: {self.port}{others} {self.what}"


def sls_in_use(config: SmConfig, path_sl: np.ndarray | None) -> dict[int, str]:
    """Return the user of each SL: the engine, or if it assigns no SLs, partitions and QoS
    levels."""
    if path_sl is not None:
        return {int(sl): "the engine" for sl in np.unique(path_sl) if sl != NO_PATH}
    users = {p.sl: f"partition {p.name}" for p in reversed(config.known_partitions)}
    for partition in config.known_partitions:
        users |= {g.sl: f"a group of partition {partition.name}" for g in partition.groups if g.sl not in users}
    if config.qos_policy is not None:
        users |= {
            x.sl: f"QoS level {x.name}" for x in config.qos_policy.levels if x.sl is not None and x.sl not in users
        }
    return users


def sl_troubles(db: Database, config: SmConfig, qos: QosManager, path_sl: np.ndarray | None) -> list[SlTrouble]:
    """Return one fault for each SL in use that, with the configured options, is dropped or has no
    weight at ports of some kind."""
    users, troubles = sls_in_use(config, path_sl), []
    several = PortInfo.vl_cap.get(db.port_info[qos.ports]) > 1
    for k, kind in enumerate(KINDS):
        ports = qos.ports[qos.kind[qos.ports] == k]
        if not len(ports):
            continue
        tables, arbitrate = qos.tables[kind], several[qos.kind[qos.ports] == k]
        for sl, user in sorted(users.items()):
            vl = tables.sl2vl[sl]
            mask = (1 << (qos.vls[ports] - 1)) - 1
            dropped = np.full(len(ports), vl == DROP)
            weighed = np.zeros(len(ports), bool)
            for entry_vl, weight in (*tables.vlarb_high, *tables.vlarb_low):
                weighed |= ((entry_vl & mask) == (vl & mask)) & (weight > 0)
            starved = ~dropped & ~weighed & arbitrate
            for which, effect in ((dropped, "drops it"), (starved, f"gives its VL {vl} no weight")):
                if which.any():
                    first, others = int(ports[np.flatnonzero(which)[0]]), int(which.sum()) - 1
                    guid, portnum = int(db.node_guid[db.port_node[first]]), int(db.port_num[first])
                    troubles.append(SlTrouble(sl, user, db.port_name(first), guid, portnum, kind, others, effect))
    return troubles
