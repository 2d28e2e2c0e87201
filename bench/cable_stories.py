"""Stories of bad cables, and days without one: ``python -m bench.cable_stories [--jobs N] [--seeds A:B] [--days A:B] [--fabric F] [--kind K] [--applications] [--show] [--json FILE]``.

One line a kind of story: how many were told, how many of what was planted was named, false alarms, time to detection (median and worst; the counters
are read every 300 s). Then false alarms of days without a fault. Everything is virtual time: a day takes seconds. Thresholds were tuned on seeds below
1000; the figures in the documentation are of seeds from 1000 on.

Stories and days are independent: ``--jobs`` processes tell them, one thread each, and share one store of compiled kernels, which one small story of each
kind fills first. The tables depend on the seeds alone, in their order, whoever ended first. A story that raises is reported and counted; exit 1.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

JOBS = "STORIES_OF_JOBS"
"""Environment variable that tells the processes that applications send (--applications)."""
DAY = "day"
"""The kind of a task that is a day without a fault."""
THREADS = ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
for _name in THREADS:  # the processes are the parallel part
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402
from tests.diags.cable_rules.stories import FABRICS, KINDS, healthy_day, score  # noqa: E402

LARGE = tuple(name for name in FABRICS if name != "small")
Task = tuple[str, str, int]
"""(kind or :data:`DAY`, fabric, seed)."""


@dataclass
class Told:
    """What came of a task: of ``planted`` kinds which were ``named`` after how many seconds (-1: never), false alarms; what it took."""

    kind: str
    fabric: str
    seed: int
    planted: list[str] = field(default_factory=list)
    named: list[bool] = field(default_factory=list)
    after_s: list[float] = field(default_factory=list)
    stray: list[str] = field(default_factory=list)
    error: str = ""
    cpu_s: float = 0.0
    peak_mib: int = 0


def tasks(stories: range, days: range, fabrics: tuple[str, ...], kinds: tuple[str, ...]) -> Iterator[Task]:
    """Stories (kinds in turn, fabrics in turn), then days."""
    for seed in stories:
        yield kinds[seed % len(kinds)], fabrics[(seed // len(kinds)) % len(fabrics)], seed
    for seed in days:
        yield DAY, fabrics[seed % len(fabrics)], seed


def tell(numbered: tuple[int, Task]) -> tuple[int, Told]:
    """Tell one story or day (in any process)."""
    number, (kind, fabric, seed) = numbered
    began = time.process_time()
    told = Told(kind, fabric, seed)
    try:
        if kind == DAY:
            told.stray = healthy_day(fabric, seed, jobs=bool(os.environ.get(JOBS)))
        else:
            result = score(kind, fabric, seed, jobs=bool(os.environ.get(JOBS)))
            told.planted, told.named = result.kinds, [bool(n) for n in result.named]
            told.after_s, told.stray = [float(a) if a == a else -1.0 for a in result.after_s], result.stray
    except Exception as error:  # one story that cannot be told must not lose the others
        told.error = f"{type(error).__name__}: {error}"
    gc.collect()  # agents and their fabric know each other
    told.cpu_s = time.process_time() - began
    told.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return number, told


def campaign(work: list[Task], jobs: int) -> list[Told]:
    """Tell them all; in the order of ``work``. A line of progress on stderr."""
    out: list[Told | None] = [None] * len(work)
    began, last = time.monotonic(), 0.0
    for done, (number, told) in enumerate(_told(work, jobs), 1):
        out[number] = told
        if told.error or told.stray or not all(told.named):
            print(_line(told), file=sys.stderr, flush=True)
        if time.monotonic() - last > 2 or done == len(work):
            last = time.monotonic()
            missed = sum(not all(t.named) for t in out if t)
            stray, broken = sum(len(t.stray) for t in out if t), sum(bool(t.error) for t in out if t)
            _progress(
                f"{done}/{len(work)} told, {missed} with a miss, {stray} false alarms, {broken} broken, {last - began:.0f} s"
            )
    if work:
        print(file=sys.stderr)
    return [t for t in out if t is not None]


def _line(t: Told) -> str:
    """What was missed, and each false alarm."""
    return f"  {t.kind} {t.fabric} {t.seed}: {t.error or dict(zip(t.planted, t.named, strict=True))} {t.stray}"


def _told(work: list[Task], jobs: int) -> Iterator[tuple[int, Told]]:
    numbered = list(enumerate(work))
    if jobs <= 1:
        yield from map(tell, numbered)
        return
    for kind in dict.fromkeys(k for k, _, _ in work):  # kernels are compiled once, here
        _progress(f"compiling: {kind}")
        tell((0, (kind, "small", 1)))
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(tell, numbered)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:78}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1, help="processes (0: one a core)")
    parser.add_argument("--seeds", default="1000:1200")
    parser.add_argument("--days", default="1000:1300")
    parser.add_argument("--fabric", action="append", choices=[*FABRICS])
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--show", action="store_true", help="what was missed, and each false alarm")
    parser.add_argument("--json", type=Path, help="write every story, and the sums, to this file")
    parser.add_argument("--applications", action="store_true", help="jobs of applications send, not random pairings")
    args = parser.parse_args()
    if args.applications:
        os.environ[JOBS] = "1"
    fabrics, kinds = tuple(args.fabric or LARGE), tuple(args.kind or KINDS)
    work = list(tasks(_range(args.seeds), _range(args.days), fabrics, kinds))
    began = time.monotonic()
    told = campaign(work, args.jobs or len(os.sched_getaffinity(0)))
    wall_s = time.monotonic() - began
    for t in told:
        if t.error or (args.show and (t.stray or not all(t.named))):
            print(_line(t))
    stories, days = [t for t in told if t.kind != DAY], [t for t in told if t.kind == DAY]
    table = summary(stories)
    print_stories(table)
    alarms = sum(len(t.stray) for t in days)
    if days:
        print(f"{len(days)} days without a fault: {alarms} false alarms, {100 * alarms / len(days):.2f} in 100 days")
    cost = {what: _cost(some) for what, some in (("story", stories), ("day", days)) if some}
    for what, c in cost.items():
        print(
            f"a {what}: {c['median_cpu_s']:.1f} s of CPU (median; worst {c['worst_cpu_s']:.1f}); a process took {c['peak_mib']} MiB at most"
        )
    print(f"{len(told)} in {wall_s:.0f} s, {sum(t.cpu_s for t in told):.0f} s of CPU")
    if args.json:
        document = {
            "seeds": args.seeds,
            "days": args.days,
            "table": table,
            "healthy": {"days": len(days), "false": alarms},
            "cost": cost,
            "stories": [asdict(t) for t in told],
        }
        args.json.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
    return int(any(t.error for t in told))


def _range(text: str) -> range:
    first, _, last = text.partition(":")
    return range(int(first), int(last or int(first) + 1))


def summary(stories: list[Told]) -> list[dict[str, object]]:
    """Rows of the table: by kind, then all."""
    groups = [(k, [t for t in stories if t.kind == k]) for k in KINDS]
    return [_row(k, some) for k, some in (*groups, ("all", stories)) if some]


def _row(kind: str, some: list[Told]) -> dict[str, object]:
    named = [ok for t in some for ok in t.named]
    after = [a for t in some for ok, a in zip(t.named, t.after_s, strict=True) if ok]
    return {
        "story": kind,
        "told": len(some),
        "planted": len(named),
        "named": sum(named),
        "false": sum(len(t.stray) for t in some),
        "median_s": float(np.median(after)) if after else None,
        "worst_s": max(after, default=None),
    }


def print_stories(table: list[dict[str, object]]) -> None:
    """The table of :func:`summary`."""
    if table:
        print(f"{'story':18} {'told':>5} {'planted':>8} {'named':>7} {'false':>6} {'median':>8} {'worst':>8}")
    for r in table:
        share = 100 * r["named"] / max(r["planted"], 1)  # type: ignore[operator, call-overload]
        median, worst = (f"{r[n]:7.0f}s" if r[n] is not None else "       –" for n in ("median_s", "worst_s"))
        print(f"{r['story']:18} {r['told']:5} {r['planted']:8} {share:6.1f}% {r['false']:6} {median} {worst}")


def _cost(some: list[Told]) -> dict[str, float]:
    cpu = [t.cpu_s for t in some]
    return {"median_cpu_s": float(np.median(cpu)), "worst_cpu_s": max(cpu), "peak_mib": max(t.peak_mib for t in some)}


if __name__ == "__main__":
    sys.exit(main())
