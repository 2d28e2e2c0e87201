"""Links between ranks of one process: messages through queues, RDMA READ as a copy of the peer's memory."""

from __future__ import annotations

import ctypes
import itertools
import queue
from typing import Any


class FakeLinks:
    """One rank's links. ``world`` is shared: every rank's queue of events, and the memory that is registered."""

    def __init__(self, world: dict[int, queue.SimpleQueue], keys: dict[int, tuple[int, int]], rank: int):
        self.world, self.keys, self.rank, self.size = world, keys, rank, len(world)
        self.numbers = itertools.count(rank + 1, self.size)
        self.silent: set[int] = set()
        """Ranks that have died."""

    def send(self, peer: int, message: bytes) -> None:
        self.world[peer].put(("message", self.rank, message))

    def read(self, peer: int, number: int, hold: Any, address: int, octets: int, remote: int, rkey: int) -> None:
        start, length = self.keys[rkey]
        assert start <= remote and remote + octets <= start + length, "a READ outside the registered memory"
        ctypes.memmove(address, remote, octets)
        self.world[self.rank].put(("read", peer, number))

    def register(self, address: int, octets: int) -> tuple[Any, int]:
        key = next(self.numbers)
        self.keys[key] = (address, octets)
        return key, key

    def poll(self) -> list[tuple[str, int, Any]]:
        events = []
        while True:
            try:
                events.append(self.world[self.rank].get_nowait())
            except queue.Empty:
                return events

    def probe(self, peer: int) -> None:
        if peer in self.silent:
            self.lose(peer)

    def lose(self, peer: int) -> None:
        self.world[self.rank].put(("lost", peer, "transport retry counter exceeded"))

    def close(self) -> None:
        pass


def world(size: int) -> list[FakeLinks]:
    """Links of every rank."""
    queues = {rank: queue.SimpleQueue() for rank in range(size)}
    keys: dict[int, tuple[int, int]] = {}
    return [FakeLinks(queues, keys, rank) for rank in range(size)]
