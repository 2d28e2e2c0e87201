"""Observations written by hand: two leaves, a spine between them, two hosts on each leaf."""

from __future__ import annotations

import numpy as np

from softib.diags.finding import Finding
from softib.diags.observations import ForwardingTables, Observations, ObservedPorts

NODES = {
    "h0": (1, False),
    "h1": (2, False),
    "h2": (3, False),
    "h3": (4, False),
    "leaf-0": (10, True),
    "leaf-1": (11, True),
    "spine": (20, True),
}
CABLES = [
    ("h0[1]", "leaf-0[1]"),
    ("h1[1]", "leaf-0[2]"),
    ("h2[1]", "leaf-1[1]"),
    ("h3[1]", "leaf-1[2]"),
    ("leaf-0[3]", "spine[1]"),
    ("leaf-1[3]", "spine[2]"),
]
LID = {"h0": 1, "h1": 2, "h2": 3, "h3": 4, "leaf-0": 5, "leaf-1": 6, "spine": 7}


def _key(place: str) -> tuple[int, int]:
    name, _, number = place[:-1].partition("[")
    return NODES[name][0], int(number)


KEYS = sorted(_key(p) for c in CABLES for p in c)
NAMES = {guid: name for name, (guid, _) in NODES.items()}


def row(place: str) -> int:
    """The row of ``leaf-0[3]``."""
    return KEYS.index(_key(place))


def ports(gbps: float = 400.0, **text: dict[str, str]) -> ObservedPorts:
    """The ports; ``text``: what was told of some of them, by place."""
    peer = np.zeros(len(KEYS), np.int32)
    for a, b in CABLES:
        peer[row(a)], peer[row(b)] = row(b), row(a)
    columns = {}
    for what, by_place in text.items():
        columns[what] = np.array([""] * len(KEYS), object)
        for place, value in by_place.items():
            columns[what][row(place)] = value
    guid = [g for g, _ in KEYS]
    return ObservedPorts(
        np.array(guid, np.uint64),
        np.array([p for _, p in KEYS], np.int32),
        np.array([NODES[NAMES[g]][1] for g in guid]),
        tuple(NAMES[g] for g in guid),
        np.array([LID[NAMES[g]] for g in guid], np.int32),
        peer,
        np.full(len(KEYS), gbps),
        columns,
    )


def observed(
    seconds: float,
    *rounds: dict[str, dict[str, float]],
    of: ObservedPorts | None = None,
    level: dict[str, list[dict[str, float]]] | None = None,
    unknown: tuple[tuple[int, str], ...] = (),
) -> Observations:
    """``rounds``: of each interval of ``seconds``, counter -> place -> increase; ``level`` likewise; ``unknown``: (interval, place) of which nothing is
    known."""
    made = of or ports()
    n, k = len(made), len(rounds)
    counters = sorted(
        {c for r in rounds for c in r}
        | {"symbol_error_counter", "link_downed_counter", "port_xmit_data", "port_xmit_wait"}
    )
    known = np.ones((k, n), bool)
    for i, place in unknown:
        known[i, row(place)] = False
    increase = {c: np.zeros((k, n), np.uint64) for c in counters}
    for i, by_counter in enumerate(rounds):
        for counter, by_place in by_counter.items():
            for place, value in by_place.items():
                increase[counter][i, row(place)] = int(value)
    levels = {}
    for name, by_round in (level or {}).items():
        levels[name] = np.full((k, n), np.nan)
        for i, by_place in enumerate(by_round):
            for place, value in by_place.items():
                levels[name][i, row(place)] = value
    begin = np.repeat((np.arange(k) * seconds * 1e9).astype(np.int64)[:, None], n, axis=1)
    return Observations(made, begin, begin + int(seconds * 1e9), increase, dict.fromkeys(counters, known), levels)


def tables() -> ForwardingTables:
    """Up through port 3, down by LID: h0 and h1 on leaf-0, h2 and h3 on leaf-1."""
    lft = np.full((3, 8), 255, np.uint8)
    lft[0, [1, 2, 3, 4]] = [1, 2, 3, 3]
    lft[1, [1, 2, 3, 4]] = [3, 3, 1, 2]
    lft[2, [1, 2, 3, 4]] = [1, 1, 2, 2]
    return ForwardingTables(np.array([10, 11, 20], np.uint64), lft, np.array([1, 2, 3, 4]))


def codes(found: list[Finding]) -> list[str]:
    """Codes of warnings and errors."""
    return [f.code for f in found if f.severity > 0]
