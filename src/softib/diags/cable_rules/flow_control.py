"""The flow-control watchdog: no update for a VL in 400,000 symbol times
(PortVLXmitFlowCtlUpdateErrors, IBA 7.9.4 and 16.1.4).

Its fields are 2 bits a VL, so they soon stand at their largest value. A watchdog that expires has
the link recover: a port whose counter stands there while its link goes on recovering is counted as
one that misses updates still.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, rule, span_text
from softib.diags.finding import Severity
from softib.diags.registry import code, finding

__all__ = ["starved"]

FLOW_CONTROL_ERRORS = code(
    "flow-control-errors",
    Severity.ERROR,
    "a port got no flow-control updates from the other end in time",
    "the cable damages them, or the port at the other end hangs: look for bit errors on it, else restart the node "
    "at the other end",
)
UPDATES, RECOVERY = "port_vl_xmit_flow_ctl_update_errors", "link_error_recovery_counter"
"""The sum of the VLs' counters of that attribute; recoveries of the link."""


def starved(case: Case) -> np.ndarray:
    """Ports whose watchdog expired while they were observed (bool[n])."""
    counted = case.obs.total(UPDATES) >= max(case.limits["flow_control_errors"], 1)
    on = case.stands(UPDATES) & (case.column(RECOVERY) > 0)
    return np.asarray(counted | case.arrived(UPDATES).any(axis=0) | on.any(axis=0))


@rule
def flow_control(case: Case) -> Iterator[Suspicion]:
    """Ports whose watchdog expired; the port at the other end, or the cable from it, is accused."""
    total = case.obs.total(UPDATES)
    for row in np.flatnonzero(starved(case)).tolist():
        peer = int(case.ports.peer[row])
        least = bool(case.stands(UPDATES)[:, row].any())
        missed = max(int(total[row]), 1)
        seconds = float((case.span_s[:, row] * (case.known(UPDATES) | case.stands(UPDATES))[:, row]).sum())
        yield Suspicion(
            finding(
                FLOW_CONTROL_ERRORS,
                case.ends(peer if peer >= 0 else row),
                f"{case.link(row)}: {case.location(row)} missed flow-control updates {missed:,} "
                f"times{' or more' if least else ''} in {span_text(seconds)}"
                f", {int(case.obs.total(RECOVERY)[row]):,} recoveries of the link",
                {
                    "PortVLXmitFlowCtlUpdateErrors": missed,
                    "stands_at_largest_value": least,
                    "LinkErrorRecoveryCounter": int(case.obs.total(RECOVERY)[row]),
                    "observed_s": round(seconds, 3),
                    "source": case.limits.of("flow_control_errors").source,
                    **case.when(np.array([row]), UPDATES),
                },
            ),
            peer if peer >= 0 else row,
            0.9,
        )
