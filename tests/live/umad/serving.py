"""A fabric served to programs under libsoftib-umad.so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from softib.fabric.model import Fabric
from softib.live.sysfs.views import View
from softib.live.umad.server import UmadServer
from tests.live.serving import Serving
from tests.scratch import scratch

PROGRAM = Path(__file__).with_name("program.py")


class UmadServing(Serving):
    """As :class:`Serving`, with umad devices. ``library`` is what programs are started with."""

    def __init__(self, fabric: Fabric, library: Path | None, before: str = ""):
        if library is None:
            pytest.skip("libsoftib-umad.so is not built: no C compiler")
        self.library, self.before = library, before
        self.folder = scratch("softib-", memory=True)  # as softib.live.instances has it
        super().__init__(fabric)
        self.do(self._add_umads)

    def _add_umads(self) -> None:
        self.umads = UmadServer(self.router, self.folder, self.server.selector)
        self.loop.peers.append(self.umads)

    def stop(self) -> None:
        self.running = False
        self.join(60)
        try:
            assert self.failure is None and not self.is_alive(), self.failure
        finally:
            self.umads.close()
            self.server.close()
            shutil.rmtree(self.folder)

    def view(self, named: str) -> View:
        """As ``softib run --node NAMED`` shows it."""
        made: list[View] = []
        port = self.server.finder.port(named)
        self.do(lambda: made.append(self.umads.views.show(named, port)))
        return made[0]

    def environment(self, node: str = "", **more: str) -> dict[str, str]:
        view = self.view(node)
        preload = " ".join(filter(None, (self.before, str(self.library))))
        told = {"LD_PRELOAD": preload, "SOFTIB_UMAD": str(self.umads.path), "SOFTIB_VIEW": str(view.folder)}
        return {**os.environ, **told, **more}

    def program(self, scene: str, node: str, *args: str, **more: str) -> str:
        """Play ``scene`` of program.py on ``node``; its asserts are the test's."""
        done = subprocess.run(
            [sys.executable, "-I", str(PROGRAM), scene, *args],
            env=self.environment(node, **more),
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr
