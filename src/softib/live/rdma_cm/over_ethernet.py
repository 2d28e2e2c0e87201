"""rdma_cm over Ethernet: the attributes that a program sees for an id on a RoCE port.

Inside the fabric, requests and paths are those of InfiniBand. Programs and captures get what Linux' cma.c produces over
Ethernet: GIDs made from IP addresses, RoCE v2, and an address vector with a GRH and no LIDs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.iba.cm import REQ
from softib.iba.constants import LID_PERMISSIVE
from softib.iba.mad_codec import codec
from softib.iba.roce_frames import RoceEnds
from softib.iba.sa_records import PathRecord
from softib.iba.smp import ATTR_AT
from softib.live.rdma_cm.address import Addresses
from softib.live.sysfs.roce import ROCE_V2_INDEX, ip_of, mac_of, mapped

__all__ = ["as_over_ethernet", "ends_of", "over_ethernet"]

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
    if path["dlid"] < 0xC000:  # the library finds the members of a group by its MLID
        path["dlid"] = 0
    return fields | {"path": record.pack(**path), "is_global": 1, "path_bits": 0}


def _ip_gid(a: Addresses, gid: bytes) -> bytes:
    if gid[:1] == b"\xff":
        return mapped(IPV4_GROUPS | int.from_bytes(gid[12:], "big"))
    peer = a.port_of_gid(gid) if len(gid) == 16 else None
    return gid if peer is None else mapped(ip_of(peer))


def ends_of(source: int, destination: int) -> RoceEnds:
    """Return the addresses of RoCE v2 frames from port row ``source`` to ``destination``."""
    gids = mapped(ip_of(source)), mapped(ip_of(destination))
    return RoceEnds(mac_of(source), gids[0], mac_of(destination), gids[1], version=2)


def as_over_ethernet(mad: np.ndarray, ends: RoceEnds) -> np.ndarray:
    """Return a MAD of the connection manager as Linux sends it over Ethernet: a request names the GIDs of ``ends``
    and, with a hop limit above 1, permissive LIDs (``cm_format_req``)."""
    if int.from_bytes(mad[ATTR_AT : ATTR_AT + 2], "big") != REQ.attr:
        return mad
    out = mad.copy()
    body = out[-REQ.size :]
    for name, value in (("local", ends.source_gid), ("remote", ends.destination_gid)):
        getattr(REQ, f"primary_{name}_lid").set(body, LID_PERMISSIVE)
        getattr(REQ, f"primary_{name}_gid").set(body, np.frombuffer(value, np.uint8))
    REQ.primary_hop_limit.set(body, HOP_LIMIT)
    return out
