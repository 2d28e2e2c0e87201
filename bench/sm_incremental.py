"""MADs and time of incremental sweeps: a cable between switches, a host's cable, a switch that dies, and all of them back.

    python bench/sm_incremental.py [--radix 24 36] [--engine minhop ftree,updn]

In process, on three-level fat trees (radix 24: 3,456 hosts and 720 switches; 36: 11,664 and 1,620). A sweep is called for by traps alone, as
the agents send them; the fault is undone after it. The time is processor time (the machine is shared), from the fault until the manager rests.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from softib.agents.plane import AgentPlane
from softib.fabric.model import Fabric
from softib.fabric.power_cycle import power_on
from softib.fabric.topologies.registry import generate
from softib.live.internal_sm.manager import InternalManager
from softib.live.mad_router import MadRouter
from softib.sm.config import SmConfig

ROUNDS = 3
STEP_PS = 10**6
PAUSE_PS = 10**13
"""Between two faults: a device waits about a second before it sends another trap (SubnetTimeOut)."""


class Running:
    """A fabric with its manager, and a clock that counts what the manager needs."""

    def __init__(self, radix: int, engine: str):
        self.fabric: Fabric = generate("fat-tree", radix=radix, levels=3)
        power_on(self.fabric)
        self.router = MadRouter(AgentPlane(self.fabric))
        port = int(np.flatnonzero(self.fabric.linked & ~self.fabric.is_switch[self.fabric.port_node])[0])
        self.manager = InternalManager(self.router, port, SmConfig(engine=engine))
        self.now_ps = 10**18  # beyond the clock by which the router paces traps

    def rest(self) -> tuple[int, int, float]:
        """Until nothing is wanted any more: MADs, Sets and seconds, of all sweeps that it took."""
        sm, began = self.manager.sm, time.process_time()
        before, sets, counted = sm.transactor.sent, 0, sm.sweeps
        while True:
            self.now_ps += STEP_PS
            self.manager.run(lambda: self.now_ps + 10**15, self.now_ps)
            if not sm.phase and sm.sweeps > counted:
                sets, counted = sets + sm.report.sets, sm.sweeps
            if sm.settled and not self.manager._inbox:
                return sm.transactor.sent - before, sets, time.process_time() - began

    def links(self, ports: np.ndarray, up: bool) -> None:
        self.now_ps += PAUSE_PS
        for port in ports.tolist():
            self.router.set_link(port, up, self.now_ps)


def measure(radix: int, engine: str) -> None:
    running = Running(radix, engine)
    f, sm = running.fabric, running.manager.sm
    began = time.process_time()
    running.rest()
    first, took = sm.report.sent, time.process_time() - began
    print(f"{engine}, {sm.report.cas:,} hosts, {sm.report.switches:,} switches")
    print(f"| first sweep | {first:,} | {sm.report.sets:,} | | {took:.2f} s |")
    between = f.linked & f.is_switch[f.port_node] & f.is_switch[f.port_node[np.maximum(f.port_peer, 0)]]
    hosts = f.linked & f.is_switch[f.port_node] & ~f.is_switch[f.port_node[np.maximum(f.port_peer, 0)]]
    top = int(f.port_node[np.flatnonzero(between)[-1]])
    faults: list[tuple[str, np.ndarray]] = [
        ("a cable between switches", np.flatnonzero(between)[-1:]),
        ("a host's cable", np.flatnonzero(hosts)[-1:]),
        ("all cables of a switch", np.flatnonzero(between & (f.port_node == top))),
    ]
    undo: Callable[[bool], str] = lambda up: "is plugged back" if up else "is pulled"
    for name, ports in faults:
        for up in (False, True):
            figures = []
            for _ in range(ROUNDS):
                running.links(ports, up)
                figures.append(running.rest())
                running.links(ports, not up)
                running.rest()
            running.links(ports, up)
            running.rest()
            sent, sets, took = min(figures, key=lambda row: row[2])
            print(f"| {name} {undo(up)} | {sent:,} | {sets:,} | {100 * sent / first:.2f} % | {took:.2f} s |")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--radix", type=int, nargs="+", default=[24, 36])
    arguments.add_argument("--engine", nargs="+", default=["minhop", "ftree,updn"])
    given = arguments.parse_args()
    for engine in given.engine:
        for radix in given.radix:
            measure(radix, engine)


if __name__ == "__main__":
    main()
