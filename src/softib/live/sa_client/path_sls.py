"""The SLs of all paths of a running fabric, as its subnet administration reports them (IBA
15.2.5.16)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from softib.errors import PeerError, SoftibError
from softib.fabric.node_finder import default_port
from softib.iba.constants import CapMask
from softib.iba.sa import PathRecord
from softib.iba.smp import PortInfo
from softib.live.control.client import attach
from softib.live.instances import Instance
from softib.live.sa_client.tables import SaTables
from softib.plural import counted, plural
from softib.routing.graph import SwitchGraph
from softib.routing.proof.credit_loops import NO_PATH

__all__ = ["MOST_PAIRS", "PATIENCE_S", "manager_of", "path_sls"]

MOST_PAIRS = 4_000_000
"""A PathRecord is 64 octets, and OpenSM makes some 30,000 to 100,000 of them a second: 2,000 hosts
are asked in a minute or two."""
PATIENCE_S = 180.0


def path_sls(instance: Instance, graph: SwitchGraph, progress: Callable[[str], None] = lambda text: None) -> np.ndarray:
    """uint8[ends, ends]: the SL from each CA port (row) to each end port (column) of ``graph``,
    :data:`NO_PATH` where the SA reports none. One query a source (GetTable by SLID), several at
    once.

    Raises :class:`PeerError` in one line: more than :data:`MOST_PAIRS` pairs, no manager, or one
    that does not answer within :data:`PATIENCE_S`; and where one pair has paths of several SLs
    (LMC), which a matrix cannot hold.
    """
    sources = np.flatnonzero(~graph.end_is_switch)
    pairs = len(sources) * len(graph.end_lid)
    if pairs > MOST_PAIRS:
        raise PeerError(
            f"{counted(pairs, 'path')} {plural(pairs, 'is', 'are')} too many to ask for (at most {MOST_PAIRS:,})"
        )
    attached = attach(instance)
    lid, sl = manager_of(instance)
    end_of = np.full(1 << 16, -1, np.int32)
    for offset in range(1 << int(graph.end_lmc.max(initial=0))):
        rows = np.flatnonzero(offset < (1 << graph.end_lmc.astype(np.int64)))
        end_of[graph.end_lid[rows].astype(np.int64) + offset] = rows
    sls = np.full((len(graph.end_lid), len(graph.end_lid)), NO_PATH, np.uint8)
    queries = [{"slid": int(graph.end_lid[s])} for s in sources]
    with SaTables(attached, lid, sl, PATIENCE_S) as sa:
        for done, (_, records) in enumerate(sa.tables(PathRecord, queries), 1):
            if done % 64 == 0:
                progress(f"paths of {done:,} of {counted(len(sources), 'port')}")
            a, b = end_of[PathRecord.slid.get(records)], end_of[PathRecord.dlid.get(records)]
            known = (a >= 0) & (b >= 0)
            a, b, sl_of = a[known], b[known], np.asarray(PathRecord.sl.get(records), np.uint8)[known]
            before = sls[a, b]
            sls[a, b] = sl_of
            if ((before != NO_PATH) & (before != sl_of)).any() or (sls[a, b] != sl_of).any():
                raise PeerError("one pair of ports has paths of several SLs")
    if (sls[sources] == NO_PATH).all():
        raise PeerError("the subnet administration reports no path")
    return sls


def manager_of(instance: Instance) -> tuple[int, int]:
    """LID and SL of the master, as the default host's PortInfo says. Raises :class:`PeerError`
    where none has been there, or where it has left: no port with that LID says IsSM any more, so a
    question would wait for its timeout."""
    from softib.live.shared_fabric import SharedFabric

    fabric = SharedFabric.snapshot(instance.shared_fabric)
    try:
        info = fabric.port_info[default_port(fabric)]
    except SoftibError as error:
        raise PeerError(str(error)) from None
    lid = int(PortInfo.master_sm_lid.get(info))
    if not lid:
        raise PeerError("no subnet manager has been there yet")
    is_sm = (PortInfo.cap_mask.get(fabric.port_info) & CapMask.IS_SM) > 0
    if not (is_sm & (fabric.lid == lid)).any():
        raise PeerError(f"the subnet manager at LID {lid} has left")
    return lid, int(PortInfo.master_sm_sl.get(info))
