"""Nodes of a fabric with IP over InfiniBand, and programs that send on it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable

import pytest

from softib.preload import build
from tests.preload.verbs.applications import Applications

FABRIC = "name: ipoib\ngeneration: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
RULES = """Default=0x7fff, ipoib, mtu=5: ALL=full;
Storage=0x0001, ipoib: ALL=full;
Silent=0x0002: ALL=full;
"""
A, B = "host-0001", "host-0008"


class Network(Applications):
    """A fabric whose nodes ``kept`` keep their networks up; those in ``connected`` are in connected mode."""

    def __init__(
        self, nodes: tuple[str, ...] = (A, B), connected: tuple[str, ...] = (), up: tuple[str, ...] = ()
    ) -> None:
        build.compile_ipoib() if build.compiler() else None
        super().__init__(FABRIC)
        self.connected = connected
        (self.folder / "partitions.conf").write_text(RULES)
        self("down")
        self("up", "f.yaml", "--detach", "--partitions", "partitions.conf", *up)
        self.address = {node: self.net(node, "printenv", "SOFTIB_ADDRESS").strip() for node in nodes}
        self.kept = [self.begin_net(node, "sleep", "infinity") for node in nodes]
        for node in nodes:
            self.net(node, "true")

    def reload(self, rules: str) -> None:
        """The subnet manager takes these partitions."""
        (self.folder / "partitions.conf").write_text(rules)
        self("sm", "reload")

    def guid(self, node: str) -> str:
        """GUID of the node's first port, from stock ibstat."""
        words = self.on(node, "ibstat", "-p")
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=True).stdout.split()[0]

    def mode(self, node: str) -> tuple[str, ...]:
        return ("--connected",) if node in self.connected else ()

    def net(self, node: str, *command: str, code: int = 0, options: tuple[str, ...] = ()) -> str:
        words = self.arguments("run", "--net", *self.mode(node), *options, "--node", node, "--", *command)
        done = subprocess.run(words, env=self.env, cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, (command, done.stdout, done.stderr)
        return done.stdout

    def begin_net(self, node: str, *command: str) -> subprocess.Popen[str]:
        words = self.arguments("run", "--net", *self.mode(node), "--node", node, "--", *command)
        return subprocess.Popen(
            words, env=self.env, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def counters(self, node: str) -> tuple[int, int]:
        """PortXmitData in octets and PortXmitPkts, as stock perfquery reads them."""
        output = subprocess.run(
            self.on(node, "perfquery", "-x"), env=self.env, capture_output=True, text=True, check=True
        ).stdout
        words, packets = (int(re.search(rf"{name}:\.*(\d+)", output)[1]) for name in ("PortXmitData", "PortXmitPkts"))
        return 4 * words, packets

    def close(self) -> None:
        for kept in self.kept:
            kept.terminate()
            kept.wait(30)
        super().close()


def skip_without(stock):
    """Skip where the machine has no TAP devices, compiler or stock programs."""
    if build.missing_headers():
        pytest.skip("no C compiler, or libibverbs-dev is not installed")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("no /dev/net/tun here")
    for program in ("ip", "ping", "perfquery"):
        stock(program)


def interfaces(nodes: Network, node: str) -> dict[str, dict]:
    """What stock ``ip addr`` shows there, by name."""
    return {i["ifname"]: i for i in json.loads(nodes.net(node, "ip", "-j", "addr"))}


def follows_its_pkey(nodes: Network, first: str, second: str, options: tuple[str, ...] = ()) -> None:
    """A partition that loses ``second`` at run time: its child there has no carrier, packets to it are lost, ``ib0`` is
    not affected. A partition that both join gets a child, and the ping goes over it. The first one comes back."""

    def reached(partition: int) -> bool:
        target = nodes.address[second].replace("10.64.", f"10.{128 + partition}.")
        words = ("sh", "-c", f"ping -c 1 -W 2 {' '.join(options)} {target} || true")
        return " 1 received" in nodes.net(first, *words)

    def until(what: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not what():
            assert time.monotonic() < end, interfaces(nodes, second)

    def carrier(name: str) -> bool:
        return "LOWER_UP" in interfaces(nodes, second).get(name, {"flags": ()})["flags"]

    until(lambda: reached(1))
    others = f"Storage=0x0001, ipoib: {nodes.guid(first)}=full;\nNew=0x0003, ipoib: ALL=full;\n"
    nodes.reload(RULES.replace("Storage=0x0001, ipoib: ALL=full;\n", others))
    try:
        until(lambda: not carrier("ib0.8001") and carrier("ib0.8003"))
        assert not reached(1) and carrier("ib0")
        until(lambda: reached(3))
    finally:
        nodes.reload(RULES)
    until(lambda: carrier("ib0.8001") and not carrier("ib0.8003"))
    until(lambda: reached(1))


DATA = "data = bytes(range(251)) * 33421; data = data[:8388608]"
RECEIVE = f"""
import socket, sys
{DATA}
s = socket.create_server((sys.argv[1], 5555)); print("ready", flush=True)
c, _ = s.accept(); got = b"".join(iter(lambda: c.recv(1 << 20), b""))
print(len(got), "ok" if got == data else "damaged", flush=True)
"""
SEND = f"""
import socket, sys
{DATA}
s = socket.create_connection((sys.argv[1], 5555)); s.sendall(data); s.close()
"""
