"""A fabric served to programs that use rdma_cm, and programs that write the commands themselves."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from softib.cm.connections import Timing
from softib.cm.endpoint import Path as IbPath
from softib.fabric.model import Fabric
from softib.live.rdma_cm.address import dotted
from softib.live.rdma_cm.server import RdmaCmServer
from softib.scenario.bring_up import bring_up
from tests.live.umad.serving import UmadServing

ROOT = Path(__file__).resolve().parents[3]


QUICK = Timing(response=13, retries=3)
"""Gives up after 4 * 32 ms."""


class CmServing(UmadServing):
    """As :class:`UmadServing`, with rdma_cm; the subnet is up. ``library`` is the one of verbs, ``umad`` that of umad."""

    def __init__(self, fabric: Fabric, library: Path, umad: Path | None, timing: Timing = QUICK):
        self.cm: RdmaCmServer | None = None
        bring_up(fabric)
        super().__init__(fabric, umad, before=str(library))
        self.do(lambda: self._add(timing))

    def _add(self, timing: Timing) -> None:
        self.cm = RdmaCmServer(self.router, self.folder, self.server.selector, self.umads.views, timing)
        self.loop.peers.append(self.cm)

    def _remove(self) -> None:
        assert self.cm
        self.loop.peers.remove(self.cm)
        self.cm.close()
        self.cm = None

    def stop(self) -> None:
        if self.cm:
            self.do(self._remove)
        super().stop()

    def port(self, node: str) -> int:
        return self.server.finder.port(node)

    def ip(self, node: str) -> str:
        assert self.cm
        return dotted(self.cm.addresses.ip_of(self.port(node)))

    def path(self, source: str, target: str, pkey: int = 0xFFFF) -> str:
        """PathRecord between two nodes as the subnet's tables have it, in hexadecimal."""
        assert self.cm
        a, one, two = self.cm.addresses, self.port(source), self.port(target)
        made = IbPath.of_fields(
            sgid=a.gid_of(one),
            dgid=a.gid_of(two),
            slid=a.lid_of(one),
            dlid=a.lid_of(two),
            pkey=pkey,
            sl=0,
            mtu=5,
            rate=16,
            life_time=18,
        )
        return made.octets.hex()

    def launch(self, node: str, script: str, **words: object) -> subprocess.Popen:
        """A Python program on ``node``: ``script`` after ``from tests.live.rdma_cm.ucm import *``, with ``words`` as names."""
        lines = ["import sys, os, time", f"sys.path.insert(0, {str(ROOT)!r})", "from tests.live.rdma_cm.ucm import *"]
        lines += [f"{name} = {value!r}" for name, value in words.items()]
        text = "\n".join(lines) + "\n" + textwrap.dedent(script)
        return subprocess.Popen(
            [sys.executable, "-I", "-u", "-c", text],
            env=self.environment(node),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def play(self, node: str, script: str, **words: object) -> str:
        """As :meth:`launch`; its asserts are the test's."""
        return ended(self.launch(node, script, **words))


def ended(program: subprocess.Popen, code: int = 0) -> str:
    """What ``program`` printed, when it is over."""
    try:
        out, _ = program.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        program.kill()
        out, _ = program.communicate()
        raise AssertionError(f"hangs: {out}") from None
    assert program.returncode == code, out
    return out


def line(program: subprocess.Popen) -> str:
    """The next line that ``program`` prints."""
    assert program.stdout
    return program.stdout.readline().strip()
