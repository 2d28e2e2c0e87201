"""Time of routing and proving a 3-level fat tree of 36-port switches: 11,664 hosts, 1,620 switches.

    python bench/routing.py [runs]

Prints the best and the median of ``runs`` (default 5) for every engine, the proof and the balance, kernels compiled.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.routing.fabrics import kary_tree, ring

from softib.routing.engine import ENGINES, route
from softib.routing.proof.verify import verify
from softib.routing.quality import balance


def measure(what: str, run: Callable[[], Any], runs: int) -> Any:
    """Time ``run`` and print a line; gives back its last result."""
    took, cpu = [], []
    for _ in range(runs):
        start, busy = time.perf_counter(), time.process_time()
        result = run()
        took.append(time.perf_counter() - start)
        cpu.append(time.process_time() - busy)
    print(f"{what:16} best {min(took):6.3f} s   median {statistics.median(took):6.3f} s   least CPU {min(cpu):6.3f} s")
    return result


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    small = ring(4)
    tree = kary_tree(18, 3, top_doubled=True)
    for name in ENGINES:
        route(kary_tree(2, 3), name)
    verify(small, route(small, "minhop").lft)
    balance(small, route(small, "minhop").lft)
    for name in ENGINES:
        routing = measure(name, lambda name=name: route(tree, name), runs)
        proof = measure("  verify", lambda routing=routing: verify(tree, routing.lft), runs)
        assert proof.ok
        even = measure("  balance", lambda routing=routing: balance(tree, routing.lft), runs)
        print(f"  hops {proof.hops_ca}, most paths on a link {even.most:,}")


if __name__ == "__main__":
    main()
