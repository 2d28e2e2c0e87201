"""Congestion controls of RoCE beside each other: an incast on one switch, and a permutation on a fat
tree of three levels.

    python bench/congestion_controls.py [--flows 2,8,32] [--radix 8]

Incast, over the second half of 4 ms at 100 Gb/s: payload of all flows, Jain's index of their shares,
mean and longest queue at the receiver's port, pause frames; for Swift the last round trip and the
target that its paper's formula gives for fair windows. Permutation: payload of the mean and of the
slowest host while each sends 4 MB, as shares of the line less headers and acknowledgements.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

from softib.fabric.builder import FabricBuilder
from softib.fabric.model import Fabric
from softib.fabric.topologies.registry import generate
from softib.iba.constants import NodeType
from softib.scenario.bring_up import bring_up
from softib.sim.messages import messages
from softib.sim.packet import PacketOptions, run
from softib.sim.packet.congestion_control import congestion_control, congestion_controls
from softib.sim.packet.engine import execute

US, GBPS = 10**6, 100
WIRE, ACK = 4096 + 62 + 20, 66 + 20
END_US = 4000


def star(hosts: int) -> Fabric:
    """One EDR switch."""
    builder = FabricBuilder("star")
    switch = builder.nodes(1, NodeType.SWITCH, hosts, desc=["switch"], speed="EDR")
    host = builder.nodes(hosts, NodeType.CA, 1, desc=[f"host-{i:04}" for i in range(hosts)], speed="EDR")
    builder.links(switch[np.zeros(hosts, np.int64)], 1 + np.arange(hosts), host, 1, length_m=2.0)
    fabric = builder.build()
    bring_up(fabric, "minhop")
    return fabric


def swift_target_us(flows: int) -> float:
    """Section 3.5 of the paper at the delay whose windows are fair shares of the link, one switch on the way."""
    o = {option.name: option.default for option in congestion_control("swift").options}
    scale = o["flow_range_us"] / (o["flow_least"] ** -0.5 - o["flow_most"] ** -0.5)
    low, high = 1.0, 10_000.0
    for _ in range(60):
        delay = math.sqrt(low * high)
        flow = scale * ((delay / (flows * WIRE * 8e-3 / GBPS)) ** -0.5 - o["flow_most"] ** -0.5)
        target = o["base_target_us"] + o["hop_us"] + max(0.0, min(flow, o["flow_range_us"]))
        low, high = (delay, high) if target > delay else (low, delay)
    return low


def incast(name: str, flows: int) -> str:
    """A row of the table of incasts."""
    src = np.repeat(1 + np.arange(flows), 30)
    fabric, sent, seen = star(flows + 1), messages(src, 0, 10_000_000, qp=src), []
    for until in (END_US // 2, END_US):
        options = PacketOptions(network="roce", until_ps=until * US, ethernet={"cc": name})
        _, state, _, _ = execute(fabric, sent, options)
        row = int(np.argmax(state.queue["peak_egress"]))
        seen.append((state.rc["acked"][:flows].copy(), int(state.queue["queue_area"][row])))
    rates = (seen[1][0] - seen[0][0]) * 4096 * 8 / (END_US / 2 * 1000)
    queue = (seen[1][1] - seen[0][1]) * 1024 / (END_US / 2 * US)
    fair = rates.sum() ** 2 / flows / max((rates**2).sum(), 1e-9)
    figures = [
        f"{rates.sum():.1f}",
        f"{fair:.3f}",
        f"{queue / 1000:,.0f}",
        f"{state.queue['peak_egress'].max() / 1000:,.0f}",
    ]
    figures.append(f"{int(state.queue['pauses_sent'].sum()):,}")
    rtt = ""
    if "rtt" in state.cc.dtype.names:
        rtt = f"{state.cc['rtt'][: 2 * flows : 2].mean() / US:.1f} (target {swift_target_us(flows):.1f})"
    return f"| {name} | {flows} | {' | '.join(figures)} | {rtt} |"


def permutation(name: str, radix: int) -> str:
    """A row of the table of permutations."""
    fabric = generate("fat-tree", radix=radix, levels=3, generation="EDR")
    bring_up(fabric, "minhop")
    n, size = int((~fabric.is_switch).sum()), 4_000_000
    order = np.random.default_rng(7).permutation(n)
    sent = messages(order, np.roll(order, 1), size)
    out = run(fabric, sent, PacketOptions(network="roce", ethernet={"cc": name}))
    share = size * 8e3 / (out.arrived_ps - out.began_ps) / (GBPS * 4096 / (WIRE + ACK))
    queue = out.port_figures["peak_queue"].max() / 1000
    return f"| {name} | {n} | {share.mean():.2f} | {share.min():.2f} | {queue:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flows", default="2,8,32")
    parser.add_argument("--radix", type=int, default=8)
    given = parser.parse_args()
    print(
        "| cc | senders | Gb/s | Jain | mean queue, KB | longest, KB | pauses | round trip, us |\n|---|---|---|---|---|---|---|---|"
    )
    for name in congestion_controls():
        for flows in map(int, given.flows.split(",")):
            print(incast(name, flows), flush=True)
    print("\n| cc | hosts | mean share of the line | slowest | longest queue, KB |\n|---|---|---|---|---|")
    for name in congestion_controls():
        print(permutation(name, given.radix), flush=True)


if __name__ == "__main__":
    main()
