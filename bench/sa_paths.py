"""PathRecords per second of a running fabric's administrator, ours and stock OpenSM's, in one run.

    python bench/sa_paths.py [--radix 24] [--queries 20000] [--window 1 64]

A client on a host (``softib run``) puts Get(PathRecord) for random pairs of LIDs, so many at a time, through the umad device, and
counts answers with status 0. Then ``saquery`` asks for tables. On a busy machine only the processor time of a
question tells something. The fabric is a three-level fat tree (3,456 hosts and 720
switches with the default radix), minhop both times; both administrators answer over the same daemon.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from live_opensm import cpu_s

SOFTIB = [sys.executable, "-m", "softib.cli.main"]
REGISTER, ENABLE_PKEY = 0xC01C1B01, 0x1B03
HEAD, REQUEST = struct.Struct("=5I4s4s2s6B16s4sH6x"), struct.Struct("=I16sBBB3sB1x")
SA, GET, PATH_RECORD, SA_DATA = 3, 1, 0x35, 56
SLID_DLID = 1 << 5 | 1 << 4
TABLES = {"nodes": ["NR"], "ports": ["PIR"], "paths from one LID": ["PR", "--slid", "2"], "links": ["LR"]}


def client(top: int, count: int, window: int) -> None:
    """Runs on a host of the fabric: prints answers a second and how many said status 0."""
    fd = os.open("/dev/infiniband/umad0", os.O_RDWR)
    fcntl.ioctl(fd, ENABLE_PKEY, 0)
    asked = bytearray(REQUEST.pack(0, bytes(16), 1, SA, 2, bytes(3), 1))
    fcntl.ioctl(fd, REGISTER, asked)
    agent = REQUEST.unpack(asked)[0]
    lid = int(Path("/sys/class/infiniband/mlx5_0/ports/1/sm_lid").read_text(), 16)
    head = HEAD.pack(
        agent,
        0,
        5000,
        0,
        256,
        (1).to_bytes(4, "big"),
        0x80010000.to_bytes(4, "big"),
        lid.to_bytes(2, "big"),
        0,
        0,
        0,
        0,
        0,
        0,
        bytes(16),
        bytes(4),
        0,
    )
    mad = bytearray(256)
    mad[:4], mad[16:18], mad[48:56] = (
        bytes((1, SA, 2, GET)),
        PATH_RECORD.to_bytes(2, "big"),
        SLID_DLID.to_bytes(8, "big"),
    )
    draw = random.Random(1)
    sent = good = done = 0
    begin = time.perf_counter()
    while done < count:
        while sent < count and sent - done < window:
            mad[8:16] = sent.to_bytes(8, "big")
            mad[SA_DATA + 40 : SA_DATA + 44] = struct.pack(">HH", draw.randint(1, top), draw.randint(1, top))
            os.write(fd, head + mad)
            sent += 1
        got = os.read(fd, 320)
        done += 1
        good += HEAD.unpack_from(got)[1] == 0 and got[64 + 3] == 0x81 and got[64 + 4 : 64 + 6] == b"\0\0"
    took = time.perf_counter() - begin
    print(f"{done / took:.0f} {good}")


def measure(name: str, what: str, top: int, queries: int, windows: list[int]) -> None:
    """Print what one administrator does."""
    on = [*SOFTIB, "run", "--fabric", name, "--node", "host-0002", "--"]
    told = json.loads(
        subprocess.run([*SOFTIB, "status", name, "--json"], check=True, capture_output=True, text=True).stdout
    )["fabrics"][0]
    pids = [told["pid"], *(c["pid"] for c in told["clients"] if c["sm"])]
    for window in windows:
        words = [sys.executable, __file__, "--client", str(top), str(queries), str(window)]
        before = sum(map(cpu_s, pids))
        rate, good = subprocess.run([*on, *words], check=True, capture_output=True, text=True).stdout.split()
        each = (sum(map(cpu_s, pids)) - before) / queries
        print(
            f"{what:<10} Get(PathRecord), {window:>3} at a time: {int(rate):>8,} a second, {each * 1e6:.0f} us of CPU each (daemon and"
            f" manager), {int(good):,} of {queries:,} with status 0"
        )
    for table, words in TABLES.items():
        begin = time.perf_counter()
        said = subprocess.run([*on, "saquery", *words], capture_output=True, text=True).stdout
        print(
            f"{what:<10} saquery {' '.join(words):<12} ({table}): {time.perf_counter() - begin:7.2f} s, {said.count(' dump:'):,} records"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--radix", type=int, default=24)
    arguments.add_argument("--queries", type=int, default=20000)
    arguments.add_argument("--window", type=int, nargs="+", default=[1, 64])
    arguments.add_argument("--client", type=int, nargs=3)
    a = arguments.parse_args()
    if a.client:
        client(*a.client)
        return
    ends = a.radix**3 // 4 + 5 * a.radix**2 // 4
    name, folder = f"bench-{os.getpid()}", Path(tempfile.mkdtemp(prefix="softib-"))
    (folder / "net.yaml").write_text(f"name: net\ntopology: {{kind: fat-tree, radix: {a.radix}, levels: 3}}\n")
    for sm in ("internal", "external"):
        subprocess.run(
            [*SOFTIB, "up", str(folder / "net.yaml"), "--name", name, "--sm", sm, "--reassign-lids", "--detach"],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        manager = None
        try:
            if sm == "external":
                env = {**os.environ, "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
                log = folder / "osm.log"
                words = [
                    *SOFTIB,
                    "run",
                    "--fabric",
                    name,
                    "--node",
                    "host-0001",
                    "--",
                    shutil.which("opensm") or "/usr/sbin/opensm",
                    "-f",
                    str(log),
                    "-d2",
                ]
                manager = subprocess.Popen(
                    words,
                    env=env,
                    cwd=folder,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
                while not (log.is_file() and "SUBNET UP" in log.read_text(errors="replace")):
                    time.sleep(0.2)
            measure(name, "softib" if sm == "internal" else "OpenSM", ends, a.queries, a.window)
        finally:
            if manager is not None:
                manager.terminate()
                manager.wait()
            subprocess.run([*SOFTIB, "down", name], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
