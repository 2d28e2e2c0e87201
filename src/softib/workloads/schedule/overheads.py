"""Costs of a program's messages in its library and processors, besides the adapter's."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Overheads"]


@dataclass(frozen=True)
class Overheads:
    """Costs of a library's messages besides the adapter's.

    **The processor**: ``send_ns`` and ``receive_ns`` for each message. An eager one costs
    ``copy_ps`` for each byte that either end copies into or out of registered buffers, fragment by
    fragment (``fragment`` bytes): the sender its first fragment before it posts it, the others
    while it is on its way (``copies_rest``: that takes its time, too); the receiver the first, and
    of the others what their arrival does not hide, ``rest_ps`` a byte. A send that is not
    blocking (:class:`Schedule`) and larger than ``zcopy_above`` costs its sender no copy.

    **Time that holds no processor**: ``latency_ns`` until a program sees what came; above
    ``bounce_above`` ``fetch_ns`` more (the adapter reads the data), and of several fragments
    ``behind_ns`` (an adapter takes the request of an idle queue pair as it is posted, and fetches
    those behind it).

    **Rendezvous**: a blocking send larger than ``blocking_limit`` (and ``eager_limit``), any other
    larger than ``eager_limit``. It takes ``rendezvous_wait_ns`` until it is read, and
    ``rendezvous_ns`` of the receiver's processor. One larger than ``stripe_above`` takes all rails.

    **Ranks of one host**: the sender's processor writes ``memory_ps`` a byte; ``memory_ns`` later
    the receiver sees it.
    """

    name: str = "verbs"
    send_ns: float = 0.0
    receive_ns: float = 0.0
    eager_limit: int = 1 << 40
    copy_ps: float = 0.0
    memory_ns: float = 300.0
    memory_ps: float = 100.0
    fragment: int = 1 << 40
    rest_ps: float = 0.0
    rendezvous_ns: float = 0.0
    stripe_above: int = 1 << 40
    latency_ns: float = 0.0
    bounce_above: int = 1 << 40
    blocking_limit: int = 0
    zcopy_above: int = 1 << 40
    copies_rest: bool = False
    fetch_ns: float = 0.0
    behind_ns: float = 0.0
    rendezvous_wait_ns: float = 0.0
