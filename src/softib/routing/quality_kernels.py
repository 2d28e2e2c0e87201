"""Counts of paths over every link."""

import numpy as np

from softib.jit import kernel
from softib.routing.proof.verify_kernels import load_tile


@kernel(steps=lambda at, peer, lft, dest_lid, dest_end, end_switch, cas, load: 2 * len(cas) * len(dest_lid), rows=True)
def count_paths(at, peer, lft, dest_lid, dest_end, end_switch, cas, load):
    """``load[e]`` int64[links] += paths over link e: from every CA to each destination LID (CA
    ends) but its own.

    cas int64[n]: CA ports on each switch. A walk ends where the table does, or after n links in a
    loop.
    """
    n = cas.shape[0]
    tile = np.empty((64, n), np.uint8)
    for start in range(0, dest_lid.shape[0], 64):
        stop = min(start + 64, dest_lid.shape[0])
        load_tile(lft, dest_lid, start, stop, tile)
        for k in range(start, stop):
            ports = tile[k - start]
            for source in range(n):
                paths = cas[source] - (source == end_switch[dest_end[k]])
                if paths <= 0:
                    continue
                s = source
                for _ in range(n):
                    e = at[s, ports[s]]
                    if e < 0:
                        break
                    load[e] += paths
                    s = peer[e]


@kernel(steps=lambda at, lft, dest_lid, load: len(lft) * len(dest_lid) // 2)
def count_destinations(at, lft, dest_lid, load):
    """``load[e]`` int64[links] += destination LIDs that the link's switch sends out through it."""
    for s in range(lft.shape[0]):
        for k in range(dest_lid.shape[0]):
            if dest_lid[k] < lft.shape[1]:
                e = at[s, lft[s, dest_lid[k]]]
                if e >= 0:
                    load[e] += 1


@kernel
def count_flows(at, peer, lft, switch, lid, load):
    """``load[e]`` int64[links] += flows over link e: one from ``switch[i]`` to LID ``lid[i]`` each."""
    for i in range(switch.shape[0]):
        s = switch[i]
        for _ in range(at.shape[0]):
            e = at[s, lft[s, lid[i]]]
            if e < 0:
                break
            load[e] += 1
            s = peer[e]
