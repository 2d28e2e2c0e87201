"""Connections a second that stock ``ucmatose`` makes between two hosts: address, route, request, answer, release of each.

    python bench/cm_connects.py [--connections 1000] [--rounds 3] [--preload LIB ...]

All connections of a run are under way at once, each waiting for its own answers. The time of a run with one connection
(start of the program, registration of memory) is subtracted. Without a device in the preload libraries, name one with
--preload (``tests/live/rdma_cm/stand_in_verbs.c`` is enough: no message is sent).
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from softib.fabric.formats.registry import write
from softib.fabric.topologies.registry import generate

SOFTIB = [sys.executable, "-m", "softib.cli.main"]
SETTLE_S = 1.0
LIMIT_S = 300


def seconds(name: str, preload: str, connections: int) -> float:
    """From the client's start to its end."""
    env = {**os.environ, "LD_PRELOAD": preload}
    words = ["ucmatose", "-C", "0", "-c", str(connections)]
    run = [*SOFTIB, "run", "--fabric", name, "--node"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    told = subprocess.run(
        [*run, "host-0002", "--", "printenv", "SOFTIB_ADDRESS"], check=True, capture_output=True, text=True
    )
    server = subprocess.Popen([*run, "host-0002", "--", *words], env=env, **quiet)
    try:
        time.sleep(SETTLE_S)
        # The shell takes the time, so that the start of `softib run` does not count.
        client = (
            f"b=$(date +%s%N); {' '.join(words)} -s {told.stdout.strip()} >&2 || exit; e=$(date +%s%N); echo $((e-b))"
        )
        done = subprocess.run(
            [*run, "host-0001", "--", "sh", "-c", client],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=LIMIT_S,
            check=True,
        )
        server.wait(LIMIT_S)
    finally:
        server.kill()
        server.wait()
    return int(done.stdout) / 1e9


def main() -> None:
    """Prints a line a round, and the median."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--preload", nargs="*", default=[])
    args = parser.parse_args()
    name, preload = f"bench-{os.getpid()}", " ".join(str(Path(p).resolve()) for p in args.preload)
    with tempfile.TemporaryDirectory() as folder:
        net = Path(folder) / "net"
        write(generate("fat-tree", radix=8, levels=2), net, "ibnetdiscover")
        subprocess.run([*SOFTIB, "up", str(net), "--name", name, "--detach"], check=True, stderr=subprocess.DEVNULL)
        try:
            rates = []
            for _ in range(args.rounds):
                alone = seconds(name, preload, 1)
                whole = seconds(name, preload, args.connections)
                rates.append((args.connections - 1) / (whole - alone))
                print(
                    f"{args.connections} connections in {whole:.2f} s, one in {alone:.2f} s: {rates[-1]:.0f} a second"
                )
            print(f"median {statistics.median(rates):.0f} connections a second")
        finally:
            subprocess.run([*SOFTIB, "down", name], check=False, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
