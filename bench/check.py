"""Seconds of a whole check, structure included: ``python bench/check.py`` (median of 5, kernel-free)."""

from __future__ import annotations

import statistics
import time

from tests.fabric.random_faults import random_swap

from softib.diags.check import check
from softib.diags.structure.recognise import recognise
from softib.fabric.topologies.registry import generate

CASES = {
    "fat tree, 11,664 hosts, 1,620 switches": ("fat-tree", {"radix": 36, "levels": 3}),
    "SuperPOD, 127 nodes x 8 rails": ("rail-optimized", {"nodes": 127}),
    "SuperPOD, 2,000 nodes x 8 rails": ("rail-optimized", {"nodes": 2000}),
    "dragonfly, 16,512 hosts": ("dragonfly", {"g": 129, "a": 16, "p": 8, "h": 8}),
}


def main() -> None:
    """Print one line a fabric: clean, and with ten swaps."""
    import numpy as np

    for title, (kind, parameters) in CASES.items():
        fabric = generate(kind, **parameters)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            findings = check(fabric, structure=recognise(fabric))
            times.append(time.perf_counter() - start)
        rng = np.random.default_rng(1)
        for _ in range(10):
            random_swap(fabric, rng)
        start = time.perf_counter()
        swapped = check(fabric)
        print(
            f"{title}: {statistics.median(times):.2f} s, {len(findings)} findings; ten swaps: "
            f"{time.perf_counter() - start:.2f} s, {len(swapped)} findings"
        )


if __name__ == "__main__":
    main()
