"""Sections of a .db_csv about failed parts of switches: POWER_SUPPLIES and FANS_SPEED. softib
reports power supplies that are present and not ok, and fans that have stopped or run below the
minimum speed that the device states. They become findings reported by ibdiagnet
(``Source.reported``). Column names are ibdiagnet's; a column that the file lacks is ignored.
"""

from __future__ import annotations

import numpy as np

from softib.fabric.formats.base import Problems
from softib.fabric.formats.ibdiagnet.csv_sections import Section, SectionWriter
from softib.fabric.model import Reported

__all__ = ["fans", "power_supplies"]

_POWER = ("ACInput", "DCState", "AlertState", "FanState", "TemperatureState")
_FINE = frozenset({"ok", "n/a", "na", "none", ""})
_PRESENT = frozenset({"1", "yes", "true", "present", "ok"})
"""Texts in POWER_SUPPLIES, in lower case, that mean "present" or "ok"."""


def power_supplies(writer: SectionWriter, s: Section) -> None:
    """Read POWER_SUPPLIES: report the units that are present and have a state other than ok, with
    these states."""
    states = {name: s.text(name) for name in _POWER if s.has(name)}
    present = s.text("IsPresent") if s.has("IsPresent") else None
    units = s.text("PSUIndex") if s.has("PSUIndex") else [""] * len(s.rows)
    rows, node = writer.nodes(s)
    for i, n in zip(rows.tolist(), node.tolist(), strict=True):
        if present is not None and present[i].strip().lower() not in _PRESENT:
            continue
        bad = {name: text[i].strip() for name, text in states.items() if text[i].strip().lower() not in _FINE}
        if bad:
            state = ", ".join(f"{name} {text}" for name, text in bad.items())
            _report(writer, s, i, n, ("power supply", units[i].strip(), state))


def fans(writer: SectionWriter, s: Section) -> None:
    """Read FANS_SPEED: report the fans that have stopped, or run below the minimum speed that the
    device states."""
    if not s.has("FanSpeed"):
        return
    speed = s.column("FanSpeed", writer.problems)
    least = s.column("MinSpeed", Problems("")) if s.has("MinSpeed") else np.zeros(len(s.rows), np.int64)
    sensors = s.text("SensorIndex") if s.has("SensorIndex") else [""] * len(s.rows)
    rows, node = writer.nodes(s)
    for i, n in zip(rows.tolist(), node.tolist(), strict=True):
        if speed[i] == 0 or 0 < speed[i] < least[i]:
            state = f"{int(speed[i])} rpm" + (f" of at least {int(least[i])}" if least[i] > 0 else "")
            _report(writer, s, i, n, ("fan", sensors[i].strip(), state))


def _report(writer: SectionWriter, s: Section, row: int, node: int, of: tuple[str, str, str]) -> None:
    """Add a failed part (its kind, number and state) to the findings reported by ibdiagnet."""
    part, index, state = of
    where = writer.f.node_name(node)
    writer.f.source.reported.append(
        Reported("error", s.name, "NODE", node, None, part, f"{part} {index} of {where}: {state}", s.lines[row])
    )
