"""iperf3 between two nodes over ib0 beside a veth pair, in turns on one machine; 64 nodes that ping each other; pulled
links; each in datagram and in connected mode.

    python bench/ipoib.py [--rounds 3] [--seconds 4] [--nodes 64] [--skip-nodes] [--skip-fault]

Needs root (for the veth pair), iperf3, ping, ethtool and iproute2. "datagram by datagram": the MTU is 2044 and all offloads
of the interface and of the veth's peer stay as they are there: off for ib0, on for veth, which is the harder comparison.
The processors' time is that of the whole machine's processes that belong to the run (iperf3 and softib-ipoib).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOFTIB = [sys.executable, "-m", "softib"]
RULES = {2044: "Default=0x7fff, ipoib, mtu=4: ALL=full;\n", 4092: "Default=0x7fff, ipoib, mtu=5: ALL=full;\n"}
LIMIT_S = 300
AT_ONCE = 4


class Fabric:
    """A running fabric whose groups have this MTU, and whose networks are in connected mode or not."""

    def __init__(self, folder: Path, mtu: int, hosts: int, connected: bool = False):
        self.connected = connected
        self.name = f"bench-ipoib-{os.getpid()}-{mtu}{'-connected' if connected else ''}"
        (folder / f"{mtu}.conf").write_text(RULES[mtu])
        (folder / f"{mtu}.yaml").write_text(
            f"generation: NDR\ntopology: {{kind: fat-tree, levels: 2, radix: 16, hosts: {hosts}}}\n"
        )
        words = [
            "up",
            str(folder / f"{mtu}.yaml"),
            "--name",
            self.name,
            "--detach",
            "--partitions",
            str(folder / f"{mtu}.conf"),
        ]
        subprocess.run([*SOFTIB, *words], check=True, stderr=subprocess.DEVNULL)

    def on(self, node: str, *command: str) -> list[str]:
        mode = ["--connected"] if self.connected else []
        return [*SOFTIB, "run", "--fabric", self.name, "--net", *mode, "--node", node, "--", *command]

    def begin(self, node: str, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(self.on(node, *command), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, node: str, *command: str) -> str:
        return subprocess.run(
            self.on(node, *command), check=True, text=True, capture_output=True, timeout=LIMIT_S
        ).stdout

    def address(self, node: str) -> str:
        return self.run(node, "printenv", "SOFTIB_ADDRESS").strip()

    def down(self) -> None:
        subprocess.run([*SOFTIB, "down", self.name], check=False, stderr=subprocess.DEVNULL)


def gbps(output: str) -> float:
    """What the receiver got."""
    return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 1e9


def over_ib(fabric: Fabric, offload: bool, seconds: float) -> float:
    """Gb/s from host-0002 to host-0001."""
    state = "on" if offload else "off"
    set_offload = f"ethtool -K ib0 tso {state} gso {state} gro {state} >/dev/null"
    server = fabric.begin("host-0001", "sh", "-c", f"{set_offload}; exec iperf3 -s -1")
    try:
        address = fabric.address("host-0001")
        time.sleep(1)
        return gbps(fabric.run("host-0002", "sh", "-c", f"{set_offload}; iperf3 -J -c {address} -t {seconds:g}"))
    finally:
        server.terminate()
        server.communicate(timeout=LIMIT_S)


class Veth:
    """A pair of interfaces, one end in a namespace."""

    def __init__(self) -> None:
        self.namespace, self.ends = f"ipoib{os.getpid()}", (f"va{os.getpid()}"[:15], f"vb{os.getpid()}"[:15])
        inside = ["ip", "netns", "exec", self.namespace]
        for words in (
            ["ip", "netns", "add", self.namespace],
            ["ip", "link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1], "netns", self.namespace],
            ["ip", "addr", "add", "10.99.99.1/24", "dev", self.ends[0]],
            ["ip", "link", "set", self.ends[0], "up"],
            [*inside, "ip", "addr", "add", "10.99.99.2/24", "dev", self.ends[1]],
            [*inside, "ip", "link", "set", self.ends[1], "up"],
        ):
            subprocess.run(words, check=True)
        self.inside = inside

    def gbps(self, seconds: float) -> float:
        server = subprocess.Popen([*self.inside, "iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
        try:
            time.sleep(1)
            words = ["iperf3", "-J", "-c", "10.99.99.2", "-t", f"{seconds:g}"]
            return gbps(subprocess.run(words, check=True, capture_output=True, text=True, timeout=LIMIT_S).stdout)
        finally:
            server.terminate()
            server.wait()

    def close(self) -> None:
        subprocess.run(["ip", "netns", "del", self.namespace], check=False)
        subprocess.run(["ip", "link", "del", self.ends[0]], check=False, stderr=subprocess.DEVNULL)


def rates(small: Fabric, large: Fabric, connected: Fabric, rounds: int, seconds: float) -> None:
    veth = Veth()
    names = ("veth", "connected, MTU 65520", "MTU 4092, offload", "MTU 2044, datagram by datagram")
    rows: dict[str, list[float]] = {name: [] for name in names}
    try:
        for _ in range(rounds):
            rows["veth"].append(veth.gbps(seconds))
            rows["connected, MTU 65520"].append(over_ib(connected, True, seconds))
            rows["MTU 4092, offload"].append(over_ib(large, True, seconds))
            rows["MTU 2044, datagram by datagram"].append(over_ib(small, False, seconds))
    finally:
        veth.close()
    base = rows["veth"]
    for name, values in rows.items():
        share = statistics.median(v / b for v, b in zip(values, base, strict=True))
        print(
            f"{name:32} {' '.join(f'{v:6.2f}' for v in values)} Gb/s, {share:.2f} of veth in the same round", flush=True
        )


def everyone(fabric: Fabric, count: int) -> None:
    """Each of the nodes pings all others once."""
    names = [f"host-{n:04}" for n in range(1, count + 1)]
    began = time.monotonic()
    kept = [fabric.begin(name, "sh", "-c", "echo $SOFTIB_ADDRESS; exec sleep 1200") for name in names]
    addresses = [one.stdout.readline().strip() for one in kept if one.stdout]
    mode = "connected" if fabric.connected else "datagram"
    print(f"{mode} mode: {count} networks are up after {time.monotonic() - began:.1f} s", flush=True)
    began, lost = time.monotonic(), 0
    size = "-M do -s 60000" if fabric.connected else ""  # one message of a connection
    command = "; ".join(f"ping -c 1 -W 5 -q {size} {a} >/dev/null || echo {a}" for a in addresses)
    for first in range(0, count, AT_ONCE):
        some = [fabric.begin(name, "sh", "-c", command) for name in names[first : first + AT_ONCE]]
        lost += sum(len(one.communicate(timeout=LIMIT_S)[0].split()) for one in some)
    print(f"{mode} mode: {count * count} pings in {time.monotonic() - began:.1f} s, {lost} lost", flush=True)
    for one in kept:
        one.terminate()
    for one in kept:
        one.communicate(timeout=LIMIT_S)


def pulled(fabric: Fabric) -> None:
    """A ping every 10 ms while each uplink of the first leaf is pulled in turn."""
    server = fabric.begin("host-0064", "sleep", "60")
    address = fabric.address("host-0064")
    ping = fabric.begin("host-0001", "ping", "-i", "0.01", "-c", "1500", "-q", address)
    time.sleep(2)
    for port in range(9, 13):
        place = f"leaf-1[{port}]"
        subprocess.run([*SOFTIB, "fault", "link-down", place, "--fabric", fabric.name], check=True, capture_output=True)
        time.sleep(2)
        subprocess.run([*SOFTIB, "fault", "link-up", place, "--fabric", fabric.name], check=True, capture_output=True)
        time.sleep(1)
    output = ping.communicate(timeout=LIMIT_S)[0]
    server.terminate()
    server.communicate(timeout=LIMIT_S)
    sent, got = (int(re.search(rf"(\d+) {word}", output)[1]) for word in ("packets transmitted", "received"))
    mode = "connected" if fabric.connected else "datagram"
    print(
        f"{mode} mode, four links pulled: {sent - got} of {sent} pings lost, {(sent - got) * 10} ms in all", flush=True
    )


def main() -> None:
    """Prints a line a figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--skip-nodes", action="store_true")
    parser.add_argument("--skip-fault", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Fabric(Path(folder), 2044, args.nodes), Fabric(Path(folder), 4092, args.nodes)
        connected = Fabric(Path(folder), 4092, args.nodes, connected=True)
        try:
            if args.rounds:
                rates(small, large, connected, args.rounds, args.seconds)
            for fabric in (small, connected):
                if not args.skip_fault:
                    pulled(fabric)
                if not args.skip_nodes:
                    everyone(fabric, args.nodes)
        finally:
            for fabric in (small, large, connected):
                fabric.down()


if __name__ == "__main__":
    main()
