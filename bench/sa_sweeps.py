"""MADs and time of the internal manager's sweeps on a running fabric, and after a cable that fails.

    python bench/sa_sweeps.py [--radix 24] [--engine minhop]

3,456 hosts and 720 switches with the default radix. First in process, where the manager's own report counts; then with
``softib up``: from the answer to ``softib fault`` until the sweep is over and every switch holds its tables.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.live.control import ask
from softib.live.instances import find
from softib.sm.config import SmConfig
from softib.sm.managers.partitions import parse_partitions
from softib.sm.subnet_manager import SubnetManager

SOFTIB = [sys.executable, "-m", "softib.cli.main"]
ROUNDS = 5


def sweep(sm: SubnetManager, plane: AgentPlane, port: int, what: str, tables: np.ndarray) -> None:
    """Carry MADs until the manager rests, and print what it took."""
    inbox, began = None, time.perf_counter()
    while True:
        outbox, _ = sm.step(0, inbox)
        if not len(outbox) and sm.settled:
            break
        inbox = plane.send(outbox, port, 0) if len(outbox) else None
    took, report = time.perf_counter() - began, sm.report
    changed = int((plane.fabric.lft != tables).any(axis=1).sum())
    print(
        f"{what:<34} {report.sent:>8,} MADs, {report.sets:>7,} of them Sets, {changed:>4} switches' tables change, {took:6.2f} s"
    )
    tables[:] = plane.fabric.lft


def in_process(radix: int, engine: str) -> None:
    fabric = generate("fat-tree", radix=radix, levels=3)
    power_on(fabric)
    plane = AgentPlane(fabric)
    port = int(np.flatnonzero(fabric.linked & ~fabric.is_switch[fabric.port_node])[0])
    sm = SubnetManager(SmConfig(engine=engine, window=4096, chunk=4096))
    tables = fabric.lft.copy()
    sweep(sm, plane, port, "bring-up", tables)
    between = (
        fabric.linked
        & fabric.is_switch[fabric.port_node]
        & fabric.is_switch[fabric.port_node[np.maximum(fabric.port_peer, 0)]]
    )
    victim = int(np.flatnonzero(between)[-1])
    for what, up in (("nothing changed", None), ("a cable between switches failed", False), ("it came back", True)):
        if up is not None:
            plane.set_link(victim, up)
        sm.request_sweep()
        sweep(sm, plane, port, what, tables)
    sm.reconfigure(
        SmConfig(
            engine=engine,
            window=4096,
            chunk=4096,
            partitions=tuple(parse_partitions("Default : ALL, SELF=full; a=0x11, ipoib : ALL_CAS=full;")),
        )
    )
    sweep(sm, plane, port, "a partition of all hosts was added", tables)
    print(f"a light sweep asks every switch for SwitchInfo: {fabric.sizes.switches:,} MADs")


def running(radix: int) -> None:
    name, folder = f"bench-{os.getpid()}", Path(tempfile.mkdtemp(prefix="softib-"))
    (folder / "net.yaml").write_text(f"name: net\ntopology: {{kind: fat-tree, radix: {radix}, levels: 3}}\n")
    subprocess.run([*SOFTIB, "up", str(folder / "net.yaml"), "--name", name, "--detach"], check=True)
    try:
        slot = find(name)
        for kind in ("link-down", "link-up"):
            taken = []
            for i in range(ROUNDS):
                before = ask(slot, "status")["sm"]["sweeps"]
                begin = time.monotonic()
                ask(slot, "fault", kind=kind, where=f"leaf-{i + 1}[{radix // 2 + 1}]")
                while (sm := ask(slot, "status")["sm"])["sweeps"] == before or sm["phase"]:
                    time.sleep(0.005)
                taken.append(time.monotonic() - begin)
            print(f"softib fault {kind}: swept after {' '.join(f'{t:.2f}' for t in taken)} s")
    finally:
        subprocess.run([*SOFTIB, "down", name], check=False, stderr=subprocess.DEVNULL)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--radix", type=int, default=24)
    arguments.add_argument("--engine", default="minhop", help="of the sweeps in process")
    told = arguments.parse_args()
    in_process(told.radix, told.engine)
    running(told.radix)


if __name__ == "__main__":
    main()
