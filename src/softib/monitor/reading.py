"""The reading of one round: the value of every counter of every port, and the levels that each port reports. The module
also defines the counters, their attributes and their widths."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from softib.iba import perf, perf_optional
from softib.iba.smp import DATA_AT
from softib.iba.structure import Field, Structure

__all__ = ["ATTRIBUTES", "BELOW_ZERO", "COUNTERS", "DETAILS", "FEC", "MAIN", "Attribute", "Reading", "counter_fields"]


@dataclass(frozen=True)
class Attribute:
    """A PerfMgt attribute and its counting fields; ``totals`` are counters of PortCounters that rise whenever one of
    these fields rises (empty: there are no such counters)."""

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
    """Return the names of the attribute's counting fields, in the order of the MAD."""
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
"""Attributes that are read once at the beginning, and then only if their totals have risen. IBA 16.1.3.5 defines
PortRcvErrors and PortXmitDiscards as the sums of these causes, and PortRcvSwitchRelayErrors as the sum of DLID mapping,
VL mapping and looping errors. An expired flow-control watchdog starts recovery of the link (7.9.4), which increases
other counters. An attribute that an agent does not support is not requested from it until the next discovery."""
FEC = Attribute(perf_optional.PortExtendedSpeedsCounters, counter_fields(perf_optional.PortExtendedSpeedsCounters))
"""FEC counters. Counters of single lanes are summed under the field's name, as are counters of single VLs."""
MAIN = (PLAIN, EXTENDED)
ATTRIBUTES = (*MAIN, *DETAILS, FEC)

COUNTERS: tuple[str, ...] = tuple(
    dict.fromkeys((*EXTENDED.names, *PLAIN.names, *(n for a in (*DETAILS, FEC) for n in a.names)))
)
"""Every possible counter of a reading, under its PerfMgt name."""

BASIC = EXTENDED.names[:4]
"""Counters of PortCountersExtended that exist with CapabilityMask bit 10 (NoIETF)."""
WIDE = EXTENDED.names[:8]
"""Counters that exist with bit 9; the other counters need CapabilityMask2 bit 1."""


BELOW_ZERO = np.uint64(1 << 63)
"""Value that no counter reaches. A 64-bit field at or above it was decremented below 0 (PortRcvErrors of a real
ConnectX-7 was -40), and has no meaning."""


@dataclass
class Reading:
    """``n`` ports, in the order of ``guid`` uint64[n], ``portnum`` int32[n].

    ``time_ns`` int64[n]: the time at which a port's counters were read; ``answered`` bool[n]: whether the device to
    which the port belongs answered. ``value``: counter → uint64[n]; ``have``: counter → bool[n], whether it was read in
    this round and is not below 0; ``stuck``: counter → bool[n], whether it is at the largest value of a field narrower
    than 64 bits, where it stops (IBA 16.1.3.5). ``at_most``: counter → bool[n], True where the value is an upper limit
    (for a tool that prints only values above a threshold). ``level`` → float64[n], NaN unknown. ``lanes``: uint64[n,
    12], FEC corrections on each lane (None: not read).
    """

    guid: np.ndarray
    portnum: np.ndarray
    time_ns: np.ndarray
    answered: np.ndarray
    value: dict[str, np.ndarray] = field(default_factory=dict)
    have: dict[str, np.ndarray] = field(default_factory=dict)
    stuck: dict[str, np.ndarray] = field(default_factory=dict)
    at_most: dict[str, np.ndarray] = field(default_factory=dict)
    level: dict[str, np.ndarray] = field(default_factory=dict)
    lanes: np.ndarray | None = None

    @classmethod
    def empty(cls, guid: np.ndarray, portnum: np.ndarray) -> Reading:
        """Return a reading without values."""
        return cls(guid, portnum, np.zeros(len(guid), np.int64), np.zeros(len(guid), bool))

    def __len__(self) -> int:
        return len(self.guid)

    def put(self, name: str, rows: np.ndarray, values: np.ndarray, largest: int) -> None:
        """Store the ``values`` of counter ``name`` for the ports ``rows``. They were read from a field whose largest
        value is ``largest``."""
        if name not in self.value:
            n = len(self)
            self.value[name], self.have[name], self.stuck[name] = (
                np.zeros(n, np.uint64),
                np.zeros(n, bool),
                np.zeros(n, bool),
            )
        self.value[name][rows] = values
        self.have[name][rows] = np.asarray(values, np.uint64) < BELOW_ZERO
        self.stuck[name][rows] = values >= np.uint64(largest) if largest < 2**64 - 1 else False

    def put_at_most(self, name: str, rows: np.ndarray, most: int) -> None:
        """Store that the counter ``name`` of ``rows`` is at most ``most``."""
        self.put(name, rows, np.full(len(rows), most, np.uint64), 2**64 - 1)
        if most:
            self.at_most.setdefault(name, np.zeros(len(self), bool))[rows] = True

    def take(self, attribute: Attribute, names: tuple[str, ...], rows: np.ndarray, mad: np.ndarray) -> None:
        """Store the counters ``names`` of ``attribute`` from answers ``mad`` (uint8[k, 256]) of the
        ports ``rows``."""
        data = mad[:, DATA_AT : DATA_AT + attribute.struct.size]
        for name in names:
            f: Field = attribute.struct.fields[name]
            values = f.get(data).astype(np.uint64)
            self.put(name, rows, values if f.count == 1 else values.sum(axis=1), f.mask)
            if name == "fec_correctable_block_ctr":
                if self.lanes is None:
                    self.lanes = np.zeros((len(self), f.count), np.uint64)
                self.lanes[rows] = values
            if f.count > 1:
                self.stuck[name][rows] = (values == np.uint64(f.mask)).any(axis=1)

    def forget(self, rows: np.ndarray) -> None:
        """Drop the data of the ports ``rows``, because another device has answered in place of their own."""
        self.answered[rows] = False
        for have in self.have.values():
            have[rows] = False
