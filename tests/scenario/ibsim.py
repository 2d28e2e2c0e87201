"""Stock ibsim with a netlist, stock programs on it, and a wire that carries our manager's MADs to it.

The wire speaks the datagrams of libumad2sim (ibsim's include/ibsim.h): 80 octets of control, 288 a MAD.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from softib.fabric.formats.registry import write
from softib.fabric.model import Fabric
from softib.mad.batch import MadBatch
from softib.sm.subnet_manager import SubnetManager

PRELOAD = Path("/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so")
MAGIC = 0xDEADBEEF
CONNECT, DISCONNECT, SET_ISSM = 1, 2, 9


class Ibsim:
    """A running ibsim. ``environment(node)`` is for programs on that node."""

    def __init__(self, program: str, fabric: Fabric, folder: Path):
        if not PRELOAD.is_file():
            pytest.skip("libumad2sim.so (ibsim-utils) is not installed")
        self.folder, self.name = folder, f"softib-{os.getpid()}-{time.monotonic_ns()}"
        write(fabric, folder / "net", "ibsim")
        size = [
            "-N",
            str(fabric.sizes.nodes + 8),
            "-S",
            str(fabric.sizes.switches + 8),
            "-P",
            str(fabric.sizes.ports + 64),
        ]
        self.run = subprocess.Popen(
            [program, "-s", "-n", *size, str(folder / "net")],
            env={**os.environ, "IBSIM_SOCKNAME": self.name},
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(600):
            if f"@{self.name}:ctl" in Path("/proc/net/unix").read_text():
                return
            time.sleep(0.05)
        self.stop()
        raise RuntimeError("ibsim did not open its socket within 30 s")

    def environment(self, node: str) -> dict[str, str]:
        folders = {"OSM_CACHE_DIR": str(self.folder), "OSM_TMP_DIR": str(self.folder)}
        return {**os.environ, **folders, "IBSIM_SOCKNAME": self.name, "LD_PRELOAD": str(PRELOAD), "SIM_HOST": node}

    def stop(self) -> None:
        self.run.kill()
        self.run.wait()

    def tool(self, node: str, *command: str, seconds: float = 240) -> str:
        run = subprocess.run(
            command, env=self.environment(node), cwd=self.folder, capture_output=True, text=True, timeout=seconds
        )
        assert run.returncode == 0, (command, run.stdout[-2000:], run.stderr[-2000:])
        return run.stdout


class Wire:
    """One port of an ibsim: sends and receives batches of MADs."""

    def __init__(self, base: str, node: str):
        self.pid = os.getpid() * 1000 % 2_000_000_000 + int(time.monotonic_ns() % 997)
        self.control, self.data = self._bound(f"{base}:ctl{self.pid}"), self._bound(f"{base}:in{self.pid}")
        self.control.connect(_address(f"{base}:ctl"))
        info = struct.pack("=3I32s", self.pid, 0, 0, node.encode())
        self.client = struct.unpack_from("=I", self._ask(CONNECT, 0, info))[0]
        self.data.connect(_address(f"{base}:out{self.client}"))
        self._ask(SET_ISSM, self.client, struct.pack("=I", 1))

    @staticmethod
    def _bound(name: str) -> socket.socket:
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.bind(_address(name))
        s.settimeout(60)
        return s

    def _ask(self, kind: int, client: int, body: bytes) -> bytes:
        self.control.send(struct.pack("=4I", MAGIC, client, kind, len(body)) + body.ljust(64, b"\0"))
        reply = self.control.recv(80)
        assert struct.unpack_from("=4I", reply)[2] == kind
        return reply[16:]

    def send(self, batch: MadBatch) -> None:
        for i in range(len(batch)):
            head = struct.pack(">HHHHIIIIQ", int(batch.dlid[i]), 0, int(batch.slid[i]), 0, 0, 0, 0, 0, 256)
            self.data.send(head + batch.mad[i].tobytes())

    def receive(self, seconds: float) -> MadBatch:
        """What is there, after waiting at most ``seconds`` for the first."""
        got: list[bytes] = []
        wait = seconds
        while select.select([self.data], [], [], wait)[0]:
            got.append(self.data.recv(288))
            wait = 0.0
        batch = MadBatch.zeros(len(got))
        for i, message in enumerate(got):
            batch.mad[i] = np.frombuffer(message[32:], np.uint8)
            batch.status[i] = struct.unpack_from(">I", message, 16)[0]
        return batch

    def close(self) -> None:
        self._ask(SET_ISSM, self.client, struct.pack("=I", 0))
        self._ask(DISCONNECT, self.client, b"")
        self.control.close()
        self.data.close()


def _address(name: str) -> bytes:
    return b"\0" + name.encode() + b"\0"


def manage(sm: SubnetManager, wire: Wire, seconds: float = 240) -> None:
    """Run ``sm`` over ``wire`` on the real clock until it has settled."""
    begin = time.monotonic_ns()
    inbox = None
    while True:
        now_ps = (time.monotonic_ns() - begin) * 1000
        assert now_ps < seconds * 1e12, f"not settled after {seconds} s, phase {sm.phase}"
        outbox, deadline_ps = sm.step(now_ps, inbox)
        if sm.settled and not len(outbox):
            return
        wire.send(outbox)
        inbox = wire.receive(max(0.0, min(1.0, (deadline_ps - now_ps) / 1e12)))
