"""Writes ``docs/devices.md``, the catalogue of devices with a source for every figure. A test fails when they differ.

python docs/make_devices.py
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import softib
from softib.iba.catalogue import ADAPTERS, CABLES, ETHERNET_SWITCHES, SWITCHES, Part

PAGE = Path(__file__).with_name("devices.md")
HEAD = """# Devices

<!-- written by docs/make_devices.py from src/softib/iba/catalogue: do not edit -->

softib knows {parts} devices and cables. `softib plan devices` lists them. Checks, predictions, the emulated firmware and planning read
these rows, and no other table of devices exists.
{sourced} figures are published, each with its source. {assumed} are assumptions, which softib needs and no public source states; {fitted} were fitted to
measurements ([validation](evidence/validation.md)). {unknown} figures are unknown.

A device without a row is treated as the typical device of its generation. To correct a figure or to add a device, edit the TOML file in
`src/softib/iba/catalogue/`; a figure without a source is refused.
"""
SECTIONS = (
    ("Adapters", ADAPTERS, "DeviceIDs are those of NodeInfo."),
    ("Switches", SWITCHES, "Systems are the products built of the chip."),
    (
        "Ethernet switches",
        ETHERNET_SWITCHES,
        "`softib compare` predicts RoCE and TCP with them. A speed between two rows uses the faster one.",
    ),
    (
        "Cables",
        CABLES,
        "`medium: auto` in a [fabric file](fabric-yaml.md) chooses the cheapest medium that reaches at NDR.",
    ),
)


def _shown(figure: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if figure.startswith("perf_capability"):
        return f"{value:#x}"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _about(part: Part) -> str:
    """The fields that are no figures, in a line."""
    said = {
        "vendor": getattr(part, "vendor", ""),
        "generation": getattr(part, "generation", "") or f"{getattr(part, 'gbps', 0)} Gb/s",
        "medium": getattr(part, "medium", ""),
        "DeviceID": ", ".join(f"{n:#06x}" for n in getattr(part, "device_ids", ())),
        "systems": ", ".join(getattr(part, "systems", ())),
        "typical of": ", ".join(getattr(part, "typical_of", ())),
    }
    return "; ".join(f"{name} {value}" for name, value in said.items() if value)


def _section(title: str, parts: Sequence[Part], text: str) -> list[str]:
    figures = type(parts[0]).FIGURES
    lines = [f"## {title}", "", text, "", "| figure | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in figures.items()]
    for part in parts:
        lines += ["", f"### {part.name}", "", f"{_about(part)}.", "", "| figure | value | source |", "|---|---|---|"]
        lines += [f"| `{f}` | {_shown(f, getattr(part, f))} | {source} |" for f, source in part.sources.items()]
        if part.unknown:
            lines += ["", f"Unknown: {', '.join(f'`{f}`' for f in part.unknown)}."]
    return [*lines, ""]


def page() -> str:
    """The whole page."""
    every = softib.devices()
    counts = {name: getattr(every, name) for name in ("sourced", "assumed", "fitted", "unknown")}
    head = HEAD.format(parts=len(every.devices), **counts)
    return "\n".join([head, *(line for section in SECTIONS for line in _section(*section))])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
