"""Rounds over a running fabric, and the text of a scrape: wall and CPU time of this process and of the daemon.

python bench/monitor.py                 # 11,664 hosts, 1,620 switches, 34,992 cables (69,984 ports)
python bench/monitor.py --radix 16      # 1,024 hosts
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import softib
from softib.monitor.exporter.ratios import ErrorRatios
from softib.monitor.exporter.text import PortText
from softib.monitor.history import History
from softib.monitor.intervals import between
from softib.monitor.opening import open_source
from softib.monitor.perfmgr import Poller

FABRIC = "generation: HDR\ntopology: {{kind: fat-tree, radix: {radix}, levels: 3}}\n"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def main() -> None:
    """Print one line a round, one for the text, one for the history."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--radix", type=int, default=36)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "bench.yaml")
        source.write_text(FABRIC.format(radix=options.radix))
        with softib.up(source, name="bench-monitor") as fabric:
            measure(fabric.name, fabric.status().pid, options.rounds, Path(folder))


def measure(name: str, pid: int, rounds: int, folder: Path) -> None:
    """Rounds, then the text and the Parquet file of the last interval."""
    opened = open_source(name)
    began, own = time.monotonic(), time.process_time()
    poller = Poller(opened.wire)
    print(
        f"discovery: {len(poller.targets)} ports, {time.monotonic() - began:.2f} s, CPU here {time.process_time() - own:.2f} s"
    )
    before = interval = None
    for i in range(rounds):
        own, theirs = time.process_time(), cpu_s(pid)
        one = poller.round()
        print(
            f"round {i + 1}: {one.mads} MADs, {one.duration_s:.2f} s, CPU here {time.process_time() - own:.2f} s, daemon {cpu_s(pid) - theirs:.2f} s, "
            f"{int(one.reading.answered.sum())} ports read"
        )
        interval = None if before is None else between(before, one.reading)
        before = one.reading
    opened.close()
    if before is None or interval is None:
        return
    ratios = ErrorRatios(len(before))
    ratios.add(interval)
    text = PortText(poller.targets.ports)
    text.text(before, interval, ratios)
    own = time.process_time()
    scraped = text.text(before, interval, ratios)
    lines = scraped.count(b"\n")
    print(f"text of a scrape: {len(scraped) / 1e6:.0f} MB, {lines} lines, CPU {time.process_time() - own:.2f} s")
    history = History(folder / "history")
    history.append(poller.targets.ports, interval)
    size, own = history.size_bytes, time.process_time()
    interval.end_ns += 10**9
    history.append(poller.targets.ports, interval)
    print(f"history: {(history.size_bytes - size) / 1e3:.0f} kB a round, CPU {time.process_time() - own:.2f} s")


if __name__ == "__main__":
    main()
