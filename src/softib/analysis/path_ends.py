"""The two ports of a path, which the user names by node, port or LID."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from softib.errors import InputError, UnknownName
from softib.fabric.model import Fabric
from softib.fabric.node_finder import NodeFinder
from softib.fabric.subnets import subnet_of

__all__ = ["Ends", "ends_of"]


@dataclass(frozen=True)
class Ends:
    """The source and destination of packets."""

    a: int
    """Port row of the source."""
    b: int
    """Port row of the destination."""
    a_bits: int = 0
    """Path bits: the source's LID minus its base LID (IBA 4.1.3)."""
    b_bits: int = 0
    """Path bits: the destination's LID minus its base LID."""

    def lids(self, f: Fabric) -> tuple[int, int]:
        """Return the SLID and the DLID; 0 for a port that has none."""
        a, b = int(f.lid[self.a]), int(f.lid[self.b])
        return a and a + self.a_bits, b and b + self.b_bits


_LID = re.compile(r"0x[0-9a-f]{1,4}|\d{1,5}", re.IGNORECASE | re.ASCII)


def ends_of(f: Fabric, a: str, b: str, others: Iterable[Fabric] = ()) -> Ends:
    """Return the ports that ``a`` and ``b`` name: a node, a port, or a LID (as for ibtracert) unless a node has that
    name. If a host is given without a port number, or a LID is in use on several subnets, choose the first ports that
    are on a common subnet, if there are any. ``others``: this fabric with the LIDs of its other subnets. Raises the
    errors of :meth:`~softib.fabric.node_finder.NodeFinder.end`, and :class:`InputError` for an unknown LID."""
    finder, subnet = NodeFinder(f), subnet_of(f)
    choices = [_ends_named(finder, (f, *others), name) for name in (a, b)]
    (p, p_bits), (q, q_bits) = next(
        ((p, q) for p in choices[0] for q in choices[1] if subnet[p[0]] == subnet[q[0]]),
        (choices[0][0], choices[1][0]),
    )
    return Ends(p, q, p_bits, q_bits)


def _ends_named(finder: NodeFinder, fabrics: Sequence[Fabric], name: str) -> list[tuple[int, int]]:
    """Return the candidate ports of ``name``, and the path bits of the LID that it states."""
    try:
        return [(port, 0) for port in finder.ends(name)]
    except UnknownName:
        if not _LID.fullmatch(name):
            raise
    lid = int(name, 16 if name[:2].lower() == "0x" else 10)
    rows = [_owners(f, lid) for f in fabrics]
    matches = [(int(port), lid - int(f.lid[port])) for f, ports in zip(fabrics, rows, strict=True) for port in ports]
    if not matches:
        raise InputError(f"{name}: no node has this name, and no port has LID {lid}; {_lids_in_use(fabrics)}")
    return matches


def _owners(f: Fabric, lid: int) -> np.ndarray:
    """Return the end ports whose 2^LMC LIDs include ``lid``."""
    ends = f.end_ports()
    base = f.lid[ends].astype(np.int64)
    size = 1 << f.lmc[ends].astype(np.int64)
    return np.asarray(ends[(base > 0) & (base <= lid) & (lid < base + size)], np.int64)


def _lids_in_use(fabrics: Sequence[Fabric]) -> str:
    lids = np.concatenate([f.lid[f.end_ports()] for f in fabrics])
    lids = lids[lids > 0]
    return f"base LIDs are {lids.min()} to {lids.max()}" if len(lids) else "the fabric has no LIDs"
