"""Which counters are read, from which attribute, how wide each is, and when an attribute is asked."""

from __future__ import annotations

from dataclasses import dataclass

from softib.iba import perf, perf_optional
from softib.iba.structure import Structure

__all__ = ["ATTRIBUTES", "COUNTERS", "DETAILS", "FEC", "MAIN", "Attribute", "counter_fields"]


@dataclass(frozen=True)
class Attribute:
    """A PerfMgt attribute and those of its fields that count; ``totals`` are counters of
    PortCounters that rise with any of them (none: nothing else tells that it moved)."""

    struct: type[Structure]
    names: tuple[str, ...]
    totals: tuple[str, ...] = ()

    @property
    def id(self) -> int:
        """AttributeID."""
        assert self.struct.attr is not None
        return self.struct.attr


_NOT_COUNTING = ("port_select", "counter_select", "counter_select2")


def counter_fields(struct: type[Structure]) -> tuple[str, ...]:
    """Fields that count, in wire order."""
    return tuple(f.name for f in struct.named() if f.name not in _NOT_COUNTING)


PLAIN = Attribute(perf.PortCounters, counter_fields(perf.PortCounters))
EXTENDED = Attribute(perf_optional.PortCountersExtended, counter_fields(perf_optional.PortCountersExtended))
DETAILS = (
    Attribute(
        perf_optional.PortRcvErrorDetails,
        counter_fields(perf_optional.PortRcvErrorDetails),
        ("port_rcv_errors", "port_rcv_switch_relay_errors"),
    ),
    Attribute(
        perf_optional.PortXmitDiscardDetails,
        counter_fields(perf_optional.PortXmitDiscardDetails),
        ("port_xmit_discards",),
    ),
    Attribute(
        perf_optional.PortVLXmitFlowCtlUpdateErrors,
        counter_fields(perf_optional.PortVLXmitFlowCtlUpdateErrors),
        ("link_error_recovery_counter", "link_downed_counter"),
    ),
)
"""Read once at first, then where their totals rose (IBA 16.1.3.5 defines PortRcvErrors and
PortXmitDiscards as the sum of these causes; PortRcvSwitchRelayErrors that of DLID mapping, VL
mapping and looping; a flow-control watchdog that expires has the link recover, 7.9.4, which counts
or fails). An agent that says that it lacks one is not asked for it until the next discovery."""
FEC = Attribute(perf_optional.PortExtendedSpeedsCounters, counter_fields(perf_optional.PortExtendedSpeedsCounters))
"""Counters by lane are summed under the field's name, as those by VL are."""
MAIN = (PLAIN, EXTENDED)
ATTRIBUTES = (*MAIN, *DETAILS, FEC)

COUNTERS: tuple[str, ...] = tuple(
    dict.fromkeys((*EXTENDED.names, *PLAIN.names, *(n for a in (*DETAILS, FEC) for n in a.names)))
)
"""Every counter that a reading may have, under its PerfMgt name."""

BASIC = EXTENDED.names[:4]
"""Of PortCountersExtended: all that CapabilityMask bit 10 (NoIETF) promises."""
WIDE = EXTENDED.names[:8]
"""What bit 9 promises; the rest needs CapabilityMask2 bit 1."""
