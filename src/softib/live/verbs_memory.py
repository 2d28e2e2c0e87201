"""The daemon's part of the file ``verbs``, in which programs keep their queues and keys (docs/decisions/0008).

Programs make the file and write it; the daemon only buries: when a program has left, or was killed, it marks the process dead,
waits until nobody uses its objects any more, and takes back its numbers, keys, multicast memberships and memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from functools import cache
from pathlib import Path

import numpy as np

from softib.live.c_header import define, structures

__all__ = ["HEADER", "VerbsMemory"]

HEADER = Path(__file__).resolve().parent.parent / "preload" / "verbs" / "memory" / "shared.h"
NAME = "verbs"
MAP_NORESERVE = 0x4000
PUNCH_HOLE, KEEP_SIZE = 2, 1
PROCESS_SHIFT = np.uint64(48)
"""A number's entry is process << 48 | offset of its object (preload/verbs/memory/memory.c)."""


@cache
def constant(name: str) -> int:
    """``SOFTIB_VERBS_`` + ``name``."""
    return define(HEADER, f"SOFTIB_VERBS_{name}")


@cache
def types() -> dict[str, np.dtype]:
    """The structures of the header."""
    return structures(HEADER)


class Tables:
    """The mapped file."""

    def __init__(self, fd: int):
        size = constant("SIZE")
        self.fd = fd
        self.map = mmap.mmap(fd, size, mmap.MAP_SHARED | MAP_NORESERVE)
        self.head = self._place("softib_verbs", 0, 1)
        self.processes = self._place("softib_process", constant("PROCESSES"), constant("PROCESSES_N"))
        self.members = self._place("softib_member", constant("MEMBERS"), constant("MEMBERS_N"))
        self.keys = self._place("softib_key", constant("KEYS"), constant("KEYS_N"))
        self.numbers = np.frombuffer(self.map, np.uint64, constant("NUMBERS_N"), constant("NUMBERS"))
        chunks = (size - constant("HEAP")) // constant("CHUNK")
        self.owners = np.frombuffer(self.map, np.uint32, chunks, constant("OWNERS"))

    def _place(self, name: str, at: int, n: int) -> np.ndarray:
        return np.frombuffer(self.map, types()[name], n, at)

    def close(self) -> None:
        """The arrays are gone with it."""
        del self.head, self.processes, self.members, self.keys, self.numbers, self.owners
        self.map.close()
        os.close(self.fd)


class VerbsMemory:
    """The file in ``folder``, mapped when the first program has made it."""

    def __init__(self, folder: Path):
        self.folder, self.path = folder, folder / NAME
        self.dying: set[int] = set()
        self._tables: Tables | None = None
        self._wipe()

    def _wipe(self) -> None:
        self.path.unlink(missing_ok=True)
        for stale in self.folder.glob("wake-*"):
            stale.unlink(missing_ok=True)

    def close(self) -> None:
        """Take the file along. Programs that still map it keep their pages until they end."""
        if self._tables is not None:
            self._tables.close()
            self._tables = None
        self._wipe()

    def tables(self) -> Tables | None:
        """The mapping; None as long as no program has made the file."""
        if self._tables is None:
            try:
                fd = os.open(self.path, os.O_RDWR)
            except FileNotFoundError:
                return None
            if os.fstat(fd).st_size != constant("SIZE"):
                os.close(fd)
                return None
            self._tables = Tables(fd)
        return self._tables

    # -- the dead --

    def left(self, number: int) -> None:
        """Process ``number`` has gone. What it held is taken back by :meth:`tick`, when nobody is in the middle of it."""
        for wake in self.folder.glob(f"wake-{number}-*"):
            wake.unlink(missing_ok=True)
        t = self.tables()
        if t is not None:
            t.processes["alive"][number] = 0
            t.processes["hazard"][number] = 0  # it is in the middle of nothing any more
            self.dying.add(number)

    def tick(self) -> None:
        """Bury those whom nobody uses."""
        t = self.tables() if self.dying else None
        if t is None:
            return
        for number in sorted(self.dying):
            if not _used(t, number):
                _bury(t, number)
                self.dying.discard(number)

    def held(self) -> dict[str, int]:
        """What all programs hold: numbers, keys, members, chunks of 64 KiB. For tests of leaks and ``softib status``."""
        t = self.tables()
        if t is None:
            return {"numbers": 0, "keys": 0, "members": 0, "chunks": 0}
        head = t.head[0]
        return {
            "numbers": int(np.count_nonzero(t.numbers[: min(int(head["number_next"]), len(t.numbers))])),
            "keys": int(np.count_nonzero(t.keys["process"][: min(int(head["key_next"]), len(t.keys))])),
            "members": int(np.count_nonzero(t.members["qpn"][: int(head["member_high"])])),
            "chunks": int(np.count_nonzero(t.owners[: int(head["chunk_next"])])),
        }


def _used(t: Tables, number: int) -> bool:
    high = int(t.head["process_high"][0]) + 1
    held = t.processes["hazard"][:high] & np.uint64(0xFFFF)
    living = t.processes["alive"][:high] != 0
    return bool((held[living] == number).any())


def _bury(t: Tables, number: int) -> None:
    head = t.head[0]
    n = min(int(head["number_next"]), len(t.numbers))
    mine = np.flatnonzero(t.numbers[:n] >> PROCESS_SHIFT == np.uint64(number))
    t.numbers[mine] = 0
    members = t.members[: int(head["member_high"])]
    members["qpn"][members["process"] == number] = 0
    keys = t.keys[: min(int(head["key_next"]), len(t.keys))]
    own = np.flatnonzero(keys["process"] == number)
    keys["key"][own] = 0
    keys["process"][own] = 0
    chunks = np.flatnonzero(t.owners[: int(head["chunk_next"])] == number)
    for first, last in _runs(chunks):
        _punch(t.fd, constant("HEAP") + first * constant("CHUNK"), (last - first + 1) * constant("CHUNK"))
    t.owners[chunks] = 0


def _runs(places: np.ndarray) -> list[tuple[int, int]]:
    """Neighbours as (first, last)."""
    if not len(places):
        return []
    breaks = np.flatnonzero(np.diff(places) != 1)
    firsts = places[np.concatenate([[0], breaks + 1])]
    lasts = places[np.concatenate([breaks, [len(places) - 1]])]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _punch(fd: int, at: int, octets: int) -> None:
    """Give the pages back to the system (fallocate(2), which Python's os does not have with a mode)."""
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate(fd, PUNCH_HOLE | KEEP_SIZE, ctypes.c_int64(at), ctypes.c_int64(octets))
