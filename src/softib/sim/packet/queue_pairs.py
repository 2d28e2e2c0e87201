"""Queue pairs of the packet layer as rows, from the messages that they send."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from softib.iba.rates import MTU_BYTES
from softib.iba.smp import PortInfo
from softib.sim.messages import Messages, Transport
from softib.sim.packet.tables.transport import QP, RC, UNRELIABLE

if TYPE_CHECKING:
    from softib.fabric.model import Fabric

__all__ = ["first_vl", "path_mask", "queue_pairs"]


def queue_pairs(
    fabric: Fabric, ends: np.ndarray, m: Messages, sl: np.ndarray, net: Any, network: str
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(``qp``, ``rc``, ``unreliable`` and ``order`` of :data:`~softib.sim.packet.tables.State`, row of the queue pair of each message)"""
    link_fs = net.port["fs"]
    order = np.argsort(m.qp, kind="stable").astype(np.int64)
    names, first, row = np.unique(m.qp, return_index=True, return_inverse=True)
    begins = np.searchsorted(m.qp[order], names)
    q, rc, unreliable = (kind.zeros(max(len(names), 1)) for kind in (QP, RC, UNRELIABLE))
    n = len(names)
    src, dst = ends[m.src[first]].astype(np.int64), ends[m.dst[first]].astype(np.int64)
    lid = fabric.lid.astype(np.int64)
    q["src"][:n], q["dst"][:n] = src, dst
    q["back_lid"][:n] = lid[src] + (m.path_bits[first] & path_mask(fabric, src))
    q["sl"][:n] = sl[first]
    q["out_vl"][:n], q["back_vl"][:n] = first_vl(fabric, src, sl[first]), first_vl(fabric, dst, sl[first])
    q["payload"][:n] = _path_mtu(fabric, m, first, src, dst)
    q["service"][:n] = m.transport[first]
    if network != "infiniband":
        on_frames(q[:n], net, network)
    q["first_message"][:n], q["end_message"][:n] = begins, np.append(begins[1:], len(order))
    for column in ("current_message", "done_message", "rx_message"):
        q[column][:n] = begins
    rc["response"][:n] = rc["response_end"][:n] = begins
    q["last_message"][:n] = q["end_message"][:n]
    rate = m.rate_gbps[first]
    for column, port in (("ps_packet", src), ("back_ps_packet", dst)):
        link_gbps = np.divide(8e6, link_fs[port], out=np.zeros(n), where=link_fs[port] > 0)
        limited = (rate > 0) & (rate < link_gbps)
        q[column][:n] = np.where(limited, np.rint(1000 * link_gbps / np.where(limited, rate, 1)), 0)
    q["wake"][:n] = -1
    q["repost"][:n] = m.repost_ps[first]
    unreliable["receives_free"][:n] = np.where(m.transport[first] != Transport.RC, m.receives[first], 0)
    return {"qp": q, "rc": rc, "unreliable": unreliable, "order": order}, row.astype(np.int64)


def on_frames(q: np.ndarray, net: Any, network: str) -> None:
    """Queue pairs over Ethernet: the payload of a frame, and the SL as priority."""
    most = int(net.ethernet.payload)
    q["payload"] = most if network == "tcp" else np.minimum(q["payload"], most)
    q["out_vl"] = q["back_vl"] = q["sl"]
    if network == "tcp":
        q["service"] = 0


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
