"""Error counters that stand at the largest value of their field: 4, 8, 16 or 32 bits that count no
further until somebody resets them (IBA 16.1.3.5).

One that got there while it was observed counted: its cable is accused, although nobody knows how
often. One that stood there already says only that the port is blind; all of those are one finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, rule
from softib.diags.cable_rules.fec_histogram import BINS
from softib.diags.finding import Severity
from softib.diags.registry import code, finding
from softib.plural import counted

COUNTER_OVERFLOW = code(
    "counter-overflow",
    Severity.WARNING,
    "an error counter reached its largest value while it was observed, and counts no further",
    "look at the cable, then reset the counters of the port (perfquery -R): until then its errors are not seen",
)
COUNTERS_STUCK = code(
    "counters-stuck",
    Severity.WARNING,
    "error counters stand at their largest value: what happens there is not seen",
    "reset them (perfquery -R LID PORT, ibclearerrors for all), then watch what they count; a port that is never "
    "reset hides a bad cable",
)
PREFIX = "stuck_"
OF_CABLE = (
    "symbol_error_counter",
    "link_error_recovery_counter",
    "link_downed_counter",
    "port_rcv_errors",
    "port_local_physical_errors",
    "local_link_integrity_errors",
)
"""What a bad cable lets count."""
OF_OTHERS = (
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_discards",
    "port_xmit_constraint_errors",
    "port_rcv_constraint_errors",
    "excessive_buffer_overrun_errors",
    "port_buffer_overrun_errors",
    "port_malformed_packet_errors",
    "port_dlid_mapping_errors",
    "port_vl_xmit_flow_ctl_update_errors",
    "vl15_dropped",
    "qp1_dropped",
    "port_xmit_wait",
    "port_fec_corrected_symbol_ctr",
    "port_fec_correctable_block_ctr",
    "port_fec_uncorrectable_block_ctr",
)
"""What other causes do. Counters of data and packets are not here: what stands there is no error
that is missed."""

BY_HISTOGRAM = {"port_fec_corrected_symbol_ctr", "port_fec_correctable_block_ctr"}
"""What the histogram of codewords tells too, in 64 bits."""


@rule
def overflow(case: Case) -> Iterator[Suspicion]:
    """Ports of which a counter of the link arrived at its largest value."""
    arrived = {name: case.arrived(name) for name in _there(case, OF_CABLE)}
    if not arrived:
        return
    for row in np.flatnonzero(np.any([a.any(axis=0) for a in arrived.values()], axis=0)).tolist():
        names = [name for name, a in arrived.items() if a[:, row].any()]
        at = np.flatnonzero(np.any([arrived[n][:, row] for n in names], axis=0))
        yield Suspicion(
            finding(
                COUNTER_OVERFLOW,
                case.ends(row),
                f"{case.link(row)}: {', '.join(names)} of {case.location(row)} reached the largest value and count "
                f"no further",
                {
                    "counters": names,
                    "first_ns": int(case.obs.begin_ns[at[0], row]),
                    "last_ns": int(case.obs.end_ns[at[-1], row]),
                },
            ),
            row,
            0.9,
        )


@rule
def stuck(case: Case) -> Iterator[Suspicion]:
    """One finding for all ports with error counters that stand at the end of the time."""
    last = {name: _last(case, name) for name in _there(case, (*OF_CABLE, *OF_OTHERS))}
    by_bins = case.known(BINS[0]).any(axis=0)  # the histogram of codewords counts on
    for name in BY_HISTOGRAM & set(last):
        last[name] &= ~by_bins
    count = np.sum([*last.values(), np.zeros(case.n, bool)], axis=0)
    rows = np.flatnonzero(count)
    if not len(rows):
        return
    worst = rows[np.argsort(-count[rows], kind="stable")].tolist()
    evidence: dict[str, Any] = {
        "ports": len(rows),
        "counters": {name: int(s.sum()) for name, s in last.items() if s.any()},
        "worst": {str(case.location(r)): [name for name, s in last.items() if s[r]] for r in worst},
    }
    first = case.location(worst[0])
    text = (
        f"error counters stand at their largest value, {int(count.sum()):,} in all, of "
        f"{counted(len(rows), 'port')}: {evidence['worst'][str(first)][0]} of "
        f"{first}{', …' if count.sum() > 1 else ''}"
    )
    yield Suspicion(finding(COUNTERS_STUCK, map(case.location, worst), text, evidence), -1, 1.0, cable=False)


def _there(case: Case, names: tuple[str, ...]) -> list[str]:
    return [n for n in names if PREFIX + n in case.obs.level]


def _last(case: Case, name: str) -> np.ndarray:
    """Stood when it was last read (bool[n])."""
    level = case.level(PREFIX + name)
    known = ~np.isnan(level)
    at = level.shape[0] - 1 - np.argmax(known[::-1], axis=0)
    return np.asarray(known.any(axis=0) & (level[at, np.arange(case.n)] >= 1))
