"""Counters of a simulated run as ``perfquery`` shows those of a fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from softib.fabric.counters import COUNTER_NAMES
from softib.fabric.faults.targets import port_at
from softib.iba.perf import PortCounters
from softib.plain_values import whole_number

if TYPE_CHECKING:
    from softib.analysis.simulation.result import RunResult
    from softib.fabric.model import Fabric

__all__ = ["as_perfquery", "named_port", "port_counters"]

HEX = {"counter_select": 4, "counter_select2": 2}
"""Fields that perfquery prints in hexadecimal → their number of digits."""
ACRONYMS = {"qp1": "QP1", "vl15": "VL15"}
WIDTH = 33
"""Columns up to the value (libibmad's dump)."""


def named_port(fabric: Fabric, place: str) -> int:
    """The row of ``leaf-1[3]`` or ``leaf-1:3``. Raises :class:`InputError` for a port that is not
    there."""
    node, colon, number = place.rpartition(":")
    return port_at(fabric, f"{node}[{number}]" if colon and whole_number(number) is not None else place)


def port_counters(run: RunResult, place: str) -> dict[str, int]:
    """PortCounters of ``leaf-1[3]`` (or ``leaf-1:3``), by field; each stops at its largest value.
    Raises :class:`InputError` for a port that is not there."""
    port = named_port(run.fabric, place)
    row, fields = run.outcome.counters[port], PortCounters.fields
    counted = {
        n: min(int(row[n]), f.mask) if n in COUNTER_NAMES else 0 for n, f in fields.items() if not n.startswith("_")
    }
    return {**counted, "port_select": int(run.fabric.port_num[port])}


def as_perfquery(run: RunResult, place: str) -> str:
    """The same as ``perfquery`` prints it (libibmad's ``mad_dump_perfcounters``)."""
    lines = []
    for name, value in port_counters(run, place).items():
        shown = f"0x{value:0{HEX[name]}x}" if name in HEX else str(value)
        lines.append(f"{label(name) + ':':.<{WIDTH}}{shown}")
    return "\n".join(lines)


def label(name: str) -> str:
    """``port_xmit_data`` as ``PortXmitData``."""
    return "".join(ACRONYMS.get(part, part[:1].upper() + part[1:]) for part in name.split("_"))
