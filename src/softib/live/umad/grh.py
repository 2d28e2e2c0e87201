"""Global routes (GRH) and P_Key indices of MADs between umad devices, as a host's driver shows them
(IBA 8.3, 13.5.4).

The header of a received message describes the packet's GRH from the receiver's side: it has the sender's GID, and the
index of the receiver's GID to which the packet was sent. A packet whose GRH names a GID that the port at the DLID does
not have is dropped there (IBA 9.6.1.2.3).
"""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.subnets import subnet_of
from softib.iba.smp import PortInfo

__all__ = ["ROUTE", "pkey_index_at", "routes_of"]

ROUTE = slice(32, 56)
"""The fields of the route in ``softib_umad_head``: grh_present, gid_index, hop_limit, traffic_class, gid,
flow_label."""
QPN = slice(20, 24)
LINK_LOCAL = 0xFE80_0000_0000_0000
ANSWERS_HOPS = 0xFF
"""HopLmt of a response with a GRH (IBA 13.5.4.4)."""

Route = bytes


def _port_at(f: Fabric, lid: int, here: int) -> int | None:
    """Return the port that has ``lid`` on the subnet of port ``here``."""
    ends = f.end_ports()
    low = f.lid[ends].astype(np.int64)
    hit = ends[
        (low > 0) & (low <= lid) & (lid < low + (1 << np.asarray(PortInfo.lmc.get(f.port_info[ends]), np.int64)))
    ]
    if len(hit) > 1:
        subnet = subnet_of(f)
        hit = hit[subnet[hit] == subnet[here]]
    return int(hit[0]) if len(hit) else None


def _gid(f: Fabric, port: int, index: int) -> bytes:
    """Return GID ``index`` of ``port``; zeros if the table has none."""
    if index >= max(1, int(PortInfo.guid_cap.get(f.port_info[port]))):
        return bytes(16)
    guid = int(f.guids[f.guid_base[port] + index])
    return (int(PortInfo.gid_prefix.get(f.port_info[port])) << 64 | guid).to_bytes(16, "big")


def _index_of(f: Fabric, port: int, gid: bytes) -> int | None:
    """Return the index of this GID at ``port``. The link-local prefix is valid at every port (IBA 4.1.1)."""
    prefix, guid = int.from_bytes(gid[:8], "big"), np.uint64(int.from_bytes(gid[8:], "big"))
    if prefix not in (LINK_LOCAL, int(PortInfo.gid_prefix.get(f.port_info[port]))) or not guid:
        return None
    base, n = int(f.guid_base[port]), max(1, int(PortInfo.guid_cap.get(f.port_info[port])))
    hits = np.flatnonzero(f.guids[base : base + n] == guid)
    return int(hits[0]) if len(hits) else None


def routes_of(f: Fabric, port: int, message: np.ndarray) -> tuple[Route | None, Route | None]:
    """Return the header's route fields for ``message``, which a program on ``port`` wrote with a GRH, as (fields at its
    receiver, fields on an agent's answer to it). (None, None) means that the destination port does not have that GID.
    For SMPs, which have no GRH (IBA 14.2.1.1), the fields are zero."""
    if not message[QPN].any():
        return bytes(24), bytes(24)
    route = message[ROUTE].tobytes()
    there = _port_at(f, int(message[28]) << 8 | int(message[29]), port)
    index = None if there is None else _index_of(f, there, route[4:20])
    if index is None:
        return None, None
    arrives = bytes((1, index)) + route[2:4] + _gid(f, port, route[1]) + route[20:]
    return arrives, bytes((1, route[1], ANSWERS_HOPS)) + route[3:]


def pkey_index_at(f: Fabric, here: int, index: int, there: int) -> int:
    """Return the P_Key index at port ``there`` of the partition at ``index`` of port ``here``; 0 if ``there`` is not in
    that partition."""
    n = int(f.pkey_cap[there])
    if index >= int(f.pkey_cap[here]):
        return 0
    pkey = int(f.pkeys[f.pkey_base[here] + index]) & 0x7FFF
    table = f.pkeys[f.pkey_base[there] : int(f.pkey_base[there]) + n] & np.uint16(0x7FFF)
    if index < n and int(table[index]) == pkey:
        return index
    hits = np.flatnonzero(table == pkey)
    return int(hits[0]) if len(hits) else 0
