"""Finds saturated error counters: counters of 4, 8, 16 or 32 bits stop at their largest value until they are reset (IBA
16.1.3.5). If a counter saturated during the observation, errors occurred: its cable is reported, although the number of
errors is unknown. A counter that was saturated earlier only hides further errors of the port; one finding reports all
these counters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion
from softib.diags.cable_rules.fec_margin import BINS
from softib.diags.cables.counters import SHORT
from softib.diags.finding import Severity, code, few, finding
from softib.plural import counted

COUNTERS_UNKNOWN = code(
    "counters-unknown",
    Severity.WARNING,
    "the error counters of linked ports are unknown",
    "read them: these ports did not answer, were cleared or restarted between the readings, or the tool skipped "
    "them; a bad cable there is not detected",
)
FALLS = "link_downed_counter"
ERRORS = tuple(name for name in SHORT if name not in ("port_xmit_wait", "port_xmit_discards", "vl15_dropped"))
"""Error counters. If none of them is known for a linked port, :func:`unknown_counters` reports the port."""


def unknown_counters(case: Case) -> Iterator[Suspicion]:
    """Report, in one finding, all linked ports without a known error counter."""
    linked = case.best_rate > 0
    counting = _known(case)
    rows = np.flatnonzero(linked & ~counting & ~_away(case))
    if not len(rows) or not counting.any():  # no port has a known counter: nothing to report
        return
    ports = [case.location(r) for r in rows.tolist()]
    yield Suspicion(
        finding(
            COUNTERS_UNKNOWN,
            ports,
            f"{len(rows):,} of {int(linked.sum()):,} linked ports have no known error counter, so a bad cable there "
            f"is not detected: {few(map(str, ports))}",
            {"ports": len(rows), "of": int(linked.sum())},
        ),
        -1,
        1.0,
        cable=False,
    )


def _away(case: Case) -> np.ndarray:
    """Return the ports of nodes that, according to the other ends of their cables, restarted or disappeared, and the
    ports that are reachable only through such nodes (bool[n]).
    """
    peer = np.asarray(case.ports.peer)
    there = np.maximum(peer, 0)
    fell = np.where(peer >= 0, case.obs.total(FALLS)[there] > 0, False)
    away = np.bincount(case.node, fell, minlength=int(case.node.max(initial=0)) + 1) > 0
    return np.asarray(away[case.node] | np.where(peer >= 0, away[case.node[there]], False))


def _known(case: Case) -> np.ndarray:
    counting = np.zeros(case.n, bool)
    for name in ERRORS:
        counting |= (case.known(name) | case.stands(name)).any(axis=0)
    return counting


def with_known(case: Case, s: Suspicion) -> Suspicion:
    """Return the suspicion with the known error counters of each end in its evidence. If an end has no known counter,
    the message states this."""
    if not s.cable or s.port < 0:
        return s
    peer = int(case.ports.peer[s.port])
    by_end, message = {}, s.finding.message
    for row in (s.port, *([peer] if peer >= 0 else ())):
        names = [SHORT[n] for n in ERRORS if case.known(n)[:, row].any()]
        by_end[str(case.location(row))] = names
        if not names:
            message += f"; no error counter of {case.location(row)} is known"
    return replace(s, finding=replace(s.finding, message=message, evidence={**s.finding.evidence, "known": by_end}))


COUNTER_OVERFLOW = code(
    "counter-overflow",
    Severity.WARNING,
    "an error counter saturated while it was observed, and counts no further",
    "check the cable, then reset the counters of the port (perfquery -R): until then its errors are not seen",
)
COUNTERS_STUCK = code(
    "counters-stuck",
    Severity.WARNING,
    "error counters are saturated: new errors are not seen",
    "reset them (perfquery -R LID PORT, ibclearerrors for all), then watch them; a port that is never reset hides a "
    "bad cable",
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
"""Error counters that a bad cable increases."""
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
"""Error counters that have other causes than a bad cable. Counters of data and packets are not included, because their
saturation hides no error.
"""

BY_HISTOGRAM = {"port_fec_corrected_symbol_ctr", "port_fec_correctable_block_ctr"}
"""Counters whose value also follows from the histogram of codewords, which has 64 bits."""


def full_counters(case: Case) -> Iterator[Suspicion]:
    """Report ports with a link error counter that saturated during the observation."""
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
                f"{case.link(row)}: {', '.join(names)} of {case.location(row)} saturated and count no further",
                {
                    "counters": names,
                    "first_ns": int(case.obs.begin_ns[at[0], row]),
                    "last_ns": int(case.obs.end_ns[at[-1], row]),
                },
            ),
            row,
            0.9,
        )


def stuck_counters(case: Case) -> Iterator[Suspicion]:
    """Report, in one finding, all ports with error counters that are saturated at the end of the observation."""
    last = {name: _last(case, name) for name in _there(case, (*OF_CABLE, *OF_OTHERS))}
    by_bins = case.known(BINS[0]).any(axis=0)  # these ports have a histogram, which does not saturate
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
    # A counter that was already saturated at the first reading is not reported as new.
    news = any(case.arrived(name)[:, rows].any() for name in last)
    severity = Severity.WARNING if news else Severity.INFO
    yield Suspicion(
        finding(COUNTERS_STUCK, map(case.location, worst), text, evidence, severity=severity), -1, 1.0, cable=False
    )


def _there(case: Case, names: tuple[str, ...]) -> list[str]:
    return [n for n in names if PREFIX + n in case.obs.level]


def _last(case: Case, name: str) -> np.ndarray:
    """Return whether the counter of each port was saturated in the last reading (bool[n])."""
    level = case.level(PREFIX + name)
    read = ~np.isnan(level)
    at = level.shape[0] - 1 - np.argmax(read[::-1], axis=0)
    return np.asarray(read.any(axis=0) & (level[at, np.arange(case.n)] >= 1))
