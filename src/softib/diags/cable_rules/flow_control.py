"""The flow-control watchdog: no update for a VL in 400,000 symbol times (PortVLXmitFlowCtlUpdateErrors, IBA 7.9.4 and 16.1.4)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, rule, span_text
from softib.diags.finding import Severity
from softib.diags.registry import code, finding

FLOW_CONTROL_ERRORS = code(
    "flow-control-errors", Severity.ERROR, "a port got no flow-control updates from the other end in time",
    "the cable damages them, or the port at the other end hangs: look for bit errors on it, else restart the node at the other end")  # fmt: skip
UPDATES = "port_vl_xmit_flow_ctl_update_errors"
"""The sum of the VLs' counters of that attribute."""


@rule
def flow_control(case: Case) -> Iterator[Suspicion]:
    """Ports whose watchdog expired; the port at the other end, or the cable from it, is accused."""
    total = case.obs.total(UPDATES)
    for row in np.flatnonzero(total >= max(case.limits["flow_control_errors"], 1)).tolist():
        peer = int(case.ports.peer[row])
        seconds = float(case.observed_s(UPDATES)[row])
        yield Suspicion(
            finding(FLOW_CONTROL_ERRORS, case.ends(peer if peer >= 0 else row),
                    f"{case.link(row)}: {case.location(row)} missed flow-control updates {int(total[row]):,} times in {span_text(seconds)}",
                    {"PortVLXmitFlowCtlUpdateErrors": int(total[row]), "observed_s": round(seconds, 3),
                     "source": case.limits.of("flow_control_errors").source, **case.when(np.array([row]), UPDATES)}),
            peer if peer >= 0 else row, 0.9,
        )  # fmt: skip
