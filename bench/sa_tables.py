"""Whole tables of a running fabric's administrator, from the question to the last octet at the client, by RMPP through the fabric.

    python bench/sa_tables.py [--radix 36] [--rounds 3] [--sm internal opensm]

GetTable of NodeRecord, PortInfoRecord, SwitchInfoRecord, LinkRecord and LinearForwardingTableRecord, and all PathRecords from one LID, by a
client on a host of a three-level fat tree (11,664 hosts and 1,620 switches with radix 36), minhop. The client is as libibumad is: one message to
the umad device, one whole message back. ``opensm``: stock OpenSM serves on the same daemon. Prints wall and processor time of the daemon (and OpenSM); then the same by stock ``saquery``, with its own processor time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from live_opensm import cpu_s
from softib.iba.sa_records import (
    LFTRecord,
    LinkRecord,
    NodeRecord,
    PathRecord,
    PortInfoRecord,
    SwitchInfoRecord,
)
from softib.iba.structure import Structure
from softib.live.control import ask
from softib.live.instances import find
from softib.live.sa_client import SaTables, manager_of

SOFTIB = [sys.executable, "-m", "softib.cli.main"]
TABLES: tuple[tuple[type[Structure], dict[str, int]], ...] = (
    (NodeRecord, {}),
    (PortInfoRecord, {}),
    (SwitchInfoRecord, {}),
    (LinkRecord, {}),
    (LFTRecord, {}),
    (PathRecord, {"slid": 2}),
)


@contextmanager
def fabric(name: str, radix: int, sm: str, folder: Path) -> Iterator[list[int]]:
    """The running fabric ``name`` when its subnet is up: processes that serve the administration."""
    (folder / "net.yaml").write_text(f"name: net\ntopology: {{kind: fat-tree, radix: {radix}, levels: 3}}\n")
    up = ["up", str(folder / "net.yaml"), "--name", name, "--engine", "minhop", "--reassign-lids", "--detach"]
    subprocess.run(
        [*SOFTIB, *up, "--sm", "internal" if sm == "internal" else "external"], check=True, stderr=subprocess.DEVNULL
    )
    manager = None
    try:
        pids = [ask(find(name), "status")["pid"]]
        if sm == "opensm":
            env = {**os.environ, "OSM_CACHE_DIR": str(folder), "OSM_TMP_DIR": str(folder)}
            words = [
                "run",
                "--fabric",
                name,
                "--node",
                "host-0001",
                "--",
                "/usr/sbin/opensm",
                "-s",
                "0",
                "-f",
                str(folder / "osm.log"),
            ]
            manager = subprocess.Popen([*SOFTIB, *words], env=env, stdout=subprocess.DEVNULL)
            while "SUBNET UP" not in ((folder / "osm.log").read_text() if (folder / "osm.log").exists() else ""):
                time.sleep(0.5)
            pids.append(manager.pid)
        yield pids
    finally:
        if manager:
            manager.terminate()
            manager.wait()
        subprocess.run([*SOFTIB, "down", name], stdout=subprocess.DEVNULL, check=False)


def measure(name: str, what: str, pids: list[int], rounds: int) -> None:
    instance = find(name)
    attached, (lid, sl) = manager_of(instance)
    with SaTables(attached, lid, sl, 600.0) as sa:
        for record, fields in TABLES:
            wall, cpu = [], []
            for _ in range(rounds):
                began, busy = time.perf_counter(), sum(map(cpu_s, pids))
                [(_, rows)] = sa.tables(record, [fields])
                wall.append(time.perf_counter() - began)
                cpu.append(sum(map(cpu_s, pids)) - busy)
            print(
                f"{what:<9} {record.__name__:<17} {len(rows):>9,} records {rows.size / 2**20:6.1f} MiB: wall {wall[0]:.2f} s first, "
                f"{min(wall):.2f} s best; CPU {cpu[0]:.2f} s first, {min(cpu):.2f} s",
                flush=True,
            )
    for words in (["NR"], ["PIR"], ["LR"], ["LFTR"], ["PR", "--slid", "2"]):
        print(saquery(name, what, words, pids), flush=True)


def saquery(name: str, what: str, words: list[str], pids: list[int]) -> str:
    """A line: stock saquery from its start to its end (``softib run`` is not counted), its own processor time in it, and the daemon's."""
    with tempfile.NamedTemporaryFile() as text:
        asked = f'TIMEFORMAT="%R %U %S"; time saquery -t 30000 {" ".join(words)} > {text.name}'
        on = [*SOFTIB, "run", "--fabric", name, "--", "bash", "-c", asked]
        busy = sum(map(cpu_s, pids))
        said = subprocess.run(on, check=True, capture_output=True, text=True).stderr
        served = sum(map(cpu_s, pids)) - busy
        wall, user, system = map(float, said.split()[-3:])
        lines = Path(text.name).read_bytes()
    return (
        f"{what:<9} saquery {' '.join(words):<14} {lines.count(b'Record dump:'):>9,} records, {len(lines) / 2**20:.1f} MiB of text: {wall:.2f} s, "
        f"of which saquery's own CPU {user + system:.2f} s ({user:.2f} user); daemon {served:.2f} s"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--radix", type=int, default=36)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--sm", nargs="+", default=["internal"], choices=["internal", "opensm"])
    given = arguments.parse_args()
    for sm in given.sm:
        folder = Path(tempfile.mkdtemp(prefix="softib-"))
        name = f"bench-{os.getpid()}-{sm}"
        try:
            with fabric(name, given.radix, sm, folder) as pids:
                measure(name, "softib" if sm == "internal" else "OpenSM", pids, given.rounds)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
