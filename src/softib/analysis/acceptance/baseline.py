"""Baseline file of an accepted fabric: topology, firmware, cables, error rates, measurements."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from softib.diags.observations import Observations, ObservedPorts
from softib.errors import UnreadableFile
from softib.fabric.counters import LINK_ERRORS
from softib.fabric.formats import registry
from softib.fabric.model import Fabric
from softib.input_files import json_document
from softib.scratch import scratch_folder
from softib.whole_files import write_text

__all__ = ["ERROR_COUNTERS", "KEY", "MODULE_KEYS", "BaselineRecord", "read_baseline", "record_of", "write_baseline"]

KEY = "softib_acceptance_baseline"
VERSION = 1
MAX_BYTES = 1 << 30
ERROR_COUNTERS = (*LINK_ERRORS, "vl15_dropped")
"""Counters whose rates a baseline contains. Data counters are not included, because they depend on
the workload and not on the fabric."""
MODULE_KEYS = ("module_vendor", "module_part", "module_serial")

PortKey = str
"""NodeGUID and port number, for example ``0x0008f10400411a08:3``."""


@dataclass(frozen=True)
class BaselineRecord:
    """A baseline. ``fabric``: None if it has only measurements. ``firmware``: NodeGUID in hex → version. ``modules``:
    port → data of its cable from the EEPROM and from the source (serial, part, vendor, ``length_m``). ``errors``: port
    → counter → (increase, seconds observed). ``pairs``: test → (source, target) → value."""

    name: str
    fabric: Fabric | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[PortKey, Mapping[str, Any]] = field(default_factory=dict)
    errors: Mapping[PortKey, Mapping[str, tuple[int, float]]] = field(default_factory=dict)
    pairs: Mapping[str, Mapping[tuple[str, str], float]] = field(default_factory=dict)


def record_of(
    name: str,
    fabric: Fabric | None,
    ports: ObservedPorts | None,
    observations: Observations | None,
    pairs: Mapping[str, Mapping[tuple[str, str], float]],
) -> BaselineRecord:
    """Return the record of the current state."""
    firmware: dict[str, str] = {}
    modules: dict[PortKey, dict[str, Any]] = {}
    if ports is not None:
        keys = _keys(ports)
        text = ports.text
        for i, key in enumerate(keys):
            if "firmware" in text and text["firmware"][i]:
                firmware.setdefault(key.partition(":")[0], str(text["firmware"][i]))
            module = {k: str(text[k][i]) for k in MODULE_KEYS if k in text and text[k][i]}
            if module:
                modules[key] = module
    if fabric is not None:
        _add_lengths(fabric, modules)
    errors = {} if observations is None else _errors(observations)
    return BaselineRecord(name, fabric, firmware, modules, errors, pairs)


def _keys(ports: ObservedPorts) -> list[PortKey]:
    return [f"{g:#018x}:{p}" for g, p in zip(ports.node_guid.tolist(), ports.portnum.tolist(), strict=True)]


def _add_lengths(f: Fabric, modules: dict[PortKey, dict[str, Any]]) -> None:
    for cable in np.flatnonzero(np.isfinite(f.cable_length_m) & (f.cable_length_m > 0)).tolist():
        port = int(f.cable_port[cable, 0])
        if port >= 0:
            key = f"{int(f.node_guid[f.port_node[port]]):#018x}:{int(f.port_num[port])}"
            modules.setdefault(key, {})["length_m"] = round(float(f.cable_length_m[cable]), 2)


def _errors(seen: Observations) -> dict[PortKey, dict[str, tuple[int, float]]]:
    out: dict[PortKey, dict[str, tuple[int, float]]] = {}
    keys = _keys(seen.ports)
    for counter in ERROR_COUNTERS:
        if counter not in seen.increase:
            continue
        total, seconds = seen.total(counter), seen.seconds(counter)
        for i in np.flatnonzero(seconds > 0).tolist():
            out.setdefault(keys[i], {})[counter] = (int(total[i]), round(float(seconds[i]), 3))
    return out


def write_baseline(record: BaselineRecord, path: str | os.PathLike[str]) -> None:
    """Write the record as JSON; it contains the topology as ibnetdiscover text. Raises
    :class:`InputError` if the file cannot be written."""
    stated = {
        KEY: VERSION,
        "name": record.name,
        "firmware": dict(record.firmware),
        "modules": dict(record.modules),
        "errors": {k: {c: list(v) for c, v in row.items()} for k, row in record.errors.items()},
        "pairs": {t: [[a, b, v] for (a, b), v in rows.items()] for t, rows in record.pairs.items()},
        "fabric": None if record.fabric is None else _text_of(record.fabric).splitlines(),
    }
    write_text(path, json.dumps(stated, indent=1, sort_keys=True) + "\n")


def _text_of(fabric: Fabric) -> str:
    with scratch_folder("baseline") as folder:
        path = folder / "fabric.ibnetdiscover"
        registry.write(fabric, str(path), "ibnetdiscover")
        return path.read_text("utf-8")


def read_baseline(path: str | os.PathLike[str]) -> BaselineRecord:
    """Read a baseline. Raises :class:`UnreadableFile` if :func:`write_baseline` did not write the
    file."""
    shown = os.fspath(path)
    if not Path(path).exists():
        raise UnreadableFile(f"{shown}: No such file or directory; use softib baseline record to create one")
    stated = json_document(path, "baseline", "use a file written by softib baseline record", MAX_BYTES)
    if not isinstance(stated, dict) or KEY not in stated:
        raise UnreadableFile(f"{shown}: not a baseline; use a file written by softib baseline record")
    if stated[KEY] != VERSION:
        raise UnreadableFile(
            f"{shown}: the baseline has version {stated[KEY]!r}, but this softib reads version {VERSION}; record a new "
            f"one"
        )
    try:
        return BaselineRecord(
            str(stated["name"]),
            _fabric_of(stated["fabric"]),
            {str(k): str(v) for k, v in stated["firmware"].items()},
            {str(k): dict(v) for k, v in stated["modules"].items()},
            {str(k): {c: (int(n), float(s)) for c, (n, s) in row.items()} for k, row in stated["errors"].items()},
            {str(t): {(str(a), str(b)): float(v) for a, b, v in rows} for t, rows in stated["pairs"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnreadableFile(
            f"{shown}: the baseline is damaged ({type(error).__name__}: {error}); record a new one"
        ) from None


def _fabric_of(lines: Any) -> Fabric | None:
    if lines is None:
        return None
    with scratch_folder("baseline") as folder:
        path = folder / "fabric.ibnetdiscover"
        path.write_text("\n".join(str(line) for line in lines) + "\n", encoding="utf-8")
        return registry.read(str(path)).fabric
