"""Costs of a program's messages in its library and processors, in addition to the adapter's."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Overheads"]


@dataclass(frozen=True)
class Overheads:
    """Costs of a library's messages besides the adapter's.

    **The processor**: ``send_ns`` and ``receive_ns`` for each message. An eager message costs
    ``copy_ps`` per byte that either end copies into or out of registered buffers, in fragments of
    ``fragment`` bytes. The sender copies the first fragment before it posts it, and the others
    while the first is in transit (``copies_rest``: this takes time too). The receiver pays for the
    first fragment, and ``rest_ps`` per byte for the part of the others that their arrival does not
    hide. A non-blocking send (:class:`Schedule`) larger than ``zcopy_above`` costs its sender no
    copy.

    **Time without a processor**: ``latency_ns`` until a program sees a message; above
    ``bounce_above``, ``fetch_ns`` in addition (the adapter reads the data); with several fragments,
    ``behind_ns`` in addition (an adapter takes the request of an idle queue pair directly, and
    fetches later ones). **Rendezvous**: used by a blocking send larger than ``blocking_limit`` (and
    ``eager_limit``), and by any other send larger than ``eager_limit``. It costs
    ``rendezvous_wait_ns`` until the data is read, and ``rendezvous_ns`` of the receiver's
    processor. A message larger than ``stripe_above`` uses all rails. **Ranks of one host**: the
    sender's processor writes at ``memory_ps`` per byte; the receiver sees the message ``memory_ns``
    later. ``rate_gbps``: static rate of messages between hosts without one in the schedule (0:
    none).
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
