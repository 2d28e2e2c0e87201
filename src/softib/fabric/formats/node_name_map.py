"""Node-name maps: names that operators give to GUIDs, in the format of OpenSM and infiniband-diags.

Each line has one entry, ``0xGUID "name"``; ``#`` begins a comment. Source: the section NODE NAME
MAP FILE FORMAT of infiniband-diags' manual pages. Like OpenSM, softib accepts names without quotes
(up to the next blank or comment).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softib.errors import UnreadableFile
from softib.fabric.formats.base import Problem, Problems
from softib.fabric.model import Fabric
from softib.input_files import shown_name, text_content

__all__ = ["NameMap", "apply", "parse", "read"]

_ENTRY = re.compile(r"^(?:0[xX])?([0-9a-fA-F]{1,16})\s+(?:\"([^\"]*)\"|([^\s\"#]\S*))\s*(?:#.*)?$")
DESCRIPTION_BYTES = 64


@dataclass
class NameMap:
    """A map: ``names``, and their ``lines`` in the file, both keyed by NodeGUID."""

    path: str
    names: dict[int, str]
    lines: dict[int, int]
    problems: list[Problem]


def parse(text: str, file: str) -> NameMap:
    """Parse a map. If it names a GUID twice, the first name is used."""
    problems = Problems(file)
    names: dict[int, str] = {}
    lines: dict[int, int] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _ENTRY.match(line)
        if match is None:
            problems.add(number, f'not 0xGUID "name": {line[:60]!r}')
            continue
        guid, name = int(match.group(1), 16), match.group(2) if match.group(2) is not None else match.group(3)
        if guid in names:
            if names[guid] != name:
                problems.add(number, f"{guid:#018x} has another name at line {lines[guid]}; that one is used")
            continue
        if len(name.encode()) > DESCRIPTION_BYTES:
            problems.add(
                number, (f"a name of {len(name.encode())} bytes; a NodeDescription holds 64, the rest is cut off")
            )
        names[guid], lines[guid] = name, number
    return NameMap(file, names, lines, list(problems))


def read(path: str | Path) -> NameMap:
    """Read a map. Raises :class:`UnreadableFile` if no entry can be read."""
    got = text_content(path, kind="node-name-map")
    text = got.data.decode("utf-8-sig", "replace")
    result = parse(text, shown_name(path))
    if got.flaw:
        result.problems.append(Problem(shown_name(path), max(len(text.splitlines()), 1), got.flaw))
    if not result.names and result.problems:
        raise UnreadableFile(f'{shown_name(path)}: no line of the form 0xGUID "name"')
    return result


def apply(fabric: Fabric, names: NameMap | Mapping[int, str] | str | Path) -> list[Problem]:
    """Write the names into the NodeDescriptions of ``fabric``. Returns the problems of the map,
    including GUIDs that the fabric does not have."""
    if isinstance(names, (str, Path)):
        names = read(names)
    if not isinstance(names, NameMap):
        names = NameMap("node-name-map", dict(names), {}, [])
    problems = list(names.problems)
    present = np.isin(np.array(list(names.names), np.uint64), fabric.node_guid)
    if not present.any():
        return [*problems, Problem(names.path, 0, _why_none(fabric, names))]
    order = np.argsort(fabric.node_guid, kind="stable")
    ordered = fabric.node_guid[order]
    for guid, name in names.names.items():
        at, end = (int(np.searchsorted(ordered, np.uint64(guid), side)) for side in ("left", "right"))
        if at == end:
            reason = f"no node with GUID {guid:#018x} ({name}) in the fabric"
            problems.append(Problem(names.path, names.lines.get(guid, 0), reason))
            continue
        image = np.frombuffer(name.encode()[:DESCRIPTION_BYTES].ljust(DESCRIPTION_BYTES, b"\0"), np.uint8)
        fabric.node_desc[order[at:end]] = image
    return problems


def _why_none(fabric: Fabric, names: NameMap) -> str:
    """Return the reason why a map names no node of the fabric."""
    if not names.names:
        return 'it has no entries; an entry is 0xGUID "name"'
    ports = int(np.isin(np.array(list(names.names), np.uint64), fabric.port_guid[fabric.port_guid > 0]).sum())
    hint = f"; {ports:,} are PortGUIDs; use NodeGUIDs" if ports else ": it may belong to another fabric"
    return f"none of its {len(names.names):,} GUIDs is a node of the fabric{hint}"
