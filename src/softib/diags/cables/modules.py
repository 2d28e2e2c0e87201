"""Checks optical modules and forward error correction (FEC) from a single reading in a file. Values of modules are
compared with the alarm thresholds that the modules state (SFF-8636, CMIS); ``softib diagnose`` also finds the faulty
end. Both ends of a link use the same FEC mode, which they negotiate when the link trains (IBA volume 2). PAM4 lanes
(HDR and faster) work only with RS-FEC (IBA 14.2.5.19).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from softib.diags.cable_rules.module_alarms import HOT_MODULE, MODULE_RX_POWER, MODULE_TEMPERATURE, MODULE_TX_POWER
from softib.diags.cable_rules.thresholds import shipped
from softib.diags.context import Context
from softib.diags.finding import Each, Finding, Severity, code, each_or_one
from softib.diags.view import FabricView
from softib.iba.rates import SPEEDS
from softib.iba.smp import PortInfoExtended
from softib.iba.vendor import mlnx as r
from softib.iba.vendor.mlnx import ModuleInfo
from softib.plural import counted

FEC_MISMATCH = code(
    "fec-mismatch",
    Severity.WARNING,
    "the two ends of a link state different FEC modes",
    "set the same FEC modes at both ends (ibportstate, mlxlink), retrain the link, and read both ends again",
)
FEC_NONE = code(
    "fec-none",
    Severity.WARNING,
    "a link of HDR or faster states that no FEC is active",
    "such lanes lose packets without RS-FEC: check the enabled modes of both ends (mlxlink --show_fec), retrain the "
    "link",
)

UNKNOWN_FEC = 255
_MODES = 1
"""PortInfoExtended.CapMask bit 0: the FEC modes are valid."""
_FEC_NAMES = {0: "none", 1: "FireCode", 2: "RS-FEC", 3: "low-latency RS-FEC"}
_PAM4 = np.array([False, *(s.pam4 for s in SPEEDS)])

Row = tuple[int, str, dict[str, object]]


def _each(c: Context, name: str, rows: list[Row]) -> Iterator[Finding]:
    """Return one finding per port, or one finding for many ports."""
    yield from each_or_one(
        name,
        [([c.view.location(port)], text, evidence) for port, text, evidence in rows],
        f"{counted(len(rows), 'port')}",
        count="ports",
    )


def _lanes_in_use(power: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Return the lowest power among a module's lanes in use (those with power or bias current), in the unit of
    ``power``; 0 if no lane is in use.
    """
    shown = np.where((power > 0) | (bias > 0), power.astype(np.float64), np.inf).min(axis=-1)
    return np.where(np.isinf(shown), 0.0, shown)


def _dbm(microwatts: float) -> float:
    return float(10 * np.log10(max(microwatts, 0.1) / 1e3))


def module_readings(c: Context) -> Iterator[Finding]:
    """Report modules beyond an alarm threshold that they state, and hot modules that state none."""
    f = c.view.fabric
    if "modules" not in c.view.records:
        return
    ports = np.flatnonzero(ModuleInfo.monitor_cap_mask.get(f.module_info) > 0)
    image = f.module_info[ports]
    able, bias = ModuleInfo.monitor_cap_mask.get(image), ModuleInfo.tx_bias.get(image)
    measures = able & r.MEASURES_TEMPERATURE > 0
    warm = ModuleInfo.temperature.get(image).astype(np.uint16).astype(np.int16) / 256.0
    alarm = ModuleInfo.temperature_high_th.get(image).astype(np.uint16).astype(np.int16) / 256.0
    limit = shipped().of("temperature")
    yield from _each(
        c,
        MODULE_TEMPERATURE,
        [
            (
                int(ports[i]),
                f"{c.view.location(int(ports[i]))}: its module is at {warm[i]:.0f} °C, above its alarm threshold of "
                f"{alarm[i]:.0f} °C",
                {
                    "temperature_c": float(warm[i]),
                    "alarm_c": float(alarm[i]),
                    "source": "the module's threshold (SFF-8636, CMIS)",
                },
            )
            for i in np.flatnonzero(measures & (alarm != 0) & (warm > alarm)).tolist()
        ],
    )
    yield from _each(
        c,
        HOT_MODULE,
        [
            (
                int(ports[i]),
                f"{c.view.location(int(ports[i]))}: its module is at {warm[i]:.0f} °C, and states no alarm threshold",
                {"temperature_c": float(warm[i]), "limit_c": limit.value, "source": limit.source},
            )
            for i in np.flatnonzero(measures & (alarm == 0) & (warm >= limit.value)).tolist()
        ],
    )
    for name, power, low, bit, verb in (
        (MODULE_TX_POWER, ModuleInfo.tx_power, ModuleInfo.tx_power_low_th, r.MEASURES_TX_POWER, "its laser sends"),
        (MODULE_RX_POWER, ModuleInfo.rx_power, ModuleInfo.rx_power_low_th, r.MEASURES_RX_POWER, "its module receives"),
    ):
        weakest, least = _lanes_in_use(power.get(image), bias), low.get(image).astype(np.float64)
        yield from _each(
            c,
            name,
            [
                (
                    int(ports[i]),
                    f"{c.view.location(int(ports[i]))}: {verb} {_dbm(weakest[i]):.1f} dBm, below its alarm "
                    f"threshold of {_dbm(least[i]):.1f} dBm",
                    {
                        "power_dbm": _dbm(weakest[i]),
                        "alarm_dbm": _dbm(least[i]),
                        "source": "the module's threshold (SFF-8636, CMIS)",
                    },
                )
                for i in np.flatnonzero((able & bit > 0) & (least > 0) & (weakest < least)).tolist()
            ],
        )


def fec_modes(c: Context) -> Iterator[Finding]:
    """Report links whose ends state different FEC modes, and links of HDR or faster without FEC."""
    view, f = c.view, c.view.fabric
    stated: list[tuple[str, np.ndarray]] = []
    if "fec" in view.records:
        stated.append(("FECActv", np.where(f.port_fec == UNKNOWN_FEC, -1, f.port_fec.astype(np.int64))))
    if f.source.format == "db_csv" and f.port_info_ext.any():  # other sources do not contain the ports' own reports
        valid = PortInfoExtended.cap_mask.get(f.port_info_ext).astype(np.int64) & _MODES > 0
        active = PortInfoExtended.fec_mode_active.get(f.port_info_ext).astype(np.int64)
        stated.append(("FECModeActive", np.where(valid, active, -1)))
    reported: set[int] = set()
    for column, mode in stated:
        a, b = mode[view.port_a], mode[view.port_b]
        both_read = (a >= 0) & (b >= 0)
        for name, rows in (
            (FEC_MISMATCH, both_read & (a != b)),
            (FEC_NONE, both_read & (a == 0) & (b == 0) & _pam4(view)),
        ):
            new = [row for row in np.flatnonzero(rows).tolist() if row not in reported]
            reported.update(new)
            yield from _links(c, name, new, column, a, b)


def _pam4(view: FabricView) -> np.ndarray:
    """Return whether both ends of each cable use PAM4 lanes (bool[cables])."""
    if "speeds" not in view.records:
        return np.zeros(len(view.cable), bool)
    return np.asarray(_PAM4[view.speed[view.port_a]] & _PAM4[view.speed[view.port_b]])


def _links(c: Context, name: str, rows: list[int], column: str, a: np.ndarray, b: np.ndarray) -> Iterator[Finding]:
    view = c.view
    several: list[Each] = []
    for row in rows:
        p, q = int(view.port_a[row]), int(view.port_b[row])
        here, there = int(a[row]), int(b[row])
        both = (
            f"{_text(column, here)} here and {_text(column, there)} there" if here != there else "no FEC at both ends"
        )
        several.append(
            (
                [view.location(p), view.location(q)],
                f"{view.link_name(p, q)}: {both} ({column})",
                {"column": column, "modes": [here, there], "links": len(rows)},
            )
        )
    yield from each_or_one(name, several, f"{counted(len(rows), 'link')}", {"column": column}, count="links")


def _text(column: str, mode: int) -> str:
    return f"mode {mode}" if column == "FECActv" and mode else _FEC_NAMES.get(mode, f"mode {mode}")
