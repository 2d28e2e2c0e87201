"""Writes and reads the forwarding tables of an 11,664-host fat tree in dump_lfts form: 1,620 x 13,284 = 21.5 M entries.

Run: python bench/lft_dump.py [switches] [lids]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.fabric.formats.lft.dump import read_lfts, write_lfts
from softib.iba.constants import NodeType


def main(switches: int = 1620, lids: int = 13284) -> None:
    """Print seconds, sizes, and whether the tables came back the same."""
    builder = FabricBuilder("bench", lft_cap=lids + 1)
    builder.nodes(switches, NodeType.SWITCH, 36, desc=[f"switch-{i}" for i in range(switches)])
    fabric = builder.build()
    lft = np.random.default_rng(0).integers(1, 37, (switches, lids + 1), np.uint8)
    lft[:, 0] = 255
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tables.lft"
        start = time.perf_counter()
        write_lfts(fabric, lft, path)
        wrote = time.perf_counter()
        again, problems = read_lfts(path, fabric)
        read = time.perf_counter()
        size = path.stat().st_size / 1e6
    same = np.array_equal(again, lft) and not problems
    print(f"{size:.0f} MB: written in {wrote - start:.1f} s, read in {read - wrote:.1f} s, same: {same}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
