"""One at a time: pages and notebooks whose programs listen at ports that everybody knows (perftest's 18515, MPI's, torch's)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def alone() -> Iterator[None]:
    """Wait until no other test on this machine, of any checkout, is inside. A lock of ``/tmp`` itself leaves no file behind."""
    folder = os.open("/tmp", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
