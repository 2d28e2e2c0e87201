"""Tables and addresses of the OMNeT++ flit simulator (ib_flit_sim): ``.fdbs`` with ``.fdbs.ini``,
and ``.hcas``.

``.fdbs``: ``row: 255 p p p …`` — one row a table, the port of LID 0, 1, 2 …, counted from **0** (so
0 is port 1), 255 = no route. ``.fdbs.ini``: ``**.SW_L0_0_0_U1.pktfwd.fdbIndex = 0`` names the
module that uses row 0; modules are node names with every character but letters and digits made
``_``, and the name may hold ``*``. ``.hcas``: ``H-1/U1/1 7`` gives port 1 of node H-1/U1 LID 7. All
facts from the files themselves; walking the tables through the matching ``.topo`` reaches every
host.
"""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

import numpy as np

from softib.errors import UnreadableFile
from softib.fabric.formats.base import Problem, Problems
from softib.fabric.formats.lft.parse import NO_ROUTE, Dump, Section
from softib.fabric.model import Fabric
from softib.input_files import content, read_text

__all__ = ["hcas_of", "looks_like_omnet", "read_hcas", "read_omnet"]

_ROW = re.compile(rb"^[ \t]*(\d{1,6}):((?:[ \t]+\d{1,6})+)[ \t]*$")
_USES = re.compile(r"^\s*\*\*\.(\S+?)(?:\.pktfwd)?\.fdbIndex\s*=\s*(\d{1,6})\s*(?:#.*)?$")
_HCA = re.compile(r"^\s*(\S+)/(\d{1,3})\s+(\d{1,5})\s*$")


def looks_like_omnet(data: bytes) -> bool:
    """True where the first line that is not empty is a row of ports."""
    first = next((x for x in data[: 1 << 16].split(b"\n") if x.strip()), b"")
    return bool(_ROW.match(first.rstrip(b"\r")) or re.match(rb"^[ \t]*\d{1,6}:(?:[ \t]+\d{1,6}){2}", first))


def read_omnet(data: bytes, path: Path, fabric: Fabric, problems: Problems) -> tuple[Dump, np.ndarray]:
    """Tables and the switch of each (-1 = not in the fabric). Raises :class:`UnreadableFile`
    without the ``.ini``."""
    ini = path.with_name(path.name + ".ini")
    try:
        users = _users(read_text(ini, "list of rows", errors="replace"), str(ini), problems)
    except UnreadableFile as error:
        reason = (
            f"{path}: its rows belong to switches that {ini.name} names, and that cannot be read: "
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
            # 254 + 1 is no "no route" but a port that no switch has.
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
        problems.add(line, f"row {row} is used by no module of the .ini file: this table is left out")
        return [-1]
    out: list[int] = []
    for pattern in users[row]:
        hits = [s for s, name in enumerate(modules) if fnmatch.fnmatchcase(name, pattern)]
        if not hits:
            problems.add(line, f"no switch is called {pattern} (row {row}): this table is left out")
        out += hits or [-1]
    return out


def hcas_of(path: Path) -> Path:
    """The ``.hcas`` of the tables ``path``: of the same name, else the only one beside them. Raises
    :class:`UnreadableFile` where none or several are there."""
    named = path.with_suffix(".hcas")
    found = [named] if named.exists() else sorted(path.parent.glob("*.hcas"))
    if len(found) != 1:
        there = f"{len(found)} .hcas files are there" if found else "no .hcas file is there"
        raise UnreadableFile(
            f"{path}: its LIDs stand in a .hcas file beside it, and {there}; name the one of these tables {named.name}"
        )
    return found[0]


def read_hcas(path: str | Path, fabric: Fabric) -> tuple[np.ndarray, list[Problem]]:
    """LIDs that a ``.hcas`` file gives: ``uint16[ports]``, 0 = none; and what was wrong."""
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
            problems.add(line, f"no port {portnum} of {match.group(1)} in the fabric, or {value} is no unicast LID")
            continue
        lid[fabric.port(node, portnum)] = value
    return lid, list(problems)
