"""Answers that contain several paths or nodes. MultiPathRecord (IBA 15.2.5.20) returns paths from
any of several ports to any of several others; TraceRecord (IBA 15.2.5.19) returns the nodes of a
path in order.

A SubnAdmGetTraceTable request contains a PathRecord. IDs in the answer are: the NodeGUID of a node,
the SystemImageGUID of a chassis, and for a port, the NodeGUID with the portnum in its top byte.
They never change, so there is only one generation.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.iba.sa import PATH_COMPONENTS, MultiPathRecord, PathRecord, SaStatus, TraceRecord, mask_of
from softib.sm.sa.message import Answer, Request
from softib.sm.sa.path_record import ANY, Paths
from softib.sm.sa.subnet import Subnet

__all__ = ["multi_path", "trace"]


GENERATION = 1
PORTNUM_AT = 56


def trace(subnet: Subnet, paths: Paths, r: Request) -> tuple[Answer, np.ndarray]:
    """Return the nodes on the best path, and the path's PathRecord (uint8[1 or 0, 64]). Every
    requester that may see the path may see the trace. The request must name both ends."""
    no_path = PathRecord.zeros(0)
    q, mask = r.data[None, : PathRecord.size], np.array([r.comp_mask], np.uint64)
    source, target, status = paths.ends(q, mask)
    if status[0]:
        return Answer(int(status[0])), no_path
    if ANY in (source[0], target[0]):
        return Answer(SaStatus.REQ_INSUFFICIENT_COMPONENTS), no_path
    records, there = paths.gets(q, mask, source, target)
    if not there[0]:
        return Answer(SaStatus.NO_RECORDS), no_path
    hops = _hops(
        subnet, int(subnet.end_port[source[0]]), int(subnet.end_port[target[0]]), int(PathRecord.dlid.get(records)[0])
    )
    if hops is None:
        return Answer(SaStatus.NO_RECORDS), no_path
    db, prefix = subnet.db, subnet.config.subnet_prefix
    nodes, into, out = np.array(hops, np.int64).T
    guid = db.node_guid[nodes]
    port_id = lambda portnum: np.where(
        portnum >= 0, guid ^ (np.maximum(portnum, 0).astype(np.uint64) << np.uint64(PORTNUM_AT)), np.uint64(0)
    )
    table: np.ndarray = TraceRecord.pack(
        gid_prefix=np.full(len(nodes), prefix, np.uint64),
        id_generation=GENERATION,
        node_type=db.node_type[nodes],
        node_id=guid,
        chassis_id=db.sys_guid[nodes],
        entry_port_id=port_id(into),
        exit_port_id=port_id(out),
    )
    return Answer(
        records=np.pad(table, ((0, 0), (0, -TraceRecord.size % 8)))
    ), records  # AttributeOffset counts units of eight bytes


def _hops(subnet: Subnet, source: int, target: int, dlid: int) -> list[tuple[int, int, int]] | None:
    """Return (node, ingress portnum, egress portnum) of each node, with -1 at the beginning and
    end. Return None if the path does not arrive."""
    db, lft = subnet.db, subnet.routing.lft
    node, into = int(db.port_node[source]), -1
    hops: list[tuple[int, int, int]] = []
    end = int(db.port_node[target])
    for _ in range(subnet.graph.n_switches + 2):
        if node == end:
            return [*hops, (node, into, -1)]
        switch = int(subnet.switch_of_node[node])
        out = int(db.port_num[source]) if switch < 0 else int(lft[switch, dlid])
        if out == LFT_NO_ROUTE or (switch < 0 and hops):
            return None
        peer = int(db.port_peer[db.node_base[node] + out])
        if peer < 0:
            return None
        hops.append((node, into, out))
        node, into = int(db.port_node[peer]), int(db.port_num[peer])
    return None


SHARED = tuple(name for name in PATH_COMPONENTS if name not in ("reversible", "numb_path"))
"""Components of MultiPathRecord that select paths as in PathRecord."""
COUNTS = mask_of(MultiPathRecord, "sgid_count", "dgid_count")
NUMB_PATH = mask_of(MultiPathRecord, "numb_path")
SERVICE = mask_of(MultiPathRecord, "service_id_8msb", "service_id_56lsb")
MOST = 127


def multi_path(subnet: Subnet, paths: Paths, r: Request) -> Answer:
    """Answer a GetMulti with at most NumbPath paths in total: first one path of each pair, then
    further paths."""
    if r.comp_mask & COUNTS != COUNTS:
        return Answer(SaStatus.REQ_INSUFFICIENT_COMPONENTS)
    sources, targets = int(MultiPathRecord.sgid_count.get(r.data)), int(MultiPathRecord.dgid_count.get(r.data))
    octets = r.data[MultiPathRecord.size : MultiPathRecord.size + 16 * (sources + targets)]
    if not sources or not targets or len(octets) < 16 * (sources + targets):
        return Answer(SaStatus.REQ_INVALID)
    ends = subnet.ends_of_gid(np.frombuffer(octets.tobytes(), ">u8").reshape(-1, 2).astype(np.uint64))
    if (ends < 0).any():
        return Answer(SaStatus.REQ_INVALID_GID)
    query, mask = PathRecord.zeros(1), 0
    for name in SHARED:
        if r.comp_mask & mask_of(MultiPathRecord, name):
            PathRecord.fields[name].set(query, MultiPathRecord.fields[name].get(r.data))
            mask |= mask_of(PathRecord, name)
    if r.comp_mask & SERVICE == SERVICE:
        service = int(MultiPathRecord.service_id_8msb.get(r.data)) << 56 | int(
            MultiPathRecord.service_id_56lsb.get(r.data)
        )
        PathRecord.service_id.set(query, np.uint64(service))
        mask |= mask_of(PathRecord, "service_id")
    most = int(MultiPathRecord.numb_path.get(r.data)) if r.comp_mask & NUMB_PATH else MOST
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
