"""Packets that arrive damaged (PortRcvErrors, LocalLinkIntegrityErrors) and buffers that overrun
(ExcessiveBufferOverrunErrors).

PortRcvRemotePhysicalErrors accuse nobody here: they are of packets that a cable further back
damaged (EBP, IBA 7.3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.blame import blame
from softib.diags.cable_rules.case import Case, Suspicion, rule, span_text
from softib.diags.cable_rules.flow_control import starved
from softib.diags.finding import Severity
from softib.diags.registry import code, finding
from softib.plural import counted

LINK_PACKET_ERRORS = code(
    "link-packet-errors",
    Severity.ERROR,
    "packets arrive damaged over a cable, or its link recovers again and again",
    "clean or replace cable and transceivers; malformed packets: look at the sender's firmware",
)
RECEIVE_OVERRUNS = code(
    "receive-buffer-overruns",
    Severity.ERROR,
    "a port loses packets in its own receive buffer although it gave credits",
    "not the cable: firmware or hardware of the port that counts them",
)
ERRORS, PACKETS, OVERRUN_DETAIL = "port_rcv_errors", "port_rcv_pkts", "port_buffer_overrun_errors"
INTEGRITY, OVERRUN, RECOVERY = (
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "link_error_recovery_counter",
)

BITS_A_WORD = 40.0
"""Line bits of four octets, 8b/10b."""


@rule
def packet_errors(case: Case) -> Iterator[Suspicion]:
    """Cables over which more packets were lost than the drop rate allows, whose physical errors
    passed their threshold, or that recover."""
    lost = case.obs.total(ERRORS).astype(float)
    overrun = case.obs.total(OVERRUN_DETAIL).astype(float)
    lost = np.maximum(lost - overrun, 0.0)
    packets = case.obs.total(PACKETS).astype(float)
    integrity = case.obs.total(INTEGRITY).astype(float)
    minutes = case.span_s / 60.0
    per_minute = np.divide(case.column(RECOVERY), minutes, out=np.zeros_like(minutes), where=minutes > 0)
    recovers = per_minute.max(axis=0, initial=0.0) > case.limits["recoveries_per_minute"]
    expired = starved(case)
    # A flow-control watchdog that expires has the link recover: that is another finding's.
    recovers &= ~(expired | expired[np.maximum(case.ports.peer, 0)] & (case.ports.peer >= 0))
    # A packet is as long as it is: what the floor of the bit error ratio spoils of the octets that
    # came is no loss to speak of either.
    spared = np.maximum(
        packets * case.limits["packet_loss"], case.obs.total("port_rcv_data") * BITS_A_WORD * case.limits["ber_floor"]
    )
    maybe = np.flatnonzero(lost >= case.limits["packets_lost_least"])
    dropped = np.zeros(case.n, bool)
    dropped[[r for r in maybe.tolist() if case.too_many(lost[r], spared[r])[0]]] = True
    integral = integrity >= max(case.limits["integrity_errors"], 1)
    bad = np.flatnonzero(dropped | integral | recovers)
    for cable in np.unique(case.cable[bad]).tolist():
        yield _of_cable(case, int(cable), lost, packets, integrity)


def _of_cable(case: Case, cable: int, lost: np.ndarray, packets: np.ndarray, integrity: np.ndarray) -> Suspicion:
    ends = [r for r in (cable, int(case.ports.peer[cable])) if r >= 0]
    row = max(ends, key=lambda r: (lost[r], integrity[r]))
    accused, reason = blame(case, row, lost, case.known(ERRORS))
    recoveries = case.obs.total(RECOVERY)
    seconds = float(case.observed_s(ERRORS)[row])
    counts = {
        str(case.location(r)): {
            "PortRcvErrors": int(lost[r]),
            "LocalLinkIntegrityErrors": int(integrity[r]),
            "LinkErrorRecoveryCounter": int(recoveries[r]),
            "PortRcvPkts": int(packets[r]),
        }
        for r in ends
    }
    of = f" of {int(packets[row]):,}" if case.known(PACKETS)[:, row].any() else ""
    text = (
        f"{case.link(row)}: {int(lost[row]):,}{of} packets arrived damaged at {case.location(row)}, "
        f"{int(recoveries[row]):,} recoveries, in {span_text(seconds)}; {reason}"
    )
    return Suspicion(
        finding(
            LINK_PACKET_ERRORS,
            case.ends(accused),
            text,
            {
                "counters": counts,
                "observed_s": round(seconds, 3),
                "limit": case.limits["packet_loss"],
                "source": case.limits.of("packet_loss").source,
                "direction": reason,
                **case.when(np.array(ends), ERRORS),
            },
        ),
        accused,
        0.99,
    )


@rule
def overruns(case: Case) -> Iterator[Suspicion]:
    """Ports whose receive buffer overran: a correct sender cannot do that (IBA 7.9), so the
    receiver is to blame."""
    total = case.obs.total(OVERRUN).astype(float)
    detail = case.obs.total(OVERRUN_DETAIL).astype(float)
    least = max(case.limits["overrun_errors"], 1)
    for row in np.flatnonzero((total >= least) | (detail >= least)).tolist():
        seconds = float(max(case.observed_s(OVERRUN)[row], case.observed_s(OVERRUN_DETAIL)[row]))
        yield Suspicion(
            finding(
                RECEIVE_OVERRUNS,
                case.ends(row),
                f"{case.location(row)} lost {counted(int(max(total[row], detail[row])), 'packet')} in its receive "
                f"buffer in {span_text(seconds)}",
                {
                    "ExcessiveBufferOverrunErrors": int(total[row]),
                    "PortBufferOverrunErrors": int(detail[row]),
                    "observed_s": round(seconds, 3),
                    "source": case.limits.of("overrun_errors").source,
                    **case.when(np.array([row]), OVERRUN_DETAIL if detail[row] else OVERRUN),
                },
            ),
            row,
            0.99,
        )
