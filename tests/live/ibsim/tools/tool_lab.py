"""A whole daemon in a thread of the test (its manager brought the subnet up), and stock tools on its hosts under either
preload library: what they print can be compared with the fabric's arrays, which the test may also write."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from softib.fabric.model import Fabric
from softib.fabric.node_finder import default_port
from softib.live.clock import clock_ps
from softib.live.daemon import Daemon, Settings
from softib.live.instances import claim
from softib.preload import build
from softib.sm.config import SmConfig
from tests.live.serving import PRELOAD, wait_for
from tests.scratch import scratch

LIBRARIES = ("own", "stock")
STOCK_FIRST = ("stock", pytest.param("own", marks=pytest.mark.slow))
"""The default run shows it through the stock library, the slow one through ours, too."""
NOISE = re.compile(r"^ibwarn: .*sim_connect: attached as client.*\n", re.M)
"""The stock library's own line, with its pid and number."""


_NUMBERS = itertools.count()


class Lab(threading.Thread):
    """Serves ``fabric`` until :meth:`stop`; ``sm``: internal, external or none."""

    def __init__(self, fabric: Fabric, folder: Path, sm: str = "internal", config: SmConfig | None = None):
        super().__init__(daemon=True)
        self.folder = folder
        self.runtime = str(scratch("softib-"))  # short: sockets lie below it
        told = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = self.runtime
        try:
            instance = claim(f"tools-{os.getpid()}-{next(_NUMBERS)}")  # of its own: two may stand side by side
        finally:
            if told is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = told
        self.daemon_ = Daemon(instance, fabric, Settings(sm=sm, config=config or SmConfig(engine="minhop")))
        self.f = self.daemon_.fabric
        self.plane = self.daemon_.router.plane
        self.calls: list[Any] = []
        self.failure: BaseException | None = None
        self.environments: dict[tuple[str, str], dict[str, str]] = {}
        self.running = True
        self.start()
        assert wait_for(lambda: self.daemon_.ready or self.failure) and self.failure is None, self.failure

    def run(self) -> None:
        try:
            while self.running:
                self.daemon_.step()
                while self.calls:
                    self.calls.pop(0)()
        except BaseException as failure:
            self.failure = failure
            raise

    def do(self, function: Any, *args: Any) -> Any:
        """Call in the daemon's thread, wait for it, and return what it returns."""
        done, got = threading.Event(), []

        def call() -> None:
            try:
                got.append(function(*args))
            finally:
                done.set()

        self.calls.append(call)
        assert done.wait(120) and got, "the call failed in the daemon's thread"
        return got[0]

    def fault(self, kind: str, where: str, **options: Any) -> dict[str, Any]:
        """As ``softib fault KIND WHERE``."""
        return self.do(self.daemon_.faults.do, {"kind": kind, "where": where, **options})

    def settle(self) -> None:
        """Until the manager has seen what changed."""
        manager = self.daemon_.manager
        assert manager is not None
        self.do(manager.sweep)
        assert wait_for(lambda: manager.sm.settled and not manager._inbox)

    def stop(self) -> None:
        self.running = False
        self.join(60)
        crash_log, log = self.daemon_.crash_log, self.daemon_.instance.log
        told = log.read_text()[-3000:] if log.is_file() else ""
        self.daemon_.close()
        shutil.rmtree(self.runtime)
        assert self.failure is None, self.failure
        assert crash_log.count == 0, told

    def environment(self, library: str = "own", node: str = "") -> dict[str, str]:
        """For programs on ``node`` under ``library``: "own" or "stock"."""
        if (library, node) not in self.environments:
            self.environments[library, node] = self._environment(library, node)
        return self.environments[library, node]

    def _environment(self, library: str, node: str) -> dict[str, str]:
        port = self.daemon_.server.finder.port(node) if node else default_port(self.f)
        if library == "stock":
            if not PRELOAD.is_file():
                pytest.skip("libumad2sim.so (ibsim-utils) is not installed")
            name = self.f.node_name(int(self.f.port_node[port]))
            more = {
                "LD_PRELOAD": str(PRELOAD),
                "IBSIM_SOCKNAME": self.daemon_.server.sockets.base,
                "SIM_HOST": f"{name}:{int(self.f.port_num[port])}",
            }
        else:
            if build.compiler() is None and not build.LIBRARY.is_file():
                pytest.skip("libsoftib-umad.so is not built: no C compiler")
            view = self.do(self.daemon_.umads.views.show, node, port)
            more = {
                "LD_PRELOAD": str(build.LIBRARY),
                "SOFTIB_UMAD": str(self.daemon_.umads.path),
                "SOFTIB_VIEW": str(view.folder),
            }
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        scratch = {"OSM_CACHE_DIR": str(self.folder), "OSM_TMP_DIR": str(self.folder)}
        return {**os.environ, "PATH": path, **scratch, **more}

    def tool(self, library: str, *words: str, node: str = "", seconds: float = 240) -> tuple[int, str]:
        """Exit code and everything that a stock program prints; skips where it is not installed."""
        program = shutil.which(words[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if program is None:
            pytest.skip(f"{words[0]} is not installed")
        done = subprocess.run(
            [program, *words[1:]],
            env=self.environment(library, node),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            errors="replace",
        )
        return done.returncode, NOISE.sub("", done.stdout + done.stderr)

    # -- what the fabric says --

    def now_ps(self) -> int:
        return clock_ps()

    def lid(self, port: int) -> int:
        """LID by which ``port`` is reached: its own, or that of its switch."""
        f = self.f
        return int(f.lid[f.node_base[f.port_node[port]]] if f.is_switch[f.port_node[port]] else f.lid[port])

    def guid(self, port: int) -> str:
        return f"0x{int(self.f.node_guid[self.f.port_node[port]]):016x}"


def fields(text: str) -> dict[str, str]:
    """Of lines such as ``Name:.....value``."""
    return {k.strip(): v for k, v in re.findall(r"^#?[ \t]*(\w[\w ]*?):\.*[ \t]*(.*)$", text, re.M)}


def in_turn(rows: Sequence[Any], libraries: Callable[[Any], Sequence[str]] = lambda row: LIBRARIES) -> list[Any]:
    """Parameters (row, library): each row under one library in the default run, under the other in the slow one."""
    params = []
    for i, row in enumerate(rows):
        able = libraries(row)
        for library in able:
            first = library == able[i % len(able)]
            name = f"{library}-{row.words if hasattr(row, 'words') else row}"
            params.append(pytest.param(row, library, id=name, marks=[] if first else [pytest.mark.slow]))
    return params


def told_by_help(program: str) -> set[str]:
    """The options of a program's own help text, each by its shortest name; of scripts, those of their usage line."""
    path = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin") or pytest.skip(f"{program} is not installed")
    done = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=240, cwd="/")
    text = done.stdout + done.stderr
    found = set()
    for names in re.findall(r"^  (--[^\n<]*?)(?:  |<|$)", text, re.M):
        words = re.findall(r"--?[A-Za-z][\w-]*", names)
        if words:
            found.add(min(words, key=lambda w: (w.count("-"), len(w), w)))
    return found
