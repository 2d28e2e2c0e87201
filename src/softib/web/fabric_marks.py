"""Marks by which two readings of a fabric are told apart without comparing them."""

from __future__ import annotations

import zlib

import numpy as np

from softib.fabric.model import Fabric

__all__ = ["cables_mark", "tables_mark"]


def cables_mark(f: Fabric) -> bytes:
    """Changes with nodes, names and cables, but for one time in 2^32."""
    return _mark(f.node_guid, f.port_peer, f.node_desc)


def tables_mark(f: Fabric) -> bytes:
    """Changes with forwarding tables and port states, likewise."""
    return _mark(f.lft, f.port_info)


def _mark(*columns: np.ndarray) -> bytes:
    mark = 0
    for column in columns:
        mark = zlib.crc32(np.ascontiguousarray(column).view(np.uint8).reshape(-1).data, mark)
    return mark.to_bytes(4, "big")
