"""A program on a real terminal: a pseudo terminal whose screen pyte keeps."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Sequence

import pyte

COLOUR = re.compile(rb"\x1b\[[0-9;]*\b(3[0-7]|38|4[0-7]|48|9[0-7])[;m]")


class Terminal:
    """``with Terminal(words, env, 24, 100) as t: t.until("text"); t.key("q")``."""

    def __init__(self, words: Sequence[str], env: dict[str, str], lines: int, columns: int):
        self.master, child = pty.openpty()
        self.screen = pyte.Screen(columns, lines)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self._size(lines, columns)
        env = {k: v for k, v in env.items() if k not in ("LINES", "COLUMNS")} | {"TERM": "xterm-256color"}
        self.child = subprocess.Popen(
            words,
            env=env,
            stdin=child,
            stdout=child,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(child)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *why: object) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        assert self.child.stderr is not None
        self.child.stderr.close()
        os.close(self.master)

    def _size(self, lines: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, lines: int, columns: int) -> None:
        """As a window that is dragged does it."""
        self._size(lines, columns)  # the kernel sends SIGWINCH
        self.screen.resize(lines, columns)

    def key(self, key: str) -> None:
        """One key."""
        os.write(self.master, key.encode())

    def read(self, seconds: float) -> None:
        """What the program writes in that time."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self.master], [], [], left)
            if not ready:
                return
            try:
                data = os.read(self.master, 65536)
            except OSError:  # the program has ended
                return
            self.raw += data
            self.stream.feed(data)

    @property
    def text(self) -> str:
        """What is to be seen."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def until(self, *wanted: str, seconds: float = 60.0) -> str:
        """Wait until all of it is seen."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(0.1)
            if all(w in self.text for w in wanted):
                return self.text
            assert self.child.poll() is None or time.monotonic() < end - seconds + 1, self.text
        raise AssertionError(f"{wanted} not seen:\n{self.text}")
