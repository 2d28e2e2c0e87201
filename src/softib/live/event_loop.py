"""The loop of a running fabric: one thread, one selector, and peers that share them.

A peer registers its sockets in the selector with a function of the ready events as data, and says
how long it can wait without them. Nothing of a peer blocks, so none of them delays another.
"""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import Protocol

from softib.live.clock import clock_ps

__all__ = ["EventLoop", "Peer"]


class Peer(Protocol):
    """Something that the loop drives besides its sockets."""

    def wait_s(self, now_ps: int) -> float:
        """Seconds until :meth:`tick` has something to do (infinite: it waits for its sockets
        alone)."""

    def tick(self, now_ps: int) -> None:
        """Do what is due. Called after each wait, early ones too."""


class EventLoop:
    """Waits for the sockets in ``selector`` and drives ``peers``, in their order. ``on_ready`` is
    told how many sockets are ready before they are handled."""

    def __init__(
        self, selector: selectors.BaseSelector, *peers: Peer, on_ready: Callable[[int], None] = lambda sockets: None
    ):
        self.selector, self.peers, self.on_ready = selector, list(peers), on_ready

    def step(self, timeout_s: float) -> None:
        """Wait for at most ``timeout_s`` and handle everything that is there."""
        now_ps = clock_ps()
        ready = self.selector.select(min(timeout_s, *(peer.wait_s(now_ps) for peer in self.peers)))
        self.on_ready(len(ready))
        for key, events in ready:
            key.data(events)
        for peer in self.peers:
            peer.tick(clock_ps())
