"""Queue pairs of the packet layer as rows, from the messages that they send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.iba.rates import MTU_BYTES
from softib.iba.smp import PortInfo
from softib.sim.messages import Messages, Transport
from softib.sim.packet import tables as t
from softib.sim.packet.ethernet_tables import PAYLOAD_OCTETS
from softib.sim.packet.network import aligned

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["first_vl", "path_mask", "queue_pairs"]


def queue_pairs(
    fabric: Fabric, ends: np.ndarray, m: Messages, sl: np.ndarray, net: Any, network: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(``State.qp``, ``State.order``, row of the queue pair of each message)"""
    link_fs = net.port[:, t.FS]
    order = np.argsort(m.qp, kind="stable").astype(np.int64)
    names, first, row = np.unique(m.qp, return_index=True, return_inverse=True)
    begins = np.searchsorted(m.qp[order], names)
    q = aligned((max(len(names), 1), t.QP_COLUMNS), np.int64)
    n = len(names)
    src, dst = ends[m.src[first]].astype(np.int64), ends[m.dst[first]].astype(np.int64)
    lid = fabric.lid.astype(np.int64)
    q[:n, t.SRC], q[:n, t.DST] = src, dst
    q[:n, t.BACK_LID] = lid[src] + (m.path_bits[first] & path_mask(fabric, src))
    q[:n, t.SL] = sl[first]
    q[:n, t.OUT_VL], q[:n, t.BACK_VL] = first_vl(fabric, src, sl[first]), first_vl(fabric, dst, sl[first])
    q[:n, t.PAYLOAD] = _path_mtu(fabric, m, first, src, dst)
    q[:n, t.SERVICE] = m.transport[first]
    if network != "infiniband":
        on_frames(q[:n], net, network)
    q[:n, t.FIRST_MESSAGE], q[:n, t.END_MESSAGE] = begins, np.append(begins[1:], len(order))
    for column in (t.CURRENT_MESSAGE, t.DONE_MESSAGE, t.RX_MESSAGE, t.RESPONSE, t.RESPONSE_END):
        q[:n, column] = begins
    q[:n, t.LAST_MESSAGE] = q[:n, t.END_MESSAGE]
    rate = m.rate_gbps[first]
    for column, port in ((t.PS_PACKET, src), (t.BACK_PS_PACKET, dst)):
        link_gbps = np.divide(8e6, link_fs[port], out=np.zeros(n), where=link_fs[port] > 0)
        limited = (rate > 0) & (rate < link_gbps)
        q[:n, column] = np.where(limited, np.rint(1000 * link_gbps / np.where(limited, rate, 1)), 0)
    q[:n, t.WAKE] = -1
    q[:n, t.REPOST] = m.repost_ps[first]
    unreliable = m.transport[first] != Transport.RC
    q[:n, t.RECEIVES_FREE] = np.where(unreliable, m.receives[first], 0)
    return q, order, row.astype(np.int64)


def on_frames(q: np.ndarray, net: Any, network: str) -> None:
    """Queue pairs over Ethernet: the payload of a frame, and the SL as priority."""
    most = int(net.ethernet[PAYLOAD_OCTETS])
    q[:, t.PAYLOAD] = most if network == "tcp" else np.minimum(q[:, t.PAYLOAD], most)
    q[:, t.OUT_VL] = q[:, t.BACK_VL] = q[:, t.SL]
    if network == "tcp":
        q[:, t.SERVICE] = 0


def first_vl(fabric: Fabric, ports: np.ndarray, sl: np.ndarray) -> np.ndarray:
    """VL that an end port sends ``sl`` on: a CA by its own table, port 0 of a switch as the identity."""
    rows = fabric.sl2vl[np.maximum(fabric.sl2vl_base[ports], 0)]
    pair = rows[np.arange(len(ports)), sl >> 1].astype(np.int64)
    vl = np.where(sl & 1, pair & 15, pair >> 4)
    return np.where(fabric.port_num[ports] == 0, 0, vl)


def path_mask(fabric: Fabric, ports: np.ndarray) -> np.ndarray:
    """The path bits that each end port has (LMC). Those of a path are added to both of its base LIDs; beyond LMC they wrap."""
    mask: np.ndarray = (1 << fabric.lmc[ports].astype(np.int64)) - 1
    return mask


def _path_mtu(fabric: Fabric, m: Messages, first: np.ndarray, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Payload of a packet of each queue pair: the smallest NeighborMTU on its way, which is what its path record says."""
    mtus = np.array([MTU_BYTES.get(code, 4096) for code in range(16)], np.int64)
    mtu = mtus[PortInfo.neighbor_mtu.get(fabric.port_info)]
    of_ends: np.ndarray = np.minimum(mtu[src], mtu[dst])
    if len(np.unique(mtu[fabric.linked])) < 2:
        return of_ends
    from softib.sim.paths import Plane

    return np.minimum(of_ends, Plane(fabric).lay(m).mtu[first])
