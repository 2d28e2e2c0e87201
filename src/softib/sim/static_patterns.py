"""Traffic patterns as flows: columns of source and destination hosts (rows of ``Network.hosts``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from softib.errors import InputError
from softib.plural import counted

__all__ = ["bisection_pairs", "crossing_pairs", "incast", "matrix", "ring", "sample_shifts", "shift"]

Flows = tuple[np.ndarray, np.ndarray]


def shift(order: np.ndarray, k: int) -> Flows:
    """Host ``order[i]`` sends to ``order[(i + k) mod n]``: one step of a linear-shift all-to-all."""
    order = np.asarray(order, np.int64)
    return order, np.roll(order, -k)


def ring(order: np.ndarray, rail: np.ndarray | None = None) -> Flows:
    """Each host sends to the next in ``order``; with ``rail`` (int[hosts]) every rail is a ring of
    its own.

    Multi-rail collectives run one ring a rail, so that no step crosses rails.
    """
    order = np.asarray(order, np.int64)
    if rail is None:
        return shift(order, 1)
    rings = [order[rail[order] == r] for r in np.unique(rail)]
    return np.concatenate(rings), np.concatenate([np.roll(r, -1) for r in rings])


def bisection_pairs(hosts: np.ndarray, rng: np.random.Generator) -> Flows:
    """A random perfect matching between two random halves of ``hosts``, both directions (one host
    sits out if odd).

    The pattern of effective bisection bandwidth: Hoefler, Schneider, Lumsdaine, "Multistage
    switches are not crossbars", CLUSTER 2008.
    """
    mixed = rng.permutation(np.asarray(hosts, np.int64))
    half = len(mixed) // 2
    a, b = mixed[:half], mixed[half : 2 * half]
    return np.concatenate([a, b]), np.concatenate([b, a])


def crossing_pairs(one: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> Flows:
    """A random matching between two groups of hosts, both directions; hosts of the larger group sit
    out at random."""
    many = min(len(one), len(other))
    a, b = (rng.permutation(np.asarray(side, np.int64))[:many] for side in (one, other))
    return np.concatenate([a, b]), np.concatenate([b, a])


def incast(hosts: np.ndarray, target: int, k: int, rng: np.random.Generator) -> Flows:
    """``k`` random other hosts all send to ``target``."""
    others = np.asarray(hosts, np.int64)
    others = others[others != target]
    if not 1 <= k <= len(others):
        raise InputError(
            f"an incast of {k} senders: there are {counted(len(others), 'other host')}, so 1 to {len(others)}"
        )
    return np.sort(rng.permutation(others)[:k]), np.full(k, target, np.int64)


def matrix(n_hosts: int, demand: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(source, destination, bytes) of a traffic matrix: dense ``[hosts, hosts]``, or a triple of
    columns.

    The diagonal and zero entries are left out. Raises :class:`InputError` for a wrong shape, a host
    that does not exist, or a negative or non-finite entry.
    """
    if isinstance(demand, tuple):
        src, dst, size = (np.atleast_1d(np.asarray(c)) for c in demand)
        if not len(src) == len(dst) == len(size):
            raise InputError(f"a traffic matrix with columns of {len(src)}, {len(dst)} and {counted(len(size), 'row')}")
    else:
        dense = np.asarray(demand, np.float64)
        if dense.shape != (n_hosts, n_hosts):
            raise InputError(f"a traffic matrix of shape {dense.shape}: this network has {counted(n_hosts, 'host')}")
        src, dst = np.nonzero(dense)
        size = dense[src, dst]
    size = size.astype(np.float64)
    if not np.isfinite(size).all() or (size < 0).any():
        raise InputError("a traffic matrix with a negative or non-finite number of bytes")
    if len(src) and (min(src.min(), dst.min()) < 0 or max(src.max(), dst.max()) >= n_hosts):
        raise InputError(
            f"a traffic matrix that names host {int(max(src.max(), dst.max()))}; hosts are 0 to {n_hosts - 1}"
        )
    keep = (src != dst) & (size > 0)
    return src[keep].astype(np.int64), dst[keep].astype(np.int64), size[keep]


def sample_shifts(n_hosts: int, at_most: int, rng: np.random.Generator) -> np.ndarray:
    """All shifts ``1 … n-1``, or ``at_most`` of them drawn without repetition, ascending."""
    every = np.arange(1, max(n_hosts, 1), dtype=np.int64)
    return every if len(every) <= at_most else np.sort(rng.choice(every, at_most, replace=False))
