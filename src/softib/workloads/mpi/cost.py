"""What a message and a reduction cost in Open MPI over UCX, from the rows of ``parameters.yaml``."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from softib.errors import UnknownName
from softib.workloads.parameters import Section, section, sections
from softib.workloads.schedule.overheads import Overheads

__all__ = ["Costs", "costs_of", "machine", "merged"]

PREFIX = "openmpi-"


@dataclass(frozen=True)
class Costs:
    """``overheads`` of messages; ``reduce_ps`` and ``copy_ps``: time of an octet that a rank
    reduces, or copies within its memory; ``reduce_ns``: of a step of a reduction beside its octets;
    ``call_ns``: of a collective, once: choosing an algorithm, buffers."""

    overheads: Overheads
    reduce_ps: float
    copy_ps: float
    reduce_ns: float
    call_ns: float


def costs_of(given: str | Section, size: int = 0, each: int = 1) -> Costs:
    """Costs of ``given``, a section or the name of a machine (:func:`machine`), with ``each`` ranks
    on a host and vectors of ``size`` octets.

    Two vectors of each rank beyond its core's own cache come from the shared one, and beyond that
    from memory: copies and reductions of an octet then take ``shared_octet`` or ``cold_octet``
    longer.
    """
    s = machine(given) if isinstance(given, str) else given
    cold = s["cold_octet"] * _beyond(2 * size * each, s["cache"]) + s["shared_octet"] * _beyond(
        2 * size, s["core_cache"]
    )
    memory_ps = s["memory_octet"] + cold
    return Costs(
        Overheads(
            s.name,
            send_ns=s["send"],
            receive_ns=s["receive"],
            eager_limit=int(s["eager_limit"]),
            copy_ps=s["copy_octet"],
            memory_ns=s["memory_latency"],
            memory_ps=memory_ps,
            fragment=int(s["fragment"]),
            rest_ps=s["fragment_octet"],
            rendezvous_ns=s["rendezvous"],
            stripe_above=int(s["stripe_above"]),
            latency_ns=s["latency"],
            bounce_ns=s["bounce"],
            bounce_above=int(s["bounce_above"]),
            memory_bounce_ns=s["memory_bounce"],
            memory_bounce_above=int(s["memory_bounce_above"]),
            blocking_limit=int(s["blocking_limit"]),
            zcopy_above=int(s["zcopy_above"]),
            zcopy_ns=s["zcopy"],
            copies_rest=True,
            fetch_ns=s["fetch"],
            behind_ns=s["behind"],
            scatter_above=int(s["scatter_above"]),
            scatter_ns=s["scatter"],
            memory_line_ns=s["memory_line"],
            memory_line_above=int(s["memory_line_above"]),
            rendezvous_wait_ns=s["rendezvous_wait"],
        ),
        s["reduce_octet"] + cold,
        memory_ps,
        s["reduce"],
        s["call"],
    )


def machine(name: str) -> Section:
    """The parameters of ``name``: those of ``openmpi``, and in place of them what section
    ``openmpi-NAME`` has. Raises :class:`UnknownName`."""
    known = [s.removeprefix(PREFIX) for s in sections() if s.startswith(PREFIX)]
    if name not in ("default", *known):
        raise UnknownName("machine of MPI", name, ["default", *known])
    return section("openmpi") if name == "default" else merged(section("openmpi"), section(PREFIX + name))


def merged(base: Section, special: Section) -> Section:
    """``base`` with the rows of ``special`` in place of its own."""
    return Section(special.name, MappingProxyType({**base.rows, **special.rows}))


def _beyond(octets: float, cache: float) -> float:
    """Share of ``octets`` that does not fit."""
    return max(0.0, 1 - cache / octets) if octets > cache else 0.0
