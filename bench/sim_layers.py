"""Where the fluid layer says that it holds, is it the packet layer's answer? Random fabrics and workloads, by seed.

    python bench/sim_layers.py [--scenarios N] [--each]

Bars: of 200 scenarios the fluid layer calls at least half valid, and of these none is off by more than 5 %: neither the end of the run nor the
mean latency of messages nor that of any single one (all from begin to arrival).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from softib.fabric.topologies.registry import generate
from softib.scenario.bring_up import bring_up
from softib.sim import fluid, packet
from softib.workloads.hosts import hosts_of
from softib.workloads.workload import parse

FABRICS = (
    ("fat-tree", {"m": (8,), "w": (1,), "p": (1,)}, "updn"), ("fat-tree", {"m": (4, 4), "w": (1, 4), "p": (1, 1)}, "ftree"),
    ("fat-tree", {"m": (4, 4), "w": (1, 2), "p": (1, 1)}, "updn"), ("fat-tree", {"m": (8, 4), "w": (1, 4), "p": (1, 1)}, "minhop"),
    ("fat-tree", {"m": (2, 4, 4), "w": (1, 2, 4), "p": (1, 1, 1)}, "ftree"), ("torus", {"dims": (3, 3), "hosts_per_switch": 2}, "updn"),
)  # fmt: skip
GENERATIONS = ("EDR", "HDR", "NDR")
SIZES = ("4KB", "16KB", "64KB", "256KB", "1MB", "2MB")
WORKLOADS = (
    "permutation:{size}", "shift:{size},k={k}", "random-pairs:{size},over=200us", "bisection:{size}", "incast:{size},senders={few}",
    "parking-lot:{size}", "hot-spot:{size},senders={few}", "latency:{size},iterations=10", "bandwidth:{size},iterations=20,tx-depth=4",
    "all-to-all:{size}", "shift:{size},k={k},count=3", "incast:{size},senders={few},sl=2",
)  # fmt: skip
MOST = 0.05


@dataclass(frozen=True)
class Compared:
    """Relative differences, fluid to packet: end of the run, mean latency, the worst message; is it called valid, and why not?"""

    text: str
    valid: bool
    why: str
    end: float
    mean: float
    worst: float

    @property
    def off(self) -> float:
        """The largest of the three."""
        return max(abs(self.end), abs(self.mean), self.worst)


def scenario(seed: int) -> Compared:
    """Scenario ``seed``."""
    rng = np.random.default_rng(seed)
    kind, parameters, engine = FABRICS[rng.integers(len(FABRICS))]
    generation = GENERATIONS[rng.integers(len(GENERATIONS))]
    fabric = generate(kind, generation=generation, **parameters)
    fabric.cable_length_m[:] = rng.integers(1, 50)
    bring_up(fabric, engine)
    hosts = hosts_of(fabric)
    text = WORKLOADS[rng.integers(len(WORKLOADS))].format(
        size=SIZES[rng.integers(len(SIZES))], k=rng.integers(1, len(hosts)), few=rng.integers(2, 6)
    )
    m, _ = parse(text).messages(hosts, seed)
    ours, theirs = fluid.run(fabric, m), packet.run(fabric, m)
    assert ours.done and theirs.done
    a, b = (o.arrived_ps - o.began_ps for o in (ours, theirs))
    ends = [int(o.arrived_ps.max()) for o in (ours, theirs)]
    name = f"{seed}: {kind} {next(iter(parameters.values()))} {engine} {generation} {text}"
    return Compared(
        name,
        ours.valid,
        "; ".join(ours.why_not),
        ends[0] / ends[1] - 1,
        a.mean() / b.mean() - 1,
        float(np.abs(a / b - 1).max()),
    )


def main() -> int:
    """Print what was found; 0 where the bars are met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenarios", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="seed of the first scenario")
    parser.add_argument("--each", action="store_true", help="a line for every scenario")
    options = parser.parse_args()
    every = [scenario(seed) for seed in range(options.first, options.first + options.scenarios)]
    valid = [c for c in every if c.valid]
    off = [c for c in valid if c.off > MOST]
    for c in every if options.each else off:
        print(
            f"{'valid' if c.valid else '     '} end {c.end:+.1%} mean {c.mean:+.1%} worst {c.worst:.1%} {c.text} {c.why[:90]}"
        )
    close = sum(c.off <= MOST for c in every if not c.valid)
    print(
        f"{len(valid)} of {len(every)} valid, {len(off)} of these off by more than {MOST:.0%} (worst {max((c.off for c in valid), default=0):.1%}); "
        f"{close} of the other {len(every) - len(valid)} are within it all the same"
    )
    return int(bool(off) or 2 * len(valid) < len(every))


if __name__ == "__main__":
    sys.exit(main())
