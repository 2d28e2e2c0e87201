"""What a run writes down beside its outcome: samples over time, frames of ports, the timeline of a message."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from softib.analysis.simulation.simulated import names_of
from softib.errors import InputError, UnknownName
from softib.plain_values import whole_number
from softib.plural import counted
from softib.sim.paths import Plane, Scale
from softib.workloads.hosts import Hosts

if TYPE_CHECKING:
    from softib.sim.messages import Messages
    from softib.sim.outcome import Outcome
    from softib.sim.paths import Laid

__all__ = ["Ask", "message_row", "on_other_ports", "watched"]


@dataclass(frozen=True)
class Ask:
    """What a run writes down beside its outcome. ``samples``: loads and queues over time, every ``sample_ps`` (0: about a hundredth of the
    run); packet layer: frames of ``ports`` (rows), the timeline of ``trace`` (a row, or ``SOURCE->DESTINATION#n``, the n-th from 1 on).
    ``jobs_apart``: each job gets a service level of its own, and with it a VL as the fabric's tables map it. ``scale``: the fabric is slower or faster (fluid and static
    layers)."""

    samples: bool = False
    sample_ps: int = 0
    ports: tuple[int, ...] = ()
    trace: str | int | None = None
    jobs_apart: bool = False
    scale: Scale | None = None


def message_row(text: str | int, names: np.ndarray, m: Messages) -> int:
    """The row of the message that ``text`` means: a number, or ``SOURCE->DESTINATION#n``. Raises :class:`InputError`, one line."""
    word = str(text).strip()
    row = whole_number(word)
    if row is not None:
        if row >= len(m):
            raise InputError(f"there is no message {row:,}: the workload has {len(m):,}, numbered from 0")
        return row
    ends, _, number = word.partition("#")
    source, arrow, target = (part.strip() for part in ends.partition("->"))
    if not arrow or (number and whole_number(number) is None):
        raise InputError(
            f"{word!r} is no message: write its number, or SOURCE->DESTINATION, or SOURCE->DESTINATION#2 for the second one"
        )
    for name in (source, target):
        if not (names == name).any():
            raise UnknownName("host", name, [str(n) for n in names])
    rows = np.flatnonzero((names[m.src] == source) & (names[m.dst] == target))
    nth = int(number or 1)
    if not 1 <= nth <= len(rows):
        raise InputError(f"{source} sends {counted(len(rows), 'message')} to {target}; there is no number {nth}")
    return int(rows[nth - 1])


def watched(plane: Plane, hosts: Hosts, m: Messages, laid: Laid, ask: Ask) -> dict[str, Any]:
    """``watch_ports`` and ``watch_messages`` of :class:`~softib.sim.packet.PacketOptions`."""
    if ask.trace is None:
        return {"watch_ports": _with_peers(plane, ask.ports)}
    row = message_row(ask.trace, names_of(plane, hosts), m)
    ports = set(_with_peers(plane, ask.ports)) | set(
        (laid.port[laid.channel[laid.first[row] : laid.first[row + 1]]] >> 4).tolist()
    )
    return {"watch_ports": tuple(sorted(ports)), "watch_messages": (row,)}


def _with_peers(plane: Plane, ports: tuple[int, ...]) -> tuple[int, ...]:
    """``ports`` and the other ends of their cables, ascending."""
    peer = plane.fabric.port_peer
    return tuple(sorted({p for port in ports for p in (port, int(peer[port])) if p >= 0}))


def on_other_ports(outcome: Outcome, wanted: Any) -> Any | None:
    """Where a traced message's packets took ports that were not watched (acknowledgements, adaptive routing, a manager that re-routes): options for the same
    run once more, watching these too. It is the same to the bit."""
    from softib.sim.packet.timeline import ports_of_message

    more: set[int] = set()
    for row in wanted.watch_messages:
        more |= ports_of_message(outcome.log, row) - set(wanted.watch_ports)
    return replace(wanted, watch_ports=tuple(sorted({*wanted.watch_ports, *more}))) if more else None
