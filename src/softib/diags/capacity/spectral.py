"""The Fiedler vector: the order of switches along which a graph is thinnest.

Fiedler, *Algebraic connectivity of graphs*, 1973; Pothen, Simon and Liou, *Partitioning sparse
matrices with eigenvectors of graphs*, 1990. Found by Lanczos' iteration with full
reorthogonalisation (Parlett, *The symmetric eigenvalue problem*, chapter 13), restarted from its
best vector until the residual is small.
"""

from __future__ import annotations

import numpy as np

__all__ = ["fiedler"]

STEPS, RESTARTS = 120, 8
TOLERANCE = 1e-5
"""Of the residual, relative to the largest eigenvalue: an order of switches needs no more digits.
"""


def fiedler(n: int, a: np.ndarray, b: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, float, bool]:
    """(vector float64[n] of length 1, its eigenvalue, whether it converged) of a connected graph
    with edges a[i]–b[i]."""
    if n < 2:
        return np.zeros(n), 0.0, True
    degree = np.bincount(a, weight, n) + np.bincount(b, weight, n)
    bound = 2 * float(degree.max()) or 1.0

    def laplacian(v: np.ndarray) -> np.ndarray:
        return np.asarray(degree * v - np.bincount(a, weight * v[b], n) - np.bincount(b, weight * v[a], n))

    # Any vector that is not constant; no randomness.
    vector, value = np.cos(np.arange(n) * 1.7) + np.arange(n) / n, 0.0
    for _ in range(RESTARTS):
        vector, value = _lanczos(laplacian, vector, min(STEPS, n - 1))
        if float(np.linalg.norm(laplacian(vector) - value * vector)) <= TOLERANCE * bound:
            return vector, value, True
    return vector, value, False


def _lanczos(apply, start: np.ndarray, steps: int) -> tuple[np.ndarray, float]:  # type: ignore[no-untyped-def]
    """The smallest Ritz pair of ``apply`` on the vectors without a mean, in the Krylov space of
    ``start``."""
    v = start - start.mean()
    rows = np.zeros((steps, len(v)))
    rows[0] = v / np.linalg.norm(v)
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    for _ in range(steps):
        known = rows[: len(diagonal) + 1]
        w = apply(known[-1])
        diagonal.append(float(w @ known[-1]))
        for _ in range(2):  # twice is enough (Parlett 6.9)
            w = w - known.T @ (known @ w)
            w -= w.mean()
        size = float(np.linalg.norm(w))
        if size < 1e-10 * (1 + abs(diagonal[0])) or len(diagonal) == steps:
            break
        off_diagonal.append(size)
        rows[len(diagonal)] = w / size
    k = len(diagonal)
    matrix = np.diag(diagonal) + np.diag(off_diagonal[: k - 1], 1) + np.diag(off_diagonal[: k - 1], -1)
    values, vectors = np.linalg.eigh(matrix)
    found = rows[:k].T @ vectors[:, 0]
    found -= found.mean()
    return found / np.linalg.norm(found), float(values[0])
