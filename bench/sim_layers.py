"""Where the fluid and the static layer say that they agree with the packet layer, do they? Random fabrics and workloads, by seed.

    python bench/sim_layers.py [--scenarios N] [--first SEED] [--each]

Bars, for the end of the run, the mean latency and single messages (all from begin to arrival), in both layers: what is called good to 5 % is so,
and at least half of what the fluid layer has within 5 % is called so.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace

import numpy as np

from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid, packet, static_messages
from softib.sim.agreement import Agreement
from softib.sim.messages import Messages
from softib.sim.paths import Plane
from softib.sm.config import config_of
from softib.sm.options.file import read_options
from softib.workloads.hosts import hosts_of
from softib.workloads.workload import Workload, parse

FABRICS = (
    ("fat-tree", {"m": (8,), "w": (1,), "p": (1,)}, "updn"),
    ("fat-tree", {"m": (4, 4), "w": (1, 4), "p": (1, 1)}, "ftree"),
    ("fat-tree", {"m": (4, 4), "w": (1, 2), "p": (1, 1)}, "updn"),
    ("fat-tree", {"m": (4, 4), "w": (1, 1), "p": (1, 1)}, "minhop"),
    ("fat-tree", {"m": (8, 4), "w": (1, 4), "p": (1, 1)}, "minhop"),
    ("fat-tree", {"m": (2, 4, 4), "w": (1, 2, 4), "p": (1, 1, 1)}, "ftree"),
    ("torus", {"dims": (3, 3), "hosts_per_switch": 2}, "updn"),
    ("dragonfly", {"a": 4, "h": 1, "p": 2, "g": 3}, "minhop"),
    ("dragonfly", {"a": 2, "h": 1, "p": 2, "g": 3}, "updn"),
)
GENERATIONS = ("QDR", "FDR", "EDR", "HDR", "NDR", "XDR")
SIZES = ("1KB", "4KB", "16KB", "64KB", "256KB", "1MB", "2MB")
WORKLOADS = (
    "permutation:{size}",
    "shift:{size},k={k}",
    "random-pairs:{size},over=200us",
    "random-pairs:{size},over=20us,messages=40",
    "bisection:{size}",
    "incast:{size},senders={few}",
    "parking-lot:{size}",
    "hot-spot:{size},senders={few}",
    "latency:{size},iterations=10",
    "bandwidth:{size},iterations=20,tx-depth=4",
    "all-to-all:{size}",
    "all-to-all:{size},window=1",
    "shift:{size},k={k},count=3",
    "incast:{size},senders={few},sl=2",
    "mpi-allreduce:{size}",
    "mpi-alltoall:{size}",
    "mpi-bcast:{size}",
    "mpi-allgather:{size}",
    "storage:{size},operation=read,targets=0-1,device=memory",
    "storage:{size},operation=write,targets=0-1,device=memory",
    "storage:{size},targets=0",
)
LANES = "qos TRUE\nqos_sl2vl 0,1,2,3,0,1,2,3,0,1,2,3,0,1,2,3\nqos_vlarb_low 0:64,1:64,2:64,3:64\n"
GRADES = ("end", "mean", "messages")
LAYERS = {"fluid": fluid, "static": static_messages}
MOST = 0.05


@dataclass(frozen=True)
class Compared:
    """One layer's answer beside the packet layer's: relative differences by grade, what the layer says of each, and why not."""

    text: str
    layer: str
    agreement: Agreement
    why: str
    off: dict[str, float]

    def wrong(self) -> list[str]:
        """Grades that are called good and are not."""
        return [g for g in GRADES if getattr(self.agreement, g) and abs(self.off[g]) > MOST]


def situation(seed: int) -> tuple[Fabric, Messages, str]:
    """Fabric and messages of a seed: cables up to 400 m, one or four SLs, one job or two."""
    rng = np.random.default_rng([7, seed])
    kind, parameters, engine = FABRICS[rng.integers(len(FABRICS))]
    generation = GENERATIONS[rng.integers(len(GENERATIONS))]
    fabric = generate(kind, generation=generation, **parameters)
    cables, long = len(fabric.cable_length_m), rng.random()
    fabric.cable_length_m[:] = (
        rng.integers(1, 50) if long < 0.6 else rng.integers(1, 400) if long < 0.8 else rng.integers(1, 300, cables)
    )
    several = rng.random() < 0.3
    rng.random()
    bring_up(fabric, config=config_of((read_options(LANES).options if several else {}) | {"engine": engine}))
    hosts = hosts_of(fabric)

    def job() -> Workload:
        text = WORKLOADS[rng.integers(len(WORKLOADS))]
        return parse(
            text.format(size=SIZES[rng.integers(len(SIZES))], k=rng.integers(1, len(hosts)), few=rng.integers(2, 6))
        )

    work = job()
    if several and rng.random() < 0.6:
        second = job().jobs[0].model_copy(update={"sl": 1, "name": "second"})
        work = replace(work, name=f"{work.name} and {second.pattern}", jobs=(*work.jobs, second))
    sizes = next(iter(parameters.values()))
    return fabric, work.messages(hosts, seed)[0], f"{seed}: {kind} {sizes} {engine} {generation} {work.name}"


def scenario(seed: int) -> list[Compared]:
    """Each layer's answer of a seed."""
    fabric, m, name = situation(seed)
    theirs, plane = packet.run(fabric, m), Plane(fabric)
    found = []
    for layer, module in LAYERS.items():
        ours = module.run(plane, m)
        assert ours.done
        moved = ~m.computes & (theirs.arrived_ps > theirs.began_ps)
        a, b = ((o.arrived_ps - o.began_ps)[moved].astype(float) for o in (ours, theirs))
        off = {
            "end": ours.arrived_ps.max() / theirs.arrived_ps.max() - 1,
            "mean": a.mean() / b.mean() - 1,
            "messages": float(np.abs(a / b - 1).max()),
        }
        found.append(Compared(name, layer, ours.agreement, "; ".join(ours.why_not), off))
    return found


def main() -> int:
    """Print what was found; 0 where the bars are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first scenario")
    parser.add_argument("--each", action="store_true", help="a line for every scenario")
    options = parser.parse_args()
    every = [c for seed in range(options.first, options.first + options.scenarios) for c in scenario(seed)]
    for c in every if options.each else [c for c in every if c.wrong()]:
        shown = " ".join(f"{g} {c.off[g]:+.1%}{' good' if getattr(c.agreement, g) else ''}" for g in GRADES)
        print(f"{c.layer} {shown} {c.text} {c.why[:120]}")
    met = True
    for layer in LAYERS:
        for grade in GRADES:
            of = [c for c in every if c.layer == layer]
            within = [c for c in of if abs(c.off[grade]) <= MOST]
            called = [c for c in of if getattr(c.agreement, grade)]
            wrong = [c for c in called if grade in c.wrong()]
            print(
                f"{layer} {grade}: {len(within)} of {len(of)} within {MOST:.0%}, {len(called)} called so, {len(wrong)} of these wrongly"
            )
            met &= not wrong and (layer == "static" or 2 * len(called) >= len(within))
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
