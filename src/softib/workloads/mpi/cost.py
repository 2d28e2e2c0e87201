"""Costs of a message and a reduction in Open MPI over UCX, from ``parameters.yaml`` and the hosts'
costs."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

from softib.sim.packet.profiles import PROFILES, DeviceProfile
from softib.workloads.parameters import Section, section
from softib.workloads.schedule.overheads import Overheads

__all__ = ["Costs", "costs_of", "machine"]


@dataclass(frozen=True)
class Costs:
    """``overheads`` of messages. ``reduce_ps`` and ``copy_ps``: time per byte that a rank reduces
    or copies within its memory. ``reduce_ns``: time per step of a reduction, in addition to its
    bytes. ``call_ns``: time per collective to choose an algorithm and allocate buffers (equal to ``reduce_ns``)."""

    overheads: Overheads
    reduce_ps: float
    copy_ps: float
    reduce_ns: float
    call_ns: float


def costs_of(name: str, profile: DeviceProfile = PROFILES["EDR"]) -> Costs:
    """Return the costs of ``name`` (:func:`machine`) on hosts of ``profile``. A send occupies the processor only while
    it is posted. The rest of the time until the receiving program sees a message occupies no processor. Ranks of one
    host copy data at the host's copy rate."""
    s = machine(name)
    sockets = name == "tcp"  # the profile of tcp includes all of these costs
    memory_ps = 1e3 / profile.copy_gbytes
    return Costs(
        Overheads(
            s.name,
            send_ns=0.0 if sockets else profile.post_ns,
            receive_ns=s["receive"],
            eager_limit=int(s["eager_limit"]),
            copy_ps=s["copy_octet"],
            memory_ns=0.0,
            memory_ps=memory_ps,
            fragment=int(s["fragment"]),
            rest_ps=s["fragment_octet"],
            rendezvous_ns=s["rendezvous"],
            stripe_above=int(s["stripe_above"]),
            latency_ns=0.0 if sockets else max(0.0, profile.program_ns - profile.post_ns),
            bounce_above=int(s["bounce_above"]),
            blocking_limit=int(s["blocking_limit"]),
            zcopy_above=int(s["zcopy_above"]),
            copies_rest=True,
            fetch_ns=s["fetch"],
            behind_ns=s["behind"],
            rendezvous_wait_ns=s["rendezvous_wait"],
        ),
        s["reduce_octet"],
        memory_ps,
        s["reduce"],
        s["reduce"],
    )


def machine(name: str) -> Section:
    """Return the parameters of Open MPI over UCX (``default``), or over sockets (``tcp``)."""
    base = section("openmpi")
    return (
        base if name == "default" else Section(name, MappingProxyType({**base.rows, **section(f"openmpi-{name}").rows}))
    )
