"""Loads of every link under all shift permutations: ours against a straightforward NumPy program, same run.

    python bench/static_loads.py [--big]

1,024 hosts, two-level tree (32 leaves × 32 hosts, 32 spines) and three-level tree (16-port switches), all 1,023 shifts.
The target is one second. ``--big``: 11,664 hosts (three levels of 36-port switches), 64 sampled shifts, 20 random
bisections, all-to-all.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.sim.trees import three_level, two_level

from softib.routing.graph import SwitchGraph
from softib.sim import static
from softib.sim import static_network as patterns
from softib.sim.static_network import Network


def naive(network: Network) -> np.ndarray:
    """All shifts in plain NumPy: all flows of a permutation take one hop after another, ``bincount`` adds them up."""
    n, links = network.n_hosts, network.n_links
    out = np.zeros((n - 1, network.n_channels), np.int32)
    order = np.arange(n)
    for k in range(1, n):
        src, dst = patterns.shift(order, k)
        at, used = network.host_switch[src].astype(np.int64), [links + src]
        lid = network.host_lid[dst]
        while len(at):
            channel = network.chan_at[at, network.lft[at, lid]]
            used.append(channel)
            go = network.chan_to[channel] >= 0
            at, lid = network.chan_to[channel[go]].astype(np.int64), lid[go]
        out[k - 1] = np.bincount(np.concatenate(used), minlength=network.n_channels)
    return out


def seconds(function, *args, **kw):
    """(result, wall seconds)."""
    began = time.perf_counter()
    result = function(*args, **kw)
    return result, time.perf_counter() - began


def compare(name: str, graph: SwitchGraph, lft: np.ndarray) -> float:
    """Print one line; returns our seconds (median of 3, kernels compiled)."""
    network = Network.build(graph, lft)
    found, cold = seconds(static.all_shifts, network)
    ours = sorted(seconds(static.all_shifts, network, rates=False)[1] for _ in range(3))[1]
    rated = sorted(seconds(static.all_shifts, network)[1] for _ in range(3))[1]
    reference, numpy_s = seconds(naive, network)
    same = np.array_equal(found.load, reference)
    print(
        f"{name}: {network.n_hosts} hosts, {graph.n_switches} switches, {len(found.shifts)} shifts × "
        f"{network.n_channels} channels: ours {ours:.3f} s, with every flow's rate "
        f"{rated:.3f} s (first call {cold:.3f} s), NumPy {numpy_s:.2f} s "
        f"({numpy_s / ours:.0f}×), loads equal: {same}"
    )
    assert same
    return ours


def big() -> None:
    """11,664 hosts."""
    network = Network.build(*three_level(36))
    shifts = patterns.sample_shifts(network.n_hosts, 64, np.random.default_rng(0))
    for name, call in (
        ("64 shifts", lambda: static.all_shifts(network, shifts=shifts)),
        ("20 bisections", lambda: static.effective_bisection(network, 20)),
        ("all-to-all", lambda: static.all_to_all(network)),
    ):
        print(f"{network.n_hosts} hosts, {name}: {seconds(call)[1]:.2f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--big", action="store_true", help="11,664 hosts too")
    options = parser.parse_args()
    worst = max(compare("two levels", *two_level(32, 32, 32)), compare("three levels", *three_level(16)))
    if options.big:
        big()
    print(f"slowest: {worst:.3f} s, target 1 s: {'met' if worst < 1 else 'MISSED'}")
    sys.exit(worst >= 1)
