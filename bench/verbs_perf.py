"""Verbs between two processes on two nodes, against UCX's shared memory and memcpy in the same run.

    python bench/verbs_perf.py [--rounds 3]

Rows: latency and bandwidth of perftest with its own buffers, with a shared-memory buffer (``--mmap``) and with foreign memory
(``SOFTIB_REMAP=0``), small messages a second, memory and connection rate of 1,024 QPs, and two spinning peers beside a busy
third process. Each row names its bar. Both programs of a pair are pinned to the same two cores.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.preload.verbs.applications import A, Applications, wait_for_listener

CORES = "0,1"


def pinned(*arguments: str) -> list[str]:
    return ["taskset", "-c", CORES, *arguments]


FOREIGN = {"SOFTIB_REMAP": "0"}
"""Buffers stay private: the system copies (process_vm_writev)."""


def perftest(fabric: Applications, line: str, shared: bool, **env: str) -> list[float]:
    """The last row of numbers that the client shows."""
    port = next(fabric.ports)
    arguments = [*line.split(), "-F", "-p", str(port)]
    files = [fabric.folder / f"buffer-{x}" for x in "ab"]
    ends = []
    for file in files:
        with file.open("wb") as f:
            f.truncate(64 << 20)
        ends.append([*arguments, f"--mmap={file}"] if shared else arguments)
    _, client = fabric.pair(pinned(*ends[0]), pinned(*ends[1], "127.0.0.1"), tcp=port, limit_s=120, **env)
    rows = re.findall(r"^ *\d+ +\d+ +[\d.]+.*$", client, re.M)
    return [float(x) for x in rows[-1].split()]


def ucx(fabric: Applications, test: str, size: int, n: int) -> list[float]:
    """The last row of ucx_perftest over posix shared memory: iterations, 50 %, average, overall latency (us), bandwidths, rates."""
    port = next(fabric.ports)
    env = {**os.environ, "UCX_TLS": "posix,self"}
    arguments = pinned("ucx_perftest", "-t", test, "-s", str(size), "-n", str(n), "-p", str(port))
    server = subprocess.Popen(arguments, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_listener(port, server)
    output = subprocess.run([*arguments, "127.0.0.1"], env=env, capture_output=True, text=True, timeout=120).stdout
    server.wait(30)
    return [float(x) for x in re.search(r"^Final: +(.*)$", output, re.M)[1].split()]


def memcpy_mb_s(size: int = 1 << 20, rounds: int = 3000) -> float:
    """Copies between the same two buffers of ``size``, in MB/s."""
    a, b = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    began = time.perf_counter()
    for _ in range(rounds):
        np.copyto(b, a)
    return size * rounds / (time.perf_counter() - began) / (1 << 20)


def crowded(fabric: Applications) -> tuple[float, float, float]:
    """Latency (us) of spinning peers alone, and beside a busy process; the longest of the latter (us)."""
    line = "ib_write_lat -s 8 -n {}"
    alone = perftest(fabric, line.format(200_000), False)
    n = min(5_000_000, max(10_000, int(10e6 / alone[5] / 2 / 3)))
    busy = subprocess.Popen(pinned(sys.executable, "-c", "while True: pass"))
    try:
        neighbour = perftest(fabric, line.format(n), False)
    finally:
        busy.kill()
        busy.wait()
    return alone[5], neighbour[5], neighbour[3]


def queue_pairs(fabric: Applications, n: int = 1024) -> tuple[float, float]:
    """Octets a QP of both processes and of the shared files; QPs from RESET to RTS on both sides a second."""
    program = fabric.folder / "qps"
    subprocess.run(
        ["gcc", "-O2", "-o", str(program), str(Path(__file__).with_suffix(".c").with_name("verbs_qps.c")), "-libverbs"],
        check=True,
    )

    def files() -> int:
        return sum(p.stat().st_blocks * 512 for p in fabric.folder.rglob("*") if p.name in ("verbs", "traffic"))

    def run(count: int) -> tuple[list[str], int]:
        one = fabric.begin(A, str(program), str(count), "2")
        output = one.stdout.readline().split()
        octets = files()
        one.wait()
        time.sleep(0.5)
        return output, octets

    few = run(1)[1]
    output, many = run(n)
    return float(output[1]) + (many - few) / n, float(output[2])


def main() -> None:
    """Print a table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=3)
    rounds = range(options.parse_args().rounds)
    fabric = Applications()
    rows: list[tuple[str, str, str]] = []
    middle = statistics.median
    try:
        pairs = [
            (
                ucx(fabric, "tag_lat", 8, 500_000)[3],
                perftest(fabric, "ib_write_lat -s 8 -n 200000", False)[5],
                perftest(fabric, "ib_write_lat -s 8 -n 500000", True)[5],
                perftest(fabric, "ib_write_lat -s 8 -n 100000", False, **FOREIGN)[5],
            )
            for _ in rounds
        ]
        base = middle(p[0] for p in pairs)
        rows.append(("UCX posix tag_lat, 8 B", f"{base:.3f} us", ""))
        for name, k, bar in (
            ("ib_write_lat, 8 B, perftest's own buffer", 1, "4"),
            ("  shared-memory buffer", 2, "1"),
            ("  foreign memory", 3, ""),
        ):
            ratio = middle(p[k] / p[0] for p in pairs)
            rows.append((name, f"{middle(p[k] for p in pairs):.3f} us, {ratio:.2f} x UCX", bar and f"at most {bar} x"))
        pairs = [
            (
                ucx(fabric, "tag_bw", 1 << 20, 5000)[4],
                memcpy_mb_s(),
                perftest(fabric, "ib_write_bw -s 1048576 -n 5000", False)[3],
                perftest(fabric, "ib_write_bw -s 1048576 -n 10000", True)[3],
                perftest(fabric, "ib_write_bw -s 1048576 -n 5000", False, **FOREIGN)[3],
            )
            for _ in rounds
        ]
        rows.append(
            (
                "UCX posix tag_bw, 1 MB; memcpy",
                f"{middle(p[0] for p in pairs):.0f}; {middle(p[1] for p in pairs):.0f} MB/s",
                "",
            )
        )
        rows.append(
            (
                "ib_write_bw, 1 MB, perftest's own buffer",
                f"{middle(p[2] for p in pairs):.0f} MB/s, {middle(p[2] / p[0] for p in pairs):.2f} x UCX",
                "at least 1.3 x",
            )
        )
        rows.append(
            (
                "  shared-memory buffer",
                f"{middle(p[3] for p in pairs):.0f} MB/s, {middle(p[3] / p[1] for p in pairs):.2f} x memcpy",
                "at least 0.8 x",
            )
        )
        rows.append(
            (
                "  foreign memory",
                f"{middle(p[4] for p in pairs):.0f} MB/s, {middle(p[4] / p[0] for p in pairs):.2f} x UCX",
                "",
            )
        )
        for name, line, shared in (
            ("write, 2 B inline, own buffer", "ib_write_bw -s 2 -I 2 -n 1000000", False),
            ("  shared-memory buffer", "ib_write_bw -s 2 -I 2 -n 5000000", True),
            ("send, 2 B inline, own buffer", "ib_send_bw -s 2 -I 2 -n 500000", False),
            ("  shared-memory buffer", "ib_send_bw -s 2 -I 2 -n 2000000", True),
        ):
            rate = middle(perftest(fabric, line, shared)[-1] for _ in rounds)
            rows.append((name, f"{rate:.2f} M/s", "at least 5 M/s"))
        octets, rate = queue_pairs(fabric)
        rows.append(("1,024 QPs", f"{octets:.0f} octets each", "at most 8192"))
        rows.append(("RESET to RTS on both sides", f"{rate:.0f} /s", "at least 20000"))
        alone, neighbour, longest = crowded(fabric)
        rows.append(
            (
                "spinning peers and a busy third",
                f"{alone / neighbour:.0%} of the rate alone, longest stall {longest / 1e3:.1f} ms",
                "at least 15 %, at most 50 ms",
            )
        )
    finally:
        fabric.close()
    for name, value, bar in rows:
        print(f"{name:45} {value:50} {bar}")


if __name__ == "__main__":
    main()
