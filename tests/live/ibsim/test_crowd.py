"""Dozens of stock programs on one fabric at the same time, under three libraries: some are killed again and again, and the
others print what they print alone."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from softib.fabric.topologies.registry import generate
from softib.live.ibsim.server import IbsimServer
from softib.live.ibsim.sockets import UdpSockets
from softib.scenario.bring_up import bring_up
from tests.live.serving import PRELOAD, Raw, mad, run, tid_of, wait_for
from tests.live.umad.serving import UmadServing

pytestmark = [
    pytest.mark.stock,
    pytest.mark.skipif(not PRELOAD.is_file(), reason="libumad2sim.so (ibsim-utils) is absent"),
]
KINDS = ("own", "unix", "udp")
"""Our library; the stock one through abstract sockets; the stock one through UDP (IBSIM_SERVER_NAME)."""
PINGS, AT_ONCE = 100, 32
PATIENT = ("-t", "20000")
"""Milliseconds: on a busy machine a MAD may come late (ibroute's own limit is 100 ms), but none may be lost."""


def free_ports(n: int = 256) -> int:
    """The first of ``n`` UDP ports of which none is bound now, as far as a look at every eighth tells."""
    for base in range(20000, 60000, n):
        held = []
        try:
            for port in range(base, base + n, 8):
                held.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                held[-1].bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for s in held:
                s.close()
        return base
    raise AssertionError("no free UDP ports")


class Crowd(UmadServing):
    """One fabric behind three doors."""

    def __init__(self, fabric, library: Path | None):
        super().__init__(fabric, library)
        self.udp = free_ports()
        made: list[IbsimServer] = []
        self.do(lambda: made.append(IbsimServer(self.router, UdpSockets(port=self.udp), self.server.selector)))
        self.second = made[0]
        self.loop.peers.append(self.second)

    def env(self, kind: str, node: str) -> dict[str, str]:
        if kind == "own":
            return self.environment(node)
        told = {**os.environ, "LD_PRELOAD": str(PRELOAD), "SIM_HOST": node}
        if kind == "unix":
            return {**told, "IBSIM_SOCKNAME": self.base}
        return {**told, "IBSIM_SERVER_NAME": "127.0.0.1", "IBSIM_SERVER_PORT": str(self.udp)}

    def clients(self) -> int:
        return len(self.server.clients) + len(self.second.clients) + len({f.pid for f in self.umads.files.values()})

    def stop(self) -> None:
        self.running = False
        self.join(60)
        self.second.close()
        super().stop()


class Program:
    """``command`` on a node, in a session of its own: the whole of it can be killed at once."""

    def __init__(self, s: Crowd, folder: Path, kind: str, node: str, *command: str):
        folder.mkdir(parents=True, exist_ok=True)
        self.kind, self.node, self.command, self.out = kind, node, command, folder / "out"
        with self.out.open("w") as file:
            self.process = subprocess.Popen(
                command,
                env=s.env(kind, node),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def crowd(own_library, tmp_path, stock) -> Iterator[Crowd]:
    s = Crowd(generate("fat-tree", radix=8, levels=2), own_library)
    s.do(lambda: bring_up(s.fabric, plane=s.router.plane))
    yield s
    s.stop()


def timeless(text: str) -> str:
    """Without the line in which ibnetdiscover says when it ran."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("# Topology file: generated"))


def lid(s: Crowd, host: int) -> str:
    f = s.fabric
    return str(int(f.lid[f.node_base[f.cas[host]] + 1]))


def tools(s: Crowd, stock) -> list[tuple[str, ...]]:
    """Programs that print the same on a fabric where nothing changes."""
    leaf = str(int(s.fabric.lid[s.fabric.node_base[s.fabric.switch_node[0]]]))
    return [
        (stock("ibnetdiscover"), *PATIENT),
        (stock("iblinkinfo"), *PATIENT, "-l"),
        (stock("smpquery"), *PATIENT, "portinfo", lid(s, 3), "1"),
        (stock("ibtracert"), *PATIENT, lid(s, 1), lid(s, 30)),
        (stock("smpquery"), *PATIENT, "-D", "nodeinfo", "0,1,5"),
        (stock("smpquery"), *PATIENT, "switchinfo", leaf),
    ]


def plays(s: Crowd, stock, folder: Path, times: int, kills: int, seed: int = 1) -> None:
    """Ten pairs of ibping, six loops of tools, one raw client that loses no answer, and twelve programs of which one is killed, and another started in its
    place, until ``kills`` were."""
    f, rng = s.fabric, random.Random(seed)
    node = [f.node_name(int(n)) for n in f.cas]
    ping = stock("ibping")
    alone = {}
    for command in tools(s, stock):
        code, said = run(folder, s.environment(node[0]), *command)
        assert code == 0 and said, (command, said)
        alone[command] = timeless(said)
    ready = [Program(s, folder / f"server-{i}", KINDS[i % 2], node[i], ping, "-S") for i in range(10)]
    victims = [victim(s, folder / f"victim-{i}", rng, node, ping, stock) for i in range(12)]
    hand = Raw(s.base, node[31])
    try:
        assert wait_for(lambda: s.clients() >= 18)
        for i in range(10):  # until it has registered its class
            assert wait_for(lambda i=i: answers(hand, lid(s, i))), i
        steady = [
            Program(
                s, folder / f"client-{i}", KINDS[i % 3], node[10 + i], ping, "-f", "-c", str(PINGS * times), lid(s, i)
            )
            for i in range(10)
        ]
        loops = []
        for i, command in enumerate(alone):
            script = f'for i in $(seq {times}); do {" ".join(command)} || echo "exit $?"; done'
            loops.append(Program(s, folder / f"tool-{i}", KINDS[i % 3], node[0], "sh", "-c", script))
        asked: list[bytes] = []
        most = killed = 0
        until = time.monotonic() + 300 + 20 * times
        while killed < kills or any(p.process.poll() is None for p in (*steady, *loops)):
            assert time.monotonic() < until, [p.command for p in (*steady, *loops) if p.process.poll() is None]
            most = max(most, s.clients())
            if killed < kills:
                at = rng.randrange(len(victims))
                victims[at].kill()
                killed += 1
                victims[at] = victim(s, folder / f"victim-{len(victims) + killed}", rng, node, ping, stock)
            asked.append(ping_by_hand(hand, lid(s, len(asked) % 10), len(asked)))
        assert most >= AT_ONCE, most
        assert len(set(asked)) == len(asked) >= kills
        for p in steady:
            said = p.out.read_text()
            told = re.search(r"(\d+) packets transmitted, (\d+) received", said)
            assert p.process.returncode == 0 and told and int(told[1]) == PINGS * times, (p.kind, said)
            assert int(told[2]) >= 0.1 * PINGS * times, (p.kind, said)  # it gives up after a second, see below
        for p, command in zip(loops, alone, strict=True):
            assert timeless(p.out.read_text()) == alone[command] * times, (p.kind, command)
        assert all(p.process.poll() is None for p in ready)
    finally:
        hand.close(goodbye=False)
        for p in (*ready, *victims):
            p.kill()


def answers(hand: Raw, dlid: str) -> bool:
    """Does the server there answer already? What nobody takes comes back with a status."""
    ping = mad(klass=0x32, attr=0, tid=1 << 32)
    ping[37:40] = [0x00, 0x14, 0x05]
    hand.send(ping, dlid=int(dlid), dqp=1, sqp=1)
    return hand.receive(60)[0]["status"] == 0


def ping_by_hand(hand: Raw, dlid: str, number: int) -> bytes:
    """One request to the ibping server at ``dlid``, however long it takes: its answer's TID. (ibping itself gives up after
    a second, which a busy machine may need.)"""
    ping = mad(klass=0x32, attr=0, tid=number + 1)
    ping[37:40] = [0x00, 0x14, 0x05]
    hand.send(ping, dlid=int(dlid), dqp=1, sqp=1)
    head, answer = hand.receive(60)
    assert head["status"] == 0 and answer[3] == 0x81 and tid_of(answer) & 0xFFFFFFFFFFFF == number + 1, (head, number)
    return bytes(answer[8:16])


def victim(s: Crowd, folder: Path, rng: random.Random, node: list[str], ping: str, stock) -> Program:
    """A server, a flood of requests, or a loop of discoveries, on a host that nobody examines."""
    command = rng.choice(
        [
            (ping, "-S"),
            (ping, "-f", "-c", "1000000", lid(s, rng.randrange(10))),
            ("sh", "-c", f"while :; do {stock('ibnetdiscover')} > /dev/null; done"),
        ]
    )
    return Program(s, folder, rng.choice(KINDS), node[20 + rng.randrange(12)], *command)


@pytest.mark.slow
def test_clients_that_are_killed_disturb_nobody(crowd, stock, tmp_path):
    plays(crowd, stock, tmp_path, times=3, kills=30)
    assert wait_for(lambda: not crowd.server.clients and not crowd.umads.files), "the dead are forgotten"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_clients_that_are_killed_disturb_nobody_for_long(crowd, stock, tmp_path):
    plays(crowd, stock, tmp_path, times=10, kills=300, seed=2)
    assert wait_for(lambda: not crowd.server.clients and not crowd.umads.files)
