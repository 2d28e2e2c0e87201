"""Schedule of measurements in rounds. In a round, each port of a rail has one partner, and all pairs are of one class.

All pairs of n ports take n - 1 rounds (the 1-factorisation of a complete graph by the circle method, Lucas 1883, used
for tournaments). To find slow parts in a fabric of thousands of hosts, a few rounds of each class are enough. The same
method pairs leaves, and then pods, in these rounds; the ports of two paired groups are matched with a different shift
each time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from softib.errors import InputError
from softib.plural import counted

__all__ = ["CLASSES", "Ends", "Round", "class_of", "measuring_parts", "rounds_of", "sub_rounds"]

CLASSES = ("same leaf", "across spine", "across core")
"""Classes of pairs, by the innermost group that contains both ports."""
PARTS = 4
"""Number of parts of a round. One part at a time measures latency while the other three load the fabric."""


@dataclass(frozen=True)
class Ends:
    """``n`` ports of channel adapters between which programs measure. ``node``: NodeDescription (the host name if no
    fabric is given). ``host``: name for the launcher. ``device``: libibverbs' name of the adapter (``mlx5_0``; "": the
    first adapter). ``portnum`` int32. ``rail`` int32: position among the host's ports. ``leaf`` int32: number of the
    port's switch. ``pod`` int32: number of the part of the fabric below the top tier that contains this switch. Both
    are 0 for all ports if they are unknown.
    """

    node: tuple[str, ...]
    host: tuple[str, ...]
    device: tuple[str, ...]
    portnum: np.ndarray
    rail: np.ndarray
    leaf: np.ndarray
    pod: np.ndarray

    def __len__(self) -> int:
        return len(self.host)

    def name(self, row: int) -> str:
        """Return the name of a port, for example ``node-1 mlx5_0``; the portnum is added if it is not 1."""
        port = int(self.portnum[row])
        label = f"{self.host[row]} {self.device[row]}".strip()
        return label if port in (0, 1) else f"{label}[{port}]"


@dataclass(frozen=True)
class Round:
    """A round: ``source[i]`` measures with ``target[i]`` (rows of :class:`Ends`, int64); no row
    occurs twice. ``pairs``: the class of the round."""

    number: int
    pairs: str
    source: np.ndarray
    target: np.ndarray

    def __len__(self) -> int:
        return len(self.source)


def class_of(ends: Ends, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Return the row of :data:`CLASSES` of each pair (int64)."""
    leaf, pod = ends.leaf[source] == ends.leaf[target], ends.pod[source] == ends.pod[target]
    return np.where(leaf, 0, np.where(pod, 1, 2))


def rounds_of(ends: Ends, per_class: int | None = None, seed: int = 0) -> list[Round]:
    """Return the rounds: at most ``per_class`` for each class of pairs in the fabric (None: enough for all pairs).
    Pairs are within one rail, and all rails measure in the same rounds. In a round every port has a partner, except one
    port of each rail with an odd number of ports. A port for which the class of the round has no partner gets a partner
    of another class. The direction of a pair alternates between rounds. Raises :class:`InputError` if no rail has two
    ports.
    """
    if per_class is not None and per_class < 1:
        raise InputError(f"rounds={per_class}: use 1 or more for each class of pairs")
    rails = [np.flatnonzero(ends.rail == r) for r in np.unique(ends.rail).tolist()]
    if all(len(rows) < 2 for rows in rails):
        raise InputError(f"{counted(len(ends), 'host')} of one rail: a pair needs two")
    out: list[Round] = []
    rng = np.random.default_rng(seed)
    for level, pairs in enumerate(CLASSES):
        matchings = [_Matchings(ends, rows, level, rng) for rows in rails]
        available = max((m.available for m in matchings), default=0)
        for r in range(available if per_class is None else min(per_class, available)):
            matched = [np.array(m.pairs(r), np.int64).reshape(-1, 2) for m in matchings]
            both = np.concatenate(matched)
            if not len(both):
                continue
            turned = both[:, ::-1] if r % 2 else both
            out.append(Round(len(out), pairs, turned[:, 0].copy(), turned[:, 1].copy()))
    return out


class _Matchings:
    """The matchings of one rail's ports at a level. Level 0: within leaves; 1: between leaves of a pod; 2: between
    pods."""

    def __init__(self, ends: Ends, rows: np.ndarray, level: int, rng: np.random.Generator):
        self.ends, self.level = ends, level
        rows = rng.permutation(rows)
        leaf, pod = ends.leaf[rows], ends.pod[rows]
        unit = (np.arange(len(rows)), leaf, pod)[level]
        parent = (leaf, pod, np.zeros(len(rows), np.int64))[level]
        self.parents = [
            [rows[(parent == p) & (unit == u)].tolist() for u in np.unique(unit[parent == p]).tolist()]
            for p in np.unique(parent).tolist()
        ]

    @property
    def available(self) -> int:
        """Return the number of rounds for all pairs of this class."""
        return max((_steps(len(units)) * max(map(len, units)) for units in self.parents if len(units) > 1), default=0)

    def pairs(self, r: int) -> list[tuple[int, int]]:
        """Return the pairs of round ``r``. Ports without a partner of this class are paired with each other."""
        pairs, left = [], []
        for units in self.parents:
            matched, alone = self._of(units, r)
            pairs += matched
            left += alone
        left.sort(key=lambda row: (int(self.ends.pod[row]), int(self.ends.leaf[row]), row))
        return pairs + list(zip(left[0::2], left[1::2], strict=False))

    def _of(self, units: list[list[int]], r: int) -> tuple[list[tuple[int, int]], list[int]]:
        if len(units) < 2:
            return [], [row for unit in units for row in unit]
        steps = _steps(len(units))
        step, lap = r % steps, r // steps
        pairs, left = [], []
        for a, b in circle(len(units), step):
            if b < 0:
                left += units[a]
                continue
            first, second = units[a], units[b]
            shift = (step + lap) % max(len(first), len(second))
            width = max(len(first), len(second))
            for i in range(width):
                j = (i + shift) % width
                one = first[i] if i < len(first) else -1
                other = second[j] if j < len(second) else -1
                if one >= 0 and other >= 0:
                    pairs.append((one, other))
                else:
                    left += [row for row in (one, other) if row >= 0]
        return pairs, left


def _steps(n: int) -> int:
    return n - 1 if n % 2 == 0 else n


def circle(n: int, step: int) -> Iterator[tuple[int, int]]:
    """Return the pairs of ``n`` players in a round of a round-robin tournament (circle method: the
    last player is fixed, the others rotate). (a, -1): no partner."""
    even = n + n % 2
    order = [even - 1, *((step + i) % (even - 1) for i in range(even - 1))]
    for i in range(even // 2):
        a, b = order[i], order[even - 1 - i]
        a, b = (a, b) if a < n else (b, a)
        yield (a, b) if b < n else (a, -1)


def measuring_parts(n: int) -> np.ndarray:
    """Return the part of each of ``n`` pairs of a round (int64[n]; -1 if there is only one pair). One part at a time
    measures latency while the others load the fabric.
    """
    return np.arange(n) % min(PARTS, n) if n > 1 else np.full(n, -1)


def sub_rounds(
    ends: Ends, one: Round, crossed: Sequence[Collection[int]] | None, at_once: int | None = None
) -> list[np.ndarray]:
    """Split the round's pairs into parts. The pairs of a part share no host and no link, so that each pair is alone on
    its path. ``crossed``: links that each pair crosses, in either direction (None: unknown; pairs may then share
    links). ``at_once``: maximum number of pairs of a part.
    """
    parts: list[tuple[list[int], set[object]]] = []
    for i in range(len(one)):
        taken: set[object] = {ends.host[one.source[i]], ends.host[one.target[i]]}
        taken |= set(crossed[i]) if crossed is not None else set()
        for rows, used in parts:
            if (at_once is None or len(rows) < at_once) and not used & taken:
                rows.append(i)
                used |= taken
                break
        else:
            parts.append(([i], taken))
    return [np.array(rows, np.int64) for rows, _ in parts]
