"""Stories of bad cables, and days without one: ``python -m bench.cable_stories [--seeds A:B] [--days A:B] [--fabric F] [--kind K] [--show]``.

One line a kind of story: how many were told, how many of what was planted was named, false alarms, time to detection (median and worst; the counters
are read every 300 s). Then false alarms of days without a fault. Everything is virtual time: a day takes seconds. Thresholds were tuned on seeds below
1000; the figures in the documentation are of seeds from 1000 on.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from tests.diags.cable_rules.stories import FABRICS, KINDS, healthy_day, score

LARGE = tuple(name for name in FABRICS if name != "small")


def stories(seeds: range, fabrics: tuple[str, ...], kinds: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    """(kind, fabric, seed) of each story: kinds in turn, fabrics in turn."""
    for seed in seeds:
        yield kinds[seed % len(kinds)], fabrics[(seed // len(kinds)) % len(fabrics)], seed


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="1000:1200")
    parser.add_argument("--days", default="1000:1300")
    parser.add_argument("--fabric", action="append", choices=[*FABRICS])
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--show", action="store_true", help="what was missed, and each false alarm")
    args = parser.parse_args()
    fabrics, kinds = tuple(args.fabric or LARGE), tuple(args.kind or KINDS)
    _stories(_range(args.seeds), fabrics, kinds, args.show)
    _days(_range(args.days), fabrics, args.show)


def _range(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last or int(first) + 1))


def _stories(seeds: range, fabrics: tuple[str, ...], kinds: tuple[str, ...], show: bool) -> None:
    rows: dict[str, list[tuple[bool, float]]] = {k: [] for k in KINDS}
    told, stray = dict.fromkeys(KINDS, 0), dict.fromkeys(KINDS, 0)
    for kind, fabric, seed in stories(seeds, fabrics, kinds):
        result = score(kind, fabric, seed)
        told[kind] += 1
        stray[kind] += len(result.stray)
        rows[kind] += zip(result.named, result.after_s, strict=True)
        if show and (result.stray or not all(result.named)):
            print(
                f"  {kind} {fabric} {seed}: {dict(zip(result.kinds, result.named, strict=True))} {result.stray}",
                flush=True,
            )
    print(f"{'story':18} {'told':>5} {'planted':>8} {'named':>7} {'false':>6} {'median':>8} {'worst':>8}")
    whole: list[tuple[bool, float]] = []
    for kind in KINDS:
        if told[kind]:
            whole += rows[kind]
            print(_line(kind, told[kind], rows[kind], stray[kind]))
    if whole:
        print(_line("all", sum(told.values()), whole, sum(stray.values())), flush=True)


def _line(kind: str, told: int, rows: list[tuple[bool, float]], stray: int) -> str:
    after = np.array([a for ok, a in rows if ok] or [np.nan])
    named = sum(ok for ok, _ in rows)
    return f"{kind:18} {told:5} {len(rows):8} {100 * named / len(rows):6.1f}% {stray:6} {np.median(after):7.0f}s {after.max():7.0f}s"


def _days(seeds: range, fabrics: tuple[str, ...], show: bool) -> None:
    alarms = 0
    for seed in seeds:
        found = healthy_day(fabrics[seed % len(fabrics)], seed)
        alarms += len(found)
        if show and found:
            print(f"  day {fabrics[seed % len(fabrics)]} {seed}: {found}", flush=True)
    if len(seeds):
        print(f"{len(seeds)} days without a fault: {alarms} false alarms, {100 * alarms / len(seeds):.2f} in 100 days")


if __name__ == "__main__":
    main()
