"""Build a fabric from systems whose chips and inner links are known, and from the cables between
their front panels."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from softib.errors import nearest
from softib.fabric.builder import GUID_BASE, FabricBuilder
from softib.fabric.formats.base import Problems
from softib.fabric.formats.topo.ibnl import Chip
from softib.fabric.formats.topo.ibnl_expand import Template
from softib.fabric.model import Fabric
from softib.iba.devices import DEVICES
from softib.iba.rates import SPEED_BY_NAME

__all__ = ["TopoCable", "TopoSystem", "build_fabric"]

_DEVICE = re.compile(r"^MT?0*(\d{4,5})$")
SUGGESTIONS = 100
"""If more problems than this occur, error messages no longer suggest similar names."""
DEFAULT_LANES, DEFAULT_SPEED = 4, "SDR"
"""ibdm's width and speed for a link that states none (-4x-2.5G)."""


@dataclass
class TopoSystem:
    """A system of the file. ``line`` is the first line that mentions it. ``other_kinds`` are
    different types that other lines state for it."""

    name: str
    kind: str
    line: int
    modifiers: dict[str, str] = field(default_factory=dict)
    heads: bool = False
    other_kinds: dict[str, int] = field(default_factory=dict)
    template: Template = field(default_factory=Template)
    first: int = 0


@dataclass
class TopoCable:
    """A cable between two front panels. ``usable`` is set to False if a port does not exist or
    already has a cable."""

    a: str
    a_port: str
    b: str
    b_port: str
    lanes: int
    speed: str
    line: int
    usable: bool = True


def build_fabric(systems: dict[str, TopoSystem], cables: list[TopoCable], name: str, problems: Problems) -> Fabric:
    """Build the fabric. Impossible cables are added to ``problems`` and get ``usable`` False."""
    count = 0
    for system in systems.values():
        system.first = count
        count += len(system.template.chips)
    links = _inner_links(systems) + _outer_links(systems, cables, problems)
    builder = FabricBuilder(name)
    _add_nodes(builder, systems, links, problems)
    columns = np.array(links, np.int64).reshape(-1, 6).T
    builder.links(columns[0], columns[1], columns[2], columns[3], lanes=columns[4], speed=columns[5])
    fabric = builder.build()
    for system in systems.values():
        for chip in range(len(system.template.chips)):
            fabric.node_system[system.first + chip] = system.name
        for label, (chip, portnum, _, _) in system.template.panel.items():
            fabric.port_label[int(fabric.port(system.first + chip, portnum))] = label
    return fabric


Link = tuple[int, int, int, int, int, int]
"""(node, portnum, node, portnum, lanes, speed code)."""


def _code(speed: str) -> int:
    return SPEED_BY_NAME[speed or DEFAULT_SPEED].code


def _inner_links(systems: dict[str, TopoSystem]) -> list[Link]:
    return [
        (s.first + a, pa, s.first + b, pb, lanes or DEFAULT_LANES, _code(speed))
        for s in systems.values()
        for a, pa, b, pb, lanes, speed in s.template.links
    ]


def _outer_links(systems: dict[str, TopoSystem], cables: list[TopoCable], problems: Problems) -> list[Link]:
    links: list[Link] = []
    taken: dict[tuple[str, str], TopoCable] = {}
    for c in cables:
        ends = ((c.a, c.a_port), (c.b, c.b_port))
        wrong = next((w for w in (_missing(systems[s], p, len(problems)) for s, p in ends) if w), "")
        earlier = next((taken[e] for e in ends if e in taken), None)
        if not wrong and earlier is not None:
            if {(earlier.a, earlier.a_port), (earlier.b, earlier.b_port)} == set(ends):
                wrong = _disagree(earlier, c)
                if wrong:
                    problems.add(c.line, wrong)
                continue
            system, port = next(e for e in ends if e in taken)
            wrong = f"{system} {port} already has a cable (line {earlier.line}); this one is skipped"
        if not wrong and ends[0] == ends[1]:
            wrong = f"{c.a} {c.a_port} is cabled to itself; a cable has two ends"
        if wrong:
            problems.add(c.line, wrong)
            c.usable = False
            continue
        for end in ends:
            taken[end] = c
        links.append(_link(systems, c))
    return links


def _link(systems: dict[str, TopoSystem], c: TopoCable) -> Link:
    a, b = systems[c.a], systems[c.b]
    (chip_a, port_a, _, _), (chip_b, port_b, _, _) = a.template.panel[c.a_port], b.template.panel[c.b_port]
    # Only the cable's line decides: for a cable without a rate, ibdm uses 4x-2.5G, whatever rates
    # the wires inside the two systems have.
    return a.first + chip_a, port_a, b.first + chip_b, port_b, c.lanes or DEFAULT_LANES, _code(c.speed)


def _disagree(first: TopoCable, second: TopoCable) -> str:
    if (first.lanes, first.speed) == (second.lanes, second.speed) or not (second.lanes or second.speed):
        return ""
    return f"this cable has another width or speed at line {first.line}; that one is used"


def _missing(system: TopoSystem, port: str, shown: int) -> str:
    if port in system.template.panel:
        return ""
    similar = nearest(port, system.template.panel) if shown < SUGGESTIONS else []
    hint = f"; near: {', '.join(similar)}" if similar else ""
    return f"{system.kind} {system.name} has no port {port}{hint}"


def _add_nodes(builder: FabricBuilder, systems: dict[str, TopoSystem], links: list[Link], problems: Problems) -> None:
    chips = [chip for s in systems.values() for chip in s.template.chips]
    names = [f"{s.name}/{path}" for s in systems.values() for path in s.template.paths]
    first = np.array([s.first for s in systems.values() for _ in s.template.chips], np.uint64)
    fastest, widest = np.full(len(chips), _code("")), np.full(len(chips), DEFAULT_LANES)
    for a, _, b, _, lanes, speed in links:
        for node in (a, b):
            fastest[node], widest[node] = max(fastest[node], speed), max(widest[node], lanes)
    for system in systems.values():
        if any(len(f"{system.name}/{path}".encode()) > 64 for path in system.template.paths):
            problems.add(
                system.line, f"node names of system {system.name} are cut to the 64 bytes of a NodeDescription"
            )
    speed_names = [speed for s in systems.values() for speed in s.template.chip_speeds]
    for node, name in enumerate(speed_names):
        fastest[node] = max(fastest[node], _code(name))
    device = [_device(chip) for chip in chips]
    # A speed in the chip's description overrides the speed of its part number.
    supports = [
        max(int(speed), 0 if name else _generation(d))
        for d, speed, name in zip(device, fastest, speed_names, strict=True)
    ]
    builder.nodes(
        len(chips),
        np.array([chip.node_type for chip in chips], np.uint8),
        np.array([chip.nports for chip in chips], np.uint8),
        desc=names,
        sys_guid=np.uint64(GUID_BASE) + (first << np.uint64(8)),
        device_id=np.array(device, np.uint16),
        speed=np.array(supports),
        lanes=widest,
    )


def _device(chip: Chip) -> int:
    """Return the DeviceID that a part name contains, or 0: Mellanox names parts by their decimal
    DeviceID, so ``MT23108`` is 23108 = 0x5A44."""
    match = _DEVICE.match(chip.device)
    return int(match.group(1)) if match and int(match.group(1)) <= 0xFFFF else 0


def _generation(device_id: int) -> int:
    """Return the speed code of a known part; 0 for others."""
    device = DEVICES.get(device_id)
    return SPEED_BY_NAME[device.generation].code if device else 0
