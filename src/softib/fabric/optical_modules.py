"""Optical modules: the readings of a healthy module, the loss of light in fibre, and the bit errors
if a receiver gets too little light.

A receiver limited by thermal noise has a bit error probability of erfc(Q / sqrt 2) / 2, and Q is
proportional to the received optical power (Agrawal, Fiber-Optic Communication Systems, 4.5 and
4.6). The sensitivity is the power at which the link has the bit error ratio for which its code is
specified. softib assumes that it equals the low alarm of received power.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from softib.fabric.columns import CableMedium
from softib.fabric.model import Fabric
from softib.iba.vendor.mlnx import (
    MEASURES_RX_POWER,
    MEASURES_TEMPERATURE,
    MEASURES_TX_BIAS,
    MEASURES_TX_POWER,
    MEASURES_VOLTAGE,
    MODULE_LANES,
    ModuleInfo,
)

__all__ = ["bit_errors", "dbm", "fibre_loss_db", "fit_modules", "microwatts"]

OPTICAL = (CableMedium.AOC, CableMedium.MULTIMODE, CableMedium.SINGLEMODE)
TX_DBM, CONNECTORS_DB = 0.0, 1.0
"""Transmit power of a lane, and loss of two connectors. The values are chosen for a common module;
IEEE 802.3 allows 1.5 dB for all connectors of a short multimode link."""
LOSS_DB_PER_KM = {CableMedium.AOC: 3.0, CableMedium.MULTIMODE: 3.0, CableMedium.SINGLEMODE: 0.5}
"""Loss of fibre per km (ISO/IEC 11801): 3.0 dB at 850 nm on OM3 to OM5; 0.4 to 0.5 dB at 1310
nm."""
LENGTH_M = 10.0
"""Assumed length of cables whose length is unknown."""
TEMPERATURE_C, SPREAD_C = 45.0, 8
TEMPERATURES_C, VOLTAGES_V, BIAS_MA = (-5.0, 75.0), (2.97, 3.63), (3.0, 12.0)
TX_DBM_ALARM, RX_DBM_ALARM = (-7.0, 5.0), (-8.0, 5.0)
"""Low and high alarms, as short-reach modules state them. The voltage range, 3.3 V plus or minus 10
%, is from SFF-8636.
"""
NRZ_LIMIT, PAM4_LIMIT = 1e-12, 2.4e-4
"""Bit error ratio at the sensitivity. For links without FEC, it is from IBA volume 2; for others,
it is IEEE 802.3's limit before RS(544,514)."""


def microwatts(power_dbm: float) -> float:
    """Convert dBm (0 dBm is a milliwatt) to microwatts."""
    return float(1e3 * 10 ** (power_dbm / 10))


def dbm(power_uw: np.ndarray) -> np.ndarray:
    """Convert microwatts to dBm (float64); NaN for 0."""
    power = np.asarray(power_uw, np.float64)
    with np.errstate(divide="ignore"):
        return np.where(power > 0, 10 * np.log10(power / 1e3), np.nan)


def fibre_loss_db(f: Fabric, cables: np.ndarray) -> np.ndarray:
    """Return the loss of each optical cable in dB, connectors and fibre together (float64[n])."""
    length = np.where(np.isnan(f.cable_length_m[cables]), LENGTH_M, f.cable_length_m[cables])
    per_km = np.array([LOSS_DB_PER_KM.get(m, 0.0) for m in range(len(CableMedium.NAMES))])
    return np.asarray(CONNECTORS_DB + per_km[f.cable_medium[cables]] * length / 1e3, np.float64)


def bit_errors(received_dbm: float, low_alarm_dbm: float, pam4: bool) -> float:
    """Return the bit error ratio of a lane that receives this power; 0 if it is below 1e-30."""
    q = -NormalDist().inv_cdf(PAM4_LIMIT if pam4 else NRZ_LIMIT) * 10 ** ((received_dbm - low_alarm_dbm) / 10)
    ratio = 0.5 * math.erfc(q / math.sqrt(2))
    return ratio if ratio >= 1e-30 else 0.0


def fit_modules(f: Fabric) -> None:
    """Put healthy modules into the ports of optical cables that have no modules yet
    (``module_info``). Their temperatures vary with the port number."""
    optical = np.isin(f.cable_medium, OPTICAL)
    if not optical.any():
        return
    rows = np.flatnonzero((f.port_cable >= 0) & (f.port_peer >= 0))
    rows = rows[optical[f.port_cable[rows]]]
    rows = rows[~f.module_info[rows].any(axis=1)]
    if not len(rows):
        return
    image = ModuleInfo.zeros(len(rows))
    received = TX_DBM - fibre_loss_db(f, f.port_cable[rows])
    ones = np.ones((len(rows), MODULE_LANES))
    warm = TEMPERATURE_C - SPREAD_C / 2 + (rows * 2654435761 >> 7) % (SPREAD_C + 1)
    M = ModuleInfo
    M.cable_type.set(image, np.where(f.cable_medium[f.port_cable[rows]] == CableMedium.AOC, 1, 2))
    M.cable_identifier.set(image, 8)
    M.monitor_cap_mask.set(
        image, MEASURES_TEMPERATURE | MEASURES_VOLTAGE | MEASURES_TX_POWER | MEASURES_TX_BIAS | MEASURES_RX_POWER
    )
    M.temperature.set(image, (warm * 256).astype(np.uint64))
    M.voltage.set(image, 33_000)
    M.rx_power.set(image, np.rint(1e3 * 10 ** (received / 10)[:, None] * ones).astype(np.uint64))
    M.tx_power.set(image, np.rint(microwatts(TX_DBM) * ones).astype(np.uint64))
    M.tx_bias.set(image, np.rint(6.5e3 / 2 * ones).astype(np.uint64))
    _thresholds(image)
    f.module_info[rows] = image


def _thresholds(image: np.ndarray) -> None:
    M = ModuleInfo
    for high, low, (least, most), unit in (
        (M.temperature_high_th, M.temperature_low_th, TEMPERATURES_C, 256.0),
        (M.voltage_high_th, M.voltage_low_th, VOLTAGES_V, 1e4),
        (M.tx_bias_high_th, M.tx_bias_low_th, BIAS_MA, 500.0),
    ):
        high.set(image, round(most * unit))
        low.set(image, round(least * unit) & 0xFFFF)
    for high, low, (least, most) in (
        (M.rx_power_high_th, M.rx_power_low_th, RX_DBM_ALARM),
        (M.tx_power_high_th, M.tx_power_low_th, TX_DBM_ALARM),
    ):
        high.set(image, round(microwatts(most)))
        low.set(image, round(microwatts(least)))
