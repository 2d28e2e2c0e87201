"""Collectives as sends and receives with textbook algorithms, for traces of libraries whose choice of algorithms is
unknown.

All-reduce, all-gather and reduce-scatter by rings, all-to-all by pairwise exchange, broadcast and
reduce by binomial trees, gather and scatter directly to and from the root, barrier by dissemination
(Chan et al., "Collective communication: theory, practice, and experience", 2007; Thakur et al.
2005; Hensgen et al. 1988).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.workloads.schedule.schedule import Kind

__all__ = ["COLLECTIVES", "Expand", "Operations", "expand"]

BARRIER_OCTETS = 1


@dataclass(frozen=True)
class Operations:
    """Sends and receives of ``n`` ranks, sorted by rank and step: ``rank``, ``kind``
    (:class:`~softib.workloads.schedule.schedule.Kind`), ``peer``, ``size`` bytes, and ``step``,
    which is also the tag. The operations of a step begin when all operations of the rank's previous step have ended."""

    rank: np.ndarray
    kind: np.ndarray
    peer: np.ndarray
    size: np.ndarray
    step: np.ndarray


Expand = Callable[..., Operations]
"""Function ``(collective, ranks, size, root=0)`` that expands a collective with some library's algorithm."""


def expand(collective: str, ranks: int, size: int, root: int = 0) -> Operations:
    """Return ``collective`` (one of :data:`COLLECTIVES`) of ``ranks`` ranks. ``size``: bytes of a rank's input, as in
    Chakra's and NCCL's calls: for all-gather, the rank's part; for all-to-all and scatter, all parts together. Raises
    :class:`InputError` for an unknown collective."""
    if collective not in _MAKERS:
        raise InputError(f"{collective} is not a known collective; use one of {', '.join(_MAKERS)}")
    return _sorted(*_MAKERS[collective](ranks, size, root % ranks)) if ranks > 1 else _sorted(*[np.zeros(0)] * 4)


Sends = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""(source, destination, bytes, step) of each message."""


def _sorted(src: np.ndarray, dst: np.ndarray, size: np.ndarray, step: np.ndarray) -> Operations:
    """Return the send and the receive of each message."""
    n = len(src)
    rank, peer = np.concatenate([src, dst]), np.concatenate([dst, src])
    kind = np.repeat([int(Kind.SEND), int(Kind.RECV)], n)
    order = np.lexsort((kind, np.tile(step, 2), rank))
    columns = (rank, kind, peer, np.tile(size, 2), np.tile(step, 2))
    return Operations(*(np.asarray(c)[order].astype(np.int64) for c in columns))


def _part(size: int, ranks: int, k: np.ndarray) -> np.ndarray:
    """Return the bytes of part ``k`` if ``size`` bytes are divided into ``ranks`` parts."""
    each, rest = divmod(size, ranks)
    return each + (k < rest)


def _ring(ranks: int, steps: int, part: Callable[[np.ndarray], np.ndarray]) -> Sends:
    """Return the messages of a ring: in step s, rank r sends part r - s to rank r + 1."""
    step, r = np.divmod(np.arange(steps * ranks), ranks)
    return r, (r + 1) % ranks, part((r - step) % ranks), step


def _all_reduce(n: int, size: int, _: int) -> Sends:
    return _ring(n, 2 * (n - 1), lambda k: _part(size, n, k))


def _reduce_scatter(n: int, size: int, _: int) -> Sends:
    return _ring(n, n - 1, lambda k: _part(size, n, k))


def _all_gather(n: int, size: int, _: int) -> Sends:
    return _ring(n, n - 1, lambda k: np.full(len(k), size))


def _all_to_all(n: int, size: int, _: int) -> Sends:
    step, r = np.divmod(np.arange((n - 1) * n), n)
    to = (r + step + 1) % n
    return r, to, _part(size, n, to), step


def _tree(n: int, size: int, root: int) -> Sends:
    """Return the messages of a binomial tree: in step s, each of the 2^s ranks that have the data (counted from the
    root) sends it to the rank 2^s positions after it."""
    steps = [
        (np.arange(min(1 << s, n - (1 << s))), 1 << s, np.full(min(1 << s, n - (1 << s)), s))
        for s in range((n - 1).bit_length())
    ]
    src = np.concatenate([a for a, _, _ in steps])
    dst = np.concatenate([a + by for a, by, _ in steps])
    return (src + root) % n, (dst + root) % n, np.full(len(src), size), np.concatenate([s for _, _, s in steps])


def _reduce(n: int, size: int, root: int) -> Sends:
    src, dst, octets, step = _tree(n, size, root)
    return dst, src, octets, step.max() - step


def _gather(n: int, size: int, root: int) -> Sends:
    others = (root + np.arange(1, n)) % n
    return others, np.full(n - 1, root), np.full(n - 1, size), np.zeros(n - 1)


def _scatter(n: int, size: int, root: int) -> Sends:
    others = (root + np.arange(1, n)) % n
    return np.full(n - 1, root), others, _part(size, n, others), np.zeros(n - 1)


def _barrier(n: int, _: int, __: int) -> Sends:
    rounds = (n - 1).bit_length()
    step, r = np.divmod(np.arange(rounds * n), n)
    return r, (r + (1 << step)) % n, np.full(rounds * n, BARRIER_OCTETS), step


_MAKERS: dict[str, Callable[[int, int, int], Sends]] = {
    "all-reduce": _all_reduce,
    "reduce": _reduce,
    "all-gather": _all_gather,
    "gather": _gather,
    "scatter": _scatter,
    "broadcast": _tree,
    "all-to-all": _all_to_all,
    "reduce-scatter": _reduce_scatter,
    "reduce-scatter-block": _reduce_scatter,
    "barrier": _barrier,
}
COLLECTIVES = tuple(_MAKERS)
"""Their names, in the order of Chakra's CollectiveCommType."""
