"""IBNL: the boards, chips and wires inside a system (chassis) of a ``.topo`` file.

A file describes one system type, under one or more names (``TOPSYSTEM``). The system is made of
boards (``SYSTEM``). Each board holds chips (``NODE SW|CA|HCA ports device name``) and other boards
(``SUBSYSTEM board name``). Source: the manual page ibdm-ibnl-file(1) of ibutils and the 25 system
files that ibutils contains. Where they differ, softib follows the files (upper-case widths,
comments, spaces after commas, instance attributes like ``U1=isChaBma``). One attribute is specific
to softib, ``leaf1/U1=speed=EDR``: the speed that the chip's ports support. It is also the speed of
the chip's inner links whose arrows state none (ibdm's arrows end at 10G).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from softib.errors import UnreadableFile
from softib.fabric.formats.base import Problem, Problems
from softib.iba.constants import MAX_SWITCH_PORTS, NodeType
from softib.iba.rates import SPEED_BY_NAME
from softib.input_files import content, read_text
from softib.plural import counted

__all__ = ["SPEED_OF_G", "Board", "Chip", "Ibnl", "IbnlLibrary", "SubBoard", "Wire", "parse_ibnl", "read_ibnl"]

SPEED_OF_G = {
    "2.5": "SDR",
    "5": "DDR",
    "10": "QDR",
    "FDR10": "FDR10",
    "14": "FDR",
    "25": "EDR",
    "50": "HDR",
    "100": "NDR",
    "200": "XDR",
    "400": "GDR",
}
"""Lane rate in ibdm's arrows (``-5G->``) → generation. ibutils 1.5.7 has 2.5, 5 and 10; later
ibutils2 has the rest."""

ARROW = r"-(?:(?P<width>\d{1,2})[xX]-)?(?:(?P<speed>\d{1,3}(?:\.\d)?(?=[gG])|FDR10)[gG]?-)?>"
_WIRE = re.compile(rf"^(?P<port>\S+?)\s*{ARROW}\s*(?P<a>[^\s>]+)(?:\s+(?P<b>[^\s>]+))?$")
_NODE = re.compile(r"^NODE\s+(?P<type>SW|CA|HCA)\s+(?P<ports>\d{1,9})\s+(?P<device>\S+)\s+(?P<name>\S+)$")
_SUB = re.compile(r"^SUBSYSTEM\s+(?P<board>\S+)\s+(?P<name>\S+)$")
_HEAD = re.compile(r"^(?P<kind>SYSTEM|TOPSYSTEM)\s+(?P<names>\S.*)$")
_ATTRIBUTE = re.compile(r"^[^\s=]+\s*=\s*\S+$")
_TOP_NAMES = re.compile(rb"^[ \t]*TOPSYSTEM[ \t]+([^\r\n#]+)", re.MULTILINE)
LANES = (1, 2, 4, 8, 12)
MAX_FILE = 8 << 20
INSTALLED = ("/usr/lib/*/ibdm*/ibnl", "/usr/lib/ibdm*/ibnl", "/usr/lib64/ibdm*/ibnl", "/usr/local/lib*/ibdm*/ibnl")
"""Folders in which the ibutils of Debian and of upstream install system descriptions."""


@dataclass(frozen=True)
class Wire:
    """A wire from a port of a chip or board. It leads to ``port`` of the instance ``inst``, or of
    the enclosing board if ``inst`` is None."""

    inst: str | None
    port: str
    lanes: int
    speed: str
    line: int


@dataclass
class Chip:
    """A switch chip or an adapter. ``wires`` is keyed by its port number."""

    name: str
    node_type: int
    nports: int
    device: str
    wires: dict[int, Wire] = field(default_factory=dict)


@dataclass
class SubBoard:
    """A board that is plugged into another one. ``wires`` is keyed by port label of the plugged
    board."""

    name: str
    board: str
    line: int
    wires: dict[str, Wire] = field(default_factory=dict)


@dataclass
class Board:
    """A board. ``names`` are its synonyms; ``LEAF:12x`` is the variant of board LEAF for modifier
    12x."""

    names: list[str]
    line: int
    parts: dict[str, Chip | SubBoard] = field(default_factory=dict)

    def inner_ends(self) -> dict[str, list[tuple[str, str]]]:
        """Return, for each port label of this board, the (part, port of the part) to which it is
        wired inside the board."""
        ends: dict[str, list[tuple[str, str]]] = {}
        for name, part in self.parts.items():
            for port, wire in part.wires.items():
                if wire.inst is None:
                    ends.setdefault(wire.port, []).append((name, str(port)))
        return ends


@dataclass
class Ibnl:
    """A system type: its top board, and all boards by each of their names. ``problems`` are lines
    that cannot be used."""

    file: str
    top: Board | None
    boards: dict[str, Board]
    attributes: list[str]
    problems: list[Problem]

    def chip_speeds(self) -> dict[str, str]:
        """Return the speeds of the attributes ``path=speed=EDR``, keyed by the path of the chip."""
        parts = (a.replace(" ", "").split("=") for a in self.attributes)
        return {p[0]: p[2] for p in parts if len(p) == 3 and p[1] == "speed" and p[2] in SPEED_BY_NAME}

    def board_of(self, sub: SubBoard, modifier: str | None) -> Board | None:
        """Return the board in slot ``sub`` with ``modifier`` (for example ``12x``); None if the
        file does not define it."""
        return self.boards.get(f"{sub.board}:{modifier}" if modifier else sub.board)


class Arrow(NamedTuple):
    """Width and speed of a connection: ``-4x-14G->``."""

    lanes: int
    """0: not stated."""
    speed: str
    """Name of the speed; "": not stated."""
    error: str


def parse_arrow(match: re.Match[str]) -> Arrow:
    """Return what an arrow states."""
    width, speed = match.group("width"), match.group("speed")
    lanes = int(width) if width else 0
    if lanes and lanes not in LANES:
        return Arrow(0, "", f"link width {width}x does not exist; InfiniBand has 1x, 2x, 4x, 8x and 12x")
    if speed and speed not in SPEED_OF_G:
        return Arrow(0, "", f"link speed {speed}G does not exist; known: {', '.join(SPEED_OF_G)}")
    return Arrow(lanes, SPEED_OF_G[speed] if speed else "", "")


def parse_ibnl(text: str, file: str) -> Ibnl:
    """Parse one description. Lines that cannot be read become problems; the other lines are
    kept."""
    return _Parser(file).parse(text)


class _Parser:
    """State of the parser: the board and the part to which the next wires belong."""

    def __init__(self, file: str):
        self.problems = Problems(file)
        self.boards: dict[str, Board] = {}
        self.attributes: list[str] = []
        self.top: Board | None = None
        self.board: Board | None = None
        self.part: Chip | SubBoard | None = None

    def parse(self, text: str) -> Ibnl:
        for number, raw in enumerate(text.splitlines(), 1):
            line = raw.split("#", 1)[0].strip()
            if line:
                self._line(line, number)
        if self.top is None:
            self.problems.add(0, "no TOPSYSTEM section: the system type has no name")
        return Ibnl(self.problems.file, self.top, self.boards, self.attributes, list(self.problems))

    def _line(self, line: str, number: int) -> None:
        for pattern, use in ((_HEAD, self._head), (_NODE, self._chip), (_SUB, self._sub), (_WIRE, self._wire)):
            match = pattern.match(line)
            if match:
                use(match, number)
                return
        if _ATTRIBUTE.match(line):
            self.attributes.append(line)
        else:
            self.problems.add(number, f"not SYSTEM, TOPSYSTEM, NODE, SUBSYSTEM or 'port -> …': {line[:60]!r}")

    def _head(self, match: re.Match[str], number: int) -> None:
        names = [n.strip() for n in match.group("names").split(",") if n.strip()]
        self.board, self.part = Board(names, number), None
        if match.group("kind") == "TOPSYSTEM":
            if self.top is not None:
                self.problems.add(number, f"a second TOPSYSTEM; the first is at line {self.top.line}")
                return
            self.top = self.board
            return
        for name in names:
            if name in self.boards:
                self.problems.add(number, f"board {name} is described twice; line {self.boards[name].line} is used")
            else:
                self.boards[name] = self.board

    def _chip(self, match: re.Match[str], number: int) -> None:
        ports = int(match.group("ports"))
        self.part = None
        if not 1 <= ports <= MAX_SWITCH_PORTS:
            self.problems.add(number, f"a chip of {counted(ports, 'port')}; a chip has 1 to {MAX_SWITCH_PORTS}")
            return
        kind = NodeType.SWITCH if match.group("type") == "SW" else NodeType.CA
        self._add(Chip(match.group("name"), kind, ports, match.group("device")), number)

    def _sub(self, match: re.Match[str], number: int) -> None:
        self.part = None
        self._add(SubBoard(match.group("name"), match.group("board"), number), number)

    def _add(self, part: Chip | SubBoard, number: int) -> None:
        if self.board is None:
            self.problems.add(number, f"{part.name} comes before any SYSTEM or TOPSYSTEM line")
        elif part.name in self.board.parts:
            self.problems.add(number, f"{part.name} exists twice in {self.board.names[0]}; the first is used")
        else:
            self.board.parts[part.name] = self.part = part

    def _wire(self, match: re.Match[str], number: int) -> None:
        lanes, speed, wrong = parse_arrow(match)
        part, port = self.part, match.group("port")
        if part is None:
            wrong = wrong or "a connection without a NODE or SUBSYSTEM"
        elif isinstance(part, Chip) and not (port.isascii() and port.isdigit() and 1 <= int(port[:4]) <= part.nports):
            wrong = wrong or f"{part.name} has no port {port}; its ports are 1 to {part.nports}"
        if wrong or part is None:
            self.problems.add(number, wrong)
            return
        inst, peer_port = (match.group("a"), match.group("b")) if match.group("b") else (None, match.group("a"))
        wires: dict[int, Wire] | dict[str, Wire] = part.wires
        key = int(port) if isinstance(part, Chip) else port
        if key in wires:
            self.problems.add(number, f"port {port} of {part.name} is wired twice; line {wires[key].line} is used")  # type: ignore[index]
            return
        wires[key] = Wire(inst, peer_port, lanes, speed, number)  # type: ignore[index]


def read_ibnl(path: str | Path) -> Ibnl:
    """Read one file. Raises :class:`UnreadableFile` if it cannot be read."""
    return parse_ibnl(read_text(path, "system description", MAX_FILE, "replace"), str(path))


class IbnlLibrary:
    """System descriptions by type name, read when first used. If several folders have a description
    of the same name, that of the first folder is used."""

    def __init__(self, dirs: Iterable[str | Path]):
        self.dirs = [Path(d) for d in dirs]
        self._cache: dict[Path, Ibnl] = {}
        self.problems: list[Problem] = []
        self._paths: dict[str, Path] = {}
        for folder in self.dirs:
            for path in sorted(folder.glob("*.ibnl")) if folder.is_dir() else ():
                self._index(path)

    @classmethod
    def search(cls, dirs: Sequence[str | Path] = (), file: str | Path | None = None) -> IbnlLibrary:
        """Return the library that searches the ``--ibnl`` folders, then the folder of ``file``,
        then the folders of installed ibutils. Raises :class:`UnreadableFile` if one of ``dirs`` is
        not a folder.
        """
        for folder in dirs:
            if not Path(folder).is_dir():
                raise UnreadableFile(f"{folder}: no such folder; give the folder of the IBNL files")
        file_dir = [Path(file).parent] if file is not None else []
        installed = [p for pattern in INSTALLED for p in sorted(Path("/").glob(pattern[1:]))]
        return cls([*map(Path, dirs), *file_dir, *installed])

    def _index(self, path: Path) -> None:
        try:
            match = _TOP_NAMES.search(content(path, MAX_FILE, "system description").data)
        except UnreadableFile as error:
            self.problems.append(Problem(str(path), 0, str(error).removeprefix(f"{path}: ")))
            return
        for name in match.group(1).decode("utf-8", "replace").split(",") if match else ():
            self._paths.setdefault(name.strip(), path)

    @property
    def names(self) -> list[str]:
        """Return the names of all system types."""
        return sorted(self._paths)

    def find(self, name: str) -> Ibnl | None:
        """Return the description of system type ``name``. Its problems are added to
        :attr:`problems` when it is first used."""
        path = self._paths.get(name)
        if path is None:
            return None
        if path not in self._cache:
            self._cache[path] = read_ibnl(path)
            self.problems += self._cache[path].problems
        return self._cache[path]
