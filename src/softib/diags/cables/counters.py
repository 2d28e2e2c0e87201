"""Error counters in a source, checked as in ``ibqueryerrors``: a port is reported if its total exceeds a threshold. A
total shows that errors occurred since the counters were cleared, not how often they occur now. Each cable has one
finding with the counters of both ends, because an end counts the errors of the direction that it receives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from softib.diags.context import Context
from softib.diags.finding import Finding, Location, Severity, code, few, finding
from softib.diags.view import FabricView
from softib.plural import counted, plural

__all__ = ["THRESHOLDS", "links_lost", "lost_links"]


LINK_BIT_ERRORS = code(
    "link-bit-errors",
    Severity.WARNING,
    "a cable makes more bit errors than the specification allows",
    "clean or replace cable and transceivers",
)

MAX_BER = 1e-12
"""Limit of the bit error ratio: IBA volume 2 requires links to be below 1e-12."""


def stated_bit_errors(c: Context) -> Iterator[Finding]:
    """Report cables for which a file states a bit error ratio above the limit. A running fabric does not state a ratio;
    :mod:`softib.diags.cable_rules.bit_errors` computes it from counters over time.
    """
    view = c.view
    if "ber" not in view.records:
        return
    ber = view.fabric.cable_ber[view.cable]
    for row in np.flatnonzero(ber > MAX_BER).tolist():
        a, b = int(view.port_a[row]), int(view.port_b[row])
        yield finding(
            LINK_BIT_ERRORS,
            [view.location(a), view.location(b)],
            f"{view.link_name(a, b)}: bit error ratio {ber[row]:g}, at most {MAX_BER:g} is allowed",
            {"ber": float(ber[row])},
        )


LINK_ERROR_COUNTERS = code(
    "link-error-counters",
    Severity.WARNING,
    "a port has counted more errors than ibqueryerrors tolerates",
    "totals since the last clear: clear them (ibqueryerrors -k), check again after an hour; if they grow, clean or "
    "replace cable and transceivers",
)
CONGESTION_COUNTERS = code(
    "congestion-counters",
    Severity.INFO,
    "ports have waited for credits, or dropped packets without credits",
    "totals since the last clear; normal traffic also causes them: compare the busiest ports, look for slow receivers",
)

LINK_LOST = code(
    "link-lost",
    Severity.INFO,
    "ports without a link have counted lost links: they had one since their counters were cleared",
    "check the cable, both modules and the node at its other end; a port whose cable was moved keeps the count until "
    "it is cleared (perfquery -R)",
)

THRESHOLDS = {
    "symbol_error_counter": 10,
    "link_error_recovery_counter": 10,
    "link_downed_counter": 10,
    "port_rcv_errors": 10,
    "port_rcv_remote_physical_errors": 100,
    "port_rcv_switch_relay_errors": 100,
    "port_xmit_constraint_errors": 100,
    "port_rcv_constraint_errors": 100,
    "local_link_integrity_errors": 10,
    "excessive_buffer_overrun_errors": 10,
    "vl15_dropped": 100,
}
"""Thresholds that infiniband-diags ships in the file ``error_thresholds``. A counter above its threshold is
reported.
"""
CONGESTION = {"port_xmit_discards": 100, "port_xmit_wait": 1000}
"""Thresholds of congestion counters in the same file. One finding reports all ports above them, because a busy fabric
has thousands.
"""
SHORT = {
    "symbol_error_counter": "SymbolErrorCounter",
    "link_error_recovery_counter": "LinkErrorRecoveryCounter",
    "link_downed_counter": "LinkDownedCounter",
    "port_rcv_errors": "PortRcvErrors",
    "port_rcv_remote_physical_errors": "PortRcvRemotePhysicalErrors",
    "port_rcv_switch_relay_errors": "PortRcvSwitchRelayErrors",
    "port_xmit_constraint_errors": "PortXmitConstraintErrors",
    "port_rcv_constraint_errors": "PortRcvConstraintErrors",
    "local_link_integrity_errors": "LocalLinkIntegrityErrors",
    "excessive_buffer_overrun_errors": "ExcessiveBufferOverrunErrors",
    "vl15_dropped": "VL15Dropped",
    "port_xmit_discards": "PortXmitDiscards",
    "port_xmit_wait": "PortXmitWait",
}
"""Names as perfquery and ibqueryerrors print them."""
COMMON = 0.25
"""If at least this share of the cabled ports is above a counter's threshold, the cause is in the whole fabric and not
in single cables. A cable is then reported only if its counter is at least :data:`OUTSTANDING` times the median of these
ports.
"""
OUTSTANDING = 10
MANY_LOST = 4
"""Number of ports without a link that the message names."""
MANY = 16
"""Up to this number of ports above a threshold, cables are reported even if the share exceeds :data:`COMMON` (in a
small fabric).
"""
BELOW_ZERO = 1 << 63
"""Smallest value at which a 64-bit counter is taken as negative (a firmware error): a port needs more than 500 years to
count that far.
"""


def _count(view: FabricView, name: str) -> np.ndarray:
    """Return a counter of every port (uint64[ports]); negative values become 0."""
    value: np.ndarray = view.fabric.counters[name]
    return np.where(value < np.uint64(BELOW_ZERO), value, np.uint64(0))


def error_counters(c: Context) -> Iterator[Finding]:
    """Report cables with an error counter above its threshold at either end, the worst first, and all congested ports
    in one finding.
    """
    if "counters" not in c.view.records:
        return
    yield from _errors(c.view)
    yield from _congestion(c.view)


def lost_links(c: Context) -> Iterator[Finding]:
    """Report ports without a link whose LinkDownedCounter is above zero. Ports that another finding names are removed
    later (:func:`softib.diags.structure.one_fault.one_each`).
    """
    view, f = c.view, c.view.fabric
    if not {"counters", "lost links"} & view.records:
        return
    downed = _count(view, "link_downed_counter")
    ports = np.flatnonzero((downed > 0) & (f.port_cable < 0) & (f.port_num > 0))
    if len(ports):
        ports = ports[np.argsort(view.port_place[ports])]
        yield links_lost({view.location(p): int(downed[p]) for p in ports.tolist()})


def links_lost(counts: dict[Location, int]) -> Finding:
    """Return the finding about ports without a link. ``counts``: LinkDownedCounter of each."""
    first = few(map(str, counts), MANY_LOST)
    return finding(
        LINK_LOST,
        counts,
        f"{first} {plural(len(counts), 'has', 'have')} no link, but had one: LinkDownedCounter is above zero",
        {"ports": len(counts), "link_downed": {str(p): n for p, n in counts.items()}},
    )


def _excess(view: FabricView, thresholds: dict[str, int]) -> np.ndarray:
    """Return the largest ratio of a counter to its threshold for each port (float64[ports]); 0 if no counter exceeds
    its threshold.
    """
    worst = np.zeros(view.fabric.sizes.ports)
    for name, most in thresholds.items():
        value = _count(view, name)
        np.maximum(worst, np.where(value > most, value / most, 0.0), out=worst)
    return worst


def _errors(view: FabricView) -> Iterator[Finding]:
    f = view.fabric
    thresholds, common = dict(THRESHOLDS), []
    cabled = max(1, int((f.port_cable >= 0).sum()))
    for name, most in THRESHOLDS.items():
        count = _count(view, name)
        above = np.flatnonzero(count > most)
        if len(above) > max(MANY, COMMON * cabled):
            usual = int(np.median(count[above]))
            thresholds[name] = OUTSTANDING * usual
            common.append((name, most, above, usual))
    yield from _cables(view, thresholds)
    for name in THRESHOLDS:
        below = np.flatnonzero(f.counters[name] >= np.uint64(BELOW_ZERO))
        if len(below):
            yield finding(
                LINK_ERROR_COUNTERS,
                map(view.location, below.tolist()),
                f"{SHORT[name]} reads {int(f.counters[name][below[0]]) - (1 << 64)} as a signed number on "
                f"{view.location(int(below[0]))}: a firmware error, ignored",
                {"counter": SHORT[name], "ports": len(below)},
                severity=Severity.INFO,
            )
    for name, most, above, usual in common:
        yield finding(
            LINK_ERROR_COUNTERS,
            map(view.location, above.tolist()),
            f"{SHORT[name]} is above {most} on {counted(len(above), 'port')}, half of them above {usual}: errors on "
            f"all ports are not the fault of a cable (reboots, multicast, counters never cleared)",
            {
                "counter": SHORT[name],
                "ports": len(above),
                "median": usual,
                "threshold": most,
                "counts": {str(view.location(p)): int(f.counters[name][p]) for p in above.tolist()},
            },
            severity=Severity.INFO,
        )


def _cables(view: FabricView, thresholds: dict[str, int]) -> Iterator[Finding]:
    f = view.fabric
    excess = _excess(view, thresholds)
    bad = np.flatnonzero(excess)
    # One finding per cable, at its worse end. Port 0 of a switch counts drops and has no cable.
    first = np.where(f.port_peer[bad] >= 0, np.minimum(bad, f.port_peer[bad]), bad)
    ends, at = np.unique(first, return_inverse=True)
    weight = np.zeros(len(ends))
    np.maximum.at(weight, at.reshape(-1), excess[bad])
    order = ends[np.lexsort((ends, -weight))]
    for port in order.tolist():
        yield _of_cable(view, port, thresholds)


def _of_cable(view: FabricView, port: int, thresholds: dict[str, int]) -> Finding:
    peer = int(view.fabric.port_peer[port])
    ends = [port] if peer < 0 or peer == port else [port, peer]
    by_port = {str(view.location(p)): _above(view, p, thresholds) for p in ends}
    text = "; ".join(
        f"{location} {', '.join(f'{name} {value}' for name, value in values.items())}"
        for location, values in by_port.items()
        if values
    )
    locations: list[Location] = [view.location(p) for p in ends]
    name = view.link_name(*ends) if len(ends) == 2 else str(locations[0])
    evidence: dict[str, Any] = {"counters": by_port, "thresholds": {SHORT[n]: t for n, t in thresholds.items()}}
    return finding(LINK_ERROR_COUNTERS, locations, f"{name}: {text} (totals since the last clear)", evidence)


def _above(view: FabricView, port: int, thresholds: dict[str, int]) -> dict[str, int]:
    row = view.fabric.counters[port]
    return {SHORT[name]: int(row[name]) for name, most in thresholds.items() if most < row[name] < BELOW_ZERO}


def _congestion(view: FabricView) -> Iterator[Finding]:
    excess = _excess(view, CONGESTION)
    rows = np.flatnonzero(excess)
    if not len(rows):
        return
    worst = rows[np.lexsort((rows, -excess[rows]))].tolist()
    by_port = {str(view.location(p)): _above(view, p, CONGESTION) for p in worst}
    most = ", ".join(f"{name} {value}" for name, value in by_port[str(view.location(worst[0]))].items())
    yield finding(
        CONGESTION_COUNTERS,
        map(view.location, worst),
        f"{counted(len(rows), 'port')} {plural(len(rows), 'has', 'have')} discarded packets or waited for credits, "
        f"most at {view.location(worst[0])}: {most} "
        "(totals since the last clear)",
        {"ports": len(rows), "counters": by_port},
    )
