"""The LIDs of a port with LMC above 0, and the places where packets to these LIDs leave a given path."""

from __future__ import annotations

import numpy as np

from softib.fabric.model import Fabric
from softib.iba.constants import LFT_NO_ROUTE
from softib.plural import counted, plural

__all__ = ["end_lids", "further_lids"]

MOST = 4
"""Largest number of paths of further LIDs that a sentence lists."""


def end_lids(f: Fabric) -> np.ndarray:
    """Return all LIDs of end ports that forwarding tables can hold: 2^LMC per port (int64)."""
    ends = f.end_ports()
    ends = ends[f.lid[ends] > 0]
    count = 1 << f.lmc[ends].astype(np.int64)
    first = np.repeat(f.lid[ends].astype(np.int64), count)
    lids = first + np.arange(len(first)) - np.repeat(np.cumsum(count) - count, count)
    return np.asarray(lids[lids < f.lft.shape[1]], np.int64)


def further_lids(f: Fabric, names: list[str], a: int, b: int, dlid: int) -> str:
    """Return a sentence about the LIDs of ``b`` other than ``dlid``; "" if there are none. It names the ports at which
    packets from ``a`` to these LIDs leave the path to ``dlid``."""
    base, count = int(f.lid[b]), 1 << int(f.lmc[b])
    others = [lid for lid in range(base, base + count) if lid != dlid]
    if not others:
        return ""
    path = _forwarding(f, a, dlid)
    paths: dict[str, list[int]] = {}
    for lid in others:
        paths.setdefault(_difference(f, names, path, _forwarding(f, a, lid)), []).append(lid)
    parts = [
        f"{plural(len(lids), 'LID', 'LIDs')} {', '.join(map(str, lids[:MOST]))}{' …' if len(lids) > MOST else ''} "
        f"{plural(len(lids), one, several)}"
        for (one, several), lids in ((text.split("|"), lids) for text, lids in list(paths.items())[:MOST])
    ]
    left = len(paths) - MOST
    more = f"; {counted(left, 'further path')}" if left > 0 else ""
    return f"B has LMC {int(f.lmc[b])}, LIDs {base} to {base + count - 1}: {'; '.join(parts)}{more}."


def _forwarding(f: Fabric, a: int, lid: int) -> list[tuple[int, int]]:
    """Return (switch, egress port) of each switch on the path from ``a`` towards ``lid``, up to the first that has no
    route."""
    port = a if f.is_switch[f.port_node[a]] else int(f.port_peer[a])
    hops: list[tuple[int, int]] = []
    passed = set[int]()
    while port >= 0 and f.is_switch[node := int(f.port_node[port])] and node not in passed:
        passed.add(node)
        out = int(f.lft[f.switch_of_node[node], lid]) if lid < f.lft.shape[1] else LFT_NO_ROUTE
        hops.append((node, out))
        port = int(f.port_peer[f.node_base[node] + out]) if 0 < out <= f.node_nports[node] else -1
    return hops


def _difference(f: Fabric, names: list[str], path: list[tuple[int, int]], other: list[tuple[int, int]]) -> str:
    """Return the predicate of a sentence about LIDs whose hops are ``other``, as ``singular|plural``."""
    for hop, (node, out) in zip(path, other, strict=False):
        if hop != (node, out):
            if not 0 < out <= f.node_nports[node]:
                return f"has no route at {names[node]}|have no route at {names[node]}"
            where = f"{names[node]} through port {out} instead of {hop[1]}"
            return f"leaves {where}|leave {where}"
    return "takes the same path|take the same path"
