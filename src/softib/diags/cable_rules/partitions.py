"""Packets of a P_Key that a port has not (PortRcvConstraintErrors, PortXmitConstraintErrors; IBA
10.9.4, 16.1.3.5): who knocks, and where."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, rule, span_text
from softib.diags.finding import Severity
from softib.diags.registry import code, finding

PARTITION_VIOLATIONS = code(
    "partition-violations",
    Severity.WARNING,
    "a host sends packets of a partition that it is no member of",
    "compare the host's P_Keys with partitions.conf; traps 257 and 259 name the P_Key and the queue pairs",
)
RECEIVED, SENT = "port_rcv_constraint_errors", "port_xmit_constraint_errors"


@rule
def constraint_errors(case: Case) -> Iterator[Suspicion]:
    """A switch's port that received such packets names the node behind it as the sender; one that
    would have sent them names the node behind it as the target."""
    least = max(case.limits["constraint_errors"], 1)
    for counter, verb in (
        (RECEIVED, "sends packets of a foreign partition"),
        (SENT, "is sent packets of a foreign partition"),
    ):
        total = case.obs.total(counter)
        for row in np.flatnonzero(total >= least).tolist():
            peer = int(case.ports.peer[row])
            inside = bool(case.ports.switch[row]) and peer >= 0
            who = peer if inside else row
            if not inside:
                verb = (
                    "received packets of a foreign partition"
                    if counter == RECEIVED
                    else "would have sent packets of a foreign partition"
                )
            seconds = float(case.observed_s(counter)[row])
            yield Suspicion(
                finding(
                    PARTITION_VIOLATIONS,
                    case.ends(who),
                    f"{case.location(who)} {verb}: {int(total[row]):,} in {span_text(seconds)}, dropped at "
                    f"{case.location(row)}",
                    {
                        "counter": counter,
                        "packets": int(total[row]),
                        "observed_s": round(seconds, 3),
                        "source": case.limits.of("constraint_errors").source,
                        **case.when(np.array([row]), counter),
                    },
                ),
                who,
                0.95,
                cable=False,
            )
