"""MultiPathRecord (IBA 15.2.5.20): paths from any of some ports to any of others."""

from __future__ import annotations

import numpy as np

from softib.iba.sa import MultiPathRecord as R
from softib.iba.sa import PathRecord, SaStatus, mask_of
from softib.sm.sa.message import Answer, Request
from softib.sm.sa.path_record import Paths
from softib.sm.sa.subnet import Subnet

__all__ = ["multi_path"]

SHARED = (
    "flow_label",
    "hop_limit",
    "tclass",
    "pkey",
    "qos_class",
    "sl",
    "mtu_selector",
    "mtu",
    "rate_selector",
    "rate",
    "packet_life_time_selector",
    "packet_life_time",
)
"""Components that mean the same in both records."""
COUNTS = mask_of(R, "sgid_count", "dgid_count")
NUMB_PATH = mask_of(R, "numb_path")
SERVICE = mask_of(R, "service_id_8msb", "service_id_56lsb")
MOST = 127


def multi_path(subnet: Subnet, paths: Paths, r: Request) -> Answer:
    """GetMulti: at most NumbPath paths in all, one of each pair first, then further ones."""
    if r.comp_mask & COUNTS != COUNTS:
        return Answer(SaStatus.REQ_INSUFFICIENT_COMPONENTS)
    sources, targets = int(R.sgid_count.get(r.data)), int(R.dgid_count.get(r.data))
    octets = r.data[R.size : R.size + 16 * (sources + targets)]
    if not sources or not targets or len(octets) < 16 * (sources + targets):
        return Answer(SaStatus.REQ_INVALID)
    ends = subnet.ends_of_gid(np.frombuffer(octets.tobytes(), ">u8").reshape(-1, 2).astype(np.uint64))
    if (ends < 0).any():
        return Answer(SaStatus.REQ_INVALID_GID)
    query, mask = PathRecord.zeros(1), 0
    for name in SHARED:
        if r.comp_mask & mask_of(R, name):
            PathRecord.fields[name].set(query, R.fields[name].get(r.data))
            mask |= mask_of(PathRecord, name)
    if r.comp_mask & SERVICE == SERVICE:
        service = int(R.service_id_8msb.get(r.data)) << 56 | int(R.service_id_56lsb.get(r.data))
        PathRecord.service_id.set(query, np.uint64(service))
        mask |= mask_of(PathRecord, "service_id")
    most = int(R.numb_path.get(r.data)) if r.comp_mask & NUMB_PATH else MOST
    pairs = sources * targets
    source, target = np.repeat(ends[:sources], targets), np.tile(ends[sources:], sources)
    records, owner = paths.between(
        np.broadcast_to(query, (pairs, PathRecord.size)),
        np.full(pairs, mask, np.uint64),
        source,
        target,
        np.full(pairs, most),
    )
    nth = np.arange(len(owner)) - np.searchsorted(owner, owner)
    return Answer(records=records[np.lexsort((owner, nth))][: most or MOST])
