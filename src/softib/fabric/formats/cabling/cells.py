"""The meaning of the texts in the cells of a cabling list's row."""

from __future__ import annotations

import math
import re
from typing import Any

from softib.fabric.columns import CableMedium
from softib.fabric.formats.base import Problems
from softib.fabric.formats.cabling.headings import length_m
from softib.iba.node_description import ADAPTER
from softib.iba.rates import SPEED_BY_NAME, SPEEDS

__all__ = [
    "DATE",
    "NOT_BUILT",
    "halves",
    "joined_label",
    "length",
    "medium",
    "of_cell",
    "pieces",
    "rack_unit",
    "readable",
    "speed",
    "without_port",
]

_GENERATION = re.compile(rf"\b({'|'.join(s.name for s in reversed(SPEEDS))})(?:100|200)?\b", re.IGNORECASE)
_GENERATION_BY_GBPS = {10: "SDR", 20: "DDR", 40: "QDR", 56: "FDR", 100: "EDR", 200: "HDR", 400: "NDR", 800: "XDR"}
_LANES = re.compile(r"\b(1|2|4|8|12)x\b", re.IGNORECASE)
_U = re.compile(r"^(?:ru|u)?\s*0*(\d{1,3})(?:\s*u)?$", re.IGNORECASE)
_MEDIA = (
    (re.compile(r"\baoc\b|active optical", re.IGNORECASE), CableMedium.AOC),
    (re.compile(r"\bacc\b|active copper", re.IGNORECASE), CableMedium.ACC),
    (re.compile(r"\bdac\b|passive copper|\bcopper\b", re.IGNORECASE), CableMedium.DAC),
    (re.compile(r"\bmmf\b|multi-?mode|\bom[345]\b", re.IGNORECASE), CableMedium.MULTIMODE),
    (re.compile(r"\bsmf\b|single-?mode|\bos[12]\b", re.IGNORECASE), CableMedium.SINGLEMODE),
    (re.compile(r"\bbackplane\b", re.IGNORECASE), CableMedium.BACKPLANE),
)

_BREAKOUT = re.compile(r"\s*(?:[\n|]|(?<!MF\d)(?<!MF\d\d);)\s*|\s+[&+/]\s+", re.IGNORECASE)
MOST_ENDS = 8
_CELLS = (
    re.compile(r"^(?P<node>.+?)\s*\[(?P<port>[^\]]+)\]$"),
    re.compile(
        r"^(?P<node>.+?)[\s/:,_-]+(?P<port>(?:ib\s*)?(?:port|p|swp|eth|puerto|anschluss|端口|ポート|포트|порт)\s*#?\s*\d[\d/s]*)$",
        re.IGNORECASE,
    ),
    re.compile(rf"^(?P<node>\S+?)[\s/:]+(?P<port>(?:{ADAPTER})(?:\s*[/:]\s*\d)?)$", re.IGNORECASE),
    re.compile(r"^(?P<node>.+?)(?:\s*:\s*|\s+|/)(?P<port>\d{1,3}(?:/\d{1,3}){0,2})$"),
)
"""Patterns for a cell that holds a device and its port. The first pattern that matches is used."""
_CAGE = re.compile(r"^(?:(?:ib|eth|swp|port|p)\s*)*#?\s*(?:1/)?0*(\d{1,3})$", re.IGNORECASE)


def readable(end: tuple[str, str]) -> tuple[str, str]:
    """Return the end without its port if the port's text is a date, because a spreadsheet program
    converted it."""
    node, label = end
    return node, "" if DATE.match(label) else label


def pieces(text: str) -> list[str]:
    """Split a cell with two peers, for example ``node-1; node-2``."""
    parts = [p for p in _BREAKOUT.split(text) if p]
    return parts if 1 < len(parts) <= MOST_ENDS else [text]


def halves(label: str) -> list[str]:
    """Return the names of the two ports of the cage ``label``, or an empty list if the label does
    not name a cage."""
    match = _CAGE.match(label.strip())
    return [f"1/{match[1]}/{half}" for half in (1, 2)] if match else []


def of_cell(text: str) -> tuple[str, str]:
    """Split a cell that holds a device and its port; the port is empty if the cell has none."""
    match = next((m for form in _CELLS if (m := form.match(text))), None)
    return (match["node"].strip(), match["port"].strip()) if match else (text, "")


def joined_label(hca: str, port: str) -> str:
    """Return a port label whose first half is in the adapter's cell and whose second half is in the
    port's cell."""
    port = _WHOLE.sub(r"\1", port)
    hca = _WHOLE.sub(r"\1", hca)
    if not hca:
        return port
    hca = f"HCA-{hca}" if hca.isdigit() else hca
    return f"{hca}/{port}" if port else hca


_MONTHS = (
    "jan|feb|mar|m[aä]r|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez|janv|f[eé]vr|avr|juin|juil|ao[uû]t|d[eé]c|ene|abr|ago|"
    "dic|gen|mag|giu|lug|set|ott|янв|фев|мар|апр|май|мая|июн|июл|авг|сен|окт|ноя|дек"
)
DATE = re.compile(
    rf"^(?:(?:19|20)\d\d[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:19|20)\d\d|\d{{1,2}}\.\s?\d{{1,2}}\."
    rf"|\d{{1,2}}[-. /]+(?:{_MONTHS})[a-zа-я]*\.?(?:[- ]\d{{2,4}})?|(?:{_MONTHS})[a-zа-я]*\.?[- ]\d{{1,2}}"
    rf"|\d{{1,2}}月\d{{1,2}}日)(?:\s+00:00(?::00)?)?$",
    re.IGNORECASE,
)
"""A port label that a spreadsheet program converted to a date: 1/5 becomes 5-Jan, Jan 5, 5. Jan,
05.01. or 2026-01-05."""
NOT_BUILT = re.compile(
    "^(?:cancel|remov|delete|obsolet|retired|decommission|void|dropped|superseded|donotinstall|donotbuild|notneeded|notrequired|"
    "storn|entfall|entfern|geloscht|abgebaut|ruckgebaut|gestrichen|annul|supprim|retire|enleve|abandonn|eliminad|anulad|retirad|"
    "eliminat|rimoss|cancellat|取消|已取消|删除|已删除|作废|拆除|已拆除|中止|撤去|削除|취소|삭제|철거|отмен|удал|демонтир|снят)"
)
"""Values of a status column that mark a cable as not, or no longer, part of the plan; compared
after :func:`.headings.normal`."""
_WHOLE = re.compile(r"^(\d{1,5})[.,]0+$")
"""A whole number as a spreadsheet program exports it, for example ``5.0``."""


def rack_unit(get: Any, end: int, number: int, problems: Problems) -> tuple[str, int]:
    rack, shelf, unit = get(f"rack{end}"), get(f"shelf{end}"), _WHOLE.sub(r"\1", get(f"u{end}"))
    if _U.match(rack) and rack[:1] in "Uu":
        unit, rack = unit or rack, ""
    match = _U.match(unit)
    if unit and not match:
        problems.add(number, f"{unit!r} is not a rack unit like U12; read as unknown")
    return rack or shelf, int(match.group(1)) if match else 0


def without_port(device: str, port: str) -> str:
    """Return the device without its port: ``Server 1`` for ``Server 1 IB Port 1`` and port ``IB
    Port 1``. Only labels that contain the word ``port`` are cut off, so ``leaf-3`` is unchanged."""
    if "port" in port.lower() and device.lower().endswith(" " + port.lower()):
        return device[: -len(port)].rstrip() or device
    return device


def length(text: str, unit_m: float, number: int, problems: Problems) -> float:
    value = length_m(text, unit_m)
    if value is None:
        problems.add(number, f"{text[:40]!r} is not a cable length in metres; read as unknown")
        return math.nan
    return value


def medium(text: str) -> int:
    return next((medium for pattern, medium in _MEDIA if pattern.search(text)), CableMedium.UNKNOWN)


def speed(text: str, cable: str, number: int, problems: Problems) -> tuple[int, int]:
    generation = _GENERATION.search(text) or _GENERATION.search(cable)
    lanes = _LANES.search(text)
    if generation:
        return SPEED_BY_NAME[generation.group(1).upper()].code, int(lanes.group(1)) if lanes else 4
    if not text:
        return 0, 0
    match = re.match(r"^(\d{1,7})(?:\.0+)?\s*(?:g|gb/s|gbps|gb|gbe|mb/s|mbps)?$", text, re.IGNORECASE)
    gbps = int(match.group(1)) if match else 0
    gbps = gbps // 1000 if gbps >= 1000 else gbps
    if gbps not in _GENERATION_BY_GBPS:
        problems.add(number, f"{text[:40]!r} is not an InfiniBand rate; read as unknown")
        return 0, 0
    return SPEED_BY_NAME[_GENERATION_BY_GBPS[gbps]].code, 4
