"""Measurements of modules as levels of observations, and the identity of modules as texts. Both come from a register
image (:class:`~softib.iba.vendor.mlnx.ModuleInfo`), which devices return and files contain."""

from __future__ import annotations

import numpy as np

from softib.foreign_text import field_text
from softib.iba.vendor import mlnx as r
from softib.iba.vendor.mlnx import ModuleInfo

__all__ = ["MODULE_LEVELS", "module_levels", "module_texts"]

MODULE_LEVELS = (
    "module_temperature_c",
    "module_voltage_v",
    "module_rx_power_dbm",
    "module_rx_lane",
    "module_tx_power_dbm",
    "module_tx_bias_ma",
    "module_temperature_high_c",
    "module_rx_power_low_dbm",
    "module_rx_power_high_dbm",
    "module_tx_power_low_dbm",
    "module_tx_bias_high_ma",
    "module_tx_bias_low_ma",
)
"""Levels of modules. A measurement is the lowest value of all lanes (for the bias current, the highest).
``module_rx_lane`` is the number of the lane with the lowest receive power, from 0. The other levels are the module's
alarm thresholds."""
DARK_DBM = -40.0
"""The power in dBm that is reported if there is no light: SFF-8636 measures powers from 0.1 µW."""
CABLE_TYPES = {1: "active", 2: "optical", 3: "copper"}
"""ModuleInfo.cable_type in words."""


def module_texts(image: np.ndarray) -> dict[str, np.ndarray]:
    """Return vendor, part number and serial number of modules, and length (metres) and kind of
    their cables, from their images (uint8[n, 208]); "" if there is no data from a module (object[n] each)."""
    M = ModuleInfo
    texts = {
        name: np.array([_ascii(row) for row in field.get(image)], object)
        for name, field in (
            ("module_vendor", M.vendor_name),
            ("module_part", M.vendor_pn),
            ("module_serial", M.vendor_sn),
        )
    }
    texts["cable_length"] = np.array([str(v) if v else "" for v in M.cable_length.get(image).tolist()], object)
    texts["cable_kind"] = np.array([CABLE_TYPES.get(v, "") for v in M.cable_type.get(image).tolist()], object)
    return texts


def module_levels(image: np.ndarray) -> dict[str, np.ndarray]:
    """Return the levels of ports from their images (uint8[n, 208]), float64[n] each; NaN if the module does not measure
    the level, or did not answer."""
    M, able = ModuleInfo, ModuleInfo.monitor_cap_mask.get(image).astype(np.int64)
    rx, weakest = _lanes(M.rx_power.get(image), M.tx_bias.get(image))
    tx, _ = _lanes(M.tx_power.get(image), M.tx_bias.get(image))
    bias = M.tx_bias.get(image).max(axis=-1) / 500.0

    def where(bit: int, values: np.ndarray) -> np.ndarray:
        return np.where(able & bit > 0, values, np.nan)

    return {
        "module_temperature_c": where(r.MEASURES_TEMPERATURE, _signed(M.temperature.get(image)) / 256.0),
        "module_voltage_v": where(r.MEASURES_VOLTAGE, M.voltage.get(image) / 1e4),
        "module_rx_power_dbm": where(r.MEASURES_RX_POWER, _dbm(rx)),
        "module_rx_lane": where(r.MEASURES_RX_POWER, weakest),
        "module_tx_power_dbm": where(r.MEASURES_TX_POWER, _dbm(tx)),
        "module_tx_bias_ma": where(r.MEASURES_TX_BIAS, bias),
        "module_temperature_high_c": _stated(
            where(r.MEASURES_TEMPERATURE, _signed(M.temperature_high_th.get(image)) / 256.0)
        ),
        "module_rx_power_low_dbm": _threshold(where(r.MEASURES_RX_POWER, M.rx_power_low_th.get(image))),
        "module_rx_power_high_dbm": _threshold(where(r.MEASURES_RX_POWER, M.rx_power_high_th.get(image))),
        "module_tx_power_low_dbm": _threshold(where(r.MEASURES_TX_POWER, M.tx_power_low_th.get(image))),
        "module_tx_bias_high_ma": _stated(where(r.MEASURES_TX_BIAS, M.tx_bias_high_th.get(image) / 500.0)),
        "module_tx_bias_low_ma": _stated(where(r.MEASURES_TX_BIAS, M.tx_bias_low_th.get(image) / 500.0)),
    }


def _lanes(power: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest power of the module's lanes, and the number of that lane. Only lanes with power or bias count,
    because a cable of four lanes returns zeros for the others."""
    there = (power > 0) | (bias > 0)
    shown = np.where(there, power.astype(np.float64), np.inf)
    least = shown.min(axis=-1)
    return np.where(np.isinf(least), 0.0, least), shown.argmin(axis=-1).astype(np.float64)


def _dbm(power_uw: np.ndarray) -> np.ndarray:
    return np.asarray(10 * np.log10(np.maximum(power_uw, 10 ** (DARK_DBM / 10) * 1e3) / 1e3))


def _threshold(power_uw: np.ndarray) -> np.ndarray:
    """Return the threshold in dBm; 0 in the module means that there is none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(power_uw > 0, 10 * np.log10(power_uw / 1e3), np.nan)


def _stated(values: np.ndarray) -> np.ndarray:
    return np.where(values == 0, np.nan, values)


def _signed(values: np.ndarray) -> np.ndarray:
    return values.astype(np.uint16).astype(np.int16).astype(np.float64)


def _ascii(row: np.ndarray) -> str:
    return field_text(row.astype(np.uint8)).strip()
