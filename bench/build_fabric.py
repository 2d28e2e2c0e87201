"""How long generators take and how much memory their fabrics do.

    python bench/build_fabric.py [--kind KIND key=value …]

Prints one line of JSON a fabric: kind, parameters, counts, seconds (best of three builds in one process), bytes of all
columns, and the peak resident memory of the process that built it. Each fabric is built in a process of its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

CASES: list[tuple[str, dict[str, object]]] = [
    ("fat-tree", {"radix": 36, "levels": 3}),
    ("fat-tree", {"radix": 64, "levels": 3}),
    ("rail-optimized", {"nodes": 127}),
    ("rail-optimized", {"nodes": 2048}),
    ("dragonfly", {"g": 129, "p": 8, "a": 16, "h": 8}),
    ("torus", {"dims": [24, 24, 24]}),
]


def measure(kind: str, params: dict[str, object]) -> dict[str, object]:
    """Build in this process; the peak is the process's own."""
    from softib.fabric.topologies.registry import generate

    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    fabric = generate(kind, **params)
    first = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # before further builds, which would hold two at once
    best = first
    for _ in range(2):
        del fabric
        start = time.perf_counter()
        fabric = generate(kind, **params)
        best = min(best, time.perf_counter() - start)
    return {
        "kind": kind,
        "params": params,
        "switches": fabric.sizes.switches,
        "cas": len(fabric.cas),
        "cables": fabric.sizes.cables,
        "first_s": round(first, 3),
        "best_s": round(best, 3),
        "columns_mb": round(fabric.nbytes / 1e6),
        "peak_mb": round(peak / 1e3),
        "imports_mb": round(peak_before / 1e3),
    }


def main() -> None:
    """Without arguments: every case; with ``--kind``: that one, here."""
    if "--kind" in sys.argv:
        at = sys.argv.index("--kind")
        params = {k: json.loads(v) for k, v in (a.split("=", 1) for a in sys.argv[at + 2 :])}
        print(json.dumps(measure(sys.argv[at + 1], params)))
        return
    for kind, params in CASES:
        given = [f"{k}={json.dumps(v)}" for k, v in params.items()]
        subprocess.run([sys.executable, __file__, "--kind", kind, *given], check=True)


if __name__ == "__main__":
    main()
