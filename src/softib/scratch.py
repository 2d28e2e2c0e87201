"""Folders for the time of a command. A command that is killed cannot remove its own; the next one that needs a
folder does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["scratch_folder"]

SUFFIX = ".scratch"
"""Ending of their names; no other folder is removed."""


@contextlib.contextmanager
def scratch_folder(name: str, base: Path | None = None) -> Iterator[Path]:
    """Create ``softib-NAME-….scratch`` in ``base`` (default: the folder for temporary files), and remove it at the
    end; first remove those of killed processes. A folder in use is locked, in whatever container its process runs."""
    parent = Path(tempfile.gettempdir()) if base is None else base
    _remove_unlocked(parent)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"softib-{name}-", suffix=SUFFIX, dir=parent))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():  # another process may have removed it before it was locked
            break
        os.close(lock)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_unlocked(parent: Path) -> None:
    """Remove the folders of this user that no process holds."""
    for folder in parent.glob(f"softib-*{SUFFIX}"):
        with contextlib.suppress(OSError):
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.geteuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
