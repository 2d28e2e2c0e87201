"""softib nvme bench against perftest's READ, in turns on one machine: 1 GiB file, random offsets, data verified.

    python bench/nvmeof.py [--rounds 3] [--seconds 2] [--size 1G] [--first "chrt -r 1"]

Each round: `ib_read_bw` at 128 KiB (one message, which stays in the cache) and at 512 MiB (which does not), pread(2) of 128 KiB at random
offsets of the same file in one process, then reads of 128 KiB and of 4 KiB over the fabric. `--first` is put in front of each program that is
measured: on a busy machine `chrt -r 1` gives the two processes the two processors that the figures are about.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOFTIB = [sys.executable, "-m", "softib"]
LIMIT_S = 300
SMALL, LARGE, BEYOND_CACHE = 4096, 131072, 512 << 20


class Fabric:
    """A running fabric with a target on its first host."""

    def __init__(self, folder: Path, size: str, first: list[str]):
        self.name, self.first = f"bench-nvmeof-{os.getpid()}", first
        (folder / "f.yaml").write_text("generation: NDR\ntopology: {kind: fat-tree, levels: 2, radix: 4}\n")
        subprocess.run(
            [*SOFTIB, "up", str(folder / "f.yaml"), "--name", self.name, "--detach"],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        self.disk = folder / "disk.img"
        subprocess.run(["truncate", "-s", size, self.disk], check=True)
        self.address = self.run("host-0001", "printenv", "SOFTIB_ADDRESS").strip()
        self.target = subprocess.Popen(
            self.on("host-0001", *SOFTIB, "target", str(self.disk), "--json"), stdout=subprocess.PIPE, text=True
        )
        assert self.target.stdout is not None
        assert self.target.stdout.readline().startswith("{")

    def on(self, node: str, *command: str) -> list[str]:
        return [*SOFTIB, "run", "--fabric", self.name, "--node", node, "--", *self.first, *command]

    def run(self, node: str, *command: str) -> str:
        return subprocess.run(
            self.on(node, *command), check=True, text=True, capture_output=True, timeout=LIMIT_S
        ).stdout

    def bench(self, *options: str) -> dict:
        output = self.run("host-0002", *SOFTIB, "nvme", "bench", self.address, "--json", *options)
        return json.loads(output)

    def perftest(self, size: int, count: int) -> float:
        """GB/s of ib_read_bw."""
        words = ["ib_read_bw", "-F", "-s", str(size), "-n", str(count), "-p", str(19000 + os.getpid() % 900)]
        server = subprocess.Popen(self.on("host-0003", *words), stdout=subprocess.DEVNULL)
        try:
            for _ in range(50):
                time.sleep(0.3)
                done = subprocess.run(
                    self.on("host-0004", *words, "127.0.0.1"), text=True, capture_output=True, timeout=LIMIT_S
                )
                if done.returncode == 0:
                    row = next(line.split() for line in done.stdout.splitlines() if line.split()[:1] == [str(size)])
                    return float(row[3]) * 2**20 / 1e9
            raise RuntimeError(done.stdout + done.stderr)
        finally:
            server.terminate()
            server.wait()

    def pread(self, seconds: float) -> float:
        """GB/s of pread(2) at random offsets of the file, in a process of its own."""
        text = (
            "import os, random, sys, time\n"
            f"fd, units, buffer = os.open({str(self.disk)!r}, os.O_RDONLY), {self.disk.stat().st_size // LARGE}, [bytearray({LARGE})]\n"
            f"end, done, began = time.monotonic() + {seconds}, 0, time.monotonic()\n"
            "while time.monotonic() < end:\n"
            "    for _ in range(64):\n"
            f"        os.preadv(fd, buffer, random.randrange(units) * {LARGE})\n"
            "    done += 64\n"
            f"print(done * {LARGE} / (time.monotonic() - began) / 1e9)\n"
        )
        return float(
            subprocess.run([*self.first, sys.executable, "-c", text], check=True, text=True, capture_output=True).stdout
        )

    def close(self) -> None:
        self.target.terminate()
        self.target.wait()
        subprocess.run([*SOFTIB, "down", self.name], check=False, stderr=subprocess.DEVNULL)


def reads_of(fabric: Fabric, size: str, depth: int, seconds: str) -> float:
    """Bytes a second of verified reads."""
    words = ("--size", size, "--depth", str(depth), "--seconds", seconds, "--overwrite")
    return fabric.bench(*words)["bytes_per_second"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", default="1G")
    parser.add_argument("--first", default="")
    options = parser.parse_args()
    seconds = str(options.seconds)
    random.seed(1)
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        fabric = Fabric(Path(name), options.size, shlex.split(options.first))
        try:
            fabric.bench("--size", "128k", "--depth", "8", "--overwrite", "--seconds", "0.1")  # fills the file
            for _ in range(options.rounds):
                for what, value in (
                    ("ib_read_bw 128 KiB, GB/s", fabric.perftest(LARGE, 20_000)),
                    ("ib_read_bw 512 MiB, GB/s", fabric.perftest(BEYOND_CACHE, 5)),
                    ("pread 128 KiB, GB/s", fabric.pread(options.seconds)),
                    *(
                        (f"read 128 KiB, depth {depth}, GB/s", reads_of(fabric, "128k", depth, seconds) / 1e9)
                        for depth in (8, 64)
                    ),
                    ("read 4 KiB, depth 32, IOPS", reads_of(fabric, "4k", 32, seconds) / SMALL),
                ):
                    rows.setdefault(what, []).append(value)
        finally:
            fabric.close()
    for what, values in rows.items():
        print(f"{what:45} {statistics.median(values):12,.2f}   {' '.join(f'{v:,.2f}' for v in values)}")


if __name__ == "__main__":
    main()
