"""A daemon in a thread, and programs on its fabric."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from softib.fabric.topologies.registry import generate
from softib.live.clock import clock_ps
from softib.live.daemon import Daemon, Settings
from softib.live.instances import Instance, claim
from tests.preload.verbs.fabric_library import library_path
from tests.scratch import scratch

PROGRAM = Path(__file__).with_name("fabric_program.py")
ROOT = Path(__file__).resolve().parents[3]


class FabricUp:
    """``fabric`` runs as ``softib up`` runs it; ``do`` calls something in the daemon's thread."""

    def __init__(self, fabric, sm: str = "internal", **more):
        self.folder = scratch("sv-")
        before, os.environ["XDG_RUNTIME_DIR"] = os.environ.get("XDG_RUNTIME_DIR"), str(self.folder)
        try:
            self.instance: Instance = claim("t")
        finally:
            if before is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = before
        self.daemon = Daemon(self.instance, fabric, Settings(sm=sm, **more))
        self.fabric, self.paused, self.stopping = self.daemon.fabric, False, False
        self.idle = threading.Event()
        self.calls: list[Callable[[], object]] = []
        self.failure: BaseException | None = None
        self.programs: list[subprocess.Popen] = []
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        self.wait(lambda: self.daemon.ready)
        if sm == "internal":
            while not self.do(self._still):
                time.sleep(0.01)

    def _still(self) -> bool:
        """Nothing that the bring-up itself set off (trap 144 of IsSM, the sweep that follows) is on its way: it counts."""
        manager = self.daemon.manager
        assert manager is not None
        return not self.daemon.router.trap_queue.pending and manager.sm.settled and manager.wait_s(clock_ps()) > 0

    def _run(self) -> None:
        try:
            while not self.stopping:
                if self.paused:
                    self.idle.set()
                    time.sleep(0.002)
                else:
                    self.idle.clear()
                    self.daemon.step()
                while self.calls:
                    self.calls.pop(0)()
        except BaseException as failure:
            self.failure = failure
            raise

    def wait(self, until: Callable[[], object], seconds: float = 120.0) -> None:
        end = time.monotonic() + seconds
        while not until():
            assert self.failure is None, self.failure
            assert time.monotonic() < end, "nothing happened"
            time.sleep(0.005)

    def do(self, call: Callable[[], object]):
        got: list[object] = []
        self.calls.append(lambda: got.append(call()))
        self.wait(lambda: got)
        return got[0]

    def pause(self) -> None:
        """The daemon stands still: nothing is folded, nobody is reaped."""
        self.paused = True
        self.idle.clear()
        assert self.idle.wait(120)

    def stop(self) -> None:
        """The daemon ends, as on SIGTERM; its parts close. A second time, nothing happens."""
        if not self.stopping:
            self.paused, self.stopping = False, True
            self.thread.join(60)
            self.daemon.close()

    def close(self) -> None:
        for program in self.programs:
            program.kill()
            program.wait()
            for pipe in (program.stdin, program.stdout, program.stderr):
                pipe.close()
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        assert self.failure is None, self.failure

    def environment(self, node: str = "") -> dict[str, str]:
        return self.do(lambda: self.daemon.operations.attach({"node": node})).env

    def start(self, scene: str, node: str = "", at: object = None, **env: str) -> subprocess.Popen:
        path = json.dumps([str(ROOT), str(ROOT / "src")])
        more = {**os.environ, **self.environment(node), "TEST_PATH": path, **env}
        program = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(library_path()), scene, json.dumps(at or {})],
            env=more,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.programs.append(program)
        return program


def line_of(program: subprocess.Popen):
    """The next line that it prints, as JSON."""
    line = program.stdout.readline()
    assert line, program.stderr.read()
    return json.loads(line)


def tree(levels=3):
    return generate("fat-tree", radix=4, levels=levels)


def cas_of(f):
    return [p for p in f.end_ports().tolist() if f.port_num[p]]


def route_counts(f, a, z, counts, **more):
    return {"way": [a, int(f.lid[z]), z, int(f.lid[a])], "counts": counts, **more}
