"""Learns a rule ``target = f(numbers)`` from a column of targets, a few of which are wrong. Three forms of rules cover
the cabling of common topologies (trees, rails, grids, dragonflies) and how sites number their devices:

* *sum of digits*: ``sum over numbers s of g_s(x_s)``, each ``g_s`` a mixed-radix ramp: host i is on
  leaf i // 32; spine i of a pod meets core (i mod 4) * 4 + j;
* *around*: the same after ``(target - x_s) mod span``, for the rings of a torus;
* *all but itself*: the same after ``target - [target > x_s]``: all-to-all lines and groups, where a port list skips the
  node's own position. Each parameter is the most frequent value: the step among the steps between neighbouring members,
  a block's value among its members, and the constant among the remainders. A rule is returned with the share of members
  that it predicts; the caller decides whether the rule holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from softib.diags.labels import NodeClass

__all__ = ["fit_rule", "mode"]

Back = Callable[[np.ndarray], np.ndarray]

ENOUGH_VOTES = 4
"""A table of steps is used directly, without a search for radices, if each step has at least this number of votes."""
LEAST_LINES = 3
"""Minimum number of lines of members. With three lines, two that agree outvote a third with a fault."""
LEVELLINGS = 4
"""Number of iterations of :func:`_levelled`. Each corrects the offsets of more lines; even a table in which one step is
missing is correct for half of the lines.
"""
MAX_DIGITS = 6
DENSE = 8
"""Largest ratio of the range of values to their number for which counting is faster than sorting."""
FEW_VALUES = 48
"""Maximum number of values that are counted with a dictionary, which takes a third of the time of the numpy
functions."""
LEAST_GAIN = 1.5
"""Minimum number of additional members that a more complex rule must predict. A single additional member is not enough:
it may be the faulty one.
"""


def mode(values: np.ndarray) -> tuple[int, int]:
    """Return the most frequent value and its count: the smallest if several are equally frequent, (0, 0) if there are
    no values.
    """
    if not len(values):
        return 0, 0
    if len(values) <= FEW_VALUES:
        counts: dict[int, int] = {}
        for value in values.tolist():
            counts[value] = counts.get(value, 0) + 1
        most = max(counts.values())
        return min(value for value, n in counts.items() if n == most), most
    low, high = int(values.min()), int(values.max())
    if high - low < DENSE * len(values) + DENSE:
        count = np.bincount(values - low)
        best = int(np.argmax(count))
        return low + best, int(count[best])
    distinct, count = np.unique(values, return_counts=True)
    best = int(np.argmax(count))
    return int(distinct[best]), int(count[best])


def fit_rule(of: NodeClass, target: np.ndarray, stated: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the predictions of the best rule for every member, and the share of correct ones. ``target``
    int64[members] is known where ``stated``."""
    best, share = np.zeros(len(target), np.int64), -1.0
    least_gain = LEAST_GAIN / max(1, int(stated.sum()))
    lines = [_lines(of, s, stated) for s in range(of.numbers.shape[1])]
    for values, back in _transforms(of, target):
        predicted = back(_sum_of_digits(lines, values, stated))
        hit = float((predicted[stated] == target[stated]).mean())
        if hit > share + least_gain:
            best, share = predicted, hit
        if share + least_gain >= 1.0:  # no other form can predict enough additional members
            break
    return best, share


def _transforms(of: NodeClass, target: np.ndarray) -> Iterator[tuple[np.ndarray, Back]]:
    """Yield (transformed target, inverse of the transformation); the first is the target itself."""
    yield target, lambda v: v
    for s in range(of.numbers.shape[1]):
        x, span = of.numbers[:, s], int(of.span[s])
        if span > 2:
            yield (target - x) % span, partial(_around, x, span)
            yield target - (target > x), partial(_skipping_self, x)


def _around(x: np.ndarray, span: int, v: np.ndarray) -> np.ndarray:
    return (v + x) % span


def _skipping_self(x: np.ndarray, v: np.ndarray) -> np.ndarray:
    return v + (v >= x)


class _Lines(NamedTuple):
    """The members in lines. Members of a line differ only in one of their numbers."""

    x: np.ndarray
    """int64[members]: the number in which members of a line differ."""
    span: int
    rows: np.ndarray
    """Members whose target is known, sorted by line."""
    line: np.ndarray
    """int64[rows]: the line of each of :attr:`rows`."""
    lower: np.ndarray
    upper: np.ndarray
    """The upper member of each pair of neighbours in a line; :attr:`gap` is the difference of their numbers."""
    gap: np.ndarray


def _lines(of: NodeClass, s: int, stated: np.ndarray) -> _Lines:
    x = of.numbers[:, s]
    others = of.numbers @ of.stride - x * of.stride[s]
    rows = np.flatnonzero(stated)
    rows = rows[np.lexsort((x[rows], others[rows]))]
    lower, upper = rows[:-1], rows[1:]
    pair = (others[lower] == others[upper]) & (x[lower] < x[upper])
    lower, upper = lower[pair], upper[pair]
    return _Lines(x, int(of.span[s]), rows, others[rows], lower, upper, x[upper] - x[lower])


def _sum_of_digits(lines: list[_Lines], target: np.ndarray, stated: np.ndarray) -> np.ndarray:
    """Return the sum of one function for each number. A function is a line with one slope if this predicts as well,
    otherwise the table of the most frequent steps.
    """
    slopes = [_slope(of, target)[of.x] for of in lines]
    total = sum(slopes, np.zeros(len(target), np.int64))
    rest, hits = mode((target - total)[stated])
    if hits + LEAST_GAIN >= stated.sum():  # steps cannot predict enough additional members
        return total + rest
    count = len(lines)
    columns = [(slope, _steps(of, target)[of.x]) for slope, of in zip(slopes, lines, strict=True)]

    def score(rich: list[int]) -> float:
        total = sum((columns[s][rich[s]] for s in range(count)), np.zeros(len(target), np.int64))
        return mode((target - total)[stated])[1] - LEAST_GAIN * sum(rich)

    best, top = [0] * count, -1.0
    for start in (0, 1):
        chosen = [start] * count
        got = score(chosen)
        for s in range(count):
            flipped = [*chosen[:s], 1 - start, *chosen[s + 1 :]]
            if (tried := score(flipped)) > got:
                chosen, got = flipped, tried
        if got > top:
            best, top = chosen, got
    total = sum((columns[s][best[s]] for s in range(count)), np.zeros(len(target), np.int64))
    return total + mode((target - total)[stated])[0]


def _slope(of: _Lines, target: np.ndarray) -> np.ndarray:
    """Return a ramp whose slope is the most frequent step between neighbours (int64[span])."""
    adjacent = of.gap == 1
    return mode((target[of.upper] - target[of.lower])[adjacent])[0] * np.arange(of.span)


def _steps(of: _Lines, target: np.ndarray) -> np.ndarray:
    """Return a table computed from the most frequent step at each value and then made regular (int64[span])."""
    if not (of.gap == 1).any():
        return np.zeros(of.span, np.int64)
    d, votes = _voted_steps(of.x[of.lower], of.gap, target[of.upper] - target[of.lower], of.span)
    table = np.concatenate([[0], np.cumsum(d)])
    enough = votes[votes > 0].min() >= ENOUGH_VOTES
    steps = table if enough else _ramp(table, MAX_DIGITS)[0]
    return _levelled(steps, of.line, of.x[of.rows], target[of.rows])


def _levelled(table: np.ndarray, line: np.ndarray, x: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return ``table`` with each entry replaced by the most frequent value over all lines, if that predicts more
    members.

    A wrong value makes the differences to both neighbours wrong. With two faults on three lines, a difference may have
    no majority although every value has one.

    ``line``: the line of a member (all other numbers are equal).
    """
    row = np.unique(line, return_inverse=True)[1].reshape(-1)
    if int(row.max()) + 1 < LEAST_LINES:
        return table
    best, top = table, -1
    for _ in range(LEVELLINGS):
        offset = _mode_of_each(row, target - table[x], int(row.max()) + 1)
        hits = int((target == table[x] + offset[row]).sum())
        if hits <= top:
            break
        best, top = table, hits
        cell, value, count = _counted(x, target - offset[row])
        agreed = 2 * count > np.maximum(np.bincount(x, minlength=len(table))[cell], LEAST_LINES - 1)
        table = table.copy()
        table[cell[agreed]] = value[agreed]
    return best


def _mode_of_each(cell: np.ndarray, value: np.ndarray, cells: int) -> np.ndarray:
    """Return the most frequent value of each cell, 0 for a cell without values."""
    cell, value, count = _counted(cell, value)
    by_count = np.argsort(count, kind="stable")  # later writes win
    out = np.zeros(cells, np.int64)
    out[cell[by_count]] = value[by_count]
    return out


def _voted_steps(at: np.ndarray, gap: np.ndarray, step: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the step from each value of a number to the next, and the number of votes for each step. In a gap of the
    numbers, the steps add up to the step over the gap.
    """
    adjacent = gap == 1
    cell, value, count = _counted(at[adjacent], step[adjacent])
    by_count = np.argsort(count, kind="stable")  # the last write wins, so each value gets its most frequent step
    d, votes = np.zeros(span - 1, np.int64), np.zeros(span - 1, np.int64)
    d[cell[by_count]], votes[cell[by_count]] = value[by_count], count[by_count]
    usual, _ = mode(d[votes > 0])
    d[2 * votes <= np.bincount(at[adjacent], minlength=span - 1)] = usual  # no votes, or no majority
    for start, length, total in zip(
        at[~adjacent].tolist(), gap[~adjacent].tolist(), step[~adjacent].tolist(), strict=True
    ):
        last = start + length - 1
        if votes[last] == 0:
            d[last] = total - d[start:last].sum()
    return d, votes


def _counted(cell: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return distinct (cell, value) pairs and the count of each."""
    order = np.lexsort((value, cell))
    cell, value = cell[order], value[order]
    start = np.flatnonzero(np.concatenate([[True], (cell[1:] != cell[:-1]) | (value[1:] != value[:-1])]))
    return cell[start], value[start], np.diff(np.concatenate([start, [len(cell)]]))


def _ramp(y: np.ndarray, depth: int) -> tuple[np.ndarray, int]:
    """Return the mixed-radix ramp nearest to ``y``, and its number of digits. A ramp consists of blocks of R steps with
    slope b; the first values of the blocks are on another ramp. A digit is added only if it predicts :data:`LEAST_GAIN`
    more values, so that one faulty value adds no digit.
    """
    x = np.arange(len(y))
    d = np.diff(y)
    if not len(d):
        return y.copy(), 0
    b, _ = mode(d)
    best, digits = b * x, 1
    score = _hits(y, best) - LEAST_GAIN * digits
    most = len(y) - 2 * LEAST_GAIN  # of a ramp of two digits that predicts every value
    if depth == 0 or score >= most:
        return best, digits
    for radix in _radices(d, b):
        if score >= most:
            break
        offset = x % radix
        blocks, deeper = _ramp(_block_values(y - b * offset, radix), depth - 1)
        tried = blocks[x // radix] + b * offset
        got = _hits(y, tried) - LEAST_GAIN * (deeper + 1)
        if got > score:
            best, digits, score = tried, deeper + 1, got
    return best, digits


def _hits(y: np.ndarray, g: np.ndarray) -> int:
    return mode(y - g)[1]


def _radices(d: np.ndarray, b: int) -> list[int]:
    """Return candidate radices: the distances between breaks of the slope, the most frequent first, and the position of
    the first break.
    """
    breaks = np.flatnonzero(d != b)
    gaps, count = np.unique(np.diff(breaks), return_counts=True)
    ordered = gaps[np.argsort(-count, kind="stable")][:4].tolist()
    first = int(breaks[0]) + 1
    return [r for r in dict.fromkeys([*ordered, first]) if 1 < r <= len(d)]


def _block_values(y: np.ndarray, radix: int) -> np.ndarray:
    """Return the mode of each block of ``radix`` values."""
    return _mode_of_each(np.arange(len(y)) // radix, y, (len(y) - 1) // radix + 1)
