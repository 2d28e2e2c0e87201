"""Wall time of ``softib report`` in a new process: a real fabric and 11,664 hosts; and of ``softib --help``.

    python bench/report_time.py [FILE]

Each command runs once to fill the kernel cache, then three times; the median counts. Targets: 10 s for FILE (Selene's
storage fabric), 60 s for 11,664 hosts, 0.3 s for ``--help``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BIG = "name: big\ntopology: {kind: fat-tree, radix: 36, levels: 3}\n"


def seconds(*args: str) -> float:
    """Wall seconds of one ``softib ARGS``, which must succeed."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "softib.cli.main", *args], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"softib {' '.join(args)}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
    return time.perf_counter() - began


def measure(name: str, target: float, *args: str) -> bool:
    """Print first run, median of three and target."""
    first = seconds(*args)
    median = statistics.median(seconds(*args) for _ in range(3))
    print(
        f"{name}: {median:.2f} s (first run {first:.2f} s), target {target:g} s: {'met' if median < target else 'MISSED'}"
    )
    return median < target


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        big, page = Path(folder) / "big.yaml", Path(folder) / "report.html"
        big.write_text(BIG)
        good = [measure("softib --help", 0.3, "--help"), measure("softib report --help", 0.3, "report", "--help")]
        for file in sys.argv[1:]:
            good.append(measure(f"report {Path(file).name}", 10, "report", file, "--html", str(page)))
        for engine in ("minhop", "ftree"):
            good.append(
                measure(
                    f"report of 11,664 hosts, {engine}", 60, "report", str(big), "--engine", engine, "--html", str(page)
                )
            )
    sys.exit(not all(good))
