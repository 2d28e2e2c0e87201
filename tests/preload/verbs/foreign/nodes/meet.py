"""Two processes of a trial meet through files of a shared folder, and compare data. It runs in the Python of the program under trial."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

ROLE, FOLDER = sys.argv[1], Path(sys.argv[2])
SIZE = 4 << 20
"""Bytes that a trial moves in each direction."""
LIMIT_S = 100


def put(name: str, value: str | bytes) -> None:
    """Hand ``value`` to the other process."""
    new = FOLDER / f".{name}"
    new.write_bytes(value.encode() if isinstance(value, str) else value)
    os.replace(new, FOLDER / name)


def get(name: str) -> bytes:
    """Wait for the value that the other process hands over."""
    end = time.monotonic() + LIMIT_S
    while not (FOLDER / name).exists():
        if time.monotonic() > end:
            sys.exit(f"no {name} within {LIMIT_S} s")
        time.sleep(0.02)
    return (FOLDER / name).read_bytes()


def pattern(seed: int, size: int = SIZE) -> bytes:
    """Bytes that both processes know."""
    return random.Random(seed).randbytes(size)


def check(data: bytes, seed: int) -> None:
    """Compare all of ``data``; the trial reads this line."""
    right = data == pattern(seed, len(data))
    print(f"checked {len(data)} bytes: {'same' if right else 'DIFFERENT'}", flush=True)
    if not right:
        sys.exit(1)
