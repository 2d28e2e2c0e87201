"""Folders that a test run makes and takes away again, however its tests end."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

_MADE: list[Path] = []


def scratch(prefix: str, *, memory: bool = False) -> Path:
    """A new folder, removed when the run ends; with ``memory`` in ``/dev/shm`` where that can be written.

    The path is short, because sockets lie below it (``sun_path`` holds 108 bytes).
    """
    base = "/dev/shm" if memory and os.access("/dev/shm", os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    _MADE.append(made)
    return made


def remove_all() -> None:
    """What the run made so far."""
    while _MADE:
        shutil.rmtree(_MADE.pop(), ignore_errors=True)
