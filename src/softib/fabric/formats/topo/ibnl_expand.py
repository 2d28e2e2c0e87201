"""Expand an IBNL system description into chips, internal links and front-panel ports, in the same
way as ibdm.

ibdm's rules, compared with the stock library in tests/fabric/formats/cabling/test_ibdm_oracle.py:

* A chip is named ``SYSTEM/board/…/chip``. ``CFG: slot=modifier`` selects the board in a slot; the
  modifiers ``R`` and ``Removed`` leave the slot empty.
* The wire at each chip port is followed: up through a port of its board into the enclosing board,
  or down into a part. If it ends at an empty slot or at an unconnected label, the port is unused
  (manual page, NOTE-1).
* A width or speed that is stated at a lower level overrides one that is stated above it (NOTE-2).
  If the two ends of a link differ, the lower value is used. The default is 4x and 2.5G. ibutils
  1.5.7 deviates from its manual: it uses only the highest-level arrow of the end that it visits
  last. softib follows the manual. The 25 systems in ibutils state equal values on every level, so
  both rules give the same result for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from softib.fabric.formats.topo.ibnl import Board, Chip, Ibnl, SubBoard
from softib.iba.rates import SPEED_BY_NAME

__all__ = ["Template", "expand", "generic"]

REMOVED = ("R", "Removed")
MAX_DEPTH = 16
MAX_PARTS = 4096

Port = tuple[int, int]
"""(chip of the template, port number)."""


@dataclass
class Template:
    """A system type with one configuration. All systems with this type and configuration are copies
    of it.

    ``links`` are (chip, port, chip, port, lanes, speed). ``panel`` maps a front-panel label to
    (chip, port, lanes, speed). ``chip_speeds`` are the speeds that chips support. Lanes 0 and speed
    "" = not stated. ``problems`` are (line of the IBNL file, reason).
    """

    paths: list[str] = field(default_factory=list)
    chips: list[Chip] = field(default_factory=list)
    links: list[tuple[int, int, int, int, int, str]] = field(default_factory=list)
    panel: dict[str, tuple[int, int, int, str]] = field(default_factory=dict)
    chip_speeds: list[str] = field(default_factory=list)
    problems: list[tuple[int, str]] = field(default_factory=list)
    unused_modifiers: list[str] = field(default_factory=list)


class _Placed:
    """A board in a slot of its enclosing board."""

    def __init__(self, board: Board, slot: SubBoard | None, parent: _Placed | None, path: str):
        self.board, self.slot, self.parent, self.path = board, slot, parent, path
        self.inner = board.inner_ends()
        self.parts: dict[str, _Placed | int] = {}


class _Expander:
    def __init__(self, ibnl: Ibnl, modifiers: dict[str, str]):
        self.ibnl, self.modifiers = ibnl, modifiers
        self.used: set[str] = set()
        self.out = Template()
        self.owner: list[_Placed] = []
        self.link_of: dict[Port, int] = {}
        self.placed, self.full = 0, False

    def run(self) -> Template:
        assert self.ibnl.top is not None
        self._place(_Placed(self.ibnl.top, None, None, ""), 0)
        speeds = self.ibnl.chip_speeds()
        self.out.chip_speeds = [speeds.get(path, "") for path in self.out.paths]
        peer: dict[Port, Port] = {}
        for chip, part in enumerate(self.out.chips):
            for portnum in part.wires:
                self._connect(chip, portnum, peer)
        self.out.unused_modifiers = [m for m in self.modifiers if m not in self.used]
        return self.out

    def _place(self, placed: _Placed, depth: int) -> None:
        for name, part in placed.board.parts.items():
            path = f"{placed.path}/{name}" if placed.path else name
            if self._full(depth, placed.board.line):
                return
            if isinstance(part, Chip):
                placed.parts[name] = len(self.out.chips)
                self.out.paths.append(path)
                self.out.chips.append(part)
                self.owner.append(placed)
                continue
            board = self._board(part, path)
            if board is not None:
                child = placed.parts[name] = _Placed(board, part, placed, path)
                self._place(child, depth + 1)

    def _full(self, depth: int, line: int) -> bool:
        """Return whether a size limit is reached, and report it once. Without limits, the expansion
        of boards that contain each other would never end."""
        self.placed += 1
        if not self.full and (depth > MAX_DEPTH or self.placed > MAX_PARTS):
            self.full = True
            reason = f"boards nested deeper than {MAX_DEPTH}, or more than {MAX_PARTS} parts; the rest is skipped"
            self.out.problems.append((line, reason))
        return self.full

    def _board(self, slot: SubBoard, path: str) -> Board | None:
        modifier = self.modifiers.get(path)
        if modifier is not None:
            self.used.add(path)
            if modifier in REMOVED:
                return None
        board = self.ibnl.board_of(slot, modifier)
        if board is None:
            name = f"{slot.board}:{modifier}" if modifier else slot.board
            self.out.problems.append((slot.line, f"no SYSTEM section describes board {name} of slot {path}"))
        return board

    def _connect(self, chip: int, portnum: int, peer: dict[Port, Port]) -> None:
        wire = self.out.chips[chip].wires[portnum]
        placed: _Placed | None = self.owner[chip]
        lanes, speed = wire.lanes, wire.speed
        while wire.inst is None:
            assert placed is not None
            if placed.parent is None or placed.slot is None:
                self._panel(wire.port, (chip, portnum, lanes, speed))
                return
            outer = placed.slot.wires.get(wire.port)
            if outer is None:
                return
            lanes, speed = lanes or outer.lanes, speed or outer.speed
            placed, wire = placed.parent, outer
        assert placed is not None
        end = self._down(placed, wire.inst, wire.port, wire.line)
        if end is not None:
            self._link((chip, portnum), end, lanes, speed, wire.line, peer)

    def _down(self, placed: _Placed, inst: str, port: str, line: int) -> Port | None:
        for _ in range(MAX_DEPTH + 2):
            part = placed.parts.get(inst)
            if part is None:
                if inst not in placed.board.parts:
                    self.out.problems.append((line, f"no part {inst} in {placed.board.names[0]}"))
                return None
            if isinstance(part, int):
                nports = self.out.chips[part].nports
                if port.isascii() and port.isdigit() and 1 <= int(port[:4]) <= nports:
                    return part, int(port)
                self.out.problems.append((line, f"{inst} has no port {port}; its ports are 1 to {nports}"))
                return None
            inside = part.inner.get(port)
            if not inside:
                return None
            placed, (inst, port) = part, inside[0]
        return None

    def _panel(self, label: str, end: tuple[int, int, int, str]) -> None:
        if label in self.out.panel:
            chip, portnum = self.out.panel[label][:2]
            line = self.out.chips[end[0]].wires[end[1]].line
            self.out.problems.append(
                (line, f"front-panel port {label} is already port {portnum} of {self.out.paths[chip]}")
            )
        else:
            self.out.panel[label] = end

    def _link(self, a: Port, b: Port, lanes: int, speed: str, line: int, peer: dict[Port, Port]) -> None:
        if peer.get(a) == b and peer.get(b) == a:
            self._agree(a, lanes, speed)
            return
        if a in peer or b in peer or a == b:
            taken = a if a in peer else b
            reason = f"port {taken[1]} of {self.out.paths[taken[0]]} is wired to two ports; the first is used"
            self.out.problems.append((line, reason))
            return
        peer[a], peer[b] = b, a
        self.link_of[a] = self.link_of[b] = len(self.out.links)
        both = [self.out.chip_speeds[chip] for chip, _ in (a, b)]
        speed = speed or (min(both, key=lambda s: SPEED_BY_NAME[s].code) if all(both) else "")
        self.out.links.append((*a, *b, lanes, speed))

    def _agree(self, a: Port, lanes: int, speed: str) -> None:
        """Combine the values that the two ends of a link state: the lower one is used."""
        *ends, lanes0, speed0 = self.out.links[self.link_of[a]]
        stated = [s for s in (speed0, speed) if s]
        slower = min(stated, key=lambda s: SPEED_BY_NAME[s].code, default="")
        c, p, d, q = ends
        self.out.links[self.link_of[a]] = (c, p, d, q, min(lanes0 or lanes, lanes or lanes0), slower)


def expand(ibnl: Ibnl, modifiers: dict[str, str]) -> Template:
    """Return the chips, links and front panel of a system whose slots have ``modifiers`` (slot path
    → modifier)."""
    return _Expander(ibnl, modifiers).run()


def generic(node_type: int, nports: int, labels: dict[str, int]) -> Template:
    """Return a system with one chip ``U1``. ``labels`` maps each front-panel label to the chip's
    port number."""
    chip = Chip("U1", node_type, nports, "")
    return Template(["U1"], [chip], [], {label: (0, portnum, 0, "") for label, portnum in labels.items()}, [""])
