"""The order in which the messages of a queue pair are posted, so that none is posted after a
message that waits for it."""

from __future__ import annotations

import numpy as np

from softib.ragged import inverted

__all__ = ["posting_order"]


def posting_order(qp: np.ndarray, computes: np.ndarray, waits: np.ndarray, needs: np.ndarray) -> tuple[np.ndarray, int]:
    """Return the position of each row, and -1. If there is no such order, the second value is a row that waits for
    itself. ``waits[k]`` waits for ``needs[k]``; rows of one ``qp`` other than computations are sent in the order of
    their positions. Rows keep their order unless one would wait for ever behind another row of its queue pair. In that
    case, all rows are put in an order in which dependencies come first, because a program posts a message when its
    dependencies are done.
    """
    n = len(qp)
    rows = np.flatnonzero(~computes)
    order = rows[np.argsort(qp[rows], kind="stable")]
    same = qp[order][1:] == qp[order][:-1]
    _, left = _ready(n, np.concatenate([waits, order[1:][same]]), np.concatenate([needs, order[:-1][same]]))
    if not (left > 0).any():
        return np.arange(n), -1
    ready, left = _ready(n, waits, needs)
    if (left > 0).any():
        return np.arange(n), _in_circle(left, waits, needs)
    place = np.empty(n, np.int64)
    place[ready] = np.arange(n)
    return place, -1


def _ready(n: int, waits: np.ndarray, needs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in an order in which dependencies come first, and the number of unfinished dependencies of each
    row."""
    from softib.sim.static_kernels import step_of

    first, waiting, _ = inverted(waits, needs, n)
    left = np.bincount(waits, minlength=n).astype(np.int64)
    ready = np.empty(n, np.int64)
    step_of(first, waiting, left, np.zeros(n, np.int64), ready)
    return ready, left


def _in_circle(left: np.ndarray, waits: np.ndarray, needs: np.ndarray) -> int:
    """Return a row of a cycle: the first row that is visited twice when the dependencies of a row without a position
    are followed."""
    stuck = (left[waits] > 0) & (left[needs] > 0)
    back = dict(zip(waits[stuck].tolist(), needs[stuck].tolist(), strict=True))
    at, seen = next(iter(back)), set()
    while at not in seen:
        seen.add(at)
        at = back[at]
    return at
