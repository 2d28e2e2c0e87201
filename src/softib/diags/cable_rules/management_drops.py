"""SMPs that a port dropped (VL15Dropped): managers or tools ask faster than the device answers, or
a manager loops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, rule, span_text
from softib.diags.finding import Severity
from softib.diags.registry import code, finding
from softib.plural import counted

SMP_DROPS = code(
    "smp-drops",
    Severity.INFO,
    "a port dropped subnet management packets",
    "look for two managers, a tool that asks too fast, or a manager that sweeps without end; the device answers "
    "slower than it is asked",
)
DROPPED = "vl15_dropped"


@rule
def vl15_drops(case: Case) -> Iterator[Suspicion]:
    """One finding for all ports that dropped more SMPs than ibqueryerrors passes over, the worst
    first."""
    total = case.obs.total(DROPPED)
    rows = np.flatnonzero(total > case.limits["vl15_dropped"])
    if not len(rows):
        return
    worst = rows[np.argsort(-total[rows].astype(np.float64), kind="stable")]
    seconds = float(case.observed_s(DROPPED)[worst[0]])
    yield Suspicion(
        finding(
            SMP_DROPS,
            map(case.location, worst.tolist()),
            f"{counted(len(rows), 'port')} dropped SMPs, most of all {case.location(int(worst[0]))}: "
            f"{int(total[worst[0]]):,} in {span_text(seconds)}",
            {
                "ports": len(rows),
                "counters": {str(case.location(r)): int(total[r]) for r in worst.tolist()},
                "observed_s": round(seconds, 3),
                "source": case.limits.of("vl15_dropped").source,
                **case.when(worst, DROPPED),
            },
        ),
        int(worst[0]),
        0.9,
        cable=False,
    )
