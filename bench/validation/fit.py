"""Fitting a few parameters: one after another by golden section, in rounds, until nothing improves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["fit"]

GOLDEN = 0.6180339887498949
STEPS = 6
"""Of the golden section: the span shrinks to 5.6 %."""


def fit(start: Mapping[str, float], loss: Callable[[dict[str, float]], float], rounds: int = 3) -> dict[str, float]:
    """Values of the parameters of ``start`` that make ``loss`` small: each is tried between 1/3 and 3 times of what it is, in the order of their names."""
    best = dict(start)
    found = loss(best)
    for number in range(rounds):
        before = found
        for name in sorted(best):
            value, tried = _line(best, name, loss, 3.0 if number == 0 else 1.5)
            if tried < found:
                best[name], found = value, tried
        if before - found < 1e-3 * before:
            break
    return best


def _line(
    best: dict[str, float], name: str, loss: Callable[[dict[str, float]], float], span: float
) -> tuple[float, float]:
    """(value of ``name``, loss there) of a golden section between value / span and value × span."""
    at = lambda v: loss({**best, name: v})
    low, high = best[name] / span, best[name] * span
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    fa, fb = at(a), at(b)
    for _ in range(STEPS):
        if fa < fb:
            high, b, fb = b, a, fa
            a = high - GOLDEN * (high - low)
            fa = at(a)
        else:
            low, a, fa = a, b, fb
            b = low + GOLDEN * (high - low)
            fb = at(b)
    return (a, fa) if fa < fb else (b, fb)
