"""Reads cabling lists: UFM-NDT CSV and P2P sheets.

Columns are found by their headings, in any order; a heading is compared without case, blanks and punctuation.

* UFM-NDT (NVIDIA UFM's Network Definition): ``StartDevice, StartPort, StartDeviceLocation, EndDevice, EndPort,
  EndDeviceLocation, LinkType, Speed, Cable Length``; real ones add ``rack #`` and ``U height`` columns, which belong to
  the start device when they stand before ``EndDevice`` and to the end device behind it. A location that is a rack unit
  (``U3``) is one, and then ``rack #`` is the rack. A device written with its port (``Server 1 IB Port 1``) is the
  device. The unnamed column behind ``Speed`` holds the cable in words.
* P2P sheets of NVIDIA's cable validation: ``A-Rack, A-U, A-Node, A-Port, Z-Rack, Z-U, Z-Node, Z-Port``; ``Source``/
  ``Destination``, ``From``/``To`` and ``Local``/``Remote`` are understood in place of A and Z.

A speed in Mb/s or Gb/s means the 4x link of that rate: 200000 is HDR.
"""

from __future__ import annotations

import csv
import math
import re
from typing import Any

from softib.errors import UnreadableFile
from softib.fabric.columns import CableMedium
from softib.fabric.formats.base import Problems
from softib.fabric.formats.cabling.plan import CablingPlan, mark_repeats
from softib.iba.rates import SPEED_BY_NAME, SPEEDS

__all__ = ["looks_like_cabling", "parse_cabling"]

DELIMITERS = ",;\t|"
HEADER_WITHIN = 50
MAX_LENGTH_M = 10_000.0
"""InfiniBand's longest optics reach 10 km; a longer cable is a mistyped one."""
_SIDES = {"start": 0, "end": 1, "a": 0, "z": 1, "source": 0, "src": 0, "destination": 1, "dest": 1, "dst": 1,
          "from": 0, "to": 1, "local": 0, "remote": 1}  # fmt: skip
_FIELDS = {
    "node": "node", "device": "node", "nodename": "node", "devicename": "node", "host": "node", "hostname": "node",
    "switch": "node", "system": "node", "port": "port", "portname": "port", "rack": "rack", "devicelocation": "rack",
    "location": "rack", "racklocation": "rack", "u": "u", "ru": "u", "uheight": "u", "rackunit": "u", "unit": "u",
}  # fmt: skip
_PLAIN = {
    "cablelength": "length", "length": "length", "lengthm": "length", "cablelengthm": "length", "linktype": "purpose",
    "speed": "speed", "linkspeed": "speed", "cabletype": "cable", "cable": "cable", "medium": "cable", "media": "cable",
    "uheight": "u", "u": "u", "u1": "u", "u2": "u", "rack": "rack", "purpose": "purpose",
}  # fmt: skip
_HEADING = re.compile(rf"^({'|'.join(sorted(_SIDES, key=len, reverse=True))})(.+)$")
_GENERATION = re.compile(rf"\b({'|'.join(s.name for s in reversed(SPEEDS))})(?:100|200)?\b", re.IGNORECASE)
_GENERATION_BY_GBPS = {10: "SDR", 20: "DDR", 40: "QDR", 56: "FDR", 100: "EDR", 200: "HDR", 400: "NDR", 800: "XDR"}
_LANES = re.compile(r"\b(1|2|4|8|12)x\b", re.IGNORECASE)
_LENGTH = re.compile(r"^(\d{1,9}(?:[.,]\d{1,9})?)\s*(m|mtr|meters?|metres?|cm|ft|feet)?\.?$", re.IGNORECASE)
_METRES = {"cm": 0.01, "ft": 0.3048, "feet": 0.3048}
_U = re.compile(r"^(?:ru|u)?\s*0*(\d{1,3})(?:\s*u)?$", re.IGNORECASE)
_MEDIA = (
    (re.compile(r"\baoc\b|active optical", re.IGNORECASE), CableMedium.AOC),
    (re.compile(r"\bacc\b|active copper", re.IGNORECASE), CableMedium.ACC),
    (re.compile(r"\bdac\b|passive copper|\bcopper\b", re.IGNORECASE), CableMedium.DAC),
    (re.compile(r"\bmmf\b|multi-?mode|\bom[345]\b", re.IGNORECASE), CableMedium.MULTIMODE),
    (re.compile(r"\bsmf\b|single-?mode|\bos[12]\b", re.IGNORECASE), CableMedium.SINGLEMODE),
    (re.compile(r"\bbackplane\b", re.IGNORECASE), CableMedium.BACKPLANE),
)

Columns = dict[str, int]
"""Field → column; fields of an end carry its number: ``node0``, ``port1``."""


def looks_like_cabling(text: str) -> bool:
    """True where one of the first lines names the columns of a cabling list."""
    return _find_header(text.splitlines()) is not None


def parse_cabling(text: str, file: str) -> CablingPlan:
    """Parse a cabling list; raises :class:`UnreadableFile` where it has no heading or no readable row."""
    lines = text.splitlines()
    header = _find_header(lines)
    if header is None:
        raise UnreadableFile(f"{file}: no line with the headings StartDevice,StartPort,EndDevice,EndPort or A-Node,A-Port,Z-Node,Z-Port")  # fmt: skip
    at, delimiter, columns = header
    heading = _split(lines[at], delimiter)[columns["node0"]].lower()
    problems = Problems(file)
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines[at + 1 :], at + 2):
        fields = _split(line, delimiter)
        is_heading = columns["node0"] < len(fields) and fields[columns["node0"]].lower() == heading
        if not any(fields) or line.lstrip().startswith("#") or is_heading:
            continue
        row = _row(fields, line, columns, number, problems)
        if row is not None:
            rows.append(row)
    if text[-1:] not in ("\n", "\r") and rows and len(_split(lines[-1], delimiter)) < len(_split(lines[at], delimiter)):
        # Many editors write no last line end; a row that lacks columns too was cut.
        problems.add(len(lines), "the file ends within this row: it may be cut off")
    if not rows:
        raise UnreadableFile(f"{file}: no row names two devices and two ports")
    _find_names_in_two_racks(rows, problems)
    form = "ufm-ndt" if "start" in re.sub(r"\W", "", lines[at].lower()) else "p2p"
    plan = CablingPlan.from_rows(rows, form, file, [])
    plan.problems = sorted([*problems, *mark_repeats(plan).values()], key=lambda p: p.line)
    return plan


def _find_header(lines: list[str]) -> tuple[int, str, Columns] | None:
    for at, line in enumerate(lines[:HEADER_WITHIN]):
        for delimiter in DELIMITERS:
            columns = _columns(_split(line, delimiter)) if delimiter in line else None
            if columns is not None:
                return at, delimiter, columns
    return None


def _columns(fields: list[str]) -> Columns | None:
    """Where each field stands; None where this is no heading line."""
    if len(fields) < 4:
        return None
    found: Columns = {}
    headings = [re.sub(r"[^a-z0-9]", "", re.sub(r"^#?\s*fields:", "", f.strip().lower())) for f in fields[:256]]
    for i, heading in enumerate(headings):
        match = _HEADING.match(heading)
        if match and match.group(2) in _FIELDS:
            found.setdefault(f"{_FIELDS[match.group(2)]}{_SIDES[match.group(1)]}", i)
    if any(f"{what}{end}" not in found for what in ("node", "port") for end in (0, 1)):
        return None
    second = max(found["node0"], found["node1"])
    for i, heading in enumerate(headings):
        what = _PLAIN.get(heading)
        if what in ("u", "rack"):
            # A second rack column (a UFM "location" holds the rack, or the unit) keeps a name of its own.
            name = "shelf" if what == "rack" else what
            found.setdefault(f"{name}{0 if i < second else 1}", i)
        elif what:
            found.setdefault(what, i)
    if "speed" in found and found["speed"] + 1 < len(headings) and not headings[found["speed"] + 1]:
        found.setdefault("cable", found["speed"] + 1)
    return found


def _split(line: str, delimiter: str) -> list[str]:
    # Line by line, so that one stray quote cannot swallow the rest of the file.
    try:
        return [f.strip().replace("\0", "") for f in next(csv.reader([line], delimiter=delimiter), [])]
    except (csv.Error, StopIteration):
        return [f.strip().strip('"').replace("\0", "") for f in line.split(delimiter)]


def _row(fields: list[str], line: str, columns: Columns, number: int, problems: Problems) -> dict[str, Any] | None:
    def get(name: str) -> str:
        at = columns.get(name, -1)
        return fields[at] if 0 <= at < len(fields) else ""

    if line.count('"') % 2:
        problems.add(number, "a quote that never closes: the row is left out")
        return None
    missing = [what for what in ("node0", "port0", "node1", "port1") if not get(what)]
    if missing:
        names = {"node0": "first device", "port0": "first port", "node1": "second device", "port1": "second port"}
        problems.add(number, f"no {' and no '.join(names[m] for m in missing)}: the row is left out")
        return None
    mounted = {end: _rack_unit(get, end, number, problems) for end in (0, 1)}
    length, medium = _length(get("length"), number, problems), _medium(get("cable"))
    code, lanes = _speed(get("speed"), get("cable"), number, problems)
    return {
        "node": [_without_port(get(f"node{e}"), get(f"port{e}")) for e in (0, 1)],
        "label": [get("port0"), get("port1")], "rack": [mounted[0][0], mounted[1][0]], "u": [mounted[0][1], mounted[1][1]],
        "length_m": length, "medium": medium, "speed": code, "lanes": lanes, "purpose": get("purpose"),
        "line": number,
    }  # fmt: skip


def _rack_unit(get: Any, end: int, number: int, problems: Problems) -> tuple[str, int]:
    rack, shelf, unit = get(f"rack{end}"), get(f"shelf{end}"), get(f"u{end}")
    if _U.match(rack) and rack[:1] in "Uu":
        unit, rack = unit or rack, ""
    match = _U.match(unit)
    if unit and not match:
        problems.add(number, f"{unit!r} is no rack unit like U12; read as unknown")
    return rack or shelf, int(match.group(1)) if match else 0


def _without_port(device: str, port: str) -> str:
    """``Server 1 IB Port 1`` with port ``IB Port 1`` is ``Server 1``. Only for labels with the word: leaf-3 is no leaf."""
    if "port" in port.lower() and device.lower().endswith(" " + port.lower()):
        return device[: -len(port)].rstrip() or device
    return device


def _length(text: str, number: int, problems: Problems) -> float:
    if not text or text.lower() in ("n/a", "na", "-", "tbd"):
        return math.nan
    match = _LENGTH.match(text)
    value = (
        float(match.group(1).replace(",", ".")) * _METRES.get((match.group(2) or "m").lower(), 1.0) if match else 0.0
    )
    if not 0 < value <= MAX_LENGTH_M:
        problems.add(number, f"{text[:40]!r} is no cable length in metres; read as unknown")
        return math.nan
    return value


def _medium(text: str) -> int:
    return next((medium for pattern, medium in _MEDIA if pattern.search(text)), CableMedium.UNKNOWN)


def _speed(text: str, cable: str, number: int, problems: Problems) -> tuple[int, int]:
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
        problems.add(number, f"{text[:40]!r} is no InfiniBand rate; read as unknown")
        return 0, 0
    return SPEED_BY_NAME[_GENERATION_BY_GBPS[gbps]].code, 4


def _find_names_in_two_racks(rows: list[dict[str, Any]], problems: Problems) -> None:
    """One device name in several racks: rows are kept, but a comparison by name cannot tell the machines apart."""
    racks: dict[str, dict[str, int]] = {}
    for row in rows:
        for end in (0, 1):
            if row["rack"][end]:
                racks.setdefault(row["node"][end], {}).setdefault(row["rack"][end], row["line"])
    for name, where in racks.items():
        if len(where) > 1:
            (first, line), (second, other) = list(where.items())[:2]
            more = f" and {len(where) - 2} more racks" if len(where) > 2 else ""
            problems.add(
                other, f"{name} stands in rack {second}, at line {line} in {first}{more}: one name, several devices"
            )
