"""How long reading and writing a 36-port fat tree of 11,664 hosts and 1,620 switches takes.

    python bench/read_netlist.py [DIRECTORY]

Writes both forms below DIRECTORY (default: a temporary one), reads each three times, prints the median in seconds.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.fabric.formats import registry
from softib.fabric.model import Fabric
from softib.iba.constants import NodeType


def fat_tree(k: int = 36) -> Fabric:
    """Three levels of ``k``-port switches: k pods of k/2 leaves and k/2 spines, (k/2)^2 cores, k^3/4 hosts."""
    h = k // 2
    b = FabricBuilder("fat-tree")
    leaf = b.nodes(k * h, NodeType.SWITCH, k, desc=[f"leaf-{i}" for i in range(k * h)], speed="HDR")
    spine = b.nodes(k * h, NodeType.SWITCH, k, desc=[f"spine-{i}" for i in range(k * h)], speed="HDR")
    core = b.nodes(h * h, NodeType.SWITCH, k, desc=[f"core-{i}" for i in range(h * h)], speed="HDR")
    host = b.nodes(k * h * h, NodeType.CA, 1, desc=[f"host-{i} mlx5_0" for i in range(k * h * h)], speed="HDR")
    i = np.arange(k * h * h)
    b.links(leaf[i // h], i % h + 1, host, 1)
    pod, up, at = i // (h * h), i // h % h, i % h
    b.links(leaf[pod * h + up], h + at + 1, spine[pod * h + at], up + 1)
    b.links(spine[pod * h + up], h + at + 1, core[up * h + at], pod + 1)
    return b.build()


def main(directory: Path) -> None:
    """Print one line a form."""
    fabric = fat_tree()
    for name in ("fat-tree.net", "fat-tree.ibnetdiscover"):
        path = directory / name
        start = time.perf_counter()
        registry.write(fabric, path)
        wrote = time.perf_counter() - start
        times = []
        for _ in range(3):
            start = time.perf_counter()
            result = registry.read(path)
            times.append(time.perf_counter() - start)
        print(
            f"{name}: {path.stat().st_size / 1e6:.1f} MB, {result.counts['links']} links, "
            f"write {wrote:.2f} s, read {statistics.median(times):.2f} s, problems {len(result.problems)}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
