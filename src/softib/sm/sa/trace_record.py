"""TraceRecord (IBA 15.2.5.19): the nodes on a path, in its order. SubnAdmGetTraceTable asks with a
PathRecord.

IDs: a node has its NodeGUID, a chassis its SystemImageGUID, a port the NodeGUID with its portnum in
the topmost octet. They stay what they are, so there is one generation.
"""

from __future__ import annotations

import numpy as np

from softib.iba.constants import LFT_NO_ROUTE
from softib.iba.sa import PathRecord, SaStatus
from softib.iba.sa import TraceRecord as R
from softib.sm.sa.message import Answer, Request
from softib.sm.sa.path_record import ANY, Paths
from softib.sm.sa.subnet import Subnet

__all__ = ["trace"]

GENERATION = 1
PORTNUM_AT = 56


def trace(subnet: Subnet, paths: Paths, r: Request) -> tuple[Answer, np.ndarray]:
    """The nodes on the best path, and the PathRecord (uint8[1 or 0, 64]) that it is: who may see
    that sees the trace. Both ends must be given."""
    nobody = PathRecord.zeros(0)
    q, mask = r.data[None, : PathRecord.size], np.array([r.comp_mask], np.uint64)
    source, target, status = paths.ends(q, mask)
    if status[0]:
        return Answer(int(status[0])), nobody
    if ANY in (source[0], target[0]):
        return Answer(SaStatus.REQ_INSUFFICIENT_COMPONENTS), nobody
    records, found = paths.gets(q, mask, source, target)
    if not found[0]:
        return Answer(SaStatus.NO_RECORDS), nobody
    hops = _hops(
        subnet, int(subnet.end_port[source[0]]), int(subnet.end_port[target[0]]), int(PathRecord.dlid.get(records)[0])
    )
    if hops is None:
        return Answer(SaStatus.NO_RECORDS), nobody
    db, prefix = subnet.db, subnet.config.subnet_prefix
    nodes, into, out = np.array(hops, np.int64).T
    guid = db.node_guid[nodes]
    port_id = lambda portnum: np.where(
        portnum >= 0, guid ^ (np.maximum(portnum, 0).astype(np.uint64) << np.uint64(PORTNUM_AT)), np.uint64(0)
    )
    table: np.ndarray = R.pack(
        gid_prefix=np.full(len(nodes), prefix, np.uint64),
        id_generation=GENERATION,
        node_type=db.node_type[nodes],
        node_id=guid,
        chassis_id=db.sys_guid[nodes],
        entry_port_id=port_id(into),
        exit_port_id=port_id(out),
    )
    return Answer(records=np.pad(table, ((0, 0), (0, -R.size % 8)))), records  # AttributeOffset counts eight octets


def _hops(subnet: Subnet, source: int, target: int, dlid: int) -> list[tuple[int, int, int]] | None:
    """(node, portnum by which the path comes in, portnum by which it goes out) of each node; -1
    where it begins and ends. None: it leads nowhere."""
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
