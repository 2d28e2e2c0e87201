"""Find tables and entries in dumps of forwarding tables with array operations. An entry has one of
two forms: ``0x00a6 029 : (…`` (dump_lfts.sh, dump_fts, ibroute, ``opensm -D``) or ``0x0001 : 005  :
05   : yes`` (OpenSM's osm.fdbs / opensm.fdbs). Both have fixed columns, so the tens of millions of
lines of a large fabric are read quickly. Only lines in neither form are parsed one by one.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from softib.errors import UnreadableFile
from softib.fabric.formats.base import Problem, Problems
from softib.fabric.model import Fabric
from softib.input_files import content, read_text

__all__ = ["Dump", "Section", "hcas_of", "looks_like_omnet", "parse_dump", "read_hcas", "read_omnet"]

_GUID = re.compile(r"\bguid[ :=]*(?:0x)?([0-9a-fA-F]{1,16})\b")
_LID = re.compile(r"\b[Ll]id (\d{1,5})\b")
_NAME = re.compile(r"\(\s*['\"]?(.*?)['\"]?\s*\)\s*:?\s*$")
_OSM = re.compile(r"\bSwitch\s+0x([0-9a-fA-F]{1,16})")
_ENTRY = re.compile(r"^\s*0x([0-9a-fA-F]{1,7})\s*(?::\s*)?(\d{1,9}|UNREACHABLE)(?:\s|:|#|$)")
_TOTAL = re.compile(r"^\s*(\d{1,9}) (?:valid )?lids dumped")
_FURNITURE = re.compile(
    r"^\s*(?:#.*|Lid\s+Out\s+Destination.*|Port\s+Info.*|LID\s*:\s*Port\s*:.*|-+|"
    r"\*\*\* WARNING \*\*\*:.*)?\s*$"
)
"""Lines of a dump that contain neither a table nor an entry. For example, infiniband-diags'
dump_lfts and dump_mfts end with a warning."""
NO_ROUTE = 255


@dataclass
class Section:
    """The table of one switch, identified by its heading. ``line`` counts from 1; ``total`` is the
    number of entries that the dump states."""

    line: int
    guid: int | None = None
    lid: int | None = None
    name: str = ""
    unicast: bool = True
    total: tuple[int, int] | None = None


@dataclass
class Dump:
    """``lid``, ``portnum`` and ``line`` (from 1) of all entries in file order, as int32.
    ``section`` is the row in ``sections`` of the table that contains the entry; -1 = the entry is
    above the first heading."""

    lid: np.ndarray
    portnum: np.ndarray
    line: np.ndarray
    section: np.ndarray
    sections: list[Section] = field(default_factory=list)


CHUNK = 16 << 20
"""Number of bytes that are parsed together: enough for speed, and small compared with the
tables."""

_HEX = np.full(256, 255, np.uint8)
_HEX[np.frombuffer(b"0123456789", np.uint8)] = np.arange(10)
_HEX[np.frombuffer(b"abcdef", np.uint8)] = np.arange(10, 16)
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16)


def parse_dump(data: bytes, problems: Problems) -> Dump:
    """Return every table and entry in ``data``. Lines that are neither are added to
    ``problems``."""
    sections: list[Section] = []
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    at, line = 0, 1
    while at < len(data):
        end = data.find(b"\n", at + CHUNK) + 1 or len(data)
        columns, lines = _parse_chunk(data[at:end], line, sections, problems)
        parts.append(columns)
        at, line = end, line + lines
    line -= 1
    if data and not data.endswith((b"\n", b"\r")):
        problems.add(line, "the file ends within this line: it may be truncated")
    lid, portnum, where = (np.concatenate([p[i] for p in parts]) if parts else np.zeros(0, np.int32) for i in range(3))
    heads = np.array([s.line for s in sections], np.int32)
    return Dump(lid, portnum, where, (np.searchsorted(heads, where) - 1).astype(np.int32), sections)


def _parse_chunk(
    data: bytes, first: int, sections: list[Section], problems: Problems
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], int]:
    """Return (LIDs, ports, lines) of the entries in ``data``, and its number of lines. ``first`` is
    the number of its first line."""
    raw = np.frombuffer(data + b"\n" + b"\0" * 16, np.uint8)
    ends = np.flatnonzero(raw == 10)
    if data.endswith(b"\n"):
        ends = ends[:-1]
    starts = np.concatenate([[0], ends[:-1] + 1])
    lid, portnum, fast = _fixed_columns(raw, starts, ends)
    wide: list[tuple[int, int, int]] = []
    for i in np.flatnonzero(~fast).tolist():
        text = data[starts[i] : min(int(ends[i]), int(starts[i]) + 500)].decode("utf-8", "replace").rstrip("\r")
        _other_line(text, first + i, sections, wide, problems)
    line = (np.flatnonzero(fast) + first).astype(np.int32)
    columns = (lid[fast], portnum[fast], line)
    if wide:
        extra = np.array(wide, np.int64).astype(np.int32)
        line = np.concatenate([line, extra[:, 0]])
        order = np.argsort(line, kind="stable")
        columns = (
            np.concatenate([columns[0], extra[:, 1]])[order],
            np.concatenate([columns[1], extra[:, 2]])[order],
            line[order],
        )
    return columns, len(starts)


def _fixed_columns(raw: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the LID and the port of every line that has one of the fixed forms, and a mask of
    these lines."""
    lid, portnum = np.zeros(len(starts), np.int32), np.zeros(len(starts), np.int32)
    fast = np.zeros(len(starts), bool)
    rows = np.flatnonzero((ends - starts >= 10) & (raw[starts] == ord("0")) & (raw[starts + 1] == ord("x")))
    at = starts[rows]
    digits = [_HEX[raw[at + k]] for k in (2, 3, 4, 5)]
    good = (digits[0] < 16) & (digits[1] < 16) & (digits[2] < 16) & (digits[3] < 16) & (raw[at + 6] == ord(" "))
    rows, at, digits = rows[good], at[good], [d[good] for d in digits]
    # The port begins at column 7, or after " : " at column 9.
    colon = raw[at + 7] == ord(":")
    port_at = at + np.where(colon, 9, 7)
    p = [_HEX[raw[port_at + k]] for k in range(3)]
    after = raw[port_at + 3]
    good = (p[0] < 10) & (p[1] < 10) & (p[2] < 10) & (~colon | (raw[at + 8] == ord(" "))) & (port_at + 3 <= ends[rows])
    good &= (after == ord(" ")) | (after == 10) | (after == 13) | (after == 9)
    rows = rows[good]
    value = np.zeros(len(rows), np.int32)
    for d in digits:
        value = value * 16 + d[good]
    lid[rows] = value
    portnum[rows] = p[0][good].astype(np.int32) * 100 + p[1][good].astype(np.int32) * 10 + p[2][good]
    fast[rows] = True
    return lid, portnum, fast


def _other_line(
    text: str, line: int, sections: list[Section], wide: list[tuple[int, int, int]], problems: Problems
) -> None:
    if _FURNITURE.match(text):
        return
    section = _heading(text, line)
    if section is not None:
        sections.append(section)
        return
    total = _TOTAL.match(text)
    if total:
        if sections:
            sections[-1].total = (line, int(total.group(1)))
        return
    entry = _ENTRY.match(text)
    if entry:
        portnum = NO_ROUTE if entry.group(2) == "UNREACHABLE" else int(entry.group(2))
        wide.append((line, int(entry.group(1), 16), portnum))
    elif not (sections and not sections[-1].unicast):
        problems.add(line, f"not a table's heading nor '0xLID port': {text.strip()[:60]!r}")


def _heading(text: str, line: int) -> Section | None:
    if re.match(r"^\s*(?:Multicast )?[Mm](?:ulticast )?lids? \[", text) or text.lstrip().startswith("Multicast mlids"):
        return Section(line, unicast=False)
    if "Unicast lids [" in text:
        guid, lid, name = _GUID.search(text), _LID.search(text), _NAME.search(text)
        return Section(
            line,
            int(guid.group(1), 16) if guid else None,
            int(lid.group(1)) if lid else None,
            name.group(1) if name else "",
        )
    osm = _OSM.search(text)
    return Section(line, int(osm.group(1), 16)) if osm else None


_ROW = re.compile(rb"^[ \t]*(\d{1,6}):((?:[ \t]+\d{1,6})+)[ \t]*$")
_USES = re.compile(r"^\s*\*\*\.(\S+?)(?:\.pktfwd)?\.fdbIndex\s*=\s*(\d{1,6})\s*(?:#.*)?$")
_HCA = re.compile(r"^\s*(\S+)/(\d{1,3})\s+(\d{1,5})\s*$")


def looks_like_omnet(data: bytes) -> bool:
    """Return whether the first non-empty line is a row of ports."""
    first = next((x for x in data[: 1 << 16].split(b"\n") if x.strip()), b"")
    return bool(_ROW.match(first.rstrip(b"\r")) or re.match(rb"^[ \t]*\d{1,6}:(?:[ \t]+\d{1,6}){2}", first))


def read_omnet(data: bytes, path: Path, fabric: Fabric, problems: Problems) -> tuple[Dump, np.ndarray]:
    """Return the tables, and the switch of each table (-1 = not in the fabric). Raises
    :class:`UnreadableFile` if the ``.ini`` file is missing."""
    ini = path.with_name(path.name + ".ini")
    try:
        users = _users(read_text(ini, "list of rows", errors="replace"), str(ini), problems)
    except UnreadableFile as error:
        reason = (
            f"{path}: its rows need the switch names in {ini.name}, which cannot be read: "
            f"{str(error).removeprefix(f'{ini}: ')}"
        )
        raise UnreadableFile(reason) from None
    modules = [re.sub(r"[^A-Za-z0-9]", "_", fabric.node_name(int(n))) for n in fabric.switch_node]
    sections: list[Section] = []
    owner: list[int] = []
    parts: list[np.ndarray] = []
    for line, raw in enumerate(data.split(b"\n"), 1):
        row = raw.rstrip(b"\r")
        if not row.strip():
            continue
        match = _ROW.match(row)
        if match is None:
            problems.add(line, f"not 'row: port port …': {row[:60].decode('utf-8', 'replace')!r}")
            continue
        ports = np.array(match.group(2).split(), np.int64)
        for switch in _switches(int(match.group(1)), users, modules, line, problems):
            n = len(ports)
            # In this format, 255 is a port number that no switch has; it does not mean "no route".
            portnum = np.where(ports == NO_ROUTE, NO_ROUTE, ports + 1 + (ports == NO_ROUTE - 1))
            parts.append(np.stack([np.arange(n), portnum, np.full(n, line), np.full(n, len(sections))]))
            sections.append(Section(line))
            owner.append(switch)
    columns = np.concatenate(parts, axis=1) if parts else np.zeros((4, 0), np.int64)
    return Dump(columns[0], columns[1], columns[2], columns[3], sections), np.array(owner, np.int64)


def _users(text: str, file: str, problems: Problems) -> dict[int, list[str]]:
    users: dict[int, list[str]] = {}
    for line, raw in enumerate(text.splitlines(), 1):
        match = _USES.match(raw)
        if match:
            users.setdefault(int(match.group(2)), []).append(match.group(1))
        elif raw.strip() and not raw.strip().startswith(("#", "[", ";")):
            problems.append(Problem(file, line, f"not '**.MODULE.pktfwd.fdbIndex = row': {raw.strip()[:60]!r}"))
    return users


def _switches(row: int, users: dict[int, list[str]], modules: list[str], line: int, problems: Problems) -> list[int]:
    if row not in users:
        problems.add(line, f"row {row} is used by no module of the .ini file: this table is skipped")
        return [-1]
    out: list[int] = []
    for pattern in users[row]:
        hits = [s for s, name in enumerate(modules) if fnmatch.fnmatchcase(name, pattern)]
        if not hits:
            problems.add(line, f"no switch is called {pattern} (row {row}): this table is skipped")
        out += hits or [-1]
    return out


def hcas_of(path: Path) -> Path:
    """Return the ``.hcas`` file that belongs to the tables at ``path``: the file with the same
    name, or otherwise the only one in the folder. Raises :class:`UnreadableFile` if there is none,
    or several."""
    named = path.with_suffix(".hcas")
    candidates = [named] if named.exists() else sorted(path.parent.glob("*.hcas"))
    if len(candidates) != 1:
        there = f"{len(candidates)} .hcas files are in its folder" if candidates else "its folder has none"
        raise UnreadableFile(
            f"{path}: the LIDs of these tables are in a .hcas file, but {there}; rename the right one to {named.name}"
        )
    return candidates[0]


def read_hcas(path: str | Path, fabric: Fabric) -> tuple[np.ndarray, list[Problem]]:
    """Return the LIDs of a ``.hcas`` file (``uint16[ports]``, 0 = none), and the file's
    problems."""
    problems = Problems(str(path))
    lid = np.zeros(fabric.sizes.ports, np.uint16)
    nodes = {name: i for i, name in enumerate(fabric.node_names())}
    for line, raw in enumerate(content(path).data.decode("utf-8", "replace").splitlines(), 1):
        match = _HCA.match(raw)
        if match is None:
            if raw.strip():
                problems.add(line, f"not 'node/port LID': {raw.strip()[:60]!r}")
            continue
        node, portnum, value = nodes.get(match.group(1), -1), int(match.group(2)), int(match.group(3))
        if node < 0 or not 1 <= portnum <= int(fabric.node_nports[node]) or not 0 < value < 0xC000:
            problems.add(line, f"no port {portnum} of {match.group(1)} in the fabric, or {value} is not a unicast LID")
            continue
        lid[fabric.port(node, portnum)] = value
    return lid, list(problems)
