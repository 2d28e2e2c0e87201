"""The ports of a fabric that was read from a file, as :class:`~softib.diags.observations.ObservedPorts`, and the levels
of its modules and optics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from softib.diags.observations import ObservedPorts
from softib.fabric.columns import NO_TEMPERATURE, CableMedium
from softib.fabric.formats.ibdiagnet.db_csv_columns import FEC_NAMES
from softib.fabric.model import Fabric
from softib.foreign_text import NAME, field_text, shown
from softib.iba.smp import PortInfo
from softib.monitor.module_levels import module_levels, module_texts
from softib.monitor.targets import best_gbps, lanes_of, rate_gbps

__all__ = ["MODULE_TEXTS", "optics", "ports_of", "rows_of"]

MODULE_TEXTS = {"module_vendor": "Vendor", "module_part": "PN", "module_serial": "SN"}
"""Column of ``ObservedPorts.text`` → column of CABLE_INFO."""


def rows_of(f: Fabric) -> np.ndarray:
    """Return the rows of ports that have a cable, except port 0 of switches, sorted by NodeGUID and portnum
    (int64[n])."""
    rows = np.flatnonzero((f.port_peer >= 0) & (f.port_num > 0))
    return np.asarray(rows[np.lexsort((f.port_num[rows], f.node_guid[f.port_node[rows]]))])


def ports_of(f: Fabric, rows: np.ndarray, extra: Mapping[str, Any] | None = None) -> ObservedPorts:
    """Return the ports ``rows`` of ``f``. ``extra`` of the reader's result contains the EEPROM data of cables."""
    node = f.port_node[rows]
    place = np.full(f.sizes.ports, -1, np.int64)
    place[rows] = np.arange(len(rows))
    agent = np.where(f.is_switch[node], f.node_base[node], rows)
    lid = PortInfo.lid.get(f.port_info)[agent].astype(np.int32)
    names = f.node_names()
    rate = rate_gbps(f.port_info[rows])
    return ObservedPorts(
        f.node_guid[node],
        f.port_num[rows].astype(np.int32),
        f.is_switch[node].copy(),
        tuple(names[n] for n in node.tolist()),
        lid,
        place[f.port_peer[rows]].astype(np.int32),
        rate,
        _texts(f, rows, node, extra or {}),
    )


def _texts(f: Fabric, rows: np.ndarray, node: np.ndarray, extra: Mapping[str, Any]) -> dict[str, np.ndarray]:
    firmware = np.array([".".join(map(str, v)) if any(v) else "" for v in f.node_firmware.tolist()], object)
    psid = np.array([field_text(v) for v in f.node_psid], object)
    device = np.where(psid != "", psid, np.array([str(d) if d else "" for d in f.device_id.tolist()], object))
    vendor = np.array([f"{v:#08x}" if v else "" for v in f.vendor_id.tolist()], object)
    system = np.array([f"{v:#018x}" if v else "" for v in f.sys_guid.tolist()], object)
    texts = {"firmware": firmware[node], "device": device[node], "vendor": vendor[node], "system": system[node]}
    agent = np.where(f.is_switch[node], f.node_base[node], rows)
    texts["port_guid"] = np.array([f"{g:#018x}" if g else "" for g in f.port_guid[agent].tolist()], object)
    texts["fec"] = np.array([FEC_NAMES.get(v, "") for v in f.port_fec[rows].tolist()], object)
    return texts | _modules(f, rows, extra.get("cables", {}))


def _modules(f: Fabric, rows: np.ndarray, cables: Mapping[int, Mapping[str, str]]) -> dict[str, np.ndarray]:
    """Return the texts of modules (from the EEPROM data, or else from the module's register image), and the lengths and
    media of cables."""
    nothing = np.full(len(rows), "", object)
    texts = module_texts(f.module_info[rows]) if f.module_info[rows].any() else {}
    for name, column in MODULE_TEXTS.items():
        stated = np.array([shown(cables.get(p, {}).get(column, ""), NAME) for p in rows.tolist()], object)
        texts[name] = np.where(stated != "", stated, texts.get(name, nothing))
    cable = f.port_cable[rows]
    there = cable >= 0
    length = np.where(there, f.cable_length_m[np.maximum(cable, 0)], np.nan) if len(f.cable_port) else nothing != ""
    medium = np.where(there, f.cable_medium[np.maximum(cable, 0)], 0) if len(f.cable_port) else np.zeros(len(rows))
    lengths = np.array([f"{v:g}" if v > 0 else "" for v in length.tolist()], object)
    media = np.array([CableMedium.NAMES[int(v)] if v else "" for v in medium.tolist()], object)
    texts["cable_length"] = np.where(lengths != "", lengths, texts.get("cable_length", nothing))
    texts["cable_kind"] = np.where(media != "", media, texts.get("cable_kind", nothing))
    return texts


def _best(f: Fabric, rows: np.ndarray, info: np.ndarray) -> np.ndarray:
    if "capabilities" not in f.source.records:
        return np.full(len(rows), np.nan)
    place = np.full(f.sizes.ports, -1, np.int64)
    place[rows] = np.arange(len(rows))
    return best_gbps(info, np.where(f.port_peer[rows] >= 0, place[f.port_peer[rows]], -1))


def optics(f: Fabric, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the levels that a file contains: temperatures of chips and modules, states and rates (float64[n] each)."""
    node = f.port_node[rows]

    def degrees(values: np.ndarray) -> np.ndarray:
        return np.where(values == NO_TEMPERATURE, np.nan, values.astype(np.float64))

    info = f.port_info[rows]
    lanes, lane_gbps = lanes_of(info)
    levels = {
        "temperature_c": degrees(f.node_temperature[node]),
        "module_temperature_c": degrees(f.module_temperature[rows]),
        "state": PortInfo.port_state.get(info).astype(np.float64),
        "physical_state": PortInfo.port_phys_state.get(info).astype(np.float64),
        "rate_gbps": rate_gbps(info),
        "lanes": lanes,
        "lane_gbps": lane_gbps,
        "best_gbps": _best(f, rows, info),
    }
    if f.module_info[rows].any():
        measured = module_levels(f.module_info[rows])
        levels |= {name: values for name, values in measured.items() if name != "module_temperature_c"}
    return {name: values for name, values in levels.items() if not np.isnan(values).all()}
