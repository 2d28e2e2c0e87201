"""Finds ports that receive damaged packets (PortRcvErrors, LocalLinkIntegrityErrors), and receive buffers that overrun
(ExcessiveBufferOverrunErrors). PortRcvRemotePhysicalErrors is ignored: it counts packets that were damaged on an
earlier cable of their path (EBP, IBA 7.3).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, blame, span_text
from softib.diags.finding import Severity, code, finding
from softib.plural import counted, plural

SMP_DROPS = code(
    "smp-drops",
    Severity.INFO,
    "a port dropped subnet management packets",
    "look for two managers, a tool that sends too many requests, or a manager that sweeps continuously; the device "
    "answers more slowly than requests arrive",
)
DROPPED = "vl15_dropped"


def vl15_drops(case: Case) -> Iterator[Suspicion]:
    """Report, in one finding, all ports that dropped more SMPs than ibqueryerrors tolerates, the port with the most
    drops first.
    """
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
            f"{counted(len(rows), 'port')} dropped SMPs, most at {case.location(int(worst[0]))}: "
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


PARTITION_VIOLATIONS = code(
    "partition-violations",
    Severity.WARNING,
    "a host sends packets of a partition of which it is not a member",
    "compare the host's P_Keys with partitions.conf; traps 257 and 259 name the P_Key and the queue pairs",
)
RECEIVED, SENT = "port_rcv_constraint_errors", "port_xmit_constraint_errors"


def constraint_errors(case: Case) -> Iterator[Suspicion]:
    """Report packets with a wrong P_Key. If a switch port received such packets, the node connected to it sent them. If
    a switch port discarded them on egress, they were addressed to the node connected to it.
    """
    least = max(case.limits["constraint_errors"], 1)
    for counter, of_peer, of_port in (
        (RECEIVED, "sends packets of a foreign partition", "received packets of a foreign partition"),
        (SENT, "is sent packets of a foreign partition", "would have sent packets of a foreign partition"),
    ):
        total = case.obs.total(counter)
        for row in np.flatnonzero(total >= least).tolist():
            peer = int(case.ports.peer[row])
            inside = bool(case.ports.switch[row]) and peer >= 0
            who = peer if inside else row
            verb = of_peer if inside else of_port
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


FLOW_CONTROL_ERRORS = code(
    "flow-control-errors",
    Severity.ERROR,
    "a port did not receive flow-control updates from the other end in time",
    "the cable damages them, or the port at the other end hangs: check for bit errors, otherwise restart the node "
    "at the other end",
)
UPDATES, RECOVERIES = "port_vl_xmit_flow_ctl_update_errors", "link_error_recovery_counter"
"""Two counters: the sum of the counters by VL of the attribute PortFlowCtlCounters, and the number of link recoveries.
"""


def starved(case: Case) -> np.ndarray:
    """Return the ports whose flow-control watchdog expired during the observation (bool[n])."""
    counted = case.obs.total(UPDATES) >= max(case.limits["flow_control_errors"], 1)
    on = case.stands(UPDATES) & (case.column(RECOVERIES) > 0)
    return np.asarray(counted | case.arrived(UPDATES).any(axis=0) | on.any(axis=0))


def flow_control(case: Case) -> Iterator[Suspicion]:
    """Report ports whose flow-control watchdog expired. The port at the other end, or the cable, is at fault."""
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
                f", {int(case.obs.total(RECOVERIES)[row]):,} recoveries of the link",
                {
                    "PortVLXmitFlowCtlUpdateErrors": missed,
                    "stands_at_largest_value": least,
                    "LinkErrorRecoveryCounter": int(case.obs.total(RECOVERIES)[row]),
                    "observed_s": round(seconds, 3),
                    "source": case.limits.of("flow_control_errors").source,
                    **case.when(np.array([row]), UPDATES),
                },
            ),
            peer if peer >= 0 else row,
            0.9,
        )


LINK_PACKET_ERRORS = code(
    "link-packet-errors",
    Severity.ERROR,
    "packets arrive damaged over a cable, or its link recovers repeatedly",
    "clean or replace cable and transceivers; for malformed packets, check the sender's firmware",
)
RECEIVE_OVERRUNS = code(
    "receive-buffer-overruns",
    Severity.ERROR,
    "a port loses packets in its receive buffer although it granted credits",
    "not the cable: check firmware and hardware of the port that counts them",
)
ERRORS, PACKETS, OVERRUN_DETAIL = "port_rcv_errors", "port_rcv_pkts", "port_buffer_overrun_errors"
INTEGRITY, OVERRUN, RECOVERY = (
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "link_error_recovery_counter",
)

BITS_A_WORD = 40.0
"""Number of bits on the line for four bytes of data with 8b/10b coding."""


def packet_errors(case: Case) -> Iterator[Suspicion]:
    """Report cables that lost a larger share of packets than the threshold allows, with more physical errors than their
    threshold, or with link recoveries.
    """
    lost = case.obs.total(ERRORS).astype(float)
    overrun = case.obs.total(OVERRUN_DETAIL).astype(float)
    lost = np.maximum(lost - overrun, 0.0)
    packets = case.obs.total(PACKETS).astype(float)
    integrity = case.obs.total(INTEGRITY).astype(float)
    minutes = case.span_s / 60.0
    per_minute = np.divide(case.column(RECOVERY), minutes, out=np.zeros_like(minutes), where=minutes > 0)
    recovers = per_minute.max(axis=0, initial=0.0) > case.limits["recoveries_per_minute"]
    expired = starved(case)
    # An expired flow-control watchdog causes a link recovery, which flow_control() reports.
    recovers &= ~(expired | expired[np.maximum(case.ports.peer, 0)] & (case.ports.peer >= 0))
    # Long packets are damaged more often. Losses are not reported if the received bytes explain them at the tolerated
    # bit error ratio.
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
        f"{case.link(row)}: {int(lost[row]):,}{of} {plural(int(lost[row]), 'packet')} arrived damaged at "
        f"{case.location(row)}, {counted(int(recoveries[row]), 'recovery')}, in {span_text(seconds)}; {reason}"
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


def overruns(case: Case) -> Iterator[Suspicion]:
    """Report ports whose receive buffer overran. The receiver is at fault, because a sender that obeys flow control
    cannot cause an overrun (IBA 7.9).
    """
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
