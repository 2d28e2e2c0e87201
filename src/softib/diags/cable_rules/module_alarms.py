"""Finds optical modules beyond their alarm thresholds, and locates the fault: the transmitting module, the fibre, or
the receiving end.

A module measures its transmitted and received power (SFF-8636, CMIS), so each direction has two readings. Low received
power with a transmit alarm at the other end indicates a bad laser there. Low received power with good transmit power
indicates a fault between the ends, most likely a connector. If both directions receive low power, the cable is at
fault.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.case import Case, Suspicion
from softib.diags.finding import Severity, code, finding

__all__ = ["module_alarms"]


HOT_MODULE = code(
    "hot-module",
    Severity.WARNING,
    "a cable's module is hot, or became much warmer",
    "check the air flow and the fans; a hot module causes bit errors and ages",
)
HOT_SWITCH = code(
    "hot-modules",
    Severity.WARNING,
    "most modules of a switch are hot, or became much warmer together",
    "check the fans and filters of the switch, and sources of warm air; no module is at fault",
)
WARMER = code(
    "modules-warmer",
    Severity.INFO,
    "most modules of a fabric's hosts, or of its switches, are hot or became much warmer together",
    "check the cooling of the room, or the load; a warning if most are at the limit",
)
LEVEL = "module_temperature_c"
MOST = 0.5
"""If more than this share of the modules of a switch (or of all hosts, or of all switches) are hot, a single module is
not the cause.
"""


def last_known(case: Case, level: str) -> np.ndarray:
    """Return the last known value of ``level`` for each port (float64[n]); NaN if no value is known."""
    values = case.level(level)
    read = ~np.isnan(values)
    if not len(values):
        return np.full(case.n, np.nan)
    return np.asarray(values[len(values) - 1 - read[::-1].argmax(axis=0), np.arange(case.n)])


def module_temperatures(case: Case) -> Iterator[Suspicion]:
    """Report ports whose module is now at the temperature limit, or has warmed above its lowest observed temperature by
    the limit for increases. :func:`module_alarms` reports hot modules that have an alarm threshold.
    """
    values = case.level(LEVEL)
    measured = ~np.isnan(values).all(axis=0) if len(values) else np.zeros(case.n, bool)
    if not measured.any():
        return
    last, alarm = last_known(case, LEVEL), last_known(case, "module_temperature_high_c")
    hot = (last >= case.limits["temperature"]) & np.isnan(alarm)
    rose = last - np.fmin.reduce(values, axis=0)
    left = measured & (hot | (rose >= case.limits["temperature_rise"])) & ~(last > alarm)
    for switch in (False, True):
        group = measured & (np.asarray(case.ports.switch) == switch)
        if _together(case, group, left):
            yield _everywhere(case, group, left, last, rose, "switches" if switch else "hosts")
            left &= ~group | _beyond(case, group, hot, last, rose)
    for n in np.unique(case.node[left & np.asarray(case.ports.switch)]).tolist():
        group = measured & (case.node == n)
        if _together(case, group, left):
            yield _of_switch(case, group, left, last, rose)
            left &= ~group | _beyond(case, group, hot, last, rose)
    for row in np.flatnonzero(left).tolist():
        yield _of_module(case, row, values[:, row], float(rose[row]))


def _together(case: Case, group: np.ndarray, left: np.ndarray) -> bool:
    """Return whether most modules of ``group`` are hot, and the group is large enough for a common finding."""
    count = int((group & left).sum())
    return bool(count >= case.limits["group_least"] and count > MOST * int(group.sum()))


def _beyond(case: Case, group: np.ndarray, hot: np.ndarray, last: np.ndarray, rose: np.ndarray) -> np.ndarray:
    """Return the modules whose temperature rose more than the median of ``group`` by at least the limit, and the hot
    modules that are warmer than the median by at least the limit (bool[n]).
    """
    limit = case.limits["temperature_rise"]
    return np.asarray((rose - np.median(rose[group]) >= limit) | (hot & (last - np.median(last[group]) >= limit)))


def _everywhere(
    case: Case, group: np.ndarray, left: np.ndarray, last: np.ndarray, rose: np.ndarray, devices: str
) -> Suspicion:
    text = f"{_many(group, left, last, rose)} of {devices}: the room or the load, not a single module"
    severity = Severity.WARNING if np.median(last[group]) >= case.limits["temperature"] else Severity.INFO
    evidence = _evidence(case, group, left, last, rose) | {"of": devices}
    return Suspicion(finding(WARMER, [], text, evidence, severity=severity), -1, 0.9, cable=False)


def _of_switch(case: Case, group: np.ndarray, left: np.ndarray, last: np.ndarray, rose: np.ndarray) -> Suspicion:
    row = int(np.flatnonzero(group)[0])
    text = f"{case.node_location(row)}: {_many(group, left, last, rose)}: its air flow, not a single module"
    evidence = _evidence(case, group, left, last, rose) | {
        "ports": [str(case.location(r)) for r in np.flatnonzero(group & left).tolist()]
    }
    return Suspicion(finding(HOT_SWITCH, [case.node_location(row)], text, evidence), row, 0.95, cable=False)


def _many(group: np.ndarray, left: np.ndarray, last: np.ndarray, rose: np.ndarray) -> str:
    both = group & left
    return (
        f"{int(both.sum()):,} of the {int(group.sum()):,} modules, at {np.median(last[both]):.0f} °C in the median "
        f"and {np.median(rose[both]):.0f} above their lowest value, are hot together"
    )


def _evidence(
    case: Case, group: np.ndarray, left: np.ndarray, last: np.ndarray, rose: np.ndarray
) -> dict[str, float | int | str]:
    return {
        "modules": int(group.sum()),
        "hot": int((group & left).sum()),
        "temperature_c": float(np.median(last[group])),
        "rise_c": float(np.median(rose[group])),
        "limit_c": case.limits["temperature"],
        "rise_limit_c": case.limits["temperature_rise"],
        "source": case.limits.of("temperature").source,
    }


def _of_module(case: Case, row: int, values: np.ndarray, rose: float) -> Suspicion:
    measured = values[~np.isnan(values)]
    since = f", {rose:.0f} above its lowest value" if rose >= case.limits["temperature_rise"] else ""
    return Suspicion(
        finding(
            HOT_MODULE,
            case.ends(row),
            f"{case.location(row)}: its module is at {measured[-1]:.0f} °C{since}",
            {
                "temperature_c": float(measured[-1]),
                "lowest_c": float(measured.min()),
                "highest_c": float(measured.max()),
                "limit_c": case.limits["temperature"],
                "source": case.limits.of("temperature").source,
            },
        ),
        row,
        0.9,
        cable=False,
    )


MODULE_RX_POWER = code(
    "module-rx-power",
    Severity.ERROR,
    "an optical module receives less light than its alarm threshold",
    "clean and reseat both connectors of that fibre; then replace the fibre, and the receiving module",
)
MODULE_TX_POWER = code(
    "module-tx-power",
    Severity.ERROR,
    "the laser of an optical module sends less light than its alarm threshold",
    "replace this module; the other end and the fibre are not at fault",
)
MODULE_TEMPERATURE = code(
    "module-temperature",
    Severity.ERROR,
    "an optical module is warmer than its alarm threshold",
    "check the air flow and the fans; the module may turn off its lasers",
)


def module_alarms(case: Case) -> Iterator[Suspicion]:
    """Report ports whose module is beyond one of the alarm thresholds that it states."""
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
            continue  # a weak laser at the other end explains the low power
        if other >= 0 and dark[other] and other < row and not weak[row]:
            continue  # already reported at the other end of the cable
        yield _dark(case, row, other, rx, rx_low, tx, bool(other >= 0 and dark[other]))
    for row in np.flatnonzero(warm > warm_high).tolist():
        yield Suspicion(
            finding(
                MODULE_TEMPERATURE,
                case.ends(row),
                f"{case.location(row)}: its module is at {warm[row]:.0f} °C, above its alarm threshold of "
                f"{warm_high[row]:.0f} °C",
                {
                    "temperature_c": float(warm[row]),
                    "alarm_c": float(warm_high[row]),
                    "source": "the module's threshold (SFF-8636, CMIS)",
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
            f"{case.location(row)}: its laser sends {tx:.1f} dBm, below its alarm threshold of {low:.1f} "
            f"dBm{driven}{seen}: this module",
            {
                "tx_power_dbm": float(tx),
                "alarm_dbm": float(low),
                "tx_bias_ma": _number(bias),
                "received_dbm": _number(rx[other]) if other >= 0 else None,
                "blame": "module that sends",
                "source": "the module's threshold (SFF-8636, CMIS)",
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
            f"{sent}, and the light is lost in between: connector, fibre, or the receiver here",
        )
    else:
        blame, reason = (
            "unknown",
            "the other end does not report its transmit power: its laser, the fibre, or the receiver here",
        )
    weakest = last_known(case, "module_rx_lane")[row]
    by_number = f" on lane {weakest:.0f}" if np.isfinite(weakest) else ""
    return Suspicion(
        finding(
            MODULE_RX_POWER,
            case.ends(row),
            f"{case.location(row)}: its module receives {rx[row]:.1f} dBm{by_number}, below its alarm threshold "
            f"of {rx_low[row]:.1f} dBm; {reason}",
            {
                "rx_power_dbm": float(rx[row]),
                "alarm_dbm": float(rx_low[row]),
                "sent_dbm": _number(tx[other]) if other >= 0 else None,
                "lost_db": _number(tx[other] - rx[row]) if other >= 0 else None,
                "blame": blame,
                "source": "the module's threshold (SFF-8636, CMIS)",
            },
        ),
        row,
        0.97 if sent or both else 0.9,
    )


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
