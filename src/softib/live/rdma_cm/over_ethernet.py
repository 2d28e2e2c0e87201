"""rdma_cm over Ethernet: what a program sees of an id whose port is a RoCE adapter.

Requests and paths are InfiniBand's inside the fabric. Programs get what Linux' cma.c gives them over Ethernet: GIDs
made from IP addresses, RoCE v2, an address vector with a GRH and no LIDs.
"""

from __future__ import annotations

from typing import Any

from softib.iba.mad_codec import codec
from softib.iba.sa_records import PathRecord
from softib.live.rdma_cm.address import Addresses
from softib.live.sysfs.roce import ROCE_V2_INDEX, ip_of, mapped

__all__ = ["over_ethernet"]

HOP_LIMIT = 64
"""Hop limit of packets to another host: Linux' default (ip_default_ttl)."""
IPV4_GROUPS = 14 << 28
"""224.0.0.0/4"""


def over_ethernet(a: Addresses, port: int, fields: dict[str, Any]) -> dict[str, Any]:
    """Return ``fields`` of ``softib_cm_reply`` for an id on the Ethernet port row ``port``."""
    sgid, dgid = mapped(ip_of(port)), _ip_gid(a, fields["dgid"])
    fields |= {"sgid": sgid, "dgid": dgid, "gid_index": ROCE_V2_INDEX}
    if "path" not in fields:
        return fields
    record = codec(PathRecord)
    path = record.unpack(fields["path"]) | {"sgid": sgid, "dgid": dgid, "slid": 0, "hop_limit": HOP_LIMIT}
    if path["dlid"] < 0xC000:  # the MLID of a group leads the library to its members
        path["dlid"] = 0
    return fields | {"path": record.pack(**path), "is_global": 1, "path_bits": 0}


def _ip_gid(a: Addresses, gid: bytes) -> bytes:
    if gid[:1] == b"\xff":
        return mapped(IPV4_GROUPS | int.from_bytes(gid[12:], "big"))
    peer = a.port_of_gid(gid) if len(gid) == 16 else None
    return gid if peer is None else mapped(ip_of(peer))
