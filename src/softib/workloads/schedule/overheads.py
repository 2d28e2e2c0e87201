"""Costs of a program's messages in its library and on its processors, in addition to the adapter's costs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Overheads"]


@dataclass(frozen=True)
class Overheads:
    """Costs of a library's messages in addition to the adapter's costs.

    **The processor**: ``send_ns`` and ``receive_ns`` for each message. An eager message costs
    ``copy_ps`` per byte that either end copies into or out of registered buffers, in fragments of
    ``fragment`` bytes. The sender copies the first fragment before it posts it, and the others
    while the first is in transit (``copies_rest``: this takes time too). Copying the first fragment also occupies the
    receiver. The other fragments cost the receiver ``rest_ps`` per byte: the part of copying that does not overlap with
    their arrival. The sender of a non-blocking send (:class:`Schedule`) larger than ``zcopy_above`` copies nothing.

    **Time without a processor**: ``latency_ns`` until a program sees a message. Messages above ``bounce_above`` take
    ``fetch_ns`` in addition, in which the adapter reads the data. Messages of several fragments take ``behind_ns`` in
    addition, because an adapter receives the first request of an idle queue pair directly, but must fetch later ones.
    **Rendezvous**: used by a blocking send larger than ``blocking_limit`` (and ``eager_limit``), and by any other send
    larger than ``eager_limit``. It costs ``rendezvous_wait_ns`` until the data is read, and ``rendezvous_ns`` of the
    receiver's processor. A message larger than ``stripe_above`` uses all rails. **Ranks of one host**: the sender's
    processor writes at ``memory_ps`` per byte; the receiver sees the message ``memory_ns`` later. ``rate_gbps``: static
    rate of messages between hosts that have none in the schedule (0: none).
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
    rate_gbps: float = 0.0
