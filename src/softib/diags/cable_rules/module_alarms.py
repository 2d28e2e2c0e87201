"""Optical modules beyond their own alarm thresholds, and which part is bad: the module that sends,
the fibre, or the end that receives.

A module measures what it sends and what it receives (SFF-8636, CMIS), so a direction has two
readings. Little light here and an alarm of what the other end sends accuses that laser; little
light here while the other end sends well accuses what is between, connector first; in both
directions, the cable.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion, rule
from softib.diags.cable_rules.temperature import last_known
from softib.diags.finding import Severity
from softib.diags.registry import code, finding

__all__ = ["module_alarms"]

MODULE_RX_POWER = code(
    "module-rx-power",
    Severity.ERROR,
    "an optical module receives less light than its own alarm threshold",
    "clean and seat both connectors of that fibre; then replace the fibre, and the module that receives",
)
MODULE_TX_POWER = code(
    "module-tx-power",
    Severity.ERROR,
    "the laser of an optical module sends less light than its own alarm threshold",
    "replace this module; the other end and the fibre are not to blame",
)
MODULE_TEMPERATURE = code(
    "module-temperature",
    Severity.ERROR,
    "an optical module is warmer than its own alarm threshold",
    "look at the air flow and the fans there; the module may switch its lasers off",
)


@rule
def module_alarms(case: Case) -> Iterator[Suspicion]:
    """Ports whose module reads beyond an alarm threshold that it states itself."""
    rx, rx_low = last_known(case, "module_rx_power_dbm"), last_known(case, "module_rx_power_low_dbm")
    tx, tx_low = last_known(case, "module_tx_power_dbm"), last_known(case, "module_tx_power_low_dbm")
    warm, warm_high = last_known(case, "module_temperature_c"), last_known(case, "module_temperature_high_c")
    peer = np.asarray(case.ports.peer, np.int64)
    dark, weak = rx < rx_low, tx < tx_low
    for row in np.flatnonzero(weak).tolist():
        yield _weak(case, row, tx[row], tx_low[row], rx)
    for row in np.flatnonzero(dark).tolist():
        other = int(peer[row])
        if other >= 0 and weak[other]:
            continue  # the laser at the other end explains it
        if other >= 0 and dark[other] and other < row and not weak[row]:
            continue  # the cable is named once
        yield _dark(case, row, other, rx, rx_low, tx, bool(other >= 0 and dark[other]))
    for row in np.flatnonzero(warm > warm_high).tolist():
        yield Suspicion(
            finding(
                MODULE_TEMPERATURE,
                case.ends(row),
                f"{case.location(row)}: its module is at {warm[row]:.0f} °C, above its own alarm threshold of "
                f"{warm_high[row]:.0f} °C",
                {
                    "temperature_c": float(warm[row]),
                    "alarm_c": float(warm_high[row]),
                    "source": "the module's own threshold (SFF-8636, CMIS)",
                },
            ),
            row,
            0.95,
            cable=False,
        )


def _weak(case: Case, row: int, tx: float, low: float, rx: np.ndarray) -> Suspicion:
    other = int(case.ports.peer[row])
    bias, high = last_known(case, "module_tx_bias_ma")[row], last_known(case, "module_tx_bias_high_ma")[row]
    seen = f"; {case.location(other)} receives {rx[other]:.1f} dBm" if other >= 0 and np.isfinite(rx[other]) else ""
    driven = f", at {bias:.1f} mA, above its alarm of {high:.1f} mA" if bias > high else ""
    return Suspicion(
        finding(
            MODULE_TX_POWER,
            case.ends(row),
            f"{case.location(row)}: its laser sends {tx:.1f} dBm, below its own alarm threshold of {low:.1f} "
            f"dBm{driven}{seen}: this module",
            {
                "tx_power_dbm": float(tx),
                "alarm_dbm": float(low),
                "tx_bias_ma": _number(bias),
                "received_dbm": _number(rx[other]) if other >= 0 else None,
                "blame": "module that sends",
                "source": "the module's own threshold (SFF-8636, CMIS)",
            },
        ),
        row,
        0.98,
    )


def _dark(
    case: Case, row: int, other: int, rx: np.ndarray, rx_low: np.ndarray, tx: np.ndarray, both: bool
) -> Suspicion:
    sent = f"{case.location(other)} sends {tx[other]:.1f} dBm" if other >= 0 and np.isfinite(tx[other]) else ""
    if both:
        blame, reason = "cable", "both directions lack light: the cable, or a connector of both fibres"
    elif sent:
        blame, reason = (
            "fibre or receiver",
            f"{sent}, and the light is lost on the way: connector, fibre, or the receiver here",
        )
    else:
        blame, reason = (
            "unknown",
            "the other end tells nothing of what it sends: its laser, the fibre, or the receiver here",
        )
    weakest = last_known(case, "module_rx_lane")[row]
    by_number = f" on lane {weakest:.0f}" if np.isfinite(weakest) else ""
    return Suspicion(
        finding(
            MODULE_RX_POWER,
            case.ends(row),
            f"{case.location(row)}: its module receives {rx[row]:.1f} dBm{by_number}, below its own alarm threshold "
            f"of {rx_low[row]:.1f} dBm; {reason}",
            {
                "rx_power_dbm": float(rx[row]),
                "alarm_dbm": float(rx_low[row]),
                "sent_dbm": _number(tx[other]) if other >= 0 else None,
                "lost_db": _number(tx[other] - rx[row]) if other >= 0 else None,
                "blame": blame,
                "source": "the module's own threshold (SFF-8636, CMIS)",
            },
        ),
        row,
        0.97 if sent or both else 0.9,
    )


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
