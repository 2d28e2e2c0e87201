"""Collectives and training steps of many GPUs: ``python bench/collectives.py [--gpus 16384] [--size 4000000000]``.

Prints CPU and wall seconds of: a ring all-reduce by its steady state on a rail-optimized fabric (routed by the subnet manager's engines outside the time,
and with --alone on the law's rates alone), and a training step of 1,024 GPUs by the fluid layer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import softib


def timed(what: str, run: Callable[[], object]) -> None:
    """Run it, and print what it took."""
    cpu, wall = time.process_time(), time.perf_counter()
    found = run()
    print(
        f"{what}: {found}; {time.process_time() - cpu:.2f} s CPU, {time.perf_counter() - wall:.2f} s wall", flush=True
    )


def ring(gpus: int, size: int) -> None:
    """A ring all-reduce on a rail-optimized NDR fabric by the fluid layer."""
    fabric = softib.generate(
        "rail-optimized", nodes=gpus // 8, rails=8, radix=64, generation="NDR", tiers=3 if gpus > 8192 else 2
    )
    began = time.perf_counter()
    up = softib.bring_up(fabric).fabric
    print(f"{gpus:,} GPUs, brought up in {time.perf_counter() - began:.1f} s", flush=True)
    text = f"nccl-all-reduce:{size},algorithm=ring,protocol=simple"
    timed(f"ring all-reduce of {size:,} octets on {gpus:,} GPUs", lambda: softib.simulate(up, text))


def step(gpus: int) -> None:
    """A training step of GPT-3's shape by the fluid layer."""
    fabric = softib.generate("rail-optimized", nodes=gpus // 8, rails=8, radix=64, generation="NDR")
    up = softib.bring_up(fabric).fabric
    text = "training-step:1,tensor=8,pipeline=8,batch=1024,layers=96,hidden=12288,sequence=2048,vocabulary=51200"
    timed(f"training step of {gpus:,} GPUs", lambda: softib.simulate(up, text))


def main() -> None:
    """Both."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--gpus", type=int, default=16_384)
    options.add_argument("--size", type=int, default=4_000_000_000)
    options.add_argument("--step-gpus", type=int, default=1024)
    given = options.parse_args()
    ring(given.gpus, given.size)
    step(given.step_gpus)


if __name__ == "__main__":
    main()
