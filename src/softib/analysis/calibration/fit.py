"""Fits several parameters together by least squares (Levenberg, Marquardt), each on a logarithmic scale. Parameters
with similar effects are distinguished as far as the data permits."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

__all__ = ["fit"]

STEP = 0.02
"""Step of a parameter's logarithm with which a derivative is computed."""
SMALLEST = 1e-3
"""Lower limit of a parameter, divided by its start value."""
MOST = 0.7
"""Largest change of a parameter's logarithm in one round."""
TRIES = 5
"""Number of damping factors that one round tries, in increasing order."""

Residuals = Callable[[dict[str, float]], np.ndarray]


def fit(start: Mapping[str, float], residuals: Residuals, rounds: int = 8) -> dict[str, float]:
    """Return values of the parameters of ``start`` (positive) with the smallest sum of squares of
    ``residuals``, after at most ``rounds``."""
    names = sorted(start)
    low = np.log([start[n] * SMALLEST for n in names])
    x = np.log([start[n] for n in names])
    values = lambda at: dict(zip(names, np.exp(at).tolist(), strict=True))
    residual, careful = residuals(values(x)), 1e-2
    for _ in range(rounds):
        slopes = np.array([(residuals(values(x + STEP * row)) - residual) / STEP for row in np.eye(len(x))]).T
        for _ in range(TRIES):
            change = np.linalg.solve(slopes.T @ slopes + careful * np.eye(len(x)), -slopes.T @ residual)
            tried = np.maximum(x + np.clip(change, -MOST, MOST), low)
            then = residuals(values(tried))
            if then @ then < residual @ residual:
                break
            careful *= 4
        else:
            break
        done = then @ then > (1 - 1e-4) * (residual @ residual)
        x, residual, careful = tried, then, max(careful / 4, 1e-4)
        if done:
            break
    return values(x)
