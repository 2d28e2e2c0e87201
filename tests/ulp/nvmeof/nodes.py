"""A fabric with a target on host-0001, whose file is ``disk.img``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

from tests.preload.verbs.applications import Applications

FABRIC = "name: nvme\ngeneration: NDR\ntopology: {kind: fat-tree, radix: 4, levels: 2}\n"
TARGET, HOST, OTHER = "host-0001", "host-0008", "host-0003"
DISK = 64 << 20


class Storage(Applications):
    """``softib`` on nodes."""

    def __init__(self, text: str = FABRIC, *options: str, node: str = TARGET):
        super().__init__(text, *options)
        self.started: list[subprocess.Popen[str]] = []
        self.target_address = self.address(node)

    def words(self, node: str, *words: str) -> list[str]:
        return self.arguments("run", "--node", node, "--", *self.arguments(*words))

    def begin_softib(self, node: str, *words: str, first: list[str] | None = None) -> subprocess.Popen[str]:
        """A program of softib's that goes on, once it has said its first line of JSON."""
        program = subprocess.Popen(
            [*(first or []), *self.words(node, *words, "--json")],
            env=self.env,
            cwd=self.folder,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.started.append(program)
        assert program.stdout.readline().startswith("{"), program.stderr.read()
        return program

    def export(self, *files: str, options: tuple[str, ...] = (), node: str = TARGET) -> subprocess.Popen[str]:
        for file in files:
            path = self.folder / file
            if not path.exists():
                path.touch()
                os.truncate(path, DISK)
        return self.begin_softib(node, "target", *files, *options)

    def nvme(
        self, *words: str, node: str = HOST, code: int = 0, address: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """``softib nvme VERB ADDRESS ...``; one line on stderr where it fails."""
        verb, *more = words
        done = subprocess.run(
            self.words(node, "nvme", verb, address or self.target_address, *more),
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        said = [line for line in done.stderr.splitlines() if "compiling kernels" not in line]
        assert code == 0 or len(said) == 1, done.stderr
        return done

    def json(self, *words: str, **more) -> dict:
        return json.loads(self.nvme(*words, "--json", **more).stdout)

    def end(self, program: subprocess.Popen[str], how: int = signal.SIGINT) -> str:
        """End a program and what it started; what it said on stderr."""
        if program.poll() is None:
            os.killpg(program.pid, how)
        said = program.communicate(timeout=60)[1]
        self.started.remove(program)
        return said

    def close(self) -> None:
        for program in list(self.started):
            self.end(program, signal.SIGKILL)
        super().close()


def until(true, limit_s: float = 60) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)
